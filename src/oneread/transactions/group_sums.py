"""The groups that a unit of work changes: deltas of their rows, and the index rows that follow from their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from oneread.errors import OnereadError
from oneread.store.rows import VALUE, Cell, Row, later
from oneread.transactions.deltas import Delta, Number
from oneread.transactions.derived_writes import DerivedWrites, Group, GroupIndexes
from oneread.transactions.first_rows import FirstRows, values_of
from oneread.transactions.overlay import OverlayRows, with_changes
from oneread.transactions.root_rows import GroupNumbers


def value_of(row: Row | None) -> bytes | None:
    """What a group's row shows; None for an empty group."""
    return None if row is None else row[VALUE].value


class GroupSums:
    """The changed groups of one rows."""

    __slots__ = ("_before", "_deltas", "_indexed")

    def __init__(self) -> None:
        self._deltas: dict[bytes, Delta] = {}
        self._indexed: dict[bytes, GroupIndexes] = {}  # those that indexes list
        self._before: dict[bytes, bytes | None] = {}  # sums of those that were settled

    def __iter__(self) -> Iterator[bytes]:
        """The keys in `counts` of the groups that are to be settled."""
        return iter([*self._indexed, *(key for key, delta in self._deltas.items() if any(delta.amounts))])

    def __contains__(self, key: bytes) -> bool:
        """Whether something was added to a group that was not settled since."""
        return key in self._deltas

    def add(self, rows: OverlayRows, deltas: Iterable[tuple[bytes, Sequence[Number | None], int]]) -> None:
        """Adds contributions to their groups."""
        for key, amounts, sign in deltas:
            delta = self._deltas.get(key)
            if delta is None or rows.is_logged:
                rows.note(self._deltas, (key,))  # which keeps the one before: this is a copy
                delta = self._deltas[key] = Delta() if delta is None else delta.copy()
            delta.add(amounts, sign)

    def note_indexed(self, rows: OverlayRows, group: Group) -> None:
        """Notes a group that a decision changes: its index rows, if any, follow once, when the unit is settled."""
        if group.indexes is not None:
            rows.note(self._indexed, (group.key,))
            self._indexed[group.key] = group.indexes

    def settle(
        self, rows: OverlayRows, now: int, refused: dict[bytes, Exception], keys: Sequence[bytes] | None = None
    ) -> None:
        """Adds the deltas of groups, of all or of these, to their rows, which were loaded, and forgets them."""
        keys = list(self._deltas) if keys is None else keys
        rows.note(self._deltas, keys)
        for key in keys:
            delta = self._deltas.pop(key)
            if any(delta.amounts):
                row = rows.get("counts", key)
                shown = self._new_sum(rows, key, row, delta, refused)
                if key in self._indexed and key not in self._before:
                    rows.note(self._before, (key,))
                    self._before[key] = value_of(row)
                rows.put("counts", key, None if shown is None else {VALUE: Cell(shown, later(row, now))})

    def check(self, rows: OverlayRows, keys: Iterable[bytes], refused: dict[bytes, Exception]) -> None:
        """Notes what `settle` would refuse of groups whose rows were loaded."""
        for key in keys:
            if key in self._deltas:  # others were settled when they were read
                self._new_sum(rows, key, rows.get("counts", key), self._deltas[key], refused)

    def check_indexes(self, rows: OverlayRows, keys: Iterable[bytes], refused: dict[bytes, Exception]) -> None:
        """Notes what `index_writes` would refuse of the first group of these that it refuses."""
        for key in keys:
            if key in self._indexed and not refused:
                self._check_indexed(rows, key, refused)

    def index_writes(self, rows: OverlayRows, refused: dict[bytes, Exception]) -> Iterator[tuple[DerivedWrites, int]]:
        """The index rows of every group that changed, whose sums are settled, each with a stamp."""
        if not self._indexed:
            return
        places = sorted(rows.changed("views"))
        for key, indexes in self._indexed.items():
            row = rows.get("counts", key)
            sums = value_of(row)
            before, after = self._extrema_of(rows, indexes.extrema(key), places)
            was, now = GroupNumbers(self._before.get(key, sums), before), GroupNumbers(sums, after)
            if was == now:
                continue
            try:
                writes = indexes.row_writes(key, was, now)
            except OnereadError as error:
                rows.refuse(error, rows.contributing(key), refused)
            else:
                yield writes, 0 if row is None else row[VALUE].stamp

    def _extrema_of(
        self, rows: OverlayRows, extrema: Sequence[FirstRows], places: Sequence[bytes]
    ) -> tuple[tuple[tuple[bytes, ...], ...], tuple[tuple[bytes, ...], ...]]:
        """The values of the first rows of ranges, without this unit's changes and with them. One request each.

        `places` are the changed keys of `views` in order.
        """
        before: list[tuple[bytes, ...]] = []
        after: list[tuple[bytes, ...]] = []
        for within, most in extrema:
            own = rows.changed_in("views", within, places)
            stored = rows.store.scan("views", within, most + len(own), families="dm")
            before.append(values_of(stored[:most]))
            after.append(values_of(with_changes(stored, own)[:most]))
        return tuple(before), tuple(after)

    def _check_indexed(self, rows: OverlayRows, key: bytes, refused: dict[bytes, Exception]) -> None:
        """Notes what `index_writes` would refuse of one group, whose row was loaded."""
        indexes, delta = self._indexed[key], self._deltas.get(key)
        row = rows.get("counts", key)
        sums = value_of(row) if delta is None else self._new_sum(rows, key, row, delta, refused)
        _before, after = self._extrema_of(rows, indexes.extrema(key), sorted(rows.changed("views")))
        try:
            indexes.rows(key, GroupNumbers(sums, after))
        except OnereadError as error:
            rows.refuse(error, rows.contributing(key), refused)

    def _new_sum(
        self, rows: OverlayRows, key: bytes, row: Row | None, delta: Delta, refused: dict[bytes, Exception]
    ) -> bytes | None:
        """What the row of a group shows with its delta; None when it is refused, or no entity contributes."""
        try:
            return delta.onto(None if row is None else row[VALUE].value)
        except OnereadError as error:
            rows.refuse(error, rows.contributing(key), refused)
            return None
