"""The two indexes that the schema adds for each feed: its items by group, and its memberships by group.

They are indexes like others, so verify, repair, backfill, costs and evolution know them; the feed's rows follow from
theirs. Their values are framed, so that an entry is made of parts of both without decoding either. See
docs/formats/rows.md.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

import msgspec

from oneread.derivations.derivation import CompiledView, Compiling
from oneread.derivations.indexes import IndexView
from oneread.derivations.rules import rules_of
from oneread.derivations.views import AnyAggregate, Feed, Index
from oneread.errors import Corrupt
from oneread.models.layout import WIDE_WITHOUT_ID
from oneread.models.model import Model

V = TypeVar("V", bound="Model[*tuple[Any, ...]] | AnyAggregate")

GROUP: Final = "group_"
"""The first field of both indexes: the group, by which they are joined."""

_LENGTHS: Final = struct.Struct(">HH")
"""The two lengths that frame a row's value."""
_pack = msgspec.msgpack.Encoder(uuid_format="bytes").encode


class FeedPart(Index[V], Generic[V], frozen=True):
    """The base class of the two indexes; `feed` is the feed that they belong to."""

    is_added: ClassVar[bool] = True
    feed: ClassVar[type[Feed[Any]]]


class FeedItems(FeedPart[V], Generic[V], frozen=True):
    """The items of a feed: (group, newest first, item)."""


class FeedMembers(FeedPart[V], Generic[V], frozen=True):
    """The memberships of a feed: (group, member, membership). One that expires counts until its sweep deletes it."""

    lists_expired: ClassVar[bool] = True


class FramedValue(NamedTuple):
    """The parts of a row's value, as msgpack; `rest` are the fields behind the group, without a header."""

    source: bytes
    group: bytes
    rest: bytes


class FeedPartView(IndexView):
    """One of the two indexes, compiled: the value of a row can be cut without decoding it.

    It is two lengths, the source, the group and the other fields; one with ints beyond 64 bits is not framed.
    """

    is_framed = True

    def __init__(self, cls: type[FeedPart[Any]], compiling: Compiling) -> None:
        self._header = header(len(rules_of(cls)) + 1)
        super().__init__(cls, compiling)

    def pack_row(self, row: tuple[Any, ...]) -> bytes:
        source, group, *fields = row
        source, group = _pack(source), _pack(group)
        rest = _pack(fields).removeprefix(header(len(fields)))
        return _LENGTHS.pack(len(source), len(group)) + source + group + rest

    def whole_values(self, docs: list[bytes]) -> list[bytes]:
        framed = [frame(doc) for doc in docs]
        return [doc if each is None else self._header + b"".join(each) for doc, each in zip(docs, framed, strict=True)]


def header(count: int) -> bytes:
    """How a msgpack array of so many values begins."""
    if count <= 15:  # noqa: PLR2004 - the longest array with a header of one byte
        return bytes([0x90 | count])
    return b"\xdc" + count.to_bytes(2, "big")


def frame(doc: bytes) -> FramedValue | None:
    """The parts of a row's value; None for one that is not framed."""
    if doc.startswith(WIDE_WITHOUT_ID):
        return None
    source, group = _lengths(doc)
    source += _LENGTHS.size
    group += source
    return FramedValue(doc[_LENGTHS.size : source], doc[source:group], doc[group:])


def _lengths(doc: bytes) -> tuple[int, int]:
    """The lengths that frame a row's value. Raises Corrupt."""
    try:
        source, group = _LENGTHS.unpack_from(doc)
    except struct.error as error:
        raise Corrupt("a row of a feed cannot be read; repair the store") from error
    return source, group


def rest_of(doc: bytes) -> bytes | None:
    """`rest` of a row's value alone; None for one that is not framed."""
    if doc.startswith(WIDE_WITHOUT_ID):
        return None
    source, group = _lengths(doc)
    return doc[_LENGTHS.size + source + group :]


def parts_of_feed(feed: type[Feed[Any]], made: Mapping[type, CompiledView]) -> tuple[FeedPartView, FeedPartView]:
    """The compiled items and memberships of a feed."""
    found = {type_of_part(cls): view for cls, view in made.items() if issubclass(cls, FeedPart) and cls.feed is feed}
    items, members = found[FeedItems], found[FeedMembers]
    assert isinstance(items, FeedPartView), "VIEW_KINDS makes it"
    assert isinstance(members, FeedPartView), "VIEW_KINDS makes it"
    return items, members


def type_of_part(cls: type[FeedPart[Any]]) -> type[FeedPart[Any]]:
    return FeedItems if issubclass(cls, FeedItems) else FeedMembers
