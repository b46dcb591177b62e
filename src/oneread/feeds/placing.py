"""Which memberships of large groups are read and which are written to, kept in one unit of work.

A commit counts the members of the groups that it changes, lets a group begin to cross the threshold, and gives each new
membership of a group that is read its row. The task of a group that crosses visits its memberships: each goes from one
side to the other in one transaction, or, where the group has too many items, by a task of its own. See
docs/decisions/0060-large-groups.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from oneread.feeds.entries import Entries
from oneread.feeds.large_groups import EMPTIES, Delivery, GroupState, LargeGroups, row_values
from oneread.store.requests import Found
from oneread.store.rows import VALUE, Row, RowRange
from oneread.transactions import outbox
from oneread.transactions.unit_of_work import UnitOfWork


class Partners(NamedTuple):
    """Memberships of a group, as rows: those that get an entry of a new item, and those whose entries are removed."""

    given: Sequence[Found]
    others: Sequence[Found]

    @property
    def size(self) -> int:
        return len(self.given) + len(self.others)


class EntryWriter(Protocol):
    """Collects the entries that one transaction puts and removes."""

    def scan(self, within: RowRange, limit: int) -> list[Found]:
        """The first rows of a range as they will be written. One request."""
        ...

    def give_member(self, feed: Entries, key: bytes, row: Row, group: bytes, items: Iterable[Found]) -> None:
        """Gives a member items of the group."""
        ...

    def take_member(self, feed: Entries, key: bytes, group: bytes, items: Iterable[Found]) -> None:
        """Takes items of the group from a member, as far as this membership shows them."""
        ...

    def write(self) -> None:
        """Puts and removes the entries. One read."""
        ...


class Rival(NamedTuple):
    """A membership of a member's smallest large group, which can be written to him instead of a larger one."""

    membership: bytes
    group: bytes
    row: Row
    items: list[Found]


class Placing:
    """Keeps the rows of large groups in one unit of work. `settled` are memberships that begin, and are read.

    One that ends may have entries although it is read: of removed items whose tasks did not reach the member yet.
    """

    def __init__(self, unit: UnitOfWork, now: int, inline: int, writer: EntryWriter) -> None:
        self.settled: set[bytes] = set()
        self._unit = unit
        self._now = now
        self._inline = inline
        self._room = inline
        self._writer = writer
        self._reads: dict[bytes, dict[bytes, Row | None]] = {}  # changed rows of `read`, by prefix and member

    def load(self, large: LargeGroups, memberships: Sequence[bytes]) -> None:
        """Loads what is known of memberships and their groups. Two reads."""
        feed = large.feed
        groups = dict.fromkeys([feed.group_of(key) for key in memberships])
        keys = [large.group_key(group) for group in groups]
        for key in memberships:
            keys += (large.read_key(key, feed.group_of(key)), large.written_key(key))
        self._unit.load("views", keys)
        self._unit.load("system", [outbox.task_key(outbox.feed_source(key)) for key in memberships])

    def state(self, large: LargeGroups, group: bytes) -> GroupState:
        """What the row of a group says, which was loaded."""
        return large.state_of(self._unit.get("views", large.group_key(group)))

    def delivery(self, large: LargeGroups, key: bytes) -> Delivery:
        """How a membership is served, whose rows were loaded."""
        unit = self._unit
        read, written = large.read_key(key, large.feed.group_of(key)), large.written_key(key)
        return large.delivery_of(unit.get("views", read), unit.get("views", written))

    def partners(self, large: LargeGroups, group: bytes, limit: int) -> Partners:
        """The memberships of a group that an item changes for: so many at most.

        Two requests, and two more while the group crosses. A large group has few of them, or none.
        """
        self._unit.load("views", [large.group_key(group)])
        state = self.state(large, group)
        if state.is_merged:
            found = self._writer.scan(large.written_of(group), limit)
            emptying = [EMPTIES in row for _key, row in found]
            given = [each for each, empties in zip(found, emptying, strict=True) if not empties]
            return Partners(given, [each for each, empties in zip(found, emptying, strict=True) if empties])
        found = self._writer.scan(large.feed.members_of(group), limit)
        if len(found) == limit:  # a task will look at each
            return Partners(found, ())
        return self.split(large, group, found)

    def split(self, large: LargeGroups, group: bytes, found: Sequence[Found]) -> Partners:
        """Memberships of a group, by how they are served. At most three reads."""
        self._unit.load("views", [large.group_key(group)])
        state = self.state(large, group)
        if not (state.reads or state.crosses):
            return Partners(found, ())
        self.load(large, [key for key, _row in found])
        given = [self.delivery(large, key).is_given for key, _row in found]
        return Partners(
            [each for each, is_given in zip(found, given, strict=True) if is_given],
            [each for each, is_given in zip(found, given, strict=True) if not is_given],
        )

    # Commits.

    def follow(self, large: LargeGroups, memberships: Sequence[bytes]) -> None:
        """Counts what changed memberships change, and gives them their rows.

        Three reads; a scan for each group that gets its first member, and for each member who joins a large group.
        """
        changed = self._unit.changed("views")
        rows = {key: changed[key] for key in memberships}
        stored = dict(zip(memberships, self._unit.store.read("views", list(memberships)), strict=True))
        self.load(large, memberships)
        self._count(large, rows, stored)
        for key in [key for key, row in rows.items() if row is None]:  # before others need a place
            self._set(large, key, Delivery.PLAIN, b"")
        for key, row in rows.items():
            if row is not None:
                self._join(large, key, row, existed=stored[key] is not None)

    def _count(self, large: LargeGroups, rows: Mapping[bytes, Row | None], stored: Mapping[bytes, Row | None]) -> None:
        feed, unit, added = large.feed, self._unit, dict[bytes, int]()
        for key, row in rows.items():
            group = feed.group_of(key)
            counted = self.state(large, group).counted
            if counted is None or key <= counted:
                added[group] = added.get(group, 0) + (row is not None) - (stored[key] is not None)
        for group, count in added.items():
            if not count:
                continue
            if unit.get("views", large.group_key(group)) is None and (
                self._unit.store.scan("views", feed.members_of(group), 1)
            ):
                continue  # the feed is being built, and the group is not counted yet
            before = self.state(large, group)
            store_state(unit, self._now, large, group, large.with_members(before, before.members + count))

    def _join(self, large: LargeGroups, key: bytes, row: Row, *, existed: bool) -> None:
        delivery, doc = self.delivery(large, key), row[VALUE].value
        if delivery is Delivery.PLAIN:
            state = self.state(large, large.feed.group_of(key))
            if not state.reads or (existed and state.crosses):
                return
            delivery = self._choose(large, key)
            if delivery is Delivery.READ and (existed or self._has_task(key)):
                delivery = Delivery.EMPTYING
                self._restart(key)
        self._set(large, key, delivery, doc)
        if delivery in (Delivery.READ, Delivery.EMPTYING):
            self.settled.add(key)

    # The bound of a member.

    def _choose(self, large: LargeGroups, key: bytes) -> Delivery:
        """Whether a membership of a large group is read or written; it takes the place of a smaller group.

        One scan; where the member has as many as a page merges, a read, and perhaps a scan of the smallest one's items.
        """
        group = large.feed.group_of(key)
        member = large.feed.member_of(key, group)
        taken = self._taken(large, member)
        if len(taken) < large.merged:
            return Delivery.READ
        rival = self._rival(large, member, group, taken)
        if rival is None:
            return Delivery.WRITTEN
        self._room -= len(rival.items)
        self._writer.give_member(large.feed, rival.membership, rival.row, rival.group, rival.items)
        self._set(large, rival.membership, Delivery.WRITTEN, rival.row[VALUE].value)
        return Delivery.READ

    def _taken(self, large: LargeGroups, member: bytes) -> dict[bytes, Row]:
        """The rows of `read` of a member, as they will be written."""
        own = self._reads.get(large.read + member, {})
        stored = self._unit.store.scan("views", large.read_of(member), large.merged + len(own), families="dm")
        merged = dict(stored) | own
        return {place: row for place, row in merged.items() if row is not None}

    def _rival(self, large: LargeGroups, member: bytes, group: bytes, taken: Mapping[bytes, Row]) -> Rival | None:
        """The smallest of the groups that a page of the member merges, if it is smaller than this one and fits."""
        feed = large.feed
        found = {large.membership_of(place, member): row for place, row in taken.items()}
        self.load(large, [*found])
        least, smallest = self.state(large, group).members, b""
        for key in found:
            state = self.state(large, feed.group_of(key))
            if state.reads and state.members < least and self.delivery(large, key) is Delivery.READ:
                least, smallest = state.members, key
        if not smallest:
            return None
        its = feed.group_of(smallest)
        items = self._writer.scan(feed.items_of(its, self._now), self._inline + 1)
        return Rival(smallest, its, found[smallest], items) if len(items) <= self._room else None

    def _set(self, large: LargeGroups, key: bytes, delivery: Delivery, doc: bytes) -> None:
        """Puts and removes the rows of a membership, which were loaded."""
        unit, group = self._unit, large.feed.group_of(key)
        places = large.read_key(key, group), large.written_key(key)
        for place, row in zip(places, large.rows_of(delivery, doc, self._now), strict=True):
            if row_values(unit.get("views", place)) == row_values(row):
                continue
            if row is None:
                unit.remove("views", place)
            else:
                unit.put("views", place, row)
            if place is places[0]:
                self._reads.setdefault(large.read + large.feed.member_of(key, group), {})[place] = row

    def _has_task(self, key: bytes) -> bool:
        return self._unit.get("system", outbox.task_key(outbox.feed_source(key))) is not None

    def _restart(self, key: bytes) -> None:
        """Gives a membership a task of its own, from the start; entries of what the group does not have go too."""
        outbox.add_task(self._unit, outbox.feed_source(key), self._now, again=True)

    # Tasks.

    def visit(self, large: LargeGroups, found: Found, items: Sequence[Found] | None) -> None:
        """Takes a membership of a group that crosses over; by a task of its own without `items`, if there are many."""
        key, row = found
        group, doc = large.feed.group_of(key), row[VALUE].value
        delivery = self.delivery(large, key)
        by_task = items is None or self._has_task(key)
        if self.state(large, group).reads:
            if delivery is Delivery.FILLING or (delivery is Delivery.EMPTYING and not self._has_task(key)):
                self._begin(large, key, Delivery.EMPTYING, doc)
            elif delivery is Delivery.PLAIN:
                wanted = self._choose(large, key)
                if wanted is Delivery.READ and by_task:
                    self._begin(large, key, Delivery.EMPTYING, doc)
                    return
                self._set(large, key, wanted, doc)
                if wanted is Delivery.READ:
                    self._writer.take_member(large.feed, key, group, items or ())
                elif self._room < self._inline:  # perhaps it only did not fit into this transaction
                    self._restart(key)
        elif (
            delivery is Delivery.EMPTYING
            or (delivery is Delivery.READ and by_task)
            or (delivery is Delivery.FILLING and not self._has_task(key))
        ):
            self._begin(large, key, Delivery.FILLING, doc)
        elif delivery in (Delivery.READ, Delivery.WRITTEN):
            self._set(large, key, Delivery.PLAIN, doc)
            if delivery is Delivery.READ:
                self._writer.give_member(large.feed, key, row, group, items or ())

    def _begin(self, large: LargeGroups, key: bytes, delivery: Delivery, doc: bytes) -> None:
        self._set(large, key, delivery, doc)
        self._restart(key)

    def begins_to_read(self, large: LargeGroups, key: bytes, row: Row) -> bool:
        """Whether a membership that was written to for want of a place is read from now on: one has become free."""
        if self.delivery(large, key) is not Delivery.WRITTEN or not self.state(large, large.feed.group_of(key)).reads:
            return False
        if self._choose(large, key) is not Delivery.READ:
            return False
        self._begin(large, key, Delivery.EMPTYING, row[VALUE].value)
        return True

    def end(self, large: LargeGroups, key: bytes, row: Row) -> None:
        """Ends the way of a membership whose task is done."""
        ended = {Delivery.FILLING: Delivery.PLAIN, Delivery.EMPTYING: Delivery.READ}.get(self.delivery(large, key))
        if ended is not None:
            self._set(large, key, ended, row[VALUE].value)

    def end_crossing(self, large: LargeGroups, group: bytes) -> None:
        """Ends the crossing of a group whose memberships were all visited."""
        state = self.state(large, group)
        store_state(self._unit, self._now, large, group, msgspec.structs.replace(state, crosses=False))

    def begin_again(self, large: LargeGroups, group: bytes) -> None:
        """Lets a group cross again, whose row was loaded: of its memberships not all are served as it says."""
        state = self.state(large, group)
        if state.members:
            store_state(self._unit, self._now, large, group, msgspec.structs.replace(state, crosses=True))
            outbox.add_task(self._unit, outbox.feed_source(large.group_key(group)), self._now)


def store_state(unit: UnitOfWork, now: int, large: LargeGroups, group: bytes, state: GroupState) -> None:
    """Stores what is said of a group, whose row was loaded.

    One that begins to cross, or turns round, gets a task from the start.
    """
    key = large.group_key(group)
    before = large.state_of(unit.get("views", key))
    row = large.group_row(state, now)
    if row is None:
        unit.remove("views", key)
    else:
        unit.put("views", key, row)
    if state.crosses and (not before.crosses or state.reads != before.reads):
        outbox.add_task(unit, outbox.feed_source(key), now)
