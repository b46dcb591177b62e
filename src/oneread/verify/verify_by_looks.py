"""Verify on a store that changes one row at a time, which has no snapshots: suspects from scans, faults by looks.

The same parts, reports and cursors as in a snapshot. See docs/decisions/0104-verify-one-row-at-a-time.md.
"""

from __future__ import annotations

from oneread.derivations.catalog import Catalog
from oneread.derivations.schema_rows import stored_schema
from oneread.models.registry import EntityKind
from oneread.plans.plan import Plan
from oneread.transactions.copy_cells import CopyCells
from oneread.verify.feed_passes import RowEntriesCheck
from oneread.verify.group_rows import FaultyRows
from oneread.verify.keyspace import StoreKeyspaces
from oneread.verify.listed_groups import GroupRowPasses
from oneread.verify.logical_scanner import LogicalScanner
from oneread.verify.orphans_by_looks import RowOrphans
from oneread.verify.passes import KindPasses
from oneread.verify.report import FaultReporter, Finding, Report
from oneread.verify.sums import GroupPasses
from oneread.verify.verify import Verifier, VerifyOptions


class RowVerifier(Verifier):
    """One verification. `cells` are those of the store's documents."""

    def __init__(
        self, catalog: Catalog, cells: CopyCells, options: VerifyOptions, report: Report | None = None
    ) -> None:
        self._logical = LogicalScanner(cells, options.pace, options.progress)
        super().__init__(catalog, self._logical, options, report)

    def _compare_part(self, name: str, kind: EntityKind | None) -> Plan[None]:
        """Compares one part; it counts as skipped where something was being changed whenever it was looked at."""
        keyspaces = yield from self._read_keyspaces()
        self._logical.learn(keyspaces)
        yield from self._logical.begin()
        found: list[Finding] = []
        is_settled, passes = True, None
        feed = self._feed_of(keyspaces, name)
        if feed is not None:
            entries = RowEntriesCheck(keyspaces, self._logical, feed, self._faulty_rows())
            yield from entries.run()
            found, is_settled = entries.found, not entries.unsettled
        elif kind is None:
            yield from RowOrphans(keyspaces, self._logical, FaultReporter(keyspaces, found.append)).run()
        else:
            passes = yield from self._compare_kind(keyspaces, kind, found)
            is_settled = passes is not None
        is_same = (yield from stored_schema()) == keyspaces.stored
        for finding in found if is_same else ():
            self._count(finding)
        if is_same and is_settled:
            if passes is not None:
                self._count_entities(passes.entities, passes.seen_ahead)
            self._end_part(name)
        else:
            self._skip_part(name)

    def _compare_kind(
        self, keyspaces: StoreKeyspaces, kind: EntityKind, found: list[Finding]
    ) -> Plan[KindPasses | None]:
        """Collects what is wrong with one kind; None where not all of it could be compared."""
        passes = KindPasses(keyspaces, kind, self._logical)
        yield from passes.run()
        groups = GroupPasses(passes)
        yield from groups.run()
        found += [*passes.found, *groups.found]
        rows = [*self._faulty, *((each.fault.table, each.fault.key) for each in found)]
        listed = GroupRowPasses(keyspaces, self._logical, FaultyRows(rows), groups.unsettled)
        for indexed in keyspaces.indexed_of.get(kind, ()):
            yield from listed.run(indexed)
        found += listed.found
        if passes.unsettled or groups.unsettled or listed.unsettled:
            return None
        return passes
