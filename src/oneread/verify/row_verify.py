"""Verify on a store that changes one row at a time, which has no snapshots: suspects from scans, faults by looks.

The same parts, reports and cursors as in a snapshot. See docs/decisions/0104-verify-one-row-at-a-time.md.
"""

from __future__ import annotations

from typing import Final

from oneread.derivations.catalog import Catalog
from oneread.derivations.schema_rows import stored_schema
from oneread.errors import Unsupported
from oneread.models.registry import EntityKind
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.transactions.copy_cells import CopyCells
from oneread.verify.keyspace import StoreKeyspaces
from oneread.verify.report import FaultReporter, Finding, Report
from oneread.verify.row_feeds import RowEntriesCheck
from oneread.verify.row_orphans import RowOrphans
from oneread.verify.row_passes import KindPasses
from oneread.verify.row_scanner import LogicalScanner, claims_of
from oneread.verify.row_sums import GroupPasses
from oneread.verify.scanner import Scanner
from oneread.verify.verify import Verifier, VerifyOptions

_NOT_YET: Final = "a store that changes one row at a time does not verify this yet; name views and models without it"


class RowVerifier(Verifier):
    """One verification. `cells` are those of the store's documents."""

    def __init__(
        self, catalog: Catalog, cells: CopyCells, options: VerifyOptions, report: Report | None = None
    ) -> None:
        self._cells = cells
        super().__init__(catalog, options, report)

    def _new_scanner(self) -> Scanner:
        self._logical = LogicalScanner(self._cells, self._options.pace, self._options.progress)
        return self._logical

    def _check_scope(self, keyspaces: StoreKeyspaces) -> None:
        for keyspace in keyspaces.keyspaces.values():
            if keyspace.groups:
                raise Unsupported(_NOT_YET, declaration=keyspace.name, feature="index over groups")
        for cls, entity_type in self._catalog.entity_types.items():
            if entity_type.rollups and keyspaces.covers_kind(entity_type.kind):
                field = entity_type.rollups[0].field
                raise Unsupported(_NOT_YET, declaration=f"{cls.__name__}.{field}", feature="total that an entity shows")

    def _compare_part(self, name: str, kind: EntityKind | None) -> Plan[None]:
        """Compares one part; it counts as skipped where something was being changed whenever it was looked at."""
        stored, now = (yield from stored_schema()), (yield from Now())
        keyspaces = StoreKeyspaces(self._catalog, stored, self._options.wanted, now)
        self._logical.claims = claims_of(keyspaces)
        yield from self._logical.begin()
        found: list[Finding] = []
        is_settled = True
        feed = self._feed_of(keyspaces, name)
        if feed is not None:
            entries = RowEntriesCheck(keyspaces, self._logical, feed, self._faulty_rows())
            yield from entries.run()
            found, is_settled = entries.found, not entries.unsettled
        elif kind is None:
            yield from RowOrphans(keyspaces, self._logical, FaultReporter(keyspaces, found.append)).run()
        else:
            is_settled = yield from self._compare_kind(keyspaces, kind, found)
        is_same = (yield from stored_schema()) == stored
        for finding in found if is_same else ():
            self._count(finding)
        if is_same and is_settled:
            self._end_part(name)
        else:
            self._skipped.append(name or "orphans")

    def _compare_kind(self, keyspaces: StoreKeyspaces, kind: EntityKind, found: list[Finding]) -> Plan[bool]:
        """Collects what is wrong with one kind; whether all of it could be compared."""
        passes = KindPasses(keyspaces, kind, self._logical)
        yield from passes.run()
        groups = GroupPasses(passes)
        yield from groups.run()
        found += [*passes.found, *groups.found]
        if passes.unsettled or groups.unsettled:
            return False
        self._count_entities(passes.entities, passes.seen_ahead)
        return True
