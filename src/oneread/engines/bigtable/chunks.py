"""Merging the chunks of a ReadRows stream into rows.

A chunk is a cell or a part of one; the key, the family and the column are those of the chunk before where they are left
out, and a row counts only once a chunk commits it. What breaks these rules is Corrupt. The public acceptance cases test
it, because the emulator neither splits cells nor resets rows. See docs/decisions/0095-bigtable.md.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import gt, lt
from typing import Any, Final, TypeAlias

from oneread.errors import Corrupt
from oneread.store.requests import Found
from oneread.store.rows import Cell, Row

StampedValue: TypeAlias = tuple[str, bytes, int, bytes]
"""Family, qualifier, microseconds and value."""

_BROKEN: Final = "Bigtable's answer breaks its own protocol"


class ChunkMerger:
    """The rows of one stream. `last` is the key up to which everything is here, committed or scanned."""

    def __init__(self, *, reverse: bool = False, last: bytes | None = None) -> None:
        self.rows: list[tuple[bytes, list[StampedValue]]] = []
        self.last = last
        self._is_behind: Callable[[bytes, bytes], bool] = lt if reverse else gt
        self._key = b""  # of the row in progress, empty when there is none
        self._cells: list[StampedValue] = []
        self._family: str | None = None
        self._qualifier: bytes | None = None
        self._parts: list[bytes] = []  # of the cell in progress
        self._micros = 0

    def receive(self, response: Any) -> None:
        """Takes one message of the stream. Raises Corrupt."""
        for chunk in response.chunks:
            self._take(chunk)
        scanned = response.last_scanned_row_key
        if scanned:
            if self._key:
                raise self._broken("a row was scanned within another")
            self.last = scanned

    def end(self) -> None:
        """Raises Corrupt when the stream ended within a row."""
        if self._key:
            raise self._broken("the stream ended within a row")

    def _take(self, chunk: Any) -> None:
        key = chunk.row_key
        if chunk.reset_row:
            self._reset(chunk)
            return
        if not self._key:
            self._begin(key)
        elif key and key != self._key:  # the emulator repeats it on every chunk
            raise self._broken("another row before this one was committed")
        if not self._parts:
            self._name(chunk)
        if chunk.value_size:
            if chunk.commit_row:
                raise self._broken("a row was committed within a cell")
            self._parts.append(chunk.value)
            return
        self._end_cell(chunk.value)
        if chunk.commit_row:
            self.rows.append((self._key, self._cells))
            self.last = self._key
            self._forget()

    def _begin(self, key: bytes) -> None:
        if not key:
            raise self._broken("a row without a key")
        if self.last is not None and not self._is_behind(key, self.last):
            raise self._broken("rows out of order")
        self._key = key

    def _name(self, chunk: Any) -> None:
        """Notes the column and the stamp of the cell that begins with this chunk."""
        if chunk.HasField("qualifier"):
            self._qualifier = chunk.qualifier.value
            if chunk.HasField("family_name"):
                self._family = chunk.family_name.value
        elif chunk.HasField("family_name"):
            raise self._broken("a family without a column")
        if self._family is None or self._qualifier is None:
            raise self._broken("a cell without a column")
        self._micros = chunk.timestamp_micros

    def _end_cell(self, value: bytes) -> None:
        assert self._family is not None
        assert self._qualifier is not None
        if self._parts:
            value, self._parts = b"".join([*self._parts, value]), []
        self._cells.append((self._family, self._qualifier, self._micros, value))

    def _reset(self, chunk: Any) -> None:
        if not self._key:
            raise self._broken("a reset outside of a row")
        if chunk.row_key or chunk.value or chunk.HasField("family_name"):
            raise self._broken("a reset with data")
        self._forget()

    def _forget(self) -> None:
        """Leaves the row in progress."""
        self._key, self._cells, self._parts = b"", [], []
        self._family = self._qualifier = None

    def _broken(self, rule: str) -> Corrupt:
        return Corrupt(_BROKEN, rule=rule, key=self._key or self.last)


def found_rows(merger: ChunkMerger) -> list[Found]:
    """The rows of a stream that has one cell of each column."""
    return [(key, row_of_cells(cells)) for key, cells in merger.rows]


def row_of_cells(cells: list[StampedValue]) -> Row:
    """The cells of a row; stamps are milliseconds."""
    return {
        family.encode() + b":" + qualifier: Cell(value, micros // 1000) for family, qualifier, micros, value in cells
    }
