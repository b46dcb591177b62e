"""Entries: the rows of a feed, as they are made of a row of its items and a row of its memberships.

An entry's key is the feed's prefix, the member, the item's time and the item's key. Its row has two columns: what a
page shows, and the memberships that show it, each the pair of a group and a membership, so that an item is one
entry however many there are. See "Feeds" of docs/formats/rows.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from oneread.errors import Corrupt
from oneread.feeds.feed_view import FeedView
from oneread.feeds.parts import frame, header, rest_of
from oneread.models.expiry import EXPIRY_BYTES
from oneread.store.keys import VIEW_BYTES
from oneread.store.rows import UNDECODABLE, VALUE, Cell, Row, RowRange

SHOWN_BY: Final = b"m:s"
"""The column of an entry that names the (group, membership) pairs which show its item."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EXPIRES: Final = timedelta(days=10_000_000)
"""What ends later than this after its time has not expired in any year that there is."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[bytes]).decode


class MemberRow(NamedTuple):
    """A row of a feed's memberships, taken apart."""

    member: bytes
    """Whose feed it is, as it is in an entry's key."""
    membership: bytes
    """The group and the membership."""
    alone: Cell
    """The cell of an entry that only this membership shows."""
    doc: bytes
    """The value of the row."""
    shown: bytes | None
    """The fields of an entry that it fills; None for a value with ints beyond 64 bits."""


class ItemRow(NamedTuple):
    """A row of a feed's items, taken apart."""

    tail: bytes
    """What stands behind the member in an entry's key: the time and the item."""
    cell: Cell
    head: bytes
    """What a value begins with, before the member's fields."""
    rest: bytes | None
    """What follows them; None for a value with ints beyond 64 bits."""


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """How many entries a member has, in a feed with `at_most`.

    `trimmed` is the time and item of the newest entry that was ever removed because there were more: all newer ones are
    there, and of the older ones those that came later and found room.
    """

    entries: int = 0
    trimmed: bytes = b""


_decode_kept = msgspec.msgpack.Decoder(Kept).decode


def read_kept(row: Row | None) -> Kept:
    """What a row of `kept` says. Raises Corrupt."""
    if row is None:
        return Kept()
    try:
        return _decode_kept(row[VALUE].value)
    except (KeyError, *UNDECODABLE) as error:
        raise Corrupt("the number of a member's entries cannot be read; repair the store") from error


def kept_row(kept: Kept, now: int) -> Row:
    """The row of a member's entries."""
    return {VALUE: Cell(_encode(kept), now)}


class Entries:
    """The rows of one feed."""

    def __init__(self, view: FeedView) -> None:
        self.name = view.cls.__name__
        self.view = view
        self.prefix = view.prefix
        self.items = view.items.prefix
        self.members = view.members.prefix
        self._group = view.group_codec.decode_prefix
        self._member = view.member_codec.decode_prefix
        self._cuts_expiry = view.items_expire and not view.has_expiries
        self._header = header(len(view.cls.__struct_fields__))

    @property
    def table(self) -> tuple[object, ...]:
        """The feed for compiled code: without how an entry begins where that does not know it."""
        view, after = self.view, None
        if view.expires_after is not None and view.expires_after < _EXPIRES:
            after = view.expires_after // timedelta(microseconds=1)
        elements = len(view.group_codec.elements), len(view.member_codec.elements)
        head = self._header if view.large is None and view.at_most is None else b""
        cut = EXPIRY_BYTES if self._cuts_expiry else 0
        return self.prefix, self.items, self.members, *elements, head, cut, after

    def group_of(self, key: bytes) -> bytes:
        """The group of a row of items or memberships."""
        return key[VIEW_BYTES : self._group(key, VIEW_BYTES)[1]]

    def group_at(self, key: bytes, start: int) -> bytes:
        """The group that a key holds from a place on."""
        return key[start : self._group(key, start)[1]]

    def members_of(self, group: bytes) -> RowRange:
        """The memberships of a group."""
        return RowRange.under(self.members + group)

    def items_of(self, group: bytes, now: int) -> RowRange:
        """The items of a group that have not expired, newest first."""
        return self._living(self.items + group, now)

    def entries_of(self, member: bytes) -> RowRange:
        """The entries of a member."""
        return RowRange.under(self.prefix + member)

    def living_entries_of(self, member: bytes, now: int) -> RowRange:
        """The entries of a member that have not expired."""
        return self._living(self.prefix + member, now)

    def _living(self, prefix: bytes, now: int) -> RowRange:
        return until(RowRange.under(prefix), prefix, self.oldest(now))

    def oldest(self, now: int) -> bytes | None:
        """The element of the latest instant that has expired; None if nothing has."""
        if self.view.expires_after is None:
            return None
        try:
            at = _EPOCH + timedelta(milliseconds=now + 1, microseconds=-1) - self.view.expires_after
        except OverflowError:
            return None
        return self.view.key.codec.parts[-1].put(at)

    def member_in(self, key: bytes) -> bytes:
        """Whose feed an entry is in, from its key."""
        return key[VIEW_BYTES : self._member(key, VIEW_BYTES)[1]]

    def member_of(self, key: bytes, group: bytes) -> bytes:
        """Whose feed a row of the memberships of a group is about."""
        start = VIEW_BYTES + len(group)
        return key[start : self._member(key, start)[1]]

    def tail_of(self, key: bytes) -> bytes:
        """What stands behind the member in an entry's key: the time and the item."""
        return key[self._member(key, VIEW_BYTES)[1] :]

    def sides_of(self, key: bytes, membership: bytes) -> tuple[bytes, bytes]:
        """The keys of the rows of items and memberships that an entry names, whether they are there or not."""
        end, group = self._member(key, VIEW_BYTES)[1], membership[: self._group(membership, 0)[1]]
        return self.items + group + key[end:], self.members + group + key[VIEW_BYTES:end] + membership[len(group) :]

    def membership_of(self, key: bytes, group: bytes) -> bytes:
        """The group and the membership of a row of memberships."""
        return group + key[self._member(key, VIEW_BYTES + len(group))[1] :]

    def split_member(self, key: bytes, row: Row, group: bytes, now: int) -> MemberRow:
        """Takes a row of the memberships of a group apart. Raises Corrupt."""
        start = VIEW_BYTES + len(group)
        end = self._member(key, start)[1]
        doc, membership = row[VALUE].value, group + key[end:]
        alone = Cell(_encode([membership]), now)
        return MemberRow(key[start:end], membership, alone, doc, rest_of(doc))

    def split_item(self, key: bytes, row: Row, group: bytes) -> ItemRow:
        """Takes a row of the items of a group apart."""
        cell = row[VALUE]
        framed = frame(cell.value)
        tail = key[VIEW_BYTES + len(group) :]
        if framed is None:
            return ItemRow(tail, cell, b"", None)
        rest = framed.rest[:-EXPIRY_BYTES] if self._cuts_expiry else framed.rest
        return ItemRow(tail, cell, self._header + framed.source, rest)

    def shown(self, item: ItemRow, member: MemberRow) -> Cell:
        """What an entry shows, under the stamp of the item."""
        if item.rest is None or member.shown is None:
            return Cell(self._wide_value(item.cell.value, member.doc), item.cell.stamp)
        return Cell(item.head + member.shown + item.rest, item.cell.stamp)

    def join(self, items: Iterable[ItemRow], member: MemberRow) -> list[tuple[bytes, bytes, bytes]]:
        """The key and the value of the entry of each item for a member of its group, and the membership."""
        start, shown, membership = self.prefix + member.member, member.shown, member.membership
        return [
            (
                start + each.tail,
                self.shown(each, member).value if each.rest is None or shown is None else each.head + shown + each.rest,
                membership,
            )
            for each in items
        ]

    def _wide_value(self, item: bytes, member: bytes) -> bytes:
        """The value with ints beyond 64 bits, which is not made of parts."""
        view = self.view
        end = len(item) - EXPIRY_BYTES if view.items_expire else len(item)
        (shown,) = view.items.layout.decode_many(view.items.whole_values([item[:end]]))
        (whose,) = view.members.layout.decode_many(view.members.whole_values([member]))
        fields = {name: getattr(whose, name) for name in view.rules.member}
        fields |= {name: getattr(shown, name) for name in ("source", *view.rules.item)}
        return view.layout.encode(view.cls(**fields)) + (item[end:] if view.has_expiries else b"")


def until(within: RowRange, prefix: bytes, oldest: bytes | None) -> RowRange:
    """What of a range under a prefix is newer than an instant."""
    if oldest is None:
        return within
    return RowRange(within.start, min(within.stop, prefix + oldest) if within.stop else prefix + oldest)


def shown_by(row: Row) -> list[bytes]:
    """The memberships that show an entry. Raises Corrupt."""
    try:
        return _decode(row[SHOWN_BY].value)
    except (KeyError, *UNDECODABLE) as error:
        raise Corrupt("the memberships of a feed's entry cannot be read; repair the store") from error


def shown_by_cell(memberships: Sequence[bytes], now: int) -> Cell:
    """The cell that names the memberships which show an entry."""
    return Cell(_encode(memberships), now)
