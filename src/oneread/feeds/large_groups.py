"""Large groups of one feed: the rows that say whose items are read by their members, instead of being written to them.

A feed that declares `large_group` has three more keyspaces. `groups` (group): how many members it has, and whether its
items are read or written. `read` (member, group, membership): this membership is read, so that a page of the member
merges the items of the group. `written` (group, member, membership): this membership of a group that is read is written
to all the same, or is on its way from one to the other. See "Large groups" of docs/formats/rows.md and
docs/decisions/0060-large-groups.md.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

import msgspec

from oneread.errors import Corrupt
from oneread.feeds.entries import Entries
from oneread.feeds.feed_view import LargeGroupOptions
from oneread.store.keys import VIEW_BYTES
from oneread.store.rows import UNDECODABLE, VALUE, Cell, Row, RowRange

EMPTIES: Final = b"m:e"
"""The column of a row of `written` whose membership has entries that are being removed."""


class GroupState(msgspec.Struct, frozen=True, array_like=True):
    """What the row of a group says.

    `members` is exact. `reads`: the group is large. `crosses`: a task takes its memberships over, one after the other.
    `counted` is the last membership that was counted while the feed is built; None when all are.
    """

    members: int = 0
    reads: bool = False
    crosses: bool = False
    counted: bytes | None = None

    @property
    def is_merged(self) -> bool:
        """Whether each of its memberships has a row of `read` or `written`."""
        return self.reads and not self.crosses


class Delivery(enum.Enum):
    """How the items of a group reach a member, of one membership; the value says whether they are written to him."""

    PLAIN = enum.auto()
    """Without a row: written."""
    READ = enum.auto()
    """A row of `read` alone: merged into pages; this membership shows no entry."""
    WRITTEN = enum.auto()
    """A row of `written` alone: the member has too many large groups, so this one is written."""
    FILLING = enum.auto()
    """Both rows: merged until every item has an entry."""
    EMPTYING = enum.auto()
    """Both rows, and the second says so: merged, while entries are removed."""

    @property
    def is_given(self) -> bool:
        """Whether the member gets an entry of a new item."""
        return self in (Delivery.PLAIN, Delivery.WRITTEN, Delivery.FILLING)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(GroupState).decode


class LargeGroups:
    """The three keyspaces of one feed with large groups: their keys, and what their rows say."""

    def __init__(self, feed: Entries, options: LargeGroupOptions) -> None:
        self.feed = feed
        self.above = options.above
        self.merged = options.merged
        self.groups = options.groups
        self.read = options.read
        self.written = options.written

    # Keys.

    def group_key(self, group: bytes) -> bytes:
        """The row of a group."""
        return self.groups + group

    def group_of(self, key: bytes) -> bytes:
        """The group of its row."""
        return key[VIEW_BYTES:]

    def read_key(self, membership: bytes, group: bytes) -> bytes:
        """The row of `read` of a row of memberships."""
        member = self.feed.member_of(membership, group)
        return self.read + member + group + membership[VIEW_BYTES + len(group) + len(member) :]

    def written_key(self, membership: bytes) -> bytes:
        """The row of `written` of a row of memberships."""
        return self.written + membership[VIEW_BYTES:]

    def membership_of(self, read: bytes, member: bytes) -> bytes:
        """The row of memberships that a row of `read` is about."""
        group = self.read_group(read, member)
        start = VIEW_BYTES + len(member)
        return self.feed.members + group + member + read[start + len(group) :]

    def read_group(self, read: bytes, member: bytes) -> bytes:
        """The group of a row of `read`. Raises Corrupt."""
        return self.feed.group_at(read, VIEW_BYTES + len(member))

    def read_of(self, member: bytes) -> RowRange:
        """The rows of `read` of a member."""
        return RowRange.under(self.read + member)

    def written_of(self, group: bytes) -> RowRange:
        """The rows of `written` of a group."""
        return RowRange.under(self.written + group)

    # Rows.

    def state_of(self, row: Row | None) -> GroupState:
        """What the row of a group says; of a group without members if there is none. Raises Corrupt."""
        if row is None:
            return GroupState()
        try:
            return _decode(row[VALUE].value)
        except (KeyError, *UNDECODABLE) as error:
            raise Corrupt("the row of a feed's group cannot be read; repair the store", feed=self.feed.name) from error

    def group_row(self, state: GroupState, now: int) -> Row | None:
        """The row of a group; None for one without members that nothing crosses."""
        return None if state == GroupState() else {VALUE: Cell(_encode(state), now)}

    def delivery_of(self, read: Row | None, written: Row | None) -> Delivery:
        """How the items of a group reach a member, from the rows of a membership."""
        if written is None:
            return Delivery.PLAIN if read is None else Delivery.READ
        if EMPTIES in written:
            return Delivery.EMPTYING
        return Delivery.WRITTEN if read is None else Delivery.FILLING

    def rows_of(self, place: Delivery, doc: bytes, now: int) -> tuple[Row | None, Row | None]:
        """The rows of `read` and `written` of a membership; `doc` is the value of the row of memberships."""
        shown = {VALUE: Cell(doc, now)}
        read = shown if place in (Delivery.READ, Delivery.FILLING, Delivery.EMPTYING) else None
        if place is Delivery.EMPTYING:
            return read, shown | {EMPTIES: Cell(b"\x01", now)}
        return read, shown if place in (Delivery.WRITTEN, Delivery.FILLING) else None

    def with_members(self, state: GroupState, members: int) -> GroupState:
        """A group with that many members: it begins to cross when it has too many, or less than half of that."""
        state = msgspec.structs.replace(state, members=members)
        if state.counted is not None:
            return state
        if not state.reads and members > self.above:
            return msgspec.structs.replace(state, reads=True, crosses=True)
        if state.reads and 2 * members < self.above:
            return msgspec.structs.replace(state, reads=False, crosses=True)
        return state


def large_groups_of(feed: Entries) -> LargeGroups | None:
    """The large groups of a feed; None if it declares none."""
    return None if feed.view.large is None else LargeGroups(feed, feed.view.large)


def row_values(row: Row | None) -> Mapping[bytes, bytes] | None:
    """What a row holds, whenever it was written."""
    return None if row is None else {column: cell.value for column, cell in row.items()}
