"""The message and the exit code of a command that fails.

See "Exit codes" in docs/reference/command-line.md.
"""

from __future__ import annotations

import contextlib
import errno
import re
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final, cast

import msgspec
import typer

from oneread.cli.output import abandon, flush, printable_lines, write, write_json
from oneread.errors import (
    AlreadyExists,
    Closed,
    Erased,
    InvalidCursor,
    InvalidDeclaration,
    InvalidUrl,
    MissingReference,
    NotFound,
    NotReady,
    OnereadError,
    SchemaMismatch,
    StillReferenced,
    StoreError,
    StoreMoved,
    shown,
)
from oneread.starting import EXIT_CODE
from oneread.store.urls import redact

FINE: Final = 0
FOUND: Final = 1
WRONG_USE: Final = 2
STORE_FAILED: Final = 3

JSON: Final = "oneread.json"
"""The key in a context's `meta` that says whether --json was given."""

_WRONG_LINE: Final[Any] = typer.BadParameter.__bases__[0]
"""What typer raises for a wrong command line; typer itself writes it to stderr, with the usage of the command."""

_URL: Final = re.compile(r"[^\s'\"]*:/[^\s'\"]*")

_DISK: Final = (errno.EROFS, errno.EACCES, errno.EPERM)

_REFUSED: Final = (NotFound, AlreadyExists, Erased, MissingReference, StillReferenced, SchemaMismatch, NotReady)

_HINTS: Final[Mapping[type[OnereadError], str]] = {
    InvalidUrl: "a store is named like lmdb:///var/lib/shop (absolute) or lmdb://shop (relative)",
    InvalidCursor: "leave --cursor out to start from the beginning, or give all other arguments as before",
    InvalidDeclaration: "correct the declarations; the command line is right",
    StoreMoved: "`oneread move status` shows how far the move is",
    SchemaMismatch: "`oneread migrate plan` shows what differs and what to do",
    NotReady: "`oneread backfill` builds it",
    Closed: "run the command again",
}


RESUME: Final = "resume with"
"""How the note of an error begins that ends with an option and a cursor."""

_DEPTH: Final = 4
"""Nested lists that are written as lists; deeper ones are text."""
_INT_BITS: Final = 64
"""Ints of fewer bits are numbers in JSON; larger ones are text, because most readers of JSON would round them."""
_WELL_FORMED: Final = ("error", "option", "prefix")
"""Facts of an InvalidUrl that is well formed, so that the hint how URLs are written would mislead."""


class _Failure(msgspec.Struct, frozen=True):
    """A failure as --json prints it."""

    kind: str
    message: object
    facts: dict[str, object] = {}
    retryable: bool = False
    hint: str = ""
    cursor: str = ""


def code_of(error: OnereadError) -> int:
    """The exit code for an error."""
    if _is_of_disk(error):
        return STORE_FAILED
    if isinstance(error, _REFUSED):
        return FOUND
    return STORE_FAILED if isinstance(error, StoreError) else WRONG_USE


def _is_of_disk(error: OnereadError) -> bool:
    """Whether the operating system refused to write, whichever library asked it: a read-only disk, permissions."""
    cause = error.__cause__
    return getattr(cause, "errno", None) in _DISK or getattr(cause, "code", None) in _DISK


def _failure(error: OnereadError) -> _Failure:
    facts = {name: _plain(fact) for name, fact in error.facts.items()}
    return _Failure(type(error).__name__, _plain(error.message), facts, error.retryable, hint(error))


@contextlib.contextmanager
def reporting(context: typer.Context) -> Generator[None]:
    """Turns an exception into a message on stderr, a document on stdout with --json, and an exit code."""
    as_json = bool(context.meta.get(JSON))
    try:
        yield
        flush(sys.stdout)
    except typer.Exit:
        flush(sys.stdout)
        raise
    except OnereadError as error:
        _report(error, _failure(error), as_json=as_json)
        raise typer.Exit(code_of(error)) from error
    except _WRONG_LINE as error:
        error.message = _URL.sub(lambda found: redact(found[0]), error.message)
        if as_json:
            _write(_Failure("UsageError", _plain(error.format_message())))
        raise
    except BrokenPipeError as error:  # of a dump, which ends where no more of it is read
        abandon(sys.stdout)
        raise typer.Exit(FINE) from error
    except OSError as error:
        _report(error, _Failure(type(error).__name__, _plain(str(error)), hint=_notes(error)), as_json=as_json)
        raise typer.Exit(STORE_FAILED) from error
    except KeyboardInterrupt as error:
        _report(error, _Failure(type(error).__name__, "stopped", hint=_notes(error)), as_json=as_json)
        raise typer.Exit(EXIT_CODE) from error


def _cursor(error: BaseException) -> str:
    """The cursor at the end of a note that says how to resume; empty without such a note."""
    notes: Iterable[str] = getattr(error, "__notes__", ())
    return next((note.rpartition(" ")[2] for note in notes if note.startswith(RESUME)), "")


def _notes(error: BaseException) -> str:
    """The notes of an error, which say how to continue."""
    return "; ".join(getattr(error, "__notes__", ()))


def hint(error: OnereadError) -> str:
    """What to do about an error: its notes, else what its class suggests."""
    known = next((text for cls, text in _HINTS.items() if isinstance(error, cls)), "")
    if isinstance(error, InvalidUrl) and not error.facts.keys().isdisjoint(_WELL_FORMED):
        known = ""
    return "; ".join(filter(None, [known or ("trying again can help" if error.retryable else ""), _notes(error)]))


def report_outside(error: OnereadError, arguments: Sequence[str]) -> int:
    """Reports an error that was raised outside of any command; returns the exit code."""
    _report(error, _failure(error), as_json="--json" in takewhile(lambda each: each != "--", arguments))
    return code_of(error)


def _write(failure: _Failure) -> None:
    write_json(msgspec.json.encode({"error": failure}).decode())


def _report(error: BaseException, failure: _Failure, *, as_json: bool) -> None:
    """Writes a failure to stderr, and with --json as a document to stdout."""
    try:
        if as_json:
            _write(msgspec.structs.replace(failure, cursor=_cursor(error)))
        flush(sys.stdout)
    except OSError:  # its disk may be full, which is the failure then; what is left of it would fail again at the end
        abandon(sys.stdout)
    write(
        sys.stderr, "stopped\n" if isinstance(error, KeyboardInterrupt) else f"error: {printable_lines(str(error))}\n"
    )
    if failure.hint:
        write(sys.stderr, f"hint: {printable_lines(failure.hint)}\n")


def _plain(fact: object, depth: int = _DEPTH) -> object:
    """A fact for JSON: text that is not UTF-8 with escapes, other types as error messages show them."""
    if issubclass(type(fact), str):  # `isinstance` would ask the fact for its class
        return str.encode(cast("str", fact), errors="backslashreplace").decode()
    if fact is None or type(fact) in (bool, float) or (type(fact) is int and fact.bit_length() < _INT_BITS):
        return fact
    if type(fact) in (list, tuple, set, frozenset) and depth:
        several = cast("Iterable[object]", fact)
        return [_plain(each, depth - 1) for each in several]
    return shown(fact)
