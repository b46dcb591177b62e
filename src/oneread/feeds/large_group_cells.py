"""Rows of large groups on a store that changes one row at a time: which are read, and which a member's pages merge.

`groups` (group): whether the items of a group are read or written. `read` (member): the groups that pages of this
member merge, his places. `written` (group, member): this group is written to him although it is read. Each row of the
first two is changed by compare-and-set and has a version that grows, which is its stamp; a row of `written` has the
version of the places that it follows from. See docs/decisions/0092-large-groups-on-one-row.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

import msgspec

from oneread.errors import Corrupt
from oneread.feeds.entries import Entries
from oneread.feeds.entry_cells import NONE_HIDDEN, group_digest
from oneread.feeds.feed_view import FeedView, LargeGroupOptions
from oneread.plans.plan import Plan
from oneread.store.keys import VIEW_BYTES
from oneread.store.requests import ABSENT, CheckAndMutate, Read
from oneread.store.rows import UNDECODABLE, VALUE, Cell, Row, RowMutation, RowRange
from oneread.transactions import outbox

T = TypeVar("T")

PRESENT: Final = b"\x01"
"""The value of a row of `written`."""

_EPOCH_BYTES: Final = 8


class GroupMode(msgspec.Struct, frozen=True, array_like=True):
    """What the row of a group says; a group that was never large has none.

    `reads`: the group is large. `crosses`: the task of this epoch visits its memberships.
    """

    epoch: int = 0
    reads: bool = False
    crosses: bool = False

    @property
    def is_merged(self) -> bool:
        """Whether pages merge its items, of all members but those of `written`."""
        return self.reads and not self.crosses


class Places(msgspec.Struct, frozen=True, array_like=True):
    """The groups that the pages of a member merge. To those that are also in `filling` entries are being written."""

    version: int = 0
    groups: tuple[bytes, ...] = ()
    filling: tuple[bytes, ...] = ()

    def reads(self, group: bytes) -> bool:
        """Whether a group is merged, and need not have entries."""
        return group in self.groups and group not in self.filling


class GroupAndPlaces(NamedTuple):
    """What a task of a membership begins with: its group, its member's places, and its own row."""

    mode: GroupMode
    places: Places
    is_written: bool
    """Whether the group has a row of `written` for the member."""


_encode = msgspec.msgpack.Encoder().encode
_mode = msgspec.msgpack.Decoder(GroupMode).decode
_places = msgspec.msgpack.Decoder(Places).decode


class RowsOfLargeGroups:
    """The three keyspaces of one feed: their keys, and what their rows say."""

    def __init__(self, feed: Entries, options: LargeGroupOptions) -> None:
        self.feed = feed
        self.above = options.above
        self.merged = options.merged
        self.groups = options.groups
        self._read = options.read
        self._written = options.written

    def group_key(self, group: bytes) -> bytes:
        """The row of a group."""
        return self.groups + group

    def crossing(self, group: bytes, epoch: int) -> bytes:
        """What the task of a group that crosses is about: each epoch has its own."""
        return self.groups + group + epoch.to_bytes(_EPOCH_BYTES, "big")

    def crossing_task(self, group: bytes, epoch: int) -> RowMutation:
        """The row of the task of a group that crosses."""
        source = outbox.feed_source(self.crossing(group, epoch))
        return outbox.task_row(outbox.version_key(source, epoch), outbox.Task(source), epoch)

    def crossing_of(self, key: bytes) -> tuple[bytes, int]:
        """The group and the epoch of such a task."""
        return key[VIEW_BYTES:-_EPOCH_BYTES], int.from_bytes(key[-_EPOCH_BYTES:], "big")

    def places_key(self, member: bytes) -> bytes:
        """The row that says which groups are merged for a member."""
        return self._read + member

    def written_key(self, group: bytes, member: bytes) -> bytes:
        """The row that says that a group is written to a member."""
        return self._written + group + member

    def written_of(self, group: bytes) -> RowRange:
        """The members to whom a group is written although it is read."""
        return RowRange.under(self._written + group)

    def memberships(self, group: bytes, member: bytes) -> RowRange:
        """The memberships of a member in a group."""
        return RowRange.under(self.feed.members + group + member)

    def mode_of(self, row: Row | None) -> GroupMode:
        """What the row of a group says. Raises Corrupt."""
        return self._decoded(_mode, GroupMode(), row)

    def places_of(self, row: Row | None) -> Places:
        """What the row of a member says. Raises Corrupt."""
        return self._decoded(_places, Places(), row)

    def _decoded(self, decode: Callable[[bytes], T], nothing: T, row: Row | None) -> T:
        if row is None:
            return nothing
        try:
            return decode(row[VALUE].value)
        except (KeyError, *UNDECODABLE) as error:
            raise Corrupt("a row of large groups cannot be read; build the feed again", feed=self.feed.name) from error

    def swap_mode(self, group: bytes, seen: GroupMode, wanted: GroupMode) -> Plan[bool]:
        """Replaces the row of a group unless it was changed. One request."""
        seen_value = _encode(seen) if seen.epoch else ABSENT
        return self._swap(self.group_key(group), seen_value, Cell(_encode(wanted), wanted.epoch))

    def swap_places(self, member: bytes, seen: Places, wanted: Places) -> Plan[bool]:
        """Replaces the row of a member unless it was changed. One request."""
        seen_value = _encode(seen) if seen.version else ABSENT
        return self._swap(self.places_key(member), seen_value, Cell(_encode(wanted), wanted.version))

    def replace_unreadable(self, key: bytes, seen: Cell | None, wanted: GroupMode | Places) -> Plan[bool]:
        """Replaces a row of a group or of a member that cannot be read, unless it was changed. One request."""
        stamp = wanted.epoch if isinstance(wanted, GroupMode) else wanted.version
        return self._swap(key, ABSENT if seen is None else seen.value, Cell(_encode(wanted), stamp))

    def _swap(self, key: bytes, seen: bytes | None, wanted: Cell) -> Plan[bool]:
        return (yield from CheckAndMutate("views", VALUE, seen, RowMutation(key, {VALUE: wanted})))


def rows_of_large_groups(view: FeedView) -> RowsOfLargeGroups | None:
    """The rows of the large groups of a feed; None if it declares none."""
    return None if view.large is None else RowsOfLargeGroups(Entries(view), view.large)


def hidden_groups(feed: Entries, member: bytes) -> Plan[frozenset[bytes]]:
    """The groups whose entries a member is not shown, since their items are merged. One read, or none."""
    rows = rows_of_large_groups(feed.view)
    if rows is None:
        return NONE_HIDDEN
    (row,) = yield from Read("views", [rows.places_key(member)])
    return frozenset(map(group_digest, rows.places_of(row).groups))
