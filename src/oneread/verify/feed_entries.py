"""The entries of feeds, compared with the items and memberships that are stored.

Expected is every pair of both that lies in one group, streamed group by group: an entry counts once for each membership
that shows it, so digests are added without keeping rows, in any order. Only where they differ are entries read again. A
pair is left out of both sides if its item or membership waits for a task, or is reported as wrong itself; so are items
that have expired, and those from where on a member's feed was trimmed. See docs/decisions/0013-verify-by-digests.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from oneread.feeds.entries import SHOWN_BY, Entries, ItemRow, MemberRow, read_kept, shown_by, shown_by_cell
from oneread.feeds.group_check import GroupCheck
from oneread.feeds.large_groups import large_groups_of
from oneread.plans.plan import Plan
from oneread.store.keys import view_part
from oneread.store.requests import Found
from oneread.store.rows import VALUE, Row, RowRange
from oneread.transactions import outbox
from oneread.verify.digest_pass import Digests, bucket_of
from oneread.verify.feed_rows import check_rows
from oneread.verify.feed_scope import FeedScope, whole_feed
from oneread.verify.keyspace import DAMAGED
from oneread.verify.locate_pass import CrossCheck
from oneread.verify.report import EntryRow, FaultReporter
from oneread.verify.scanner import BATCH, Scanner

KEPT: Final = 10_000
"""Items of one group that are kept in memory: its memberships are read once for so many."""

_REPORTED: Final = 50_000
"""Entries reported already that are kept, so that they are not reported again from the other side."""

Shown: TypeAlias = tuple[bytes, bytes, bytes]
"""Key and value of an entry, and a group and membership that shows it."""


class StoredEntry(NamedTuple):
    """An entry as it is stored."""

    value: bytes
    memberships: Sequence[bytes]


def read_entry(row: Row) -> StoredEntry | None:
    """An entry, from its row; None for one that cannot be read."""
    if row.keys() != {VALUE, SHOWN_BY}:
        return None
    try:
        return StoredEntry(row[VALUE].value, shown_by(row))
    except DAMAGED:
        return None


class EntriesCheck:
    """Compares the entries of feeds, in one snapshot.

    `faulty` are rows of items and memberships that are reported already.
    """

    def __init__(self, scanner: Scanner, reporter: FaultReporter, faulty: Iterable[bytes]) -> None:
        self._scanner = scanner
        self._reporter = reporter
        self._left_out = set(faulty)

    def run(self, feed: Entries, now: int) -> Plan[None]:
        """Is each entry there and right, and shown by a membership? Are the rows besides right?"""
        yield from self._leave_out_tasks()
        yield from self.compare(feed, now, whole_feed(feed))
        yield from check_rows(feed, self._scanner, self._reporter, self._left_out)

    def compare(self, feed: Entries, now: int, scope: FeedScope) -> Plan[None]:
        """Is each entry of a part of a feed there and right, and shown by a membership?"""
        digests = Digests()
        self._scanner.phase(f"{feed.name}: expected entries")
        yield from _Pairs(feed, self._scanner, self._left_out, digests.expect).run(now, scope)
        self._scanner.phase(f"{feed.name}: entries")
        side = _StoredSide(feed, self._scanner, self._left_out, now)

        def take(found: list[Found]) -> Plan[None]:
            yield from side.load(found)
            digests.find(side.shown(found))

        yield from self._scanner.scan_all("views", scope.entries, take)
        differing = digests.differing_rows()
        if differing:
            self._scanner.phase(f"{feed.name}: locating differences")
            locating = _Locating(feed, self._scanner, self._reporter, differing)
            yield from locating.run(side, self._left_out, now, scope)

    def _leave_out_tasks(self) -> Plan[None]:
        """Leaves out the rows that a task is for; what was set aside is a fault until it is done."""
        yield from self._scanner.scan_all("system", outbox.TASKS, self._add_tasks)

    def _add_tasks(self, found: list[Found]) -> None:
        sources = [outbox.source_of(key) for key, _row in found]
        self._left_out |= {outbox.feed_row(each) for each in sources if outbox.kind_of(each) == outbox.FEED}


class _Trimmed:
    """Where the feeds of some members were trimmed: entries from there on may be gone."""

    def __init__(self, feed: Entries, scanner: Scanner) -> None:
        self._kept = feed.view.kept
        self._scanner = scanner
        self._ends: dict[bytes, bytes] = {}

    def load(self, members: Iterable[bytes]) -> Plan[None]:
        """Learns of these members, and forgets others. At most one read."""
        if self._kept is None:
            return
        wanted = sorted({*members})
        rows = yield from self._scanner.read("views", [self._kept + each for each in wanted])
        self._ends = {}
        for member, row in zip(wanted, rows, strict=True):
            try:
                end = read_kept(row).trimmed
                if end:
                    self._ends[member] = end
            except DAMAGED:
                self._ends[member] = b""  # nothing of this member is known

    def end(self, member: bytes) -> bytes | None:
        """The first time and item that may be gone; None where nothing was trimmed."""
        return self._ends.get(member)


class JoinedGroups:
    """Every item that has not expired beside every membership of its group. Memory: `KEPT` items of one group."""

    def __init__(self, feed: Entries, scanner: Scanner, left_out: set[bytes]) -> None:
        self._feed = feed
        self._scanner = scanner
        self._left_out = left_out
        self._group = b""
        self._items: list[ItemRow] = []
        self._oldest: bytes | None = None
        self._members: Callable[[bytes], RowRange] = feed.members_of

    def run(self, now: int, scope: FeedScope) -> Plan[None]:
        """Scans the items, and the memberships of each of their groups."""
        self._oldest, self._members = self._feed.oldest(now), scope.members
        for within in scope.items:
            yield from self._scanner.scan_all("views", within, self._add_items)
        yield from self._join()

    def _add_items(self, found: list[Found]) -> Plan[None]:
        feed, oldest = self._feed, self._oldest
        for key, row in found:
            if key in self._left_out:
                continue
            try:
                group = feed.group_of(key)
                item = feed.split_item(key, row, group)
            except DAMAGED:
                self._left_out.add(key)  # it is reported as a row of the index
                continue
            if group != self._group or len(self._items) >= KEPT:
                yield from self._join()
                self._group = group
            if oldest is None or item.tail < oldest:
                self._items.append(item)

    def _join(self) -> Plan[None]:
        """Joins the items of one group with its memberships."""
        if self._items:
            yield from self._scanner.scan_all("views", self._members(self._group), self._join_members)
        self._items = []

    def _join_members(self, found: list[Found]) -> Plan[None]:
        """Joins memberships of `_group` with `_items`, without those that are left out."""
        raise NotImplementedError


class _Pairs(JoinedGroups):
    """Gives what the pairs show to `take`, without those whose entries may be gone."""

    def __init__(
        self,
        feed: Entries,
        scanner: Scanner,
        left_out: set[bytes],
        take: Callable[[list[Shown]], Plan[None] | None],
    ) -> None:
        super().__init__(feed, scanner, left_out)
        self._take = take
        self._trimmed = _Trimmed(feed, scanner)

    def _join_members(self, found: list[Found]) -> Plan[None]:
        members: list[MemberRow] = []
        read = yield from read_memberships(self._feed, self._scanner, found)
        for key, row in found:
            if key not in self._left_out and key not in read:
                try:
                    members.append(self._feed.split_member(key, row, self._group, 0))
                except DAMAGED:
                    self._left_out.add(key)
        yield from self._trimmed.load([each.member for each in members])
        for member in members:
            end, items = self._trimmed.end(member.member), self._items
            try:
                shown = self._feed.join(items if end is None else [each for each in items if each.tail < end], member)
            except DAMAGED:  # a value beyond 64 bits; it is reported as a row of the index
                continue
            more = self._take(shown)
            if more is not None:
                yield from more


def read_memberships(feed: Entries, scanner: Scanner, memberships: Sequence[Found]) -> Plan[set[bytes]]:
    """Those memberships of large groups that are read, so that they have no entries. A read for each group."""
    large = large_groups_of(feed)
    groups: dict[bytes, list[Found]] = {}
    for each in memberships if large is not None else ():
        with suppress(*DAMAGED):  # it is reported as a row of the index
            groups.setdefault(feed.group_of(each[0]), []).append(each)
    read: set[bytes] = set()
    for group, several in groups.items():
        assert large is not None, "only its groups were collected"
        deliveries = yield from GroupCheck(large, partial(scanner.read, "views"), ()).deliveries(group, several)
        read.update([key for key, delivery in deliveries.items() if not delivery.is_given])
    return read


class _StoredSide:
    """What stored entries show, without what is left out."""

    def __init__(self, feed: Entries, scanner: Scanner, left_out: set[bytes], now: int) -> None:
        self._feed = feed
        self._left_out = left_out
        self._oldest = feed.oldest(now)
        self._trimmed = _Trimmed(feed, scanner)

    def load(self, found: Iterable[Found]) -> Plan[None]:
        """Learns where the feeds of these entries' members were trimmed; before anything is asked of them."""
        members: set[bytes] = set()
        for key, _row in found if self._feed.view.kept is not None else ():
            with suppress(*DAMAGED):
                members.add(self._feed.member_in(key))
        yield from self._trimmed.load(members)

    def has_left(self, key: bytes) -> bool:
        """Whether an entry may be gone. Raises what reading a damaged key may."""
        feed = self._feed
        if self._oldest is not None and feed.tail_of(key) >= self._oldest:
            return True
        end = None if feed.view.kept is None else self._trimmed.end(feed.member_in(key))
        return end is not None and feed.tail_of(key) >= end

    def shown(self, found: Iterable[Found]) -> list[tuple[bytes, bytes | None] | Shown]:
        """One line for each membership of an entry; one that no expected line equals for an entry that is damaged."""
        lines: list[tuple[bytes, bytes | None] | Shown] = []
        for key, row in found:
            stored = read_entry(row)
            try:
                if self.has_left(key):
                    continue
                if stored is None or not stored.memberships:
                    lines.append((key, None))
                else:
                    lines += [(key, stored.value, each) for each in self.judged(key, stored.memberships)]
            except DAMAGED:
                lines.append((key, None))
        return lines

    def judged(self, key: bytes, memberships: Sequence[bytes]) -> Sequence[bytes]:
        """The memberships of an entry that are not left out."""
        if not self._left_out:
            return memberships
        return [each for each in memberships if self._left_out.isdisjoint(self._feed.sides_of(key, each))]


class _Locating:
    """Reads one feed again, and reports every entry that differs."""

    def __init__(self, feed: Entries, scanner: Scanner, reporter: FaultReporter, differing: set[int]) -> None:
        self._feed = feed
        self._scanner = scanner
        self._reporter = reporter
        self._differing = differing
        self._waiting: list[Shown] = []
        self._reported: set[bytes] = set()
        self._check = CrossCheck(feed.name)

    def run(self, side: _StoredSide, left_out: set[bytes], now: int, scope: FeedScope) -> Plan[None]:
        """Is each expected entry there? Is each that is there expected?"""
        yield from _Pairs(self._feed, self._scanner, left_out, self._add_expected).run(now, scope)
        yield from self._compare_expected()

        def backward(found: list[Found]) -> Plan[None]:
            return self._find_surplus(side, found)

        yield from self._scanner.scan_all("views", scope.entries, backward)
        self._check.check_explained(self._differing)

    def _add_expected(self, lines: list[Shown]) -> Plan[None]:
        for line in lines:
            if bucket_of(line[0]) in self._differing:
                self._waiting.append(line)
                if len(self._waiting) >= BATCH:
                    yield from self._compare_expected()

    def _compare_expected(self) -> Plan[None]:
        lines, self._waiting = self._waiting, []
        rows = yield from self._scanner.read("views", [key for key, _value, _membership in lines])
        for (key, value, membership), row in zip(lines, rows, strict=True):
            stored = None if row is None else read_entry(row)
            if stored is None or stored.value != value or membership not in stored.memberships:
                self._report(EntryRow(key, membership), value, row)

    def _find_surplus(self, side: _StoredSide, found: list[Found]) -> Plan[None]:
        """Reports entries that cannot be read, and memberships that are not there, or whose item is not."""
        judged: list[tuple[bytes, Row, Sequence[bytes]]] = []
        yield from side.load(found)
        for key, row in found:
            if bucket_of(key) not in self._differing or key in self._reported:
                continue
            stored = read_entry(row)
            try:
                if side.has_left(key):
                    continue
                if stored is None or not stored.memberships or len({*stored.memberships}) < len(stored.memberships):
                    self._report(EntryRow(key), None, row)
                else:
                    judged.append((key, row, side.judged(key, stored.memberships)))
            except DAMAGED:
                self._report(EntryRow(key), None, row)
        living = yield from _living(self._feed, self._scanner, [(key, each) for key, _row, each in judged])
        for key, row, memberships in judged:
            if not living.issuperset([(key, each) for each in memberships]):
                self._report(EntryRow(key), None, row)

    def _report(self, row: EntryRow, expected: bytes | None, found: Row | None) -> None:
        self._check.explain(row.key)
        if len(self._reported) < _REPORTED:
            self._reported.add(row.key)
        stored = None if found is None else read_entry(found)
        shown: Row | None = None if found is None else {} if stored is None else {VALUE: found[VALUE]}
        self._reporter.entry(row, expected, shown)


def _living(
    feed: Entries, scanner: Scanner, entries: Sequence[tuple[bytes, Sequence[bytes]]]
) -> Plan[set[tuple[bytes, bytes]]]:
    """Those memberships of entries that are there, as their item is, and that show it. A read; more of large groups."""
    sides: dict[tuple[bytes, bytes], tuple[bytes, bytes]] = {}
    for key, memberships in entries:
        for each in memberships:
            with suppress(*DAMAGED):  # such bytes name nothing
                sides[key, each] = feed.sides_of(key, each)
    keys = sorted({place for both in sides.values() for place in both})
    rows: Mapping[bytes, Row | None] = dict(zip(keys, (yield from scanner.read("views", keys)), strict=True))
    living = [(key, row) for key, row in rows.items() if row is not None and view_part(key) == feed.members]
    read = yield from read_memberships(feed, scanner, living)
    return {
        pair for pair, both in sides.items() if all(rows[place] is not None for place in both) and both[1] not in read
    }


class EntryMaker:
    """Makes entries again, from the items and memberships as they are now."""

    def __init__(self, feeds: Iterable[Entries], scanner: Scanner) -> None:
        self._feeds = {each.prefix: each for each in feeds}
        self._scanner = scanner

    def expected(self, key: bytes, row: Row | None, shows: bytes, now: int) -> Plan[Row | None]:
        """What an entry must be, by the memberships that it names and one more; None for no row. Two reads at most."""
        feed = self._feeds[view_part(key)]
        stored = None if row is None else read_entry(row)
        known = [] if stored is None else list(stored.memberships)
        made: dict[bytes, tuple[ItemRow, MemberRow]] = {}
        named: set[bytes] = {*known, shows} if shows else set(known)
        for each in sorted(named):
            try:
                item, membership = feed.sides_of(key, each)
                group = feed.group_of(membership)
            except DAMAGED:
                continue
            rows = yield from self._scanner.read("views", [item, membership])
            if rows[0] and rows[1] and not (yield from read_memberships(feed, self._scanner, [(membership, rows[1])])):
                made[each] = feed.split_item(item, rows[0], group), feed.split_member(membership, rows[1], group, now)
        if not made:
            return None
        item_row, member = next(iter(made.values()))
        return {VALUE: feed.shown(item_row, member), SHOWN_BY: shown_by_cell(list(made), now)}
