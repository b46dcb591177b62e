"""One table of the memory engines: rows by key, and the keys in order."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from itertools import islice
from typing import Final

from oneread.store.engine import Column
from oneread.store.requests import Found
from oneread.store.rows import Row, RowRange

_FEW: Final = 64
"""Up to this many added or removed keys are inserted one by one; for more the keys are sorted again."""


class SortedRows:
    """One table: rows by key, and the keys in order."""

    __slots__ = ("get", "keys", "rows")

    def __init__(self) -> None:
        self.rows: dict[bytes, Row] = {}
        self.keys: list[bytes] = []
        self.get = self.rows.get

    def copy(self) -> SortedRows:
        """These rows as they are now; a row is never changed, only replaced."""
        made = SortedRows()
        made.rows.update(self.rows)
        made.keys.extend(self.keys)
        return made

    def size(self) -> int:
        """Bytes of keys, columns' names and values."""
        cells = (len(column) + len(cell.value) for row in self.rows.values() for column, cell in row.items())
        return sum(map(len, self.keys)) + sum(cells)

    def update(self, written: dict[bytes, Row | None]) -> None:
        """Puts and removes rows. An interrupted update is repeated: keys are added last and removed first."""
        rows, keys = self.rows, self.keys
        removed = [key for key, row in written.items() if row is None and key in rows]
        kept = {key: row for key, row in written.items() if row is not None}
        new = [key for key in kept if not self._has(key)]
        rows.update(kept)
        if len(removed) + len(new) > _FEW:
            dropped = set(removed)
            keys[:] = sorted([*(key for key in keys if key not in dropped), *sorted(new)])  # two sorted runs: one merge
        else:
            for key in new:
                insort(keys, key)
            for key in removed:
                if self._has(key):
                    del keys[bisect_left(keys, key)]
        for key in removed:
            del rows[key]

    def _has(self, key: bytes) -> bool:
        place = bisect_left(self.keys, key)
        return place < len(self.keys) and self.keys[place] == key

    def between(self, wanted: RowRange, *, reverse: bool) -> Iterator[Found]:
        keys, rows = self.keys, self.rows
        places = range(bisect_left(keys, wanted.start), bisect_left(keys, wanted.stop) if wanted.stop else len(keys))
        return ((keys[place], rows[keys[place]]) for place in (reversed(places) if reverse else places))

    def column(self, within: RowRange, limit: int, column: bytes, *, reverse: bool = False) -> Column:
        rows = self.between(within, reverse=reverse)
        found = [*islice(((key, row[column].value) for key, row in rows if column in row), limit)]
        return [key for key, _value in found], [value for _key, value in found]
