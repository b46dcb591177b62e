"""The rows of one entity, compared with what its root row says: by looks, and for `places`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from oneread.plans.plan import Plan
from oneread.store.rows import Row, Table
from oneread.verify.expected import ExpectedRows, RowReader
from oneread.verify.keyspace import StoreKeyspaces, shown_of
from oneread.verify.report import DerivedRow, FaultReporter, Finding
from oneread.verify.scanner import Scanner

DerivedPlace: TypeAlias = tuple[Table, bytes]
"""A derived row by its table and key."""


class CheckedRows(NamedTuple):
    """What was found of one entity, and the rows that are there and were compared."""

    findings: tuple[Finding, ...]
    compared: frozenset[DerivedPlace]


def read_places(scanner: Scanner, places: Iterable[DerivedPlace]) -> Plan[dict[DerivedPlace, Row | None]]:
    """Derived rows, each once: a read for each table."""
    wanted: dict[Table, set[bytes]] = {"views": set(), "counts": set()}
    for table, key in places:
        wanted[table].add(key)
    stored: dict[DerivedPlace, Row | None] = {}
    for table, some in wanted.items():
        keys = sorted(some)
        rows = (yield from scanner.read(table, keys)) if keys else []
        stored.update({(table, key): row for key, row in zip(keys, rows, strict=True)})
    return stored


def places_of(expected: ExpectedRows) -> list[DerivedPlace]:
    """The rows that must be there."""
    puts: list[DerivedPlace] = [("views", key) for key in expected.writes.puts]
    return [*puts, *(("counts", key) for key in expected.writes.claimed)]


class RowComparison(NamedTuple):
    """Compares stored rows with expected ones."""

    reader: RowReader
    stored: Mapping[DerivedPlace, Row | None]

    def compare(
        self, reporter: FaultReporter, owner: bytes, expected: ExpectedRows, places: Iterable[DerivedPlace]
    ) -> Plan[None]:
        """Reports the rows of an entity that differ, and those of `places` that it should not have."""
        writes = expected.writes
        for place, shown in writes.puts.items():
            row = self.stored["views", place]
            if row is None or shown_of(row) != shown:
                reporter.differing(DerivedRow("views", place, owner), shown, row)
        for place in writes.claimed:
            row = self.stored["counts", place]
            holder = None if row is None else shown_of(row)
            if holder == owner:
                continue
            claim = DerivedRow("counts", place, owner)
            if holder and (yield from self.reader.is_owned_by(holder, place)) is not False:
                reporter.claimed_twice(claim, row)
            else:
                reporter.differing(claim, owner, row)
        for table, place in sorted(places):
            row = self.stored[table, place]
            if row is not None and place not in writes.puts and place not in writes.claimed:
                reporter.dangling(DerivedRow(table, place, owner), row)


def check_entity(
    keyspaces: StoreKeyspaces, scanner: Scanner, key: bytes, row: Row, recorded: Iterable[DerivedPlace]
) -> Plan[CheckedRows]:
    """Compares what follows from a root row, as it is stored; `recorded` are the rows that its record lists.

    Totals and copies are not compared, nor rows of views that are being built.
    """
    scanner.learn(keyspaces)
    found: list[Finding] = []
    reporter, reader = FaultReporter(keyspaces, found.append), RowReader(keyspaces, scanner)
    expected = yield from reader.expected_writes(key, scanner.meaning_of_root(key, row) or {})
    known = [each for each in recorded if keyspaces.covers_row(*each)]
    places = frozenset([*known, *places_of(expected)])
    stored = yield from read_places(scanner, places)
    for fault in expected.faults:
        reporter.entity(key, fault)
    if not expected.is_known:
        return CheckedRows(tuple(found), frozenset())
    yield from RowComparison(reader, stored).compare(reporter, key, expected, known)
    return CheckedRows(tuple(found), frozenset([each for each in places if stored[each] is not None]))
