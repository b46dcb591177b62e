"""Verify, repair and drop on stores whose transactions span rows: compared in snapshots, mended in transactions.

See docs/decisions/0013-verify-by-digests.md and docs/decisions/0014-repair-in-place.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from oneread.derivations.catalog import Catalog
from oneread.derivations.schema_rows import stored_schema
from oneread.feeds.entries import Entries
from oneread.models.registry import EntityKind
from oneread.plans.effects import Now, Snapshot
from oneread.plans.plan import Plan
from oneread.plans.progress import MAX_AGE, no_progress
from oneread.store.requests import Read
from oneread.store.rows import Row
from oneread.transactions import outbox
from oneread.transactions.native import NativeCommitter
from oneread.transactions.system_rows import FENCE_ROW
from oneread.verify.core_pass import CorePass
from oneread.verify.digest_pass import DigestPass
from oneread.verify.feed_entries import EntriesCheck
from oneread.verify.feed_member import CheckMember, MemberFeed
from oneread.verify.feed_scope import FeedScope
from oneread.verify.group_rows import FaultyRows, GroupRowsCheck
from oneread.verify.keyspace import StoreKeyspaces
from oneread.verify.locate_pass import LocatePass
from oneread.verify.mend import Mender
from oneread.verify.orphans import Orphans, SystemForm
from oneread.verify.repair import Inspection
from oneread.verify.report import FaultReporter, Finding
from oneread.verify.scanner import Scanner, TooOld
from oneread.verify.verify import Compared, ComparedPart, VerifyOptions


class SnapshotComparison:
    """A `PartComparison` of each part in one snapshot."""

    def __init__(self, options: VerifyOptions) -> None:
        self.scanner = Scanner(options.pace, options.max_age, options.progress)

    def compare(self, part: ComparedPart) -> Plan[Compared | None]:
        """None where the snapshot grew too old."""
        try:
            return (yield from Snapshot(lambda: self._compare(part)))
        except TooOld:
            return None

    def _compare(self, part: ComparedPart) -> Plan[Compared]:
        """Compares one part, in a snapshot; the schema is read in the same one."""
        keyspaces = yield from part.read_keyspaces()
        reporter = FaultReporter(keyspaces, part.report)
        yield from self.scanner.begin()
        kind, feed = part.kind, keyspaces.feeds.get(part.feed)
        if kind is not None:
            return (yield from self._compare_kind(kind, keyspaces, reporter, part))
        if feed is not None:
            yield from EntriesCheck(self.scanner, reporter, part.faulty_rows()).run(feed, keyspaces.expired_until)
        else:
            yield from Orphans(keyspaces, self.scanner, reporter, SystemForm()).run()
        return Compared()

    def _compare_kind(
        self, kind: EntityKind, keyspaces: StoreKeyspaces, reporter: FaultReporter, part: ComparedPart
    ) -> Plan[Compared]:
        compared = yield from self._compare_rows_of(kind, keyspaces, reporter)
        faulty = FaultyRows(part.faulty)
        for indexed in keyspaces.indexed_of.get(kind, ()):
            yield from GroupRowsCheck(keyspaces, self.scanner, reporter).run(indexed, faulty)
        return compared

    def _compare_rows_of(self, kind: EntityKind, keyspaces: StoreKeyspaces, reporter: FaultReporter) -> Plan[Compared]:
        """Compares what follows from entities: by compiled code, and where that is not content, by Python."""
        core = CorePass(keyspaces, kind, self.scanner)
        if (yield from core.run()):
            return Compared(core.entities)
        digested = DigestPass(keyspaces, kind, self.scanner, reporter)
        yield from digested.run()
        yield from LocatePass(digested).run()
        return Compared(digested.entities, digested.seen_ahead)


class SnapshotMember:
    """How the rows of one member are compared in a snapshot."""

    def __init__(self, keyspaces: StoreKeyspaces) -> None:
        self._keyspaces = keyspaces
        self.scanner = Scanner(None, MAX_AGE, no_progress)

    def entry(self, row: Row) -> Row:
        """As it is stored."""
        return row

    def confirm(self, found: Sequence[Finding]) -> Plan[list[Finding]]:
        """All of them: everything is of one moment."""
        yield from ()
        return list(found)

    def compare(
        self, feed: Entries, scope: FeedScope, parts: Sequence[bytes], faulty: Sequence[bytes]
    ) -> Plan[tuple[list[Finding], bool]]:
        """Leaves out the rows that a task is for."""
        tasks = [outbox.task_key(outbox.feed_source(each)) for each in parts]
        rows = yield from self.scanner.read("system", tasks)
        waiting = [each for each, row in zip(parts, rows, strict=True) if row is not None]
        found: list[Finding] = []
        check = EntriesCheck(self.scanner, FaultReporter(self._keyspaces, found.append), [*waiting, *faulty])
        yield from check.compare(feed, self._keyspaces.expired_until, scope)
        return found, True


def in_snapshots(catalog: Catalog, committer: NativeCommitter) -> Inspection:
    """How such a store is verified and mended."""

    def mender(options: VerifyOptions) -> Plan[Mender]:
        keyspaces = StoreKeyspaces(catalog, (yield from stored_schema()), now=(yield from Now()))
        (fence,) = yield from Read("system", [FENCE_ROW])
        return Mender(keyspaces, Scanner(None, options.max_age, options.progress), committer, fence)

    def member(check: CheckMember) -> Plan[MemberFeed]:
        def at_once() -> Plan[MemberFeed]:
            keyspaces = StoreKeyspaces(catalog, (yield from stored_schema()), now=(yield from Now()))
            compared = SnapshotMember(keyspaces)
            yield from compared.scanner.begin()
            return (yield from check(keyspaces, compared))

        return (yield from Snapshot(at_once))

    return Inspection(SnapshotComparison, mender, member)
