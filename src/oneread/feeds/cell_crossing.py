"""Large groups on a store that changes one row at a time: who is given entries, and how a group crosses the threshold.

A member's page merges the items of the groups in his places, and shows no entries of these. So a place may be taken at
any time; it is given up only when all entries of the group are there, and everything that changes them from then on
visits the member: `_release`. Each step writes first what others look at, and then looks at what they write: a
membership has its row before its task reads the group's mode, and a crossing changes the mode before it visits the
memberships. See docs/decisions/0092-large-groups-on-one-row.md.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable
from typing import Final, Protocol

import msgspec

from oneread.feeds.entries import Entries
from oneread.feeds.large_group_cells import PRESENT, GroupAndPlaces, GroupMode, Places, RowsOfLargeGroups
from oneread.plans.effects import Now, Together
from oneread.plans.plan import Plan
from oneread.store.keys import VIEW_BYTES
from oneread.store.requests import Found, Mutate, Read, Scan
from oneread.store.rows import REMOVED, VALUE, Cell, Row, RowMutation, RowRange
from oneread.transactions.root import next_version

_PAGE: Final = 200
"""Rows of one scan."""

_COUNTED: Final = 64
"""Rows that are counted for each membership that begins or ends, on average and at most."""

_RELEASED: Final = 10
"""Members whose places one page of a crossing gives up are this part of a page: each gets all items of the group."""


class WriteEntries(Protocol):
    """What puts the entries of one schema's feeds: see `RowFeeds`."""

    def give(
        self, feed: Entries, key: bytes, cursor: bytes, size: int, /, *, whole: bool = False
    ) -> Plan[bytes | None]:
        """Makes entries of a row right, with so many partners behind a cursor."""
        ...

    def give_to(
        self, feed: Entries, key: bytes, partners: Plan[list[Found]], /, *, whole: bool = False
    ) -> Plan[list[Found]]:
        """Makes entries of a row with these partners right."""
        ...

    def trim(self, feed: Entries, member: bytes, /) -> Plan[None]:
        """Trims the feed of a member."""
        ...

    def log(self, feed: Entries, keys: Iterable[bytes], /) -> Plan[None]:
        """Adds keys to the change log of a feed."""
        ...


class LargeFeed:
    """What the tasks of one feed with large groups do."""

    def __init__(self, rows: RowsOfLargeGroups, entries: WriteEntries) -> None:
        self._rows = rows
        self._feed = rows.feed
        self._entries = entries
        self._every = max(1, rows.above // _COUNTED)

    # Items.

    def follow_item(self, key: bytes, cursor: bytes, size: int) -> Plan[bytes | None]:
        """Gives an item to all memberships of its group; of one that is read, to those that are written all the same.

        A read more than in other feeds; of a group that is read, a read and a scan, and a scan for each such member.
        """
        feed, group = self._feed, self._feed.group_of(key)
        if not (yield from self._mode(group)).is_merged:
            return (yield from self._entries.give(feed, key, cursor, size))
        written = self._rows.written_of(group)
        rest = written.behind(cursor) if written.start <= cursor < written.stop else written
        found = yield from Scan("views", rest, size)
        members = [place[VIEW_BYTES + len(group) :] for place, _row in found]
        yield from self._entries.give_to(feed, key, self._memberships(group, members))
        return found[-1][0] if len(found) == size else None

    def _memberships(self, group: bytes, members: Iterable[bytes]) -> Plan[list[Found]]:
        several = yield from Together([_all_rows(self._rows.memberships(group, each)) for each in members])
        return [each for one in several for each in one]

    # Memberships.

    def follow_membership(self, key: bytes, cursor: bytes, size: int) -> Plan[bytes | None]:
        """Finds a place for a membership, or makes its entries right; one that has ended gives up its place.

        A read more than in other feeds. A living one of a group that is read has no entries: two requests, and another
        one where nothing is free.
        """
        feed, group = self._feed, self._feed.group_of(key)
        member = feed.member_of(key, group)
        known, own = yield from self._load(group, member, key)
        is_there = own is not None and own[VALUE].value != REMOVED
        items = RowRange.under(feed.items + group)
        mode, is_first = known.mode, not items.start <= cursor < items.stop
        if is_first:
            mode = yield from self._weigh(group, key, mode, is_there=is_there)
            if mode.reads and is_there and (yield from self._merge(group, member, known)):
                return None
        last = yield from self._entries.give(feed, key, cursor, size, whole=mode.epoch > 0)
        if last is None and group in known.places.groups and not (mode.reads and is_there):
            living = yield from Scan("views", self._rows.memberships(group, member), 1)
            if not (mode.reads and living):
                given = (key, own) if is_first and not is_there else None
                yield from self._release(group, member, given)
        return last

    def _load(self, group: bytes, member: bytes, key: bytes) -> Plan[tuple[GroupAndPlaces, Row | None]]:
        """A membership's group and places, and its row. One read."""
        rows = self._rows
        keys = [rows.group_key(group), rows.places_key(member), rows.written_key(group, member), key]
        mode, places, written, own = yield from Read("views", keys, "dm")
        known = GroupAndPlaces(rows.mode_of(mode), rows.places_of(places), _is_living(written))
        return known, own

    def _mode(self, group: bytes) -> Plan[GroupMode]:
        (row,) = yield from Read("views", [self._rows.group_key(group)])
        return self._rows.mode_of(row)

    # Places.

    def _merge(self, group: bytes, member: bytes, known: GroupAndPlaces) -> Plan[bool]:
        """Takes a place for a group among those that a member's pages merge; False where none is free.

        Then the group is written to him. One request, and one more where that changes.
        """
        rows = self._rows
        while True:
            places, is_written = known.places, known.is_written
            if places.reads(group):
                break
            if group in places.groups:
                wanted = msgspec.structs.replace(places, filling=_without(places.filling, group))
            elif len(places.groups) < rows.merged:
                wanted = msgspec.structs.replace(places, groups=(*places.groups, group))
            elif is_written:
                return False
            else:
                wanted = places
            moved = yield from self._swap_places(member, places, wanted)
            if moved is None:
                known = yield from self._look_again(group, member)
            elif moved.reads(group):
                places = moved
                break
            else:
                yield from self._put_written(group, member, PRESENT, moved)
                return False
        if is_written:
            yield from self._put_written(group, member, REMOVED, places)
        yield from self._entries.log(self._feed, [rows.places_key(member)])
        return True

    def _release(self, group: bytes, member: bytes, given: tuple[bytes, Row | None] | None = None) -> Plan[None]:
        """Gives up a place: what changes items visits the member first, then all entries are written.

        Those of ended memberships as well, whose tasks may still wait: items that were removed while the group was
        merged would come back until then. `given` is an ended one whose entries are removed; as long as it has the same
        row it is left out. A membership that begins meanwhile sees that the place is given up, or is seen here. Begins
        again where the member's places change meanwhile.
        """
        rows = self._rows
        while True:
            places = (yield from self._look_again(group, member)).places
            if group not in places.groups:
                break
            filling = (*_without(places.filling, group), group)
            begun = yield from self._swap_places(member, places, msgspec.structs.replace(places, filling=filling))
            if begun is None:
                continue
            yield from self._put_written(group, member, PRESENT, begun)
            for each in (yield from _all_rows(rows.memberships(group, member))):
                if each != given:
                    yield from self._fill(each[0])
            wanted = Places(begun.version, _without(begun.groups, group), _without(begun.filling, group))
            if (yield from self._swap_places(member, begun, wanted)) is not None:
                break
        yield from self._entries.trim(self._feed, member)

    def _fill(self, key: bytes) -> Plan[None]:
        """Writes all entries of a membership, and removes those of removed items."""
        cursor: bytes | None = b""
        while cursor is not None:
            cursor = yield from self._entries.give(self._feed, key, cursor, _PAGE, whole=True)

    def _look_again(self, group: bytes, member: bytes) -> Plan[GroupAndPlaces]:
        return (yield from self._load(group, member, self._rows.group_key(group)))[0]

    def _swap_places(self, member: bytes, seen: Places, wanted: Places) -> Plan[Places | None]:
        """The places as they are stored now; None where they were not as they were seen."""
        moved = msgspec.structs.replace(wanted, version=next_version((yield from Now()), seen.version))
        return moved if (yield from self._rows.swap_places(member, seen, moved)) else None

    def _put_written(self, group: bytes, member: bytes, value: bytes, places: Places) -> Plan[None]:
        key = self._rows.written_key(group, member)
        yield from Mutate("views", [RowMutation(key, {VALUE: Cell(value, places.version)})])

    # Groups.

    def _weigh(self, group: bytes, key: bytes, mode: GroupMode, *, is_there: bool) -> Plan[GroupMode]:
        """Lets a group cross that has too many members, or less than half of that; returns its mode.

        A number of members is not stored: a part of the memberships has them counted when they begin or end.
        """
        if is_there == mode.reads or zlib.crc32(key) % self._every:
            return mode
        while (yield from self._is_wrong(group, mode)):
            crossing = yield from self._turn(group, mode)
            if crossing is not None:
                return crossing
            mode = yield from self._mode(group)
        return mode

    def _is_wrong(self, group: bytes, mode: GroupMode) -> Plan[bool]:
        """Whether a group has too many members to be written, or too few to be read."""
        above = self._rows.above
        most = (above + 1) // 2 if mode.reads else above + 1
        within, members = self._feed.members_of(group), 0
        while members < most:
            size = min(_PAGE, most - members)
            found = yield from Scan("views", within, size)
            members += len(found)
            if len(found) < size:
                break
            within = within.behind(found[-1][0])
        return (members == most) != mode.reads

    def _turn(self, group: bytes, mode: GroupMode) -> Plan[GroupMode | None]:
        """Lets a group cross, unless its mode was changed: its task is there before."""
        crossing = GroupMode(next_version((yield from Now()), mode.epoch), not mode.reads, True)
        yield from Mutate("system", [self._rows.crossing_task(group, crossing.epoch)])
        return crossing if (yield from self._rows.swap_mode(group, mode, crossing)) else None

    def cross(self, key: bytes, cursor: bytes, size: int) -> Plan[bytes | None]:
        """Visits the next memberships of a group that crosses; behind the last one it has crossed.

        A read and a scan, and for each member two requests; for one who gives up his place, all items of the group.
        """
        feed = self._feed
        group, epoch = self._rows.crossing_of(key)
        mode = yield from self._mode(group)
        if mode.epoch < epoch:  # what should have begun this may still come: it finds another mode
            begun = msgspec.structs.replace(mode, epoch=epoch)
            if not (yield from self._rows.swap_mode(group, mode, begun)):
                return b""
            mode = begun
        if mode.epoch != epoch or not mode.crosses:
            return None
        size = size if mode.reads else max(1, size // _RELEASED)
        every = feed.members_of(group)
        rest = every.behind(cursor) if every.start <= cursor < every.stop else every
        found = yield from Scan("views", rest, size, families="dm")
        members = dict.fromkeys(
            feed.member_of(place, group) for place, row in found if _is_living(row) or not mode.reads
        )
        yield from Together([self._visit(group, each, mode) for each in members])
        if len(found) == size:
            return found[-1][0]
        if (yield from self._is_wrong(group, mode)):
            yield from self._turn(group, mode)
        else:
            end = GroupMode(next_version((yield from Now()), epoch), mode.reads)
            yield from self._rows.swap_mode(group, mode, end)
        return None

    def _visit(self, group: bytes, member: bytes, mode: GroupMode) -> Plan[None]:
        if mode.reads:
            yield from self._merge(group, member, (yield from self._look_again(group, member)))
        else:
            yield from self._release(group, member)


def _is_living(row: Row | None) -> bool:
    return row is not None and row[VALUE].value != REMOVED


def _without(groups: Collection[bytes], group: bytes) -> tuple[bytes, ...]:
    return tuple([each for each in groups if each != group])


def _all_rows(within: RowRange) -> Plan[list[Found]]:
    """All rows of a range, removed ones too."""
    rows: list[Found] = []
    while True:
        found = yield from Scan("views", within, _PAGE, families="dm")
        rows += found
        if len(found) < _PAGE:
            return rows
        within = within.behind(found[-1][0])
