"""Looks: whether what seemed wrong in a scan is wrong, on a store that changes one row at a time.

A scan sees rows of different moments, so what differs in it is only suspected. A look reads the root row of the entity
that the rows are of, the rows, and the root row again: where its version is the same and its commit was applied both
times, the rows belong to that version. A fault is what two looks find that are apart. See
docs/decisions/0104-verify-one-row-at-a-time.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from oneread.derivations.catalog import Catalog
from oneread.plans.plan import Plan
from oneread.store.keys import kind_part
from oneread.store.rows import Row
from oneread.verify.confirm import Pace, Seen, confirm
from oneread.verify.copy_check import CopyComparison
from oneread.verify.entity_rows import DerivedPlace, RowComparison, places_of, read_places
from oneread.verify.expected import NOTHING, ExpectedRows, RowReader
from oneread.verify.keyspace import DAMAGED, StoreKeyspaces
from oneread.verify.logical_scanner import LogicalScanner, settled_roots
from oneread.verify.report import FaultReporter, Finding
from oneread.verify.sequence_check import SequenceCheck
from oneread.verify.waiting import groups_that_wait, set_aside_among, sources_that_wait

APART: Final = 0.5
"""Seconds between two looks at what seems wrong."""

LOOKS: Final = 16
"""Times that something is looked at which others are changing: longer than recovery leaves a commit alone."""

OWNERS: Final = 100
"""Entities of one look."""

Suspects: TypeAlias = dict[bytes, set[DerivedPlace]]
"""Root rows whose rows seemed wrong, each with further rows that name it; empty for rows that name none."""


def two_looks() -> Pace:
    """How most suspects are looked at."""
    return Pace(LOOKS, APART)


class Looks:
    """Looks at suspects of one store, twice."""

    def __init__(self, keyspaces: StoreKeyspaces, scanner: LogicalScanner) -> None:
        self._keyspaces = keyspaces
        self._scanner = scanner

    def look(self, suspects: Suspects) -> Plan[Seen[Finding]]:
        """One look at some of them, by their root rows."""
        raise NotImplementedError

    def confirm(self, suspects: Suspects) -> Plan[Seen[Finding]]:
        """What is wrong by two looks, and the root rows that were being changed whenever they were looked at."""
        seen: Seen[Finding] = Seen({}, set())
        keys = list(suspects)
        for first in range(0, len(keys), OWNERS):
            more = yield from confirm(
                keys[first : first + OWNERS],
                lambda some: self.look({key: suspects[key] for key in some}),
                two_looks(),
            )
            seen.found.update(more.found)
            seen.unsettled.update(more.unsettled)
        return seen


class Looker(Looks):
    """Looks at entities."""

    def __init__(self, keyspaces: StoreKeyspaces, scanner: LogicalScanner) -> None:
        super().__init__(keyspaces, scanner)
        self._catalog: Catalog = keyspaces.catalog
        self._reader = RowReader(keyspaces, scanner)

    def look(self, suspects: Suspects) -> Plan[Seen[Finding]]:
        """One look at some entities."""
        owners = [key for key in suspects if key]
        groups = {key: self._group(key) for key in owners}
        roots = list(dict.fromkeys(groups.values()))
        before = dict(zip(roots, (yield from self._scanner.read_stored("roots", roots)), strict=True))
        rows = yield from self._rows(groups, before)
        expected = {b"": NOTHING} | (yield from self._expect(rows))
        found: dict[bytes, list[Finding]] = {key: [] for key in suspects}
        yield from self._compare(suspects, expected, found)
        yield from self._check_sequences(rows, found)
        doubtful = yield from self._check_copies(groups, expected, found)
        doubtful |= yield from self._check_totals(expected, found)
        after = dict(zip(roots, (yield from self._scanner.read_stored("roots", roots)), strict=True))
        settled = settled_roots(before, after)
        unsettled = {key for key in owners if groups[key] not in settled} | doubtful
        return Seen({key: each for key, each in found.items() if each and key not in unsettled}, unsettled)

    def _group(self, key: bytes) -> bytes:
        try:
            return self._catalog.group_of(key)
        except DAMAGED:
            return key

    def _rows(self, groups: Mapping[bytes, bytes], roots: Mapping[bytes, Row | None]) -> Plan[dict[bytes, Row | None]]:
        """The rows of entities as they are meant: those of children are read after their roots (rule G1)."""
        children = [key for key, root in groups.items() if key != root]
        found = yield from self._scanner.read("roots", children)
        rows = dict(zip(children, found, strict=True))
        rows |= {key: self._scanner.meaning_of_root(key, roots[key]) for key, root in groups.items() if key == root}
        return rows

    def _expect(self, rows: Mapping[bytes, Row | None]) -> Plan[dict[bytes, ExpectedRows]]:
        known = [(key, row) for key, row in rows.items() if row is not None and kind_part(key) in self._reader.kinds]
        expected = zip(known, (yield from self._reader.expected_of(known)), strict=True)
        return dict.fromkeys(rows, NOTHING) | {key: each for (key, _row), each in expected}

    def _reporter(self, found: dict[bytes, list[Finding]], key: bytes) -> FaultReporter:
        return FaultReporter(self._keyspaces, found[key].append)

    def _compare(
        self, suspects: Suspects, expected: Mapping[bytes, ExpectedRows], found: dict[bytes, list[Finding]]
    ) -> Plan[None]:
        """Compares derived rows with what their entities say, and reports what is wrong with root rows themselves."""
        wanted = [place for key, places in suspects.items() for place in (*places_of(expected[key]), *places)]
        comparison = RowComparison(self._reader, (yield from read_places(self._scanner, wanted)))
        for key, places in suspects.items():
            reporter = self._reporter(found, key)
            for fault in expected[key].faults:
                reporter.entity(key, fault)
            if expected[key].is_known:
                yield from comparison.compare(reporter, key, expected[key], places)

    def _check_sequences(self, rows: Mapping[bytes, Row | None], found: dict[bytes, list[Finding]]) -> Plan[None]:
        """Compares numbers of children with the counts of their roots, which are read after them."""
        for key, row in rows.items():
            kind = self._reader.kinds.get(kind_part(key))
            if row and kind is not None:
                check = SequenceCheck(self._keyspaces, kind, self._scanner, self._reporter(found, key))
                yield from check.check([(key, row)])

    # Copies.

    def _check_copies(
        self,
        groups: Mapping[bytes, bytes],
        expected: Mapping[bytes, ExpectedRows],
        found: dict[bytes, list[Finding]],
    ) -> Plan[set[bytes]]:
        """Reports copies that differ and wait for no task; returns the holders whose sources are being changed."""
        stale: dict[bytes, set[bytes]] = {}
        for key in groups:
            copies = self._copies(key)
            if copies is not None:
                differing = yield from copies.differing([(key, expected[key])])
                if differing:
                    stale[key] = {each.source for each in differing}
        if not stale:
            return set()
        sources = {source: self._group(source) for each in stale.values() for source in each}
        roots = list(dict.fromkeys(sources.values()))
        before = dict(zip(roots, (yield from self._scanner.read_stored("roots", roots)), strict=True))
        tasks = yield from sources_that_wait(self._scanner, sources)
        for key, some in stale.items():
            yield from self._look_at_copies(key, found, some, tasks)
        after = dict(zip(roots, (yield from self._scanner.read_stored("roots", roots)), strict=True))
        settled = settled_roots(before, after)
        return {key for key, each in stale.items() if any(sources[one] not in settled for one in each)}

    def _copies(self, key: bytes) -> CopyComparison | None:
        kind = self._reader.kinds.get(kind_part(key))
        if kind is None or not self._keyspaces.covers_kind(kind):
            return None
        return CopyComparison(self._keyspaces, kind, self._scanner)

    def _look_at_copies(
        self, key: bytes, found: dict[bytes, list[Finding]], sources: set[bytes], tasks: set[bytes]
    ) -> Plan[None]:
        """Reads a holder after the tasks of these sources, and reports what none of them will make right."""
        copies = self._copies(key)
        assert copies is not None, "only holders have copies"
        (row,) = yield from self._scanner.read("roots", [key])
        differing = yield from copies.differing(list((yield from self._expect({key: row})).items()))
        stale = [each for each in differing if each.source in sources]
        aside = yield from set_aside_among(self._scanner, stale)
        for each in stale:
            if each.source not in tasks or (key, each.source) in aside:
                copies.describe(each, self._reporter(found, key))

    # Totals.

    def _check_totals(
        self, expected: Mapping[bytes, ExpectedRows], found: dict[bytes, list[Finding]]
    ) -> Plan[set[bytes]]:
        """Reports totals that differ from groups that nothing follows any more; returns entities of which more differs.

        The numbers of the groups were read behind the root rows of the entities.
        """
        stale = {key: each.stale_total for key, each in expected.items() if each.stale_total is not None}
        shown = {group.key for total in stale.values() for group in total.groups if group.counter is None}
        waiting = (yield from groups_that_wait(self._scanner, shown)) if shown else set[bytes]()
        doubtful: set[bytes] = set()
        for key, total in stale.items():
            forgotten = total.without(waiting)  # what is still to follow one group leaves the totals of others alone
            if forgotten is not None:
                self._reporter(found, key).entity(key, forgotten.fault, forgotten.groups)
            if forgotten != total and expected[key].faults:  # by a number on its way the record may be the wrong one
                doubtful.add(key)
        return doubtful
