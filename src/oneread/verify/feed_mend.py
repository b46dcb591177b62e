"""Mending of feeds on a store that changes one row at a time: what their tasks do, for what is wrong alone.

An entry gets the cells of its item and its membership as any task puts them, at the stamps of both rows. Where a wrong
cell is newer than its row, the entity that the row is of is committed again above it, as it is. A cell that no row is
there for is put as removed, at its own stamp: nothing is deleted, so nothing is hidden that comes back. See
docs/decisions/0106-verify-feeds-one-row-at-a-time.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, TypeAlias

from oneread.feeds.cell_following import RowFeeds
from oneread.feeds.entries import Entries
from oneread.feeds.entry_cells import (
    MEMBERSHIP,
    ShowingPair,
    item_column,
    mark_column,
    membership_column,
    showing_pairs,
)
from oneread.feeds.entry_ending import TOUCHED
from oneread.feeds.large_group_cells import GroupMode, Places, RowsOfLargeGroups, rows_of_large_groups
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.store.keys import VIEW_BYTES, view_part
from oneread.store.requests import ABSENT, CheckAndMutate, Found, Mutate
from oneread.store.rows import REMOVED, VALUE, Cell, Row, RowMutation
from oneread.transactions.feed_tasks import FollowRows, follow_all
from oneread.transactions.root import next_version
from oneread.verify.feed_looks import all_rows, expected_cells, living_row
from oneread.verify.keyspace import DAMAGED, StoreKeyspaces
from oneread.verify.logical_scanner import LogicalScanner
from oneread.verify.report import Finding

CommitAbove: TypeAlias = Callable[[bytes, bytes, int], Plan[bool]]
"""Commits an entity as it is, with a row of its, at a version above a stamp; whether that was done."""

_COMMITS: Final = 2
"""Times that something is committed above an entry's cells, at most."""


class RowFeedMender:
    """Mends findings about the entries of feeds, and the rows of large groups."""

    def __init__(
        self, keyspaces: StoreKeyspaces, scanner: LogicalScanner, feeds: FollowRows, commit_above: CommitAbove
    ) -> None:
        self._keyspaces = keyspaces
        self._scanner = scanner
        self._feeds = feeds
        self._commit_above = commit_above
        self._of_entries = {feed.prefix: feed for feed in keyspaces.feeds.values()}
        every = [rows_of_large_groups(feed.view) for feed in keyspaces.feeds.values()]
        self._large = {view_part(key): rows for rows in every if rows is not None for key in _rows_of(rows)}

    def mends(self, finding: Finding) -> bool:
        """Whether a finding is about a feed."""
        fault = finding.fault
        part = view_part(fault.key)
        return fault.table == "views" and fault.view != "stray" and (part in self._of_entries or part in self._large)

    def mend(self, finding: Finding) -> Plan[bool]:
        """Mends a finding; whether it is right now."""
        key = finding.fault.key
        feed = self._of_entries.get(view_part(key))
        if feed is None:
            return (yield from self._mend_row(self._large[view_part(key)], key))
        return (yield from self._mend_entry(feed, key, finding.membership))

    # Entries.

    def _mend_entry(self, feed: Entries, key: bytes, membership: bytes) -> Plan[bool]:
        """Makes all memberships right that an entry names, and one that must show it; then trims its member's feed."""
        (row,) = yield from self._scanner.read_stored("views", [key])
        named, misnamed = {membership} if membership else set[bytes](), list[bytes]()
        for column, cell in (row or {}).items():
            if column.startswith(MEMBERSHIP) and cell.value != REMOVED:
                if self._names(feed, key, column, cell.value):
                    named.add(cell.value)
                else:
                    misnamed.append(column)
        yield from self._remove(feed, key, misnamed)
        done = True
        for each in sorted(named):
            done = (yield from self._mend_pair(feed, key, each)) and done
        if not misnamed:
            yield from self._feed_rows().trim(feed, feed.member_in(key))
        return done

    def _names(self, feed: Entries, key: bytes, column: bytes, membership: bytes) -> bool:
        try:
            feed.sides_of(key, membership)
            return column == membership_column(feed.group_at(membership, 0), membership)
        except DAMAGED:
            return False

    def _feed_rows(self) -> RowFeeds:
        assert isinstance(self._feeds, RowFeeds), "the follower of a schema with feeds"
        return self._feeds

    def _mend_pair(self, feed: Entries, key: bytes, membership: bytes) -> Plan[bool]:
        item_key, own_key = feed.sides_of(key, membership)
        group = feed.group_at(membership, 0)
        pair = ShowingPair(item_column(group), membership_column(group, membership))
        for number in range(_COMMITS + 1):
            yield from self._feed_rows().give_to(feed, item_key, self._found(own_key))
            yield from self._feed_rows().give_to(feed, own_key, self._found(item_key))
            of_item, of_own, there = yield from self._scanner.read_stored("views", [item_key, own_key, key])
            item, own, entry = living_row(of_item), living_row(of_own), there or {}
            if item is None or own is None:
                gone = [column for column, source in zip(pair, (item, own), strict=True) if source is None]
                yield from self._remove(feed, key, gone if pair in showing_pairs(entry) else ())
                return True
            cells = expected_cells(feed, (item_key, item), (own_key, own))
            wrong = [
                (part, column)
                for part, column in zip((item_key, own_key), pair, strict=True)
                if _is_wrong(entry, column, cells[column], may_be_trimmed=feed.view.at_most is not None)
            ]
            if not wrong:
                return True
            if number < _COMMITS:
                for part, column in wrong:
                    if not (yield from self._pass(part, column, entry)):
                        return False
        return False

    def _found(self, key: bytes) -> Plan[list[Found]]:
        (row,) = yield from self._scanner.read_stored("views", [key])
        return [] if row is None or VALUE not in row else [(key, row)]

    def _pass(self, part: bytes, column: bytes, entry: Row) -> Plan[bool]:
        """Commits what a row of items or memberships is of above a cell of an entry and its mark."""
        owner = self._keyspaces.owner_of("views", part, None)
        if owner is None or self._keyspaces.group_of(part) is not None:
            return False
        above = max(entry[each].stamp if each in entry else 0 for each in (column, mark_column(column)))
        return (yield from self._commit_above(owner, part, above))

    def _remove(self, feed: Entries, key: bytes, columns: Collection[bytes]) -> Plan[None]:
        """Puts cells of an entry as removed, at their own stamps, unless something was put meanwhile."""
        (row,) = yield from self._scanner.read_stored("views", [key])
        gone = {
            column: Cell(REMOVED, row[column].stamp)
            for column in columns
            if row is not None and column in row and row[column].value != REMOVED
        }
        if row is not None and gone:
            touched = row[TOUCHED].value if TOUCHED in row else ABSENT
            yield from CheckAndMutate("views", TOUCHED, touched, RowMutation(key, gone))
            yield from self._feed_rows().log(feed, [key])

    # Large groups.

    def _mend_row(self, large: RowsOfLargeGroups, key: bytes) -> Plan[bool]:
        """Lets the memberships of a row of `written` follow, and replaces another row that cannot be read."""
        (row,) = yield from self._scanner.read_stored("views", [key])
        if view_part(key) not in (large.groups, view_part(large.places_key(b""))):
            group = large.feed.group_of(key)
            found = yield from all_rows(self._scanner, large.memberships(group, key[VIEW_BYTES + len(group) :]))
            for place, membership in found:
                if living_row(membership) is not None:
                    yield from follow_all(self._feeds, place)
            return True
        cell = None if row is None else row.get(VALUE)
        version = next_version((yield from Now()), 0 if cell is None else cell.stamp)
        if view_part(key) != large.groups:
            return (yield from large.replace_unreadable(key, cell, Places(version)))
        try:
            mode = large.mode_of(row)
        except DAMAGED:
            wanted = GroupMode(version, crosses=True)
            yield from Mutate("system", [large.crossing_task(key[VIEW_BYTES:], version)])
            return (yield from large.replace_unreadable(key, cell, wanted))
        if mode.crosses:
            yield from Mutate("system", [large.crossing_task(key[VIEW_BYTES:], mode.epoch)])
        return True


def _is_wrong(entry: Row, column: bytes, cell: Cell, *, may_be_trimmed: bool) -> bool:
    """Whether a cell of an entry is not what its row says, or has a mark that says more than that it was trimmed."""
    own, mark = entry.get(column), entry.get(mark_column(column))
    trimmed = cell.stamp if may_be_trimmed else cell.stamp - 1
    return own is None or own.value != cell.value or (mark is not None and mark.stamp > trimmed)


def _rows_of(large: RowsOfLargeGroups) -> tuple[bytes, bytes, bytes]:
    return large.group_key(b""), large.places_key(b""), large.written_key(b"", b"")
