"""What a command that fails says, and the exit code it ends with.

See "Exit codes" of the page of the command line in the reference.

| code | meaning |
|---|---|
| 0 | fine |
| 1 | the command found something, or the store's state forbids what was asked: faults, nothing there, not built yet |
| 2 | wrong use: the same command line fails again |
| 3 | the store failed; the message says whether trying again can help |
| 130 | ended by Ctrl-C |
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from itertools import takewhile
from types import MappingProxyType
from typing import Any, Final, cast

import msgspec
import typer

from oneread.cli.streams import write_json
from oneread.errors import (
    AlreadyExists,
    Closed,
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
    shown,
)

FINE: Final = 0
FOUND: Final = 1
WRONG_USE: Final = 2
STORE_FAILED: Final = 3
INTERRUPTED: Final = 130

JSON: Final = "oneread.json"
"""The key in a context's `meta` that says whether --json was given."""

_WRONG_LINE: Final[Any] = typer.BadParameter.__bases__[0]
"""What typer raises for a wrong command line; it is told on stderr by typer itself, with the usage of the command."""

_REFUSED: Final = (NotFound, AlreadyExists, MissingReference, StillReferenced, SchemaMismatch, NotReady)

_HINTS: Final[Mapping[type[OnereadError], str]] = {
    InvalidUrl: "a store is named like lmdb:///var/lib/shop (absolute) or lmdb://shop (relative)",
    InvalidCursor: "leave --cursor out to start from the beginning, or give all other arguments as before",
    InvalidDeclaration: "the declarations are at fault, not the command line",
    SchemaMismatch: "`oneread migrate plan` says what differs and what to do",
    NotReady: "`oneread backfill` builds it",
    Closed: "run the command again",
}


_DEPTH: Final = 4
"""Lists inside lists that are written as lists."""
_INT_BITS: Final = 64
"""Ints of fewer bits are numbers in JSON; larger ones are text, since most readers of JSON would round them."""
_NOT_ITS_FORM: Final = ("error", "option", "prefix")
"""Facts of an InvalidUrl that is well formed: the hint how URLs are written would lead astray."""


def code_of(error: OnereadError) -> int:
    """The exit code for an error."""
    if isinstance(error, _REFUSED):
        return FOUND
    return STORE_FAILED if isinstance(error, StoreError) else WRONG_USE


@contextlib.contextmanager
def telling(context: typer.Context) -> Generator[None]:
    """Turns what is raised inside into a message on stderr, a document on stdout with --json, and an exit code."""
    try:
        yield
        sys.stdout.flush()
    except OnereadError as error:
        _tell(context, error, error.message, facts=error.facts, retryable=error.retryable, hint=hint(error))
        raise typer.Exit(code_of(error)) from error
    except _WRONG_LINE as error:
        _document(context, "UsageError", error.format_message())
        raise
    except BrokenPipeError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads on: not even the last flush
        raise typer.Exit(FINE) from error
    except OSError as error:
        _tell(context, error, str(error), hint=_noted(error))
        raise typer.Exit(STORE_FAILED) from error
    except KeyboardInterrupt as error:
        _tell(context, error, "stopped", hint=_noted(error))
        raise typer.Exit(INTERRUPTED) from error


def _noted(error: BaseException) -> str:
    """What was noted on an error on its way here: how to go on."""
    return "; ".join(getattr(error, "__notes__", ()))


def hint(error: OnereadError) -> str:
    """What to do about an error: what was noted on its way, else what its class suggests."""
    known = next((text for cls, text in _HINTS.items() if isinstance(error, cls)), "")
    if isinstance(error, InvalidUrl) and not error.facts.keys().isdisjoint(_NOT_ITS_FORM):
        known = ""
    return "; ".join(filter(None, [known or ("trying again can help" if error.retryable else ""), _noted(error)]))


def tell_outside(error: OnereadError, arguments: Sequence[str]) -> int:
    """Says an error that was raised outside of any command, and answers the exit code."""
    as_json = "--json" in takewhile(lambda each: each != "--", arguments)
    _say(error, error.message, as_json=as_json, facts=error.facts, retryable=error.retryable, hint=hint(error))
    return code_of(error)


def _tell(
    context: typer.Context,
    error: BaseException,
    message: str,
    *,
    facts: Mapping[str, object] = MappingProxyType({}),
    retryable: bool = False,
    hint: str = "",
) -> None:
    _say(error, message, as_json=bool(context.meta.get(JSON)), facts=facts, retryable=retryable, hint=hint)


def _say(
    error: BaseException,
    message: str,
    *,
    as_json: bool,
    facts: Mapping[str, object],
    retryable: bool,
    hint: str,
) -> None:
    if as_json:
        _write_document(type(error).__name__, message, facts, retryable=retryable, hint=hint)
    sys.stderr.write("stopped\n" if isinstance(error, KeyboardInterrupt) else f"error: {error}\n")
    if hint:
        sys.stderr.write(f"hint: {hint}\n")


def _document(context: typer.Context, kind: str, message: str) -> None:
    """Writes a failure as JSON, with --json only."""
    if context.meta.get(JSON):
        _write_document(kind, message, {}, retryable=False, hint="")


def _write_document(kind: str, message: str, facts: Mapping[str, object], *, retryable: bool, hint: str) -> None:
    told: dict[str, Any] = {
        "kind": kind,
        "message": _plain(message),
        "facts": {name: _plain(fact) for name, fact in facts.items()},
        "retryable": retryable,
        "hint": hint,
    }
    write_json(msgspec.json.encode({"error": told}).decode())


def _plain(fact: object, depth: int = _DEPTH) -> object:
    """A fact as JSON can say it; words that are no UTF-8 with escapes in them, everything else as errors show it."""
    if issubclass(type(fact), str):  # `isinstance` would ask the fact for its class
        return str.encode(cast("str", fact), errors="backslashreplace").decode()
    if fact is None or type(fact) in (bool, float) or (type(fact) is int and fact.bit_length() < _INT_BITS):
        return fact
    if type(fact) in (list, tuple, set, frozenset) and depth:
        several = cast("Iterable[object]", fact)
        return [_plain(each, depth - 1) for each in several]
    return shown(fact)
