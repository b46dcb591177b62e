"""Files that commands read and write: `-` for the standard streams, `.gz` compressed, never half written.

A file is written under another name and renamed when it is complete. See docs/formats/dumps.md.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import stat
import sys
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import IO, Any, Final

from oneread.errors import Corrupt, InvalidValue, UsageError
from oneread.store import unfinished
from oneread.transfer.content import Content
from oneread.transfer.load import LINE_BYTES

STANDARD: Final = "-"
_SKIPPED: Final = 1 << 20


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
        with unfinished_path.open("xb") as file:
            unfinished.hold(file.fileno())
            if path.suffix == ".gz":
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
        if path.suffix == ".gz":
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


def lines(file: IO[bytes], content: Content) -> Iterator[tuple[int, bytes | InvalidValue]]:
    """The lines of a file, numbered from 1, without their ends; InvalidValue in place of one that is too long.

    Raises:
        Corrupt: the compressed file is incomplete or damaged.
    """
    number = 0
    try:
        while line := file.readline(LINE_BYTES + 1):
            number += 1
            content.add(line)
            if len(line) <= LINE_BYTES:
                yield number, line.removesuffix(b"\n")  # a quoted cell of CSV may hold what is in front of it
                continue
            while line and not line.endswith(b"\n"):
                line = file.readline(_SKIPPED)
                content.add(line)
            yield number, InvalidValue("the line is too long", limit=LINE_BYTES)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise Corrupt("the compressed file is incomplete or damaged", line=number + 1, reason=str(error)) from error
