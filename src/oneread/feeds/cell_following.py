"""How the entries of feeds follow on a store that changes one row at a time: by pages of the other side, blindly.

A commit has put or removed a row of items or memberships before its task is there. The task reads a page of the other
side, *then* its own row: a row that came before the page is in it, and one that comes later has a task of its own,
which meets this row. A living row puts its own cell and that of each living partner. A removed one removes its own cell
with *all* partners: two that are removed at the same time do not rely on each other. No clock decides anything here:
what is too old, pages leave out, and a sweep removes. See rule 15 of the commit protocol, and
docs/decisions/0079-feeds-of-one-row.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from oneread.derivations.catalog import Catalog
from oneread.errors import Corrupt
from oneread.feeds.cell_crossing import LargeFeed
from oneread.feeds.entries import Entries, ItemRow, MemberRow
from oneread.feeds.entry_cells import item_column, marks_of_trimming, membership_column
from oneread.feeds.entry_ending import put_entries
from oneread.feeds.feed_view import FeedView
from oneread.feeds.large_group_cells import hidden_groups, rows_of_large_groups
from oneread.feeds.own_writes import MOST_MEMBERSHIPS, is_about
from oneread.plans.effects import Together
from oneread.plans.in_time import in_time
from oneread.plans.performer import elapsed
from oneread.plans.plan import Plan
from oneread.store.keys import VIEW_BYTES, view_part
from oneread.store.requests import Found, Read, Scan
from oneread.store.rows import REMOVED, VALUE, Cell, RowMutation, RowRange
from oneread.transactions import outbox
from oneread.transactions.change_log import NO_LOGS, LoggedAs, keys_by_log
from oneread.transactions.grace import OPERATION
from oneread.transactions.log_entries import RowLogs

_NO_CLOCK: Final = 0

_WRITTEN: Final = 250
"""Partners whose entries are one request: while a server writes these, the next ones are made."""

_SCANNED: Final = 1_000
"""Entries of one request that looks for those beyond `at_most`."""


class RowFeeds:
    """The feeds of one schema, and its logs. `prefixes` are those of the rows that leave tasks.

    Entries are put by `give_to` and `trim` alone, within `OPERATION` seconds of the first read, by `clock`, which
    is never set (rule P1).
    """

    def __init__(
        self,
        feeds: Iterable[Entries],
        logged: Mapping[bytes, LoggedAs] = NO_LOGS,
        clock: Callable[[], float] = elapsed,
    ) -> None:
        self._clock = clock
        self.logged = logged
        self.logs = RowLogs()
        every = list(feeds)
        self._of_items = {each.items: each for each in every}
        self._of_members = {each.members: each for each in every}
        large = [rows for each in every if (rows := rows_of_large_groups(each.view)) is not None]
        self._large = {rows.feed.prefix: LargeFeed(rows, self) for rows in large}
        self._of_groups = {rows.groups: self._large[rows.feed.prefix] for rows in large}
        self.prefixes = frozenset((*self._of_items, *self._of_members, *self._of_groups))

    def follow(self, key: bytes, cursor: bytes, size: int) -> Plan[bytes | None]:
        """Makes the entries of a row of items or memberships right, with so many partners behind a cursor.

        Returns the new cursor; None when that were all. Two reads, and a write for each 250 partners, at the same time;
        of feeds with large groups see `LargeFeed`.
        """
        crossing = self._of_groups.get(view_part(key))
        if crossing is not None:
            return (yield from crossing.cross(key, cursor, size))
        feed = self._feed_of(key)
        large = self._large.get(feed.prefix)
        if large is None:
            return (yield from self.give(feed, key, cursor, size))
        if view_part(key) == feed.items:
            return (yield from large.follow_item(key, cursor, size))
        return (yield from large.follow_membership(key, cursor, size))

    def follow_at_once(self, key: bytes, most: int) -> Plan[bool]:
        """Makes the entries of a row right before its commit returns; False where its task has to.

        An item with more than so many partners is left to its task; of a membership the first ones follow, and, in a
        feed with large groups, of an item as well. Where as many are found the task looks for more.
        """
        feed = self._of_items.get(view_part(key))
        if feed is None or feed.prefix in self._large:
            # With 0 one is asked for as well: where there is none, no task is left.
            return (yield from self.follow(key, b"", max(1, most))) is None
        within = RowRange.under(feed.members + feed.group_of(key))
        found = yield from self.give_to(feed, key, Scan("views", within, most + 1, families="dm").__iter__(), most=most)
        return len(found) <= most

    def give(self, feed: Entries, key: bytes, cursor: bytes, size: int, *, whole: bool = False) -> Plan[bytes | None]:
        """Makes the entries with the partners behind a cursor right, as `follow`: all of the group, on both sides."""
        group = feed.group_of(key)
        every = RowRange.under((feed.members if view_part(key) == feed.items else feed.items) + group)
        if every.start <= cursor < every.stop:  # else it is of a former generation of the other side
            every = every.behind(cursor)
        found = yield from self.give_to(feed, key, Scan("views", every, size, families="dm").__iter__(), whole=whole)
        return found[-1][0] if len(found) == size else None

    def include(self, feed: Entries, member: bytes, tasks: Sequence[bytes], size: int) -> Plan[None]:
        """Makes this member's entries right for those of these tasks that are about them: of a group the newest `size`.

        Two reads and a write for each such task.
        """
        for task in tasks:
            if is_about(feed, member, task):
                key = outbox.feed_row(outbox.unversioned(outbox.source_of(task)))
                if view_part(key) == feed.items:
                    within = RowRange.under(feed.members + feed.group_of(key) + member)
                    partners = Scan("views", within, MOST_MEMBERSHIPS, families="dm")
                    yield from self.give_to(feed, key, partners.__iter__())
                else:
                    yield from self.follow(key, b"", size)

    def give_to(
        self, feed: Entries, key: bytes, partners: Plan[list[Found]], *, whole: bool = False, most: int | None = None
    ) -> Plan[list[Found]]:
        """Makes the entries of a row of items or memberships with these partners right; returns the partners.

        Nothing is written where these are more than `most`. A read, and a write for each 250 partners, besides what
        reads them. `whole`: of a living membership what removed items had shown is removed as well, which they may have
        left.

        Raises:
            Unavailable: the partners were read too long ago; nothing more is written.
        """
        return in_time(self._give(feed, key, partners, whole=whole, most=most), self._clock, OPERATION)

    def _give(
        self, feed: Entries, key: bytes, partners: Plan[list[Found]], *, whole: bool, most: int | None
    ) -> Plan[list[Found]]:
        found = yield from partners
        if most is not None and len(found) > most:
            return found
        (row,) = (yield from Read("views", [key], "dm")) if found else (None,)
        if row is None:
            return found
        own = row[VALUE]
        parts = [found[first : first + _WRITTEN] for first in range(0, len(found), _WRITTEN)]
        written = yield from Together([_write(feed, key, own, part, whole=whole) for part in parts])
        keys = [each for part in written for each in part]
        if keys:
            if feed.view.at_most is not None and own.value != REMOVED:
                keys += yield from _trim(feed, keys)
            yield from self.log(feed, keys)
        return found

    def trim(self, feed: Entries, member: bytes) -> Plan[None]:
        """Trims the feed of a member to whom the entries of a group are shown that were hidden before."""
        if feed.view.at_most is not None:
            trimmed = yield from in_time(_trim(feed, [feed.prefix + member]), self._clock, OPERATION)
            yield from self.log(feed, trimmed)

    def log(self, feed: Entries, keys: Iterable[bytes]) -> Plan[None]:
        """Adds keys to the change log of a feed, if it is watched."""
        if feed.prefix in self.logged:
            yield from self.logs.add(keys_by_log(self.logged, view_part, keys))

    def _feed_of(self, key: bytes) -> Entries:
        prefix = view_part(key)
        feed = self._of_items.get(prefix) or self._of_members.get(prefix)
        if feed is None:
            raise Corrupt("a task of a feed that this schema does not have", key=key.hex())
        return feed


def _write(feed: Entries, key: bytes, own: Cell, partners: Sequence[Found], *, whole: bool) -> Plan[list[bytes]]:
    """Writes the entries of a row with these partners; returns their keys. One request."""
    of_own = _of_item if view_part(key) == feed.items else _of_membership
    rows = of_own(feed, key, own, partners)
    if whole:
        rows += _without_removed(feed, key, own, partners)
    if rows:
        yield from put_entries(rows)
    return [each.key for each in rows]


def _of_item(feed: Entries, key: bytes, own: Cell, memberships: Sequence[Found]) -> list[RowMutation]:
    """What an item puts into the entries of members of its group."""
    group = feed.group_of(key)
    if own.value == REMOVED:
        column, tail = item_column(group), key[VIEW_BYTES + len(group) :]
        members = {feed.member_of(place, group): None for place, _row in memberships}
        return [RowMutation(feed.prefix + member + tail, {column: own}) for member in members]
    item = feed.split_item(key, {VALUE: own}, group)
    return [
        _entry(feed, group, item, feed.split_member(place, row, group, _NO_CLOCK), row[VALUE].stamp)
        for place, row in memberships
        if row[VALUE].value != REMOVED
    ]


def _of_membership(feed: Entries, key: bytes, own: Cell, items: Sequence[Found]) -> list[RowMutation]:
    """What a membership puts into the entries of its member."""
    group = feed.group_of(key)
    if own.value == REMOVED:
        start = feed.prefix + feed.member_of(key, group)
        cells = {membership_column(group, feed.membership_of(key, group)): own}
        return [RowMutation(start + place[VIEW_BYTES + len(group) :], cells) for place, _row in items]
    member = feed.split_member(key, {VALUE: own}, group, _NO_CLOCK)
    return [
        _entry(feed, group, feed.split_item(place, row, group), member, own.stamp)
        for place, row in items
        if row[VALUE].value != REMOVED
    ]


def _without_removed(feed: Entries, key: bytes, own: Cell, items: Sequence[Found]) -> list[RowMutation]:
    """What removes the cells of removed items from the entries of a living membership."""
    if own.value == REMOVED:
        return []
    group = feed.group_of(key)
    column, start = item_column(group), feed.prefix + feed.member_of(key, group)
    return [
        RowMutation(start + place[VIEW_BYTES + len(group) :], {column: row[VALUE]})
        for place, row in items
        if row[VALUE].value == REMOVED
    ]


def _entry(feed: Entries, group: bytes, item: ItemRow, member: MemberRow, stamp: int) -> RowMutation:
    """The entry of an item for a member of its group: each cell with the stamp of the row that it follows from."""
    cells = {
        item_column(group): feed.shown(item, member),
        membership_column(group, member.membership): Cell(member.membership, stamp),
    }
    return RowMutation(feed.prefix + member.member + item.tail, cells)


def _trim(feed: Entries, put: Sequence[bytes]) -> Plan[list[bytes]]:
    """Trims the feeds of the members of new entries, which were put before; returns the keys of what is marked.

    A scan for each member, and one more for 1,000 rows; a write where there are too many. Of several that put entries
    at the same time the last one finds those of all.
    """
    members = dict.fromkeys(map(feed.member_in, put))
    found = yield from Together([_beyond(feed, member) for member in members])
    marks = [each for one in found for each in one]
    if marks:
        yield from put_entries(marks)
    return [each.key for each in marks]


def _beyond(feed: Entries, member: bytes) -> Plan[list[RowMutation]]:
    """The marks of a member's entries beyond the newest."""
    left, within = feed.view.at_most, feed.entries_of(member)
    hidden = yield from hidden_groups(feed, member)
    assert left is not None, "asked only of feeds with at_most"
    marks: list[RowMutation] = []
    while True:
        found = yield from Scan("views", within, _SCANNED)
        for key, row in found:
            made = marks_of_trimming(row, hidden)
            if made and left:
                left -= 1
            elif made:
                marks.append(RowMutation(key, made))
        if len(found) < _SCANNED:
            return marks
        within = within.behind(found[-1][0])


def row_feeds_of(catalog: Catalog, clock: Callable[[], float]) -> RowFeeds:
    """Lets the feeds of a schema follow. `clock` is in seconds, and never set."""
    feeds = [Entries(view) for view in catalog.views.values() if isinstance(view, FeedView)]
    return RowFeeds(feeds, catalog.logged, clock)
