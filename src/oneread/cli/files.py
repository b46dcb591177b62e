"""Files that commands read and write: `-` for the standard streams, `.gz` compressed, never half written.

A file is written under another name and renamed when it is complete. See docs/formats/dumps.md.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import stat
import sys
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, TypeAlias

from oneread.errors import Corrupt, UsageError
from oneread.store import unfinished
from oneread.transfer.content import Content
from oneread.transfer.load import LINE_BYTES

STANDARD: Final = "-"
_SKIPPED: Final = 1 << 20
_MARK: Final = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8, which some programs write at the start of a file."""
_UTF_16: Final = re.compile(rb"\xff\xfe|\xfe\xff|.?\0", re.DOTALL).match
"""How text begins that has two or four bytes for a character."""


class LongLine(NamedTuple):
    """In place of a line that is too long."""

    quotes: int
    """The quotes in it: in CSV they say whether it opens or closes a cell of several lines."""


NumberedLine: TypeAlias = "tuple[int, bytes | LongLine]"
"""A line of a file with its number, from 1."""


def open_private(path: str, flags: int) -> int:
    """Opens a file that only its owner may read where it is made: it has what the store has; an opener of `open`."""
    return os.open(path, flags, 0o600)


@contextlib.contextmanager
def new_file(name: str) -> Generator[IO[bytes]]:
    """Writes a new file of this name, which appears when the block ends without an error; the standard output for `-`.

    Raises:
        UsageError: the file exists.
        OSError: it cannot be written.
    """
    if name == STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(name)
    if path.exists():
        raise UsageError("the file exists already; remove it or name another", path=name)
    unfinished.remove_leftovers(path)
    unfinished_path = unfinished.name_beside(path)
    try:
        with open(unfinished_path, "xb", opener=open_private) as file:
            unfinished.hold(file.fileno())
            if path.suffix.lower() == ".gz":
                with gzip.GzipFile("", "wb", 6, file, mtime=0) as compressed:
                    yield compressed  # type: ignore[misc]  # it writes bytes, as the annotation wants
            else:
                yield file
            file.flush()
            os.fsync(file.fileno())
            unfinished_path.replace(path)
    except BaseException:
        unfinished_path.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def open_file(name: str) -> Generator[IO[bytes]]:
    """Opens a file to be read, uncompressed; the standard input for `-`.

    Raises:
        UsageError: it does not exist, or is not a file.
    """
    if name == STANDARD:
        if sys.stdin is None:  # it was closed by who started this process
            raise UsageError("there is no standard input; name a file")
        yield sys.stdin.buffer
        return
    path = Path(name)
    if not path.is_file() and not path.is_fifo():
        raise UsageError("the file does not exist", path=name)
    with path.open("rb") as file:
        if path.suffix.lower() == ".gz":
            yield gzip.GzipFile(fileobj=file)  # type: ignore[misc]  # it reads bytes, as the annotation wants
        else:
            yield file


def share_read(file: IO[bytes]) -> float | None:
    """How much of an open file has been read, 0 to 1: of the compressed bytes of a .gz; None for a pipe."""
    raw: Any = getattr(file, "fileobj", file)  # of a GzipFile
    try:
        found = os.fstat(raw.fileno())
        return min(1.0, raw.tell() / found.st_size) if stat.S_ISREG(found.st_mode) and found.st_size else None
    except (OSError, ValueError):  # a stream of a test has no file
        return None


def lines(file: IO[bytes], content: Content) -> Iterator[NumberedLine]:
    """The lines of a file without their ends, and without the byte order mark of UTF-8.

    Raises:
        UsageError: the file is in UTF-16 or UTF-32.
        Corrupt: the compressed file is incomplete or damaged.
    """
    number = 0
    try:
        while line := file.readline(LINE_BYTES + 1):
            number += 1
            content.add(line)
            if number == 1:
                _refuse_utf_16(line)
            if len(line) <= LINE_BYTES:
                line = line.removesuffix(b"\n")  # a quoted cell of CSV may hold what is in front of it
                yield number, line.removeprefix(_MARK) if number == 1 else line
                continue
            quotes = line.count(b'"')
            while line and not line.endswith(b"\n"):
                line = file.readline(_SKIPPED)
                content.add(line)
                quotes += line.count(b'"')
            yield number, LongLine(quotes)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise Corrupt("the compressed file is incomplete or damaged", line=number + 1, reason=str(error)) from error


def _refuse_utf_16(line: bytes) -> None:
    if _UTF_16(line):
        raise UsageError("the file is in UTF-16 or UTF-32; write it again in UTF-8")
