"""Entries: the rows of a feed, as they are made of a row of its items and a row of its memberships.

An entry's key is the feed's prefix, the member, the item's time and the item's key. Its row has two columns: what a
page shows, and the witnesses: the pairs (group, membership) that show the item to the member, so that an item is one
entry however many there are. See "Feeds" of docs/formats/rows.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from oneread.encoding.codec import Codec
from oneread.errors import Corrupt
from oneread.feeds.feed_view import FeedView
from oneread.feeds.parts import frame, header
from oneread.models.expiry import EXPIRY_BYTES, is_living_row
from oneread.store.keys import VIEW_BYTES
from oneread.store.limits import VALUES_BYTES
from oneread.store.requests import Found
from oneread.store.rows import Cell, Row, RowRange
from oneread.transactions.unit_of_work import VALUE

WITNESSES: Final = b"m:w"
"""The column of an entry that names the (group, membership) pairs which show its item."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[bytes]).decode


class MemberRow(NamedTuple):
    """A row of a feed's memberships, taken apart."""

    member: bytes
    """Whose feed it is, as it is in an entry's key."""
    witness: bytes
    """The group and the membership."""
    doc: bytes
    """The value of the row."""
    shown: bytes | None
    """The fields of an entry that it fills; None for a value with ints beyond 64 bits."""
    stamp: int


class Entries:
    """The rows of one feed."""

    def __init__(self, view: FeedView) -> None:
        self.name = view.cls.__name__
        self.view = view
        self.prefix = view.prefix
        self.items = view.items.prefix
        self.members = view.members.prefix
        group = view.members.key.parts[0]
        self._group = Codec(group.elements, max_length=VALUES_BYTES).decode_prefix
        self._member = view.member_codec.decode_prefix
        self._header = header(len(view.cls.__struct_fields__))

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
            at = _EPOCH + timedelta(milliseconds=now) - self.view.expires_after
        except OverflowError:
            return None
        return self.view.key.codec.parts[-1].put(at)

    def is_expired(self, tail: bytes, now: int) -> bool:
        """Whether an item has expired, from its key behind the group, or an entry's behind the member."""
        oldest = self.oldest(now)
        return oldest is not None and tail >= oldest

    def owner_of(self, key: bytes) -> bytes:
        """Whose feed an entry is in."""
        return key[VIEW_BYTES : self._member(key, VIEW_BYTES)[1]]

    def member_of(self, key: bytes, group: bytes) -> bytes:
        """Whose feed a row of the memberships of a group is about."""
        start = VIEW_BYTES + len(group)
        return key[start : self._member(key, start)[1]]

    def witness_of(self, key: bytes, group: bytes) -> bytes:
        """The group and the membership of a row of memberships."""
        return group + key[self._member(key, VIEW_BYTES + len(group))[1] :]

    def is_living(self, found: Found, now: int) -> bool:
        """Whether an entry counts as present."""
        key, row = found
        if self.view.has_expiries and not is_living_row(row[VALUE].value, now):
            return False
        return not self.is_expired(key[self._member(key, VIEW_BYTES)[1] :], now)

    def split_member(self, key: bytes, row: Row, group: bytes) -> MemberRow:
        """Takes a row of the memberships of a group apart. Raises Corrupt."""
        start = VIEW_BYTES + len(group)
        end = self._member(key, start)[1]
        cell = row[VALUE]
        framed = frame(cell.value)
        shown = None if framed is None else framed.rest
        return MemberRow(key[start:end], group + key[end:], cell.value, shown, cell.stamp)

    def value(self, item: Row, member: MemberRow) -> bytes:
        """What an entry shows."""
        framed = frame(item[VALUE].value)
        if framed is None or member.shown is None:
            return self._wide_value(item, member)
        return self._header + framed.source + member.shown + framed.rest

    def _wide_value(self, item: Row, member: MemberRow) -> bytes:
        """The value with ints beyond 64 bits, which is not made of parts."""
        view, doc = self.view, item[VALUE].value
        end = len(doc) - EXPIRY_BYTES if view.has_expiries else len(doc)
        (shown,) = view.items.layout.decode_many(view.items.whole_values([doc[:end]]))
        (whose,) = view.members.layout.decode_many(view.members.whole_values([member.doc]))
        fields = {name: getattr(whose, name) for name in view.rules.member}
        fields |= {name: getattr(shown, name) for name in ("source", *view.rules.item)}
        return view.layout.encode(view.cls(**fields)) + doc[end:]


def until(within: RowRange, prefix: bytes, oldest: bytes | None) -> RowRange:
    """What of a range under a prefix is newer than an instant."""
    if oldest is None:
        return within
    return RowRange(within.start, min(within.stop, prefix + oldest) if within.stop else prefix + oldest)


def witnesses_of(row: Row) -> list[bytes]:
    """The witnesses of an entry. Raises Corrupt."""
    try:
        return _decode(row[WITNESSES].value)
    except (KeyError, msgspec.MsgspecError) as error:
        raise Corrupt("the witnesses of a feed's entry cannot be read; repair the store") from error


def entry(shown: Cell, witnesses: Sequence[bytes], stamp: int) -> Row:
    """The row of an entry."""
    return {VALUE: shown, WITNESSES: Cell(_encode(witnesses), stamp)}
