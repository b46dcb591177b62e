"""Verify, repair and drop on stores that change one row at a time: suspects from scans, faults by looks.

The same parts, reports and cursors as in a snapshot; what is wrong is mended by commits of one row each. See
docs/decisions/0104-verify-one-row-at-a-time.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from oneread.derivations.catalog import Catalog
from oneread.derivations.schema_rows import stored_schema
from oneread.feeds.entries import Entries
from oneread.feeds.entry_cells import entry_row
from oneread.models.registry import EntityKind
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.plans.progress import no_progress
from oneread.store.rows import Row
from oneread.transactions.copy_cells import CopyCells
from oneread.transactions.journal_commits import RowCommitter
from oneread.transactions.outbox import unversioned
from oneread.verify import looks
from oneread.verify.feed_member import CheckMember, MemberFeed
from oneread.verify.feed_passes import RowEntriesCheck
from oneread.verify.feed_scope import FeedScope
from oneread.verify.group_rows import FaultyRows
from oneread.verify.keyspace import StoreKeyspaces
from oneread.verify.listed_groups import GroupRowPasses
from oneread.verify.logical_scanner import SYSTEM_RANGES, LogicalScanner
from oneread.verify.mend_by_commits import RowMender
from oneread.verify.orphans import Orphans, SystemForm
from oneread.verify.passes import KindPasses
from oneread.verify.repair import Inspection
from oneread.verify.report import FaultReporter, Finding
from oneread.verify.sums import GroupPasses
from oneread.verify.verify import Compared, ComparedPart, VerifyOptions


class LookedComparison:
    """A `PartComparison` without snapshots. `cells` are those of the store's documents."""

    def __init__(self, cells: CopyCells, options: VerifyOptions) -> None:
        self.scanner = LogicalScanner(cells, options.pace, options.progress)

    def compare(self, part: ComparedPart) -> Plan[Compared | None]:
        """None where something was being changed whenever it was looked at, or the schema changed."""
        keyspaces = yield from part.read_keyspaces()
        self.scanner.learn(keyspaces)
        yield from self.scanner.begin()
        found: list[Finding] = []
        compared = yield from self._compare(keyspaces, part, found)
        if (yield from stored_schema()) != keyspaces.stored:
            return None
        for finding in found:
            part.report(finding)
        return compared

    def _compare(self, keyspaces: StoreKeyspaces, part: ComparedPart, found: list[Finding]) -> Plan[Compared | None]:
        kind, feed = part.kind, keyspaces.feeds.get(part.feed)
        if kind is not None:
            return (yield from self._compare_kind(keyspaces, kind, part, found))
        if feed is not None:
            entries = RowEntriesCheck(keyspaces, self.scanner, feed, part.faulty_rows())
            yield from entries.run()
            found += entries.found
            return None if entries.unsettled else Compared()
        form = SystemForm(SYSTEM_RANGES, unversioned, has_group_roots=True, apart=looks.APART)
        yield from Orphans(keyspaces, self.scanner, FaultReporter(keyspaces, found.append), form).run()
        return Compared()

    def _compare_kind(
        self, keyspaces: StoreKeyspaces, kind: EntityKind, part: ComparedPart, found: list[Finding]
    ) -> Plan[Compared | None]:
        passes = KindPasses(keyspaces, kind, self.scanner)
        yield from passes.run()
        groups = GroupPasses(passes)
        yield from groups.run()
        found += [*passes.found, *groups.found]
        rows = [*part.faulty, *((each.fault.table, each.fault.key) for each in found)]
        listed = GroupRowPasses(keyspaces, self.scanner, FaultyRows(rows), groups.unsettled)
        for indexed in keyspaces.indexed_of.get(kind, ()):
            yield from listed.run(indexed)
        found += listed.found
        if passes.unsettled or groups.unsettled or listed.unsettled:
            return None
        return Compared(passes.entities, passes.seen_ahead)


class LookedMember:
    """How the rows of one member are compared by looks; what is being changed is looked at a few times only."""

    def __init__(self, keyspaces: StoreKeyspaces, cells: CopyCells) -> None:
        self._keyspaces = keyspaces
        self.scanner = LogicalScanner(cells, None, no_progress)
        self.scanner.learn(keyspaces)

    def entry(self, row: Row) -> Row:
        """Empty where nothing shows it."""
        return entry_row(row)

    def confirm(self, found: Sequence[Finding]) -> Plan[list[Finding]]:
        """Those that two looks at their entities find."""
        owners: looks.Suspects = {}
        for each in found:
            owners.setdefault(each.owner, set()).add((each.fault.table, each.fault.key))
        seen = yield from looks.Looker(self._keyspaces, self.scanner).confirm(owners)
        return [each for several in seen.found.values() for each in several]

    def compare(
        self,
        feed: Entries,
        scope: FeedScope,
        parts: Sequence[bytes],  # noqa: ARG002 - each look reads the tasks that it needs
        faulty: Sequence[bytes],
    ) -> Plan[tuple[list[Finding], bool]]:
        """By two looks at what seems wrong."""
        check = RowEntriesCheck(self._keyspaces, self.scanner, feed, faulty)
        yield from check.compare(scope)
        return check.found, not check.unsettled


def by_looks(catalog: Catalog, cells: CopyCells, committer: RowCommitter) -> Inspection:
    """How such a store is verified and mended; `cells` are those of its documents."""

    def mender(options: VerifyOptions) -> Plan[RowMender]:
        keyspaces = StoreKeyspaces(catalog, (yield from stored_schema()), now=(yield from Now()))
        scanner = LogicalScanner(cells, None, options.progress)
        scanner.learn(keyspaces)
        return RowMender(keyspaces, scanner, committer)

    def member(check: CheckMember) -> Plan[MemberFeed]:
        keyspaces = StoreKeyspaces(catalog, (yield from stored_schema()), now=(yield from Now()))
        compared = LookedMember(keyspaces, cells)
        yield from compared.scanner.begin()
        return (yield from check(keyspaces, compared))

    return Inspection(partial(LookedComparison, cells), mender, member)
