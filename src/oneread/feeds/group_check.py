"""What the rows of large groups must say in one snapshot, and which memberships have entries.

For verify: the rows are compared group by group, and the join of entries asks which memberships are given items. A
membership that a task is for is on its way, so its rows may be either. See docs/decisions/0060-large-groups.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeAlias

from oneread.errors import Corrupt
from oneread.feeds.large_groups import Delivery, GroupState, LargeGroups, row_values
from oneread.plans.plan import Plan
from oneread.plans.scans import TakeBatch, scan_all
from oneread.store.requests import Found, Read, Scan
from oneread.store.rows import VALUE, Row, RowRange, Table

RowsByKey: TypeAlias = Callable[[list[bytes]], Plan[list["Row | None"]]]
"""Reads rows of `views` by key."""

_NOT_A_KEY: Final = (Corrupt, ValueError, IndexError)
"""What taking a damaged key apart may raise."""


class GroupReads(Protocol):
    """How the rows are read: for verify past those that cannot be, which have no cells."""

    def read(self, table: Table, keys: list[bytes], /) -> Plan[list[Row | None]]: ...

    def scan_all(self, table: Table, within: RowRange, take: TakeBatch, /) -> Plan[None]: ...


_BATCH: Final = 200
"""Rows of one request."""

_ON_THE_WAY: Final = (Delivery.FILLING, Delivery.EMPTYING)


class WrongRow(NamedTuple):
    """A row of large groups that is not what it must be."""

    key: bytes
    expected: Row | None
    """None for a row that must not be there; of a group that must cross again, its row with that."""
    found: Row | None
    text: str
    is_unreadable: bool = False


class GroupCheck:
    """Judges the rows of one feed's large groups; `waiting` are rows of `views` that tasks are about."""

    def __init__(self, large: LargeGroups, read: RowsByKey, waiting: Collection[bytes]) -> None:
        self._large = large
        self._read = read
        self._waiting = waiting

    def deliveries(self, group: bytes, memberships: Sequence[Found]) -> Plan[Mapping[bytes, Delivery]]:
        """How memberships of a group are served, by the keys of their rows. One read.

        An entry of an item of the group names a membership exactly when `is_given`, but for what tasks are about.
        """
        rows = yield from self._rows(group, memberships)
        return {key: self._large.delivery_of(*rows[key]) for key, _row in memberships}

    def wrong_rows(self, group: bytes, memberships: Sequence[Found]) -> Plan[list[WrongRow]]:
        """What is wrong with the rows of a group's memberships, and with its own row but for the number. Two reads."""
        large, key = self._large, self._large.group_key(group)
        (found,) = yield from self._read([key])
        state = self._state(found)
        wrong: list[WrongRow] = []
        memberships = [each for each in memberships if VALUE in each[1]]  # the others are wrong as rows of the index
        rows = yield from self._rows(group, memberships)
        known = state or GroupState()
        crosses = large.group_row(GroupState(known.members, known.reads, crosses=True), 0)
        if state is None:
            wrong.append(WrongRow(key, crosses, found, "it cannot be read", is_unreadable=True))
        elif state.crosses and key not in self._waiting:
            wrong.append(WrongRow(key, crosses, found, "the group crosses, and no task takes its memberships over"))
        for place, row in memberships:
            read, written = rows[place]
            delivery = large.delivery_of(read, written)
            if state is not None and place not in self._waiting and not _may_be(state, delivery):
                text = f"the membership is {delivery.name.lower()}, and its group is {_said(state)}"
                wrong.append(WrongRow(key, crosses, found, text))
            places = large.read_key(place, group), large.written_key(place)
            expected = large.rows_of(delivery, row[VALUE].value, 0)
            for at, has, wanted in zip(places, (read, written), expected, strict=True):
                if row_values(has) != row_values(wanted):
                    wrong.append(WrongRow(at, wanted, has, "the row shows another value than the membership"))
        return wrong

    def wrong_count(self, group: bytes, members: int) -> Plan[list[WrongRow]]:
        """Is the number of a group's members right, and is the group read exactly when it is large? One read."""
        large, key = self._large, self._large.group_key(group)
        (found,) = yield from self._read([key])
        state = self._state(found)
        if state is None:  # it is reported with the memberships
            return []
        expected = large.with_members(GroupState(members, state.reads, state.crosses), members)
        if state == expected:
            return []
        return [WrongRow(key, large.group_row(expected, 0), found, f"the group has {members} members")]

    def surplus(self, found: Sequence[Found]) -> Plan[list[WrongRow]]:
        """Those rows of `read` and `written` whose membership is not there. One read."""
        named: list[tuple[Found, bytes]] = []
        wrong: list[WrongRow] = []
        for each in found:
            try:
                named.append((each, self.membership_of(each[0])))
            except _NOT_A_KEY:
                wrong.append(WrongRow(each[0], None, each[1], "it names no membership"))
        rows = yield from self._read([membership for _each, membership in named])
        return wrong + [
            WrongRow(key, None, row, "its membership is not there")
            for ((key, row), _membership), stored in zip(named, rows, strict=True)
            if stored is None
        ]

    def _state(self, row: Row | None) -> GroupState | None:
        """What the row of a group says; None where it cannot be read."""
        try:
            return self._large.state_of(row)
        except Corrupt:
            return None

    def membership_of(self, key: bytes) -> bytes:
        """The row of memberships that a row of `read` or `written` is about. Raises Corrupt."""
        large = self._large
        if key.startswith(large.read):
            return large.membership_of(key, large.feed.member_in(key))
        return large.feed.members + key[len(large.written) :]

    def _rows(self, group: bytes, memberships: Sequence[Found]) -> Plan[Mapping[bytes, tuple[Row | None, Row | None]]]:
        large = self._large
        keys = [key for key, _row in memberships]
        places = [*[large.read_key(key, group) for key in keys], *[large.written_key(key) for key in keys]]
        found = yield from self._read(places)
        return dict(zip(keys, zip(found[: len(keys)], found[len(keys) :], strict=True), strict=True))


def wrong_rows_of(
    large: LargeGroups, waiting: Collection[bytes], reads: GroupReads | None = None
) -> Plan[list[WrongRow]]:
    """Everything that is wrong with the rows of a feed's large groups: to be run in a snapshot, when no group is built.

    Three requests and at most 600 rows for each 200 memberships, and two for each 200 rows of `read` and `written`.
    """
    reads = reads or _StoredRows()
    check = GroupCheck(large, partial(reads.read, "views"), waiting)
    wrong = yield from _wrong_memberships(large, check, reads)
    for prefix in (large.read, large.written):
        wrong += yield from _in_batches(reads, prefix, check.surplus)
    return wrong + (yield from _in_batches(reads, large.groups, partial(_empty_groups, large, waiting)))


def _wrong_memberships(large: LargeGroups, check: GroupCheck, reads: GroupReads) -> Plan[list[WrongRow]]:
    """Goes through the memberships, group by group, and counts them."""
    members: dict[bytes, int] = {}

    def look(found: Sequence[Found]) -> Plan[list[WrongRow]]:
        groups: dict[bytes, list[Found]] = {}
        for each in found:
            with suppress(*_NOT_A_KEY):  # it is wrong as a row of the index
                groups.setdefault(large.feed.group_of(each[0]), []).append(each)
        wrong = yield from end([group for group in members if group not in groups])
        for group, rows in groups.items():
            members[group] = members.get(group, 0) + len(rows)
            wrong += yield from check.wrong_rows(group, rows)
        return wrong

    def end(groups: Sequence[bytes]) -> Plan[list[WrongRow]]:
        wrong: list[WrongRow] = []
        for group in groups:
            wrong += yield from check.wrong_count(group, members.pop(group))
        return wrong

    wrong = yield from _in_batches(reads, large.feed.members, look)
    return wrong + (yield from end([*members]))


def _empty_groups(large: LargeGroups, waiting: Collection[bytes], found: Sequence[Found]) -> Plan[list[WrongRow]]:
    """Those rows of groups that have no members, and no task."""
    wrong: list[WrongRow] = []
    for key, row in found:
        if key not in waiting and not (yield from _has_rows(large.feed.members_of(large.group_of(key)))):
            wrong.append(WrongRow(key, None, row, "the group has no members"))
    return wrong


def _has_rows(within: RowRange) -> Plan[bool]:
    """Whether there is a row in a range, one that cannot be read included. One request."""
    try:
        return bool((yield from Scan("views", within, 1)))
    except Corrupt:
        return True


def _in_batches(
    reads: GroupReads, prefix: bytes, look: Callable[[Sequence[Found]], Plan[list[WrongRow]]]
) -> Plan[list[WrongRow]]:
    """Goes through the rows under a prefix."""
    wrong: list[WrongRow] = []

    def take(found: list[Found]) -> Plan[None]:
        if found:  # the last batch may be empty
            wrong.extend((yield from look(found)))

    yield from reads.scan_all("views", RowRange.under(prefix), take)
    return wrong


class _StoredRows:
    """Rows as they are stored."""

    def read(self, table: Table, keys: list[bytes]) -> Plan[list[Row | None]]:
        return (yield from Read(table, keys, "dm"))

    def scan_all(self, table: Table, within: RowRange, take: TakeBatch) -> Plan[None]:
        return scan_all(table, within, take, _BATCH)


def _may_be(state: GroupState, delivery: Delivery) -> bool:
    """Whether a membership that no task is for may be served so, while its group says this."""
    if delivery in _ON_THE_WAY:
        return False
    if state.crosses:
        return True
    return delivery in ((Delivery.READ, Delivery.WRITTEN) if state.reads else (Delivery.PLAIN,))


def _said(state: GroupState) -> str:
    return "crossing" if state.crosses else "read" if state.reads else "written"
