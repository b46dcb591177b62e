"""The rows of a CSV file; what cannot be read is refused by itself, and the lines after it are read.

A quote that is never closed would take all lines after it into one cell. So where a row of several lines fails, only
its first line is refused, and reading continues at the second one. See docs/decisions/0121-what-a-load-refuses.md.
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from oneread.cli.files import LongLine, NumberedLine
from oneread.cli.loading import Unreadable
from oneread.errors import InvalidValue
from oneread.transfer.load import LINE_BYTES, CsvRow

_QUOTE: Final = b'"'


class _RowIsTooLong(Exception):
    """The lines of a row have more bytes than a line may have."""


def csv_rows(numbered: Iterable[NumberedLine]) -> Iterator[tuple[int, CsvRow | Unreadable]]:
    """The rows of a file, each with the number of the line that it ends on."""
    csv.field_size_limit(LINE_BYTES)
    source = _NumberedLines(numbered)
    reader = csv.reader(source, strict=True)
    while True:
        source.begin_row()
        try:
            row = next(reader)
        except StopIteration:
            return
        except (csv.Error, _RowIsTooLong) as error:
            yield source.refuse_row(error)
            continue
        if row:
            yield source.row[-1][0], row


class _NumberedLines:
    """The lines of a file as text for `csv.reader`, and those that it took for the row that it reads."""

    def __init__(self, numbered: Iterable[NumberedLine]) -> None:
        self._numbered = iter(numbered)
        self._returned = deque[NumberedLine]()
        self._failed_at = 0
        """The line that ended the last row of several lines that failed: none before it is read a third time."""
        self.row: list[NumberedLine] = []
        self._size = 0

    def begin_row(self) -> None:
        self.row, self._size = [], 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._take()
        self._size += 0 if isinstance(line, LongLine) else len(line)
        if isinstance(line, LongLine) or self._size > LINE_BYTES:
            raise _RowIsTooLong
        # Bytes that are not UTF-8 stay in the text, so that the row is refused alone, and rejected as it was.
        return line.decode(errors="surrogateescape") + "\n"

    def _take(self) -> bytes | LongLine:
        numbered = self._returned.popleft() if self._returned else next(self._numbered)
        self.row.append(numbered)
        return numbered[1]

    def refuse_row(self, error: Exception) -> tuple[int, Unreadable]:
        """What is refused of the row that failed; the lines after that are read again."""
        first, last = self.row[0][0], self.row[-1][0]
        reason: dict[str, object] = {"reason": str(error)} if str(error) else {}
        if isinstance(self.row[-1][1], LongLine):
            self._skip_rest()
            refused = InvalidValue("the line is too long", limit=LINE_BYTES)
        elif len(self.row) > 1 and first >= self._failed_at:
            self._failed_at = last
            self._return_lines(1)
            refused = InvalidValue("a quote is opened and not closed, or not followed by a comma", **reason)
        else:
            refused = InvalidValue("the line is not a row of CSV", **reason)
        if len(self.row) > 1:
            refused.facts["from_line"] = first
        text = b"\n".join(line for _number, line in self.row if isinstance(line, bytes))
        return self.row[-1][0], Unreadable(refused, text)

    def _skip_rest(self) -> None:
        """Skips the rest of a cell that has a line which is too long, where the cell ends within the limit."""
        taken, size = len(self.row), 0
        is_open = sum(_count_quotes(line) for _number, line in self.row) % 2
        while is_open:
            try:
                line = self._take()
            except StopIteration:
                break
            size += 0 if isinstance(line, LongLine) else len(line)
            if isinstance(line, LongLine) or size > LINE_BYTES:
                break
            is_open ^= _count_quotes(line) % 2
        if is_open:
            self._return_lines(taken)

    def _return_lines(self, first: int) -> None:
        """Gives back the lines of the row from this one on."""
        self._returned.extendleft(reversed(self.row[first:]))
        del self.row[first:]


def _count_quotes(line: bytes | LongLine) -> int:
    return line.quotes if isinstance(line, LongLine) else line.count(_QUOTE)
