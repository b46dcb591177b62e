"""How the entries of feeds follow from changed rows of items and memberships, in a commit and in tasks.

A commit looks at the rows of the two indexes that it changed. A new item is given to the members of its group, a
removed one is taken from them; who joins gets the items of the group, newest first; who leaves loses the entries that
only this membership showed. More than the inline bound of either become a task, which looks at its row again in each
batch: so whichever of two tasks is later makes the entries right. See docs/decisions/0057-feeds.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from oneread.derivations.catalog import Catalog
from oneread.errors import Corrupt
from oneread.feeds.crossing import Crossing
from oneread.feeds.entries import (
    SHOWN_BY,
    Entries,
    ItemRow,
    Kept,
    MemberRow,
    kept_row,
    read_kept,
    shown_by,
    shown_by_cell,
)
from oneread.feeds.feed_view import FeedView
from oneread.feeds.large_groups import Delivery, LargeGroups, large_groups_of
from oneread.feeds.placing import Partners, Placing
from oneread.store.keys import VIEW_BYTES, view_part
from oneread.store.requests import Found
from oneread.store.rows import VALUE, Row, RowRange
from oneread.transactions import outbox
from oneread.transactions.native import TaskStep
from oneread.transactions.outbox import Task
from oneread.transactions.task_batches import TaskRows
from oneread.transactions.unit_of_work import UnitOfWork

_ENTRIES: Final = 50_000
"""Entries that follow in one commit of many changes, at most, unless the inline bound is greater; tasks do the rest."""
_ROWS_OF_A_PART: Final = 5
"""Entries that a task writes in place of one holder of copies, which costs more."""


class FeedFollower:
    """Lets the feeds of one schema follow what a unit of work changes.

    A commit writes `inline` entries for each changed row at most. `prefixes` are those of the rows that have tasks.
    """

    def __init__(self, feeds: Iterable[Entries], inline: int) -> None:
        self._inline = inline
        every = list(feeds)
        self._of_items = {each.items: each for each in every}
        self._of_members = {each.members: each for each in every}
        large = [each for each in map(large_groups_of, every) if each is not None]
        self._large = {each.feed: each for each in large}
        self._of_groups = {each.groups: each for each in large}
        self._trimmed = [each for each in every if each.view.at_most is not None]
        self._prefixes = frozenset((*self._of_items, *self._of_members))
        self.prefixes = self._prefixes.union(self._of_groups)
        self.table = (_ENTRIES, [each.table for each in every])

    def follow(self, unit: UnitOfWork, changed: Mapping[bytes, Row | None], now: int) -> None:
        """Adds what follows from changed rows of `views` to a unit that is about to be written.

        Two reads, and a scan for each group of changed items and each changed membership; for feeds with large groups,
        what `Placing` says more. What is left to tasks is noted in the unit. In the order of their keys, in whatever
        order they were changed.
        """
        prefixes = self._prefixes
        touched = sorted([key for key in changed if view_part(key) in prefixes])
        if not touched:
            return
        step = self._step(unit, now)
        placing = Placing(unit, now, self._inline, step)
        if self._large:
            self._place(placing, touched)
            step.look_again()
        groups: dict[tuple[Entries, bytes], list[bytes]] = {}
        for key in touched:
            feed = self._of_items.get(view_part(key))
            if feed is not None:
                groups.setdefault((feed, feed.group_of(key)), []).append(key)
        for (feed, group), keys in groups.items():
            step.give_items(feed, group, keys, self._partners(step, placing, feed, group))
        memberships = [key for key in touched if view_part(key) in self._of_members and key not in placing.settled]
        unit.load("system", [_task_of(key) for key in memberships if changed[key] is not None])
        for key in memberships:
            step.follow_membership(self._of_members[view_part(key)], key)
        step.write()

    def _step(self, unit: UnitOfWork, now: int) -> _Step:
        return _Step(unit, now, self._inline, self._trimmed)

    def _place(self, placing: Placing, touched: Sequence[bytes]) -> None:
        """Lets the rows of large groups follow changed memberships."""
        memberships: dict[LargeGroups, list[bytes]] = {}
        for key in touched:
            feed = self._of_members.get(view_part(key))
            large = None if feed is None else self._large.get(feed)
            if large is not None:
                memberships.setdefault(large, []).append(key)
        for large, keys in memberships.items():
            placing.follow(large, keys)

    def _partners(self, step: _Step, placing: Placing, feed: Entries, group: bytes) -> Partners:
        """The memberships of a group that changed items are given to; one too many for one commit, if there are."""
        large = self._large.get(feed)
        if large is None:
            return Partners(step.scan(feed.members_of(group), self._inline + 1), ())
        return placing.partners(large, group, self._inline + 1)

    def large_of(self, key: bytes) -> LargeGroups | None:
        """The large groups that a row is a group of; None for a row of items or memberships."""
        return self._of_groups.get(view_part(key))

    def crossing(self, step: TaskStep, large: LargeGroups) -> Crossing:
        """What takes the memberships of a group over."""
        entries = self._step(step.unit, step.now)
        return Crossing(large, entries, Placing(step.unit, step.now, self._inline, entries), self._inline)

    def partners_of(self, unit: UnitOfWork, now: int, key: bytes, row: Row | None, *, again: bool) -> list[RowRange]:
        """What an item, or a membership, is joined with; the entries of a member who left, and of one who is back.

        Of a feed with large groups, two reads.

        Raises:
            Corrupt: the key is of no feed of this schema, or cannot be read.
        """
        feed = self._feed_of(key)
        group = feed.group_of(key)
        if feed.items == view_part(key):
            return [feed.members_of(group)]
        items, entries = feed.items_of(group, now), feed.entries_of(feed.member_of(key, group))
        if row is None:
            return [entries]
        large = self._large.get(feed)
        if large is not None:
            placing = Placing(unit, now, self._inline, self._step(unit, now))
            placing.load(large, [key])
            delivery = placing.delivery(large, key)
            if delivery in (Delivery.EMPTYING, Delivery.READ):
                return [entries] if delivery is Delivery.EMPTYING else []
        return [entries, items] if again else [items]

    def give(self, unit: UnitOfWork, now: int, key: bytes, row: Row | None, rows: TaskRows) -> None:
        """Makes the entries of an item or a membership, as it is now, with some of its partners right.

        One read, and one more for a member who is back; of a feed with large groups, four more.
        """
        feed, partners = self._feed_of(key), rows.found
        step, group = self._step(unit, now), feed.group_of(key)
        large, placing = self._large.get(feed), Placing(unit, now, self._inline, step)
        if feed.items == view_part(key):
            parts = Partners(partners, ()) if large is None else placing.split(large, group, partners)
            step.give_item(feed, key, row, group, step.split(feed, group, parts))
        elif row is not None and large is not None:
            placing.load(large, [key])
            if not placing.begins_to_read(large, key, row):
                self._give_member(step, placing.delivery(large, key), key, row, partners)
                if not rows.more:
                    placing.end(large, key, row)
        elif row is None:
            step.take_entries(feed, key, group, partners)
        else:
            self._give_member(step, Delivery.PLAIN, key, row, partners)
        step.write()

    def _give_member(self, step: _Step, delivery: Delivery, key: bytes, row: Row, partners: Sequence[Found]) -> None:
        """Makes entries of a membership right, and gives it items."""
        feed = self._feed_of(key)
        group = feed.group_of(key)
        former = [found for found in partners if view_part(found[0]) == feed.prefix]
        if delivery is Delivery.EMPTYING:
            step.take_entries(feed, key, group, former)
        elif delivery is not Delivery.READ:
            gone = self._without_item(step.unit, feed, key, group, former)
            step.take_entries(feed, key, group, gone)
            step.give_member(feed, key, row, group, partners[len(former) :])

    def _without_item(
        self, unit: UnitOfWork, feed: Entries, key: bytes, group: bytes, entries: Sequence[Found]
    ) -> list[Found]:
        """Those entries of a member whose items the group has no more. At most one read."""
        start = len(feed.prefix) + len(feed.member_of(key, group))
        items = [feed.items + group + place[start:] for place, _row in entries]
        unit.load("views", items)
        return [each for each, item in zip(entries, items, strict=True) if unit.get("views", item) is None]

    def _feed_of(self, key: bytes) -> Entries:
        prefix = view_part(key)
        feed = self._of_items.get(prefix) or self._of_members.get(prefix)
        if feed is None:
            raise Corrupt("a task of a feed that this schema does not have", key=key.hex())
        return feed


class FeedHandler:
    """The handler of the tasks that changed items and memberships leave."""

    def __init__(self, follower: FeedFollower) -> None:
        self.views = follower.prefixes
        self._follower = follower

    def next_rows(self, step: TaskStep, task: Task, size: int) -> TaskRows:
        """The next memberships for an item; for a member the next items, for one who left the next entries."""
        key = outbox.feed_row(task.source)
        row = self._row(step.unit, key)
        large = self._follower.large_of(key)
        if large is not None:
            return self._follower.crossing(step, large).next_rows(key, row, task.cursor, size)
        ranges = self._follower.partners_of(step.unit, step.now, key, row, again=task.again)
        begun = [place for place, within in enumerate(ranges) if within.start <= task.cursor < within.stop]
        if begun:  # else the cursor is of another range: the row has changed
            ranges = [ranges[begun[0]].behind(task.cursor), *ranges[begun[0] + 1 :]]
        found: list[Found] = []
        size *= _ROWS_OF_A_PART
        for within in ranges:
            if len(found) < size and not within.is_empty:
                found += step.unit.scan("views", within, size - len(found))
        return TaskRows(found, len(found) == size)

    def check_source(
        self,
        unit: UnitOfWork,  # noqa: ARG002 - part of the contract
        source: bytes,  # noqa: ARG002
        rows: TaskRows | None = None,  # noqa: ARG002
    ) -> bool:
        return True

    def do(self, step: TaskStep, source: bytes, rows: TaskRows) -> None:
        key = outbox.feed_row(source)
        row = self._row(step.unit, key)
        large = self._follower.large_of(key)
        if large is not None:
            self._follower.crossing(step, large).do(key, rows)
        else:
            self._follower.give(step.unit, step.now, key, row, rows)

    def parts_of(self, source: bytes, rows: TaskRows) -> list[bytes]:  # noqa: ARG002 - part of the contract
        return [key for key, _row in rows.found]

    def retry(self, step: TaskStep, source: bytes, part: bytes) -> bool:  # noqa: ARG002 - part of the contract
        """Begins the whole task again."""
        key = outbox.feed_row(source)
        self._row(step.unit, key)
        large = self._follower.large_of(key)
        if large is not None:
            self._follower.crossing(step, large).begin_again(key)
        outbox.add_task(step.unit, source, step.now, again=True)
        return True

    def _row(self, unit: UnitOfWork, key: bytes) -> Row | None:
        unit.load("views", [key])
        return unit.get("views", key)


def follower_of(catalog: Catalog, inline: int) -> FeedFollower | None:
    """Lets the feeds of a schema follow; None if it has none."""
    feeds = [Entries(view) for view in catalog.views.values() if isinstance(view, FeedView)]
    return FeedFollower(feeds, inline) if feeds else None


def _task_of(key: bytes) -> bytes:
    """The key of the task of a row of items or memberships."""
    return outbox.task_key(outbox.feed_source(key))


class _Whose(NamedTuple):
    """Memberships of a group: those that are given items, and those from which they are taken."""

    given: list[MemberRow]
    others: list[MemberRow]


class _Step:
    """The entries that one transaction puts and removes."""

    def __init__(self, unit: UnitOfWork, now: int, inline: int, trimmed: Sequence[Entries]) -> None:
        self.unit = unit
        self._now = now
        self._inline = inline
        self._room = max(inline, _ENTRIES)
        self._changed = unit.changed("views")
        self._places = sorted(self._changed)
        self._oldest: dict[bytes, bytes | None] = {}
        self._trimmed = trimmed
        self._puts: dict[bytes, list[tuple[Entries, ItemRow, MemberRow]]] = {}
        self._removes: dict[bytes, list[bytes]] = {}

    def look_again(self) -> None:
        """Notes what the unit has changed meanwhile."""
        self._places = sorted(self._changed)

    def scan(self, within: RowRange, limit: int) -> list[Found]:
        """The first rows of a range as they will be written. One request."""
        return self.unit.scan("views", within, limit, self._places)

    def split(self, feed: Entries, group: bytes, partners: Partners) -> _Whose:
        """Takes the rows of memberships apart."""
        given, others = (
            [feed.split_member(key, row, group, self._now) for key, row in rows]
            for rows in (partners.given, partners.others)
        )
        return _Whose(given, others)

    def give_items(self, feed: Entries, group: bytes, keys: Sequence[bytes], partners: Partners) -> None:
        """Gives changed items of a group to its members, or takes them away; by tasks if there are too many members."""
        count = 0 if partners.size > self._inline else self._room // max(1, partners.size)
        now, keys = keys[:count], keys[count:]
        for key in keys:
            outbox.add_task(self.unit, outbox.feed_source(key), self._now)
        if not now:
            return
        self._room -= len(now) * partners.size
        whose = self.split(feed, group, partners)
        for key in now:
            self.give_item(feed, key, self._changed[key], group, whose)

    def give_item(self, feed: Entries, key: bytes, item: Row | None, group: bytes, whose: _Whose) -> None:
        """Gives an item to members of its group; takes it away if it is removed, or has expired."""
        tail = key[VIEW_BYTES + len(group) :]
        prefix = feed.prefix
        for member in whose.others if item is not None else whose.given + whose.others:
            self._removes.setdefault(prefix + member.member + tail, []).append(member.membership)
        if item is not None and not self._is_expired(feed, tail):
            row = feed.split_item(key, item, group)
            for member in whose.given:
                self._puts.setdefault(prefix + member.member + tail, []).append((feed, row, member))

    def _is_expired(self, feed: Entries, tail: bytes) -> bool:
        """Whether an item has left the feed, from its key behind the group."""
        if feed.prefix not in self._oldest:
            self._oldest[feed.prefix] = feed.oldest(self._now)
        oldest = self._oldest[feed.prefix]
        return oldest is not None and tail >= oldest

    def follow_membership(self, feed: Entries, key: bytes) -> None:
        """Gives a new member the items of the group, newest first; takes them from one who left.

        The newest come at once, and those beyond the inline bound by a task.
        """
        row, group = self._changed[key], feed.group_of(key)
        within = feed.items_of(group, self._now) if row is not None else feed.entries_of(feed.member_of(key, group))
        room = min(self._inline, self._room)
        found = self.scan(within, room + 1)
        more, found = len(found) > room, found[:room]
        self._room -= len(found)
        again = row is not None and self.unit.get("system", _task_of(key)) is not None
        if more or again:
            cursor = found[-1][0] if found and not again else b""
            outbox.add_feed_task(self.unit, Task(outbox.feed_source(key), cursor, again=again), self._now)
        if row is None:
            self.take_entries(feed, key, group, found)
        else:
            self.give_member(feed, key, row, group, found)

    def take_entries(self, feed: Entries, key: bytes, group: bytes, entries: Iterable[Found]) -> None:
        """Takes entries from a member, as far as this membership shows them."""
        membership, known = feed.membership_of(key, group), self.unit.known("views")
        for place, stored in entries:
            if membership in shown_by(stored):
                known.setdefault(place, stored)  # not read again by `write`
                self._removes.setdefault(place, []).append(membership)

    def give_member(self, feed: Entries, key: bytes, row: Row, group: bytes, items: Iterable[Found]) -> None:
        """Gives a member items of the group."""
        member = feed.split_member(key, row, group, self._now)
        start = feed.prefix + member.member
        for place, item in items:
            given = feed.split_item(place, item, group)
            if not self._is_expired(feed, given.tail):
                self._puts.setdefault(start + given.tail, []).append((feed, given, member))

    def take_member(self, feed: Entries, key: bytes, group: bytes, items: Iterable[Found]) -> None:
        """Takes items of the group from a member, as far as this membership shows them."""
        start, cut = feed.prefix + feed.member_of(key, group), VIEW_BYTES + len(group)
        membership = feed.membership_of(key, group)
        for place, _item in items:
            self._removes.setdefault(start + place[cut:], []).append(membership)

    def write(self) -> None:
        """Puts and removes the entries, but for those that are right. One read."""
        unit, now = self.unit, self._now
        unit.load("views", [*self._puts, *self._removes])
        known = unit.known("views")
        rows: dict[bytes, Row | None] = {}
        for key, gone in self._removes.items():
            row = known[key]
            if row is not None and key not in self._puts:
                stored = shown_by(row)
                left = [each for each in stored if each not in gone]
                if len(left) < len(stored):
                    rows[key] = row | {SHOWN_BY: shown_by_cell(left, now)} if left else None
        for key, given in self._puts.items():
            row = known[key]
            feed, item, member = given[-1]
            seen = member.alone
            if row is not None or len(given) > 1:
                gone, stored = self._removes.get(key, []), [] if row is None else shown_by(row)
                named = {each.membership for _feed, _item, each in given}
                named.update([each for each in stored if each not in gone])
                seen = shown_by_cell(sorted(named), now)
            entry = {VALUE: feed.shown(item, member), SHOWN_BY: seen}
            if row is None or row[SHOWN_BY].value != seen.value or row | {SHOWN_BY: seen} != entry:
                rows[key] = entry
        for feed in self._trimmed:
            self._trim(feed, {key: row for key, row in rows.items() if view_part(key) == feed.prefix}, rows)
        unit.put_all("views", rows)

    def _trim(self, feed: Entries, own: Mapping[bytes, Row | None], rows: dict[bytes, Row | None]) -> None:
        """Counts the entries of each member, and removes the oldest where there are too many.

        One read, and a scan for each member with too many.
        """
        kept_prefix, most = feed.view.kept, feed.view.at_most
        assert kept_prefix is not None, "asked only of feeds with at_most"
        assert most is not None, "asked only of feeds with at_most"
        known = self.unit.known("views")
        grown: dict[bytes, int] = {}
        changed: dict[bytes, dict[bytes, Row | None]] = {}
        for key, row in own.items():
            member = feed.member_in(key)
            grown[member] = grown.get(member, 0) + (row is not None) - (known[key] is not None)
            changed.setdefault(member, {})[key] = row
        self.unit.load("views", [kept_prefix + member for member in grown])
        for member, growth in grown.items():
            place = kept_prefix + member
            kept = read_kept(known[place])
            count, trimmed = kept.entries + growth, kept.trimmed
            if count > most:
                oldest = self._oldest_entries(feed.entries_of(member), changed[member], count - most)
                rows.update(dict.fromkeys(oldest))
                last = oldest[-1][len(feed.prefix) + len(member) :]
                count, trimmed = most, min(last, trimmed) if trimmed else last
            if (count, trimmed) != (kept.entries, kept.trimmed):
                rows[place] = kept_row(Kept(count, trimmed), self._now) if count or trimmed else None

    def _oldest_entries(self, within: RowRange, changed: dict[bytes, Row | None], count: int) -> list[bytes]:
        """The keys of a member's oldest entries, these changes included, the oldest first. One scan."""
        stored = self.unit.store.scan("views", within, count + len(changed), reverse=True)
        merged: dict[bytes, Row | None] = {**dict(stored), **changed}
        return [key for key in sorted(merged, reverse=True) if merged[key] is not None][:count]
