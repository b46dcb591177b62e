"""What commands print: JSON or text on stdout, notes and progress on stderr.

Characters that the encoding of a stream lacks are written as the escapes of JSON, so that a document is valid under any
locale and a terminal of ASCII does not end a command. See "Output" in docs/reference/command-line.md.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from types import NoneType
from typing import Any, Final, TextIO

import msgspec

from oneread.cli import guard
from oneread.derivations.pending_tasks import TaskLag, count_waiting, oldest_of
from oneread.errors import InvalidValue, printable
from oneread.models.wide import digits_of
from oneread.plans.progress import Progress, Reporter, no_progress

ESCAPED: Final = "oneread.escaped"
"""The name of the error handler among Python's codecs."""
_PLAIN_BITS = 4000
"""Ints of fewer bits are written with thousands separators."""


def escape(error: UnicodeError) -> tuple[str, int]:
    """Replaces characters that cannot be encoded, each as JSON writes it in ASCII; an error handler of codecs."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return _escaped(error.object[error.start : error.end]), error.end


def _escaped(text: str) -> str:
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


codecs.register_error(ESCAPED, escape)


def prepare_streams() -> None:
    """Makes stdout and stderr of this process write characters that their encoding lacks as escapes.

    What is written to one that is closed goes nowhere, as to /dev/null.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - it stays open
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ESCAPED)


def write(stream: TextIO, text: str) -> None:
    """Writes text; where the reader of a pipe has closed it, the command continues without, to its own exit code."""
    try:
        stream.write(text)
    except BrokenPipeError:
        abandon(stream)


def flush(stream: TextIO) -> None:
    """Flushes a stream as `write` writes to it."""
    try:
        stream.flush()
    except BrokenPipeError:
        abandon(stream)


def abandon(stream: TextIO) -> None:
    """Makes what is written to a stream go nowhere from here on."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def write_json(text: str) -> None:
    """Writes a line of JSON to stdout: in UTF-8, or in ASCII where stdout has another encoding.

    What would control a terminal is escaped; JSON itself escapes only what is below a blank.
    """
    encoding = (sys.stdout.encoding or "utf-8").lower()
    line = text if encoding in {"utf-8", "utf8"} else text.encode("ascii", ESCAPED).decode()
    if not line.isprintable():
        line = "".join(each if each.isprintable() else _escaped(each) for each in line)
    write(sys.stdout, f"{line}\n")


class Output:
    """The output of one command: with `as_json` only `document` prints to stdout, else only `text` and `table`."""

    def __init__(self, *, as_json: bool, quiet: bool) -> None:
        self.as_json = as_json
        self._quiet = quiet

    def document(self, value: object) -> None:
        """Prints a value as one line of JSON, with --json only."""
        if self.as_json:
            write_json(encode_json(value))

    def text(self, line: str = "") -> None:
        """Prints a line for a person, without --json only."""
        if not self.as_json:
            write(sys.stdout, f"{printable(line)}\n")

    def cells(self, line: Sequence[object]) -> None:
        """Prints values with tabs between them, for another program, without --json only."""
        if not self.as_json:
            write(sys.stdout, "\t".join(map(plain_text, line)) + "\n")

    def table(self, headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Prints rows in columns, numbers to the right, without --json only."""
        if not self.as_json:
            for line in columns(headers, rows):
                write(sys.stdout, f"{line}\n")

    def note(self, line: str) -> None:
        """Prints a note to stderr, unless --quiet was given."""
        if not self._quiet:
            write(sys.stderr, f"{printable(line)}\n")

    @contextlib.contextmanager
    def progress(self) -> Generator[Reporter]:
        """Shows a bar on stderr while long work runs, on a terminal only: `with output.progress() as report`."""
        if self._quiet or self.as_json or not sys.stderr.isatty():
            yield _advancing(no_progress)
            return
        bars: Any = import_module("oneread.cli.bars")  # importing rich is slow: only where a bar is shown
        with bars.bar() as report:
            yield _advancing(report)


def _advancing(reporter: Reporter) -> Reporter:
    """A reporter that also restarts the time bound of a guarded command, where there is progress."""
    last = ("", -1)

    def report(progress: Progress) -> None:
        nonlocal last
        if (progress.phase, progress.done) != last:
            last = progress.phase, progress.done
            guard.advance()
        reporter(progress)

    return report


def encode_json(value: object) -> str:
    """A value as JSON on one line.

    Raises:
        InvalidValue: JSON has no form for something in it, as for a dict with tuples for keys.
    """
    try:
        return msgspec.json.encode(value, enc_hook=_name_or_repr).decode()
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise InvalidValue("the value cannot be written as JSON", reason=str(error)) from error


def _name_or_repr(value: object) -> object:
    return value.__name__ if isinstance(value, type) else repr(value)


class Right(str):
    """Text that is aligned to the right, as numbers are."""

    __slots__ = ()


def size(amount: int) -> Right:
    """Bytes in the largest unit that leaves a number above one."""
    left = float(amount)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if left < 1024:  # noqa: PLR2004 - bytes are counted by 1024
            return Right(f"{amount:,} B" if unit == "B" else f"{left:,.1f} {unit}")
        left /= 1024
    return Right(f"{left:,.1f} TiB")


def counted(number: int, thing: str, things: str = "") -> str:
    """A number of things in words: `1 row`, `2,000 rows`."""
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"


def columns(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """The lines of a table: cells padded, numbers to the right."""
    all_rows = list(rows)
    numeric = [
        bool(all_rows) and all(isinstance(row[place], (int, float, Decimal, NoneType, Right)) for row in all_rows)
        for place in range(len(headers))
    ]
    cells = [[*map(printable, headers)], *([cell_text(each) for each in row] for row in all_rows)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(headers))]
    cells.insert(1, ["-" * width for width in widths])
    return [
        "  ".join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in cells
    ]


def cell_text(value: object) -> str:
    """One value of a table as text; whole numbers with thousands separators."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if value.bit_length() < _PLAIN_BITS else digits_of(value)
    return printable(str(value))


def plain_text(value: object) -> str:
    """One value of a line for another program; whole numbers in digits alone."""
    return str(value) if type(value) is int and value.bit_length() < _PLAIN_BITS else cell_text(value)


def printable_lines(text: str) -> str:
    """`printable` of text of several lines."""
    return "\n".join(map(printable, text.split("\n")))


def age_of(lag: Mapping[str, TaskLag]) -> str:
    """How old the oldest of the tasks that wait is, as the end of a sentence; empty where none waits."""
    return f", the oldest for {oldest_of(lag):,.1f} s" if count_waiting(lag) else ""
