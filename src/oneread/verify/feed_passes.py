"""Feeds on a store that changes one row at a time: every pair of an item and a membership, and every entry.

Forward: is each entry there that a pair of one group shows? Backward: are the item and the membership of each entry
there? Of large groups: does each member of one read it, or is it written to him? A scan sees rows of different moments,
so what differs is a suspect, and looks decide. Entries that readers do not see - cells of one side alone, those of
groups that a member's pages merge - are not faults. See docs/decisions/0106-verify-feeds-one-row-at-a-time.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Final, NamedTuple

from oneread.feeds.entries import Entries, MemberRow
from oneread.feeds.entry_cells import item_column, membership_column, showing_pairs
from oneread.feeds.large_group_cells import Places, RowsOfLargeGroups
from oneread.plans.plan import Plan
from oneread.store.requests import Found
from oneread.store.rows import VALUE, Cell, Row, RowRange
from oneread.verify.confirm import Seen, confirm
from oneread.verify.feed_entries import JoinedGroups
from oneread.verify.feed_looks import FeedLooker, PlacesReader, hidden_by, is_right, living_row
from oneread.verify.feed_scope import FeedScope, whole_feed
from oneread.verify.keyspace import DAMAGED, StoreKeyspaces
from oneread.verify.logical_scanner import READ, LogicalScanner
from oneread.verify.looks import two_looks
from oneread.verify.report import Finding

SUSPECTS: Final = 1_000
"""What seems wrong and is not looked at yet, at most."""


class ExpectedPair(NamedTuple):
    """An entry that an item and a membership show, and the cells that it needs."""

    key: bytes
    membership: bytes
    cells: Row


class _RowPairs(JoinedGroups):
    """Gives the pairs whose entries a member's pages show to `take`, those of one member at a time."""

    def __init__(
        self,
        feed: Entries,
        scanner: LogicalScanner,
        left_out: set[bytes],
        large: PlacesReader,
        take: Callable[[list[ExpectedPair]], Plan[None]],
    ) -> None:
        super().__init__(feed, scanner, left_out)
        self._large = large
        self._take = take

    def _join_members(self, found: list[Found]) -> Plan[None]:
        feed, group = self._feed, self._group
        members: list[tuple[MemberRow, int]] = []
        for key, row in found:
            if key in self._left_out:
                continue
            try:
                members.append((feed.split_member(key, row, group, 0), row[VALUE].stamp))
            except DAMAGED:
                self._left_out.add(key)  # it is reported as a row of the index
        places = yield from self._large.places(member.member for member, _stamp in members)
        for member, stamp in members:
            own = places[member.member]
            if own is not None and group not in own.groups:
                with suppress(*DAMAGED):  # a value beyond 64 bits; it is reported as a row of the index
                    yield from self._take(self._pairs(member, stamp))

    def _pairs(self, member: MemberRow, stamp: int) -> list[ExpectedPair]:
        feed, start, membership = self._feed, self._feed.prefix + member.member, member.membership
        of_item, of_membership = item_column(self._group), membership_column(self._group, membership)
        own = Cell(membership, stamp)
        return [
            ExpectedPair(start + each.tail, membership, {of_item: feed.shown(each, member), of_membership: own})
            for each in self._items
        ]


class RowEntriesCheck:
    """Compares one feed, and collects what is wrong by two looks in `found`.

    `faulty` are rows of items and memberships that are reported already.
    """

    def __init__(
        self, keyspaces: StoreKeyspaces, scanner: LogicalScanner, feed: Entries, faulty: Iterable[bytes]
    ) -> None:
        self.found: list[Finding] = []
        self.unsettled: set[bytes] = set()
        """What was being changed whenever it was looked at."""
        self._feed = feed
        self._scanner = scanner
        self._now = keyspaces.expired_until
        self._left_out = set(faulty)
        self._large = PlacesReader(feed, scanner)
        self._looker = FeedLooker(keyspaces, scanner, feed, self._left_out)
        self._waiting: list[ExpectedPair] = []
        self._member, self._shown = b"", 0
        self._full: list[bytes] = []

    def run(self) -> Plan[None]:
        """Scans of items and memberships with reads of their entries, and of entries with reads of their rows.

        For each 1,000 entries about three requests, and one or more for each group.
        """
        yield from self.compare(whole_feed(self._feed))
        yield from self._confirm(self._looker.members, self._full)
        large = self._large.rows
        if large is not None:
            self._scanner.phase(f"{self._feed.name}: large groups")
            yield from self._check_large_groups(large)

    def compare(self, scope: FeedScope) -> Plan[None]:
        """Compares the entries of a part of the feed with its items and memberships."""
        feed, scanner = self._feed, self._scanner
        scanner.phase(f"{feed.name}: expected entries")
        yield from _RowPairs(feed, scanner, self._left_out, self._large, self._expect).run(self._now, scope)
        yield from self._compare()
        scanner.phase(f"{feed.name}: entries")
        yield from scanner.scan_all("views", scope.entries, self._backward)
        self._end_member()
        yield from self._look()

    # Suspects.

    def _suspect(self, key: bytes, memberships: Iterable[bytes]) -> None:
        self._looker.memberships.setdefault(key, set()).update(memberships)

    def _look(self) -> Plan[None]:
        """Looks at the entries that seem wrong."""
        yield from self._confirm(self._looker.entries, list(self._looker.memberships))
        self._looker.memberships.clear()
        self._looker.dangling.clear()

    def _look_when_many(self) -> Plan[None]:
        if len(self._looker.memberships) >= SUSPECTS:
            yield from self._look()

    def _confirm(self, look: Callable[[Sequence[bytes]], Plan[Seen[Finding]]], suspects: Sequence[bytes]) -> Plan[None]:
        if suspects:
            seen = yield from confirm(suspects, look, two_looks())
            self.found += chain.from_iterable(seen.found.values())
            self.unsettled |= seen.unsettled

    # Forward.

    def _expect(self, pairs: list[ExpectedPair]) -> Plan[None]:
        for first in range(0, len(pairs), READ):
            self._waiting += pairs[first : first + READ]
            if len(self._waiting) >= READ:
                yield from self._compare()

    def _compare(self) -> Plan[None]:
        """Suspects the entries that do not show what a pair shows."""
        pairs, self._waiting = self._waiting, []
        may_be_trimmed = self._feed.view.at_most is not None
        rows = yield from self._scanner.read_stored("views", [each.key for each in pairs])
        for (key, membership, cells), row in zip(pairs, rows, strict=True):
            if not is_right(row, cells, may_be_trimmed=may_be_trimmed):
                self._suspect(key, [membership])
        yield from self._look_when_many()

    # Backward.

    def _backward(self, found: list[Found]) -> Plan[None]:
        """Suspects entries whose item or membership is not there, and members who have more than declared."""
        members: dict[bytes, bytes] = {}
        for key, _row in found:
            with suppress(*DAMAGED):
                members[key] = self._feed.member_in(key)
        places = yield from self._large.places(members.values())
        oldest = self._feed.oldest(self._now)
        sides: dict[tuple[bytes, bytes], tuple[bytes, bytes]] = {}
        for key, row in found:
            own = places.get(members.get(key, b""), Places())
            pairs = showing_pairs(row, hidden_by(own)) if own is not None else []
            if not pairs:
                continue
            self._count(members.get(key))
            if oldest is not None and key in members and self._feed.tail_of(key) >= oldest:
                continue
            for pair in pairs:
                membership = row[pair.membership].value
                try:
                    sides[key, membership] = self._feed.sides_of(key, membership)
                    is_named = self._looker.names(pair, membership)
                except DAMAGED:
                    is_named = False
                if not is_named:
                    self._suspect(key, [])
        parts = sorted({part for both in sides.values() for part in both} - self._left_out)
        rows = yield from self._scanner.read_stored("views", parts)
        gone = {part for part, row in zip(parts, rows, strict=True) if living_row(row) is None}
        for (key, membership), both in sides.items():
            if not gone.isdisjoint(both):
                self._suspect(key, [membership])
                self._looker.dangling.add(key)
        yield from self._look_when_many()

    def _count(self, member: bytes | None) -> None:
        """Counts what is shown to a member, whose entries follow each other."""
        if member is not None and self._feed.view.at_most is not None:
            if member != self._member:
                self._end_member()
                self._member = member
            self._shown += 1

    def _end_member(self) -> None:
        most = self._feed.view.at_most
        if most is not None and self._shown > most:
            self._full.append(self._member)
        self._shown = 0

    # Large groups.

    def _check_large_groups(self, large: RowsOfLargeGroups) -> Plan[None]:
        """Is each group that is read merged for each of its members, or written to him? Can all rows be read?"""
        scanner, rows = self._scanner, list[bytes]()
        unwritten: list[bytes] = []

        def take_memberships(found: list[Found]) -> Plan[None]:
            unwritten.extend((yield from self._unwritten(large, [key for key, _row in found])))
            if len(unwritten) >= SUSPECTS:
                yield from self._confirm(self._looker.unwritten, unwritten)
                unwritten.clear()

        def take_rows(found: list[Found]) -> None:
            for key, row in found:
                try:
                    is_suspect = key.startswith(large.groups) and large.mode_of(row).crosses
                    large.places_of(None if key.startswith(large.groups) else row)
                except DAMAGED:
                    is_suspect = True
                if is_suspect:
                    rows.append(key)

        yield from scanner.scan_all("views", RowRange.under(self._feed.members), take_memberships)
        yield from self._confirm(self._looker.unwritten, unwritten)
        for prefix in (large.groups, large.places_key(b"")):
            yield from scanner.scan_all("views", RowRange.under(prefix), take_rows)
        yield from self._confirm(self._looker.rows, rows)

    def _unwritten(self, large: RowsOfLargeGroups, keys: Sequence[bytes]) -> Plan[list[bytes]]:
        """Those memberships of groups that are read to which new items do not come. Three reads at most."""
        feed = self._feed
        groups: dict[bytes, bytes] = {}
        for key in keys:
            with suppress(*DAMAGED):  # it is reported as a row of the index
                groups[key] = feed.group_of(key)
        modes = yield from self._large.modes(groups.values())
        merged = {
            key: feed.member_of(key, group)
            for key, group in groups.items()
            if (mode := modes[group]) is not None and mode.is_merged
        }
        places = yield from self._large.places(merged.values())
        rest = {
            key: large.written_key(groups[key], member)
            for key, member in merged.items()
            if (own := places[member]) is not None and groups[key] not in own.groups
        }
        found = yield from self._scanner.read_stored("views", list(rest.values()))
        return [key for key, row in zip(rest, found, strict=True) if living_row(row) is None]
