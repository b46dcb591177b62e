"""The rows of indexes over groups, compared with the groups that are stored.

A group that is wrong itself is reported as that and nothing else: its index rows are compared once it is right. See
docs/decisions/0049-indexes-over-groups.md.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from oneread.derivations.group_indexes import IndexedGroups
from oneread.plans.plan import Plan
from oneread.store.keys import view_part
from oneread.store.requests import Found
from oneread.store.rows import VALUE, Cell, Row, RowRange
from oneread.transactions.derived_writes import Group
from oneread.transactions.first_rows import FirstRows
from oneread.verify.keyspace import DAMAGED, StoreKeyspaces, shown_of
from oneread.verify.report import DerivedRow, FaultReporter
from oneread.verify.scanner import Scanner

RowsOfGroups: TypeAlias = dict[bytes, Mapping[bytes, bytes]]
"""By the key of a group in `counts`: its index rows, key to value."""


class ExpectedRow(NamedTuple):
    """What an index row must be, None for no row; `is_known` is False if the group that it names cannot be read."""

    row: Row | None
    is_known: bool = True


class FaultyRows:
    """Whether groups are reported as wrong; made of the rows that were."""

    def __init__(self, faulty: Iterable[tuple[str, bytes]]) -> None:
        known = list(faulty)
        self._sums = frozenset(key for table, key in known if table == "counts")
        self._rows = sorted(key for table, key in known if table == "views")

    def has_any(self, groups: Iterable[bytes], extrema: Iterable[FirstRows]) -> bool:
        """Whether the row of one of these groups is wrong, or one in these ranges of `views`."""
        return not self._sums.isdisjoint(groups) or any(self._has_row(each.within) for each in extrema)

    def _has_row(self, within: RowRange) -> bool:
        place = bisect_left(self._rows, within.start)
        return place < len(self._rows) and (not within.stop or self._rows[place] < within.stop)


class GroupRows:
    """Reads groups, and computes the index rows that they must have."""

    def __init__(self, keyspaces: StoreKeyspaces, scanner: Scanner) -> None:
        self._keyspaces = keyspaces
        self._scanner = scanner

    def expected(self, indexed: IndexedGroups, keys: Sequence[bytes]) -> Plan[RowsOfGroups]:
        """The index rows of these groups; without those that cannot be read. One read, and one scan an extremum."""
        numbers = yield from self._scanner.read_groups([Group(key, 0, indexed.extrema(key), ()) for key in keys])
        found: RowsOfGroups = {}
        for key, given in numbers.items():
            try:
                found[key] = indexed.rows(key, given)
            except DAMAGED:
                continue
        return found

    def expected_row(self, key: bytes) -> Plan[ExpectedRow]:
        """What an index row must be, by the group that its key names."""
        group = self._keyspaces.group_of(key)
        if group is None:
            return ExpectedRow(None)
        rows = yield from self.expected(self._keyspaces.indexed[view_part(group)], [group])
        if group not in rows:
            return ExpectedRow(None, is_known=False)
        shown = rows[group].get(key)
        (row,) = yield from self._scanner.read("counts", [group])
        return ExpectedRow(None if shown is None or row is None else {VALUE: Cell(shown, row[VALUE].stamp)})


class GroupRowsCheck:
    """Compares the index rows of one aggregate's groups, in the snapshot in which the groups were compared."""

    def __init__(self, keyspaces: StoreKeyspaces, scanner: Scanner, reporter: FaultReporter) -> None:
        self._keyspaces = keyspaces
        self._scanner = scanner
        self._reporter = reporter
        self._rows = GroupRows(keyspaces, scanner)

    def run(self, indexed: IndexedGroups, faulty: FaultyRows) -> Plan[None]:
        """Is each row there and right, and of a group that has it?"""
        keyspaces = self._keyspaces.of_groups(indexed.aggregate.prefix)
        if not keyspaces:
            return
        name = indexed.aggregate.cls.__name__
        self._scanner.phase(f"{name}: rows of its indexes")
        forward = partial(self._forward, indexed, faulty)
        yield from self._scanner.scan_all("counts", RowRange.under(indexed.aggregate.prefix), forward)
        for keyspace in keyspaces:
            self._scanner.phase(f"{name}: {keyspace.name}")
            backward = partial(self._backward, indexed, faulty)
            yield from self._scanner.scan_all("views", RowRange.under(keyspace.prefix), backward)

    def _judged(self, indexed: IndexedGroups, faulty: FaultyRows, keys: Iterable[bytes]) -> Plan[RowsOfGroups]:
        """What groups must have, but for those that are wrong themselves."""
        right = [key for key in keys if not faulty.has_any((key,), indexed.extrema(key))]
        return self._rows.expected(indexed, right)

    def _forward(self, indexed: IndexedGroups, faulty: FaultyRows, found: list[Found]) -> Plan[None]:
        expected = yield from self._judged(indexed, faulty, [key for key, _row in found])
        owners = {
            place: group
            for group, rows in expected.items()
            for place in rows
            if self._keyspaces.keyspace_of("views", place) is not None
        }
        places = sorted(owners)
        rows = yield from self._scanner.read("views", places)
        for place, row in zip(places, rows, strict=True):
            group = owners[place]
            shown = expected[group][place]
            if row is None or shown_of(row) != shown:
                self._reporter.differing(DerivedRow("views", place, group), shown, row)

    def _backward(self, indexed: IndexedGroups, faulty: FaultyRows, found: list[Found]) -> Plan[None]:
        groups = {place: self._keyspaces.group_of(place) for place, _row in found}
        known = dict.fromkeys([group for group in groups.values() if group is not None])
        expected = yield from self._judged(indexed, faulty, known)
        for place, row in found:
            group = groups[place]
            if group is None or (group in expected and place not in expected[group]):
                self._reporter.dangling(DerivedRow("views", place, group or b""), row)
