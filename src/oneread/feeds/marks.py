"""Marks: how far a member has seen and read a feed, in a model that the schema adds for each feed with `marks = True`.

It is a model like others, so dumps, loads, verify, evolution and costs know it, and to mark is one commit. A mark is a
position: the time and the key of an entry. See docs/explanation/unread.md and docs/decisions/0061-marks.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import new_class
from typing import Annotated, Any, ClassVar, Final, TypeAlias

import msgspec

from oneread.derivations.access import Access, Accesses
from oneread.derivations.buckets import in_utc
from oneread.derivations.changes import Patch
from oneread.derivations.keyed import ViewKey
from oneread.derivations.views import Feed
from oneread.errors import InvalidDeclaration, InvalidKey, InvalidQuery
from oneread.feeds.entries import Entries
from oneread.feeds.feed_rules import feed_rules
from oneread.feeds.feed_view import FeedView
from oneread.models.fields import KEY, reference
from oneread.models.model import Model, stored_name
from oneread.models.references import Ref, ref_class
from oneread.models.registry import EntityKind, key_codec, root_model
from oneread.models.types import Names
from oneread.store.engine import SaveQuestion
from oneread.store.keys import VIEW_BYTES
from oneread.transactions.commit import NO_CHANGE, CommittedRows, Decision
from oneread.transactions.root import Root

MARKS: Final = ("seen", "read")
"""The two marks of a member."""

POSITION_OF: Final = "_position_of"
"""The entry in the `__dict__` of Marks: from an entry of the feed to its position."""


class FeedPosition(msgspec.Struct, frozen=True):
    """A place in a feed: that of the entry of this time and item.

    Arguments:
        at: the time of the item, as the feed orders by it.
        item: the key of the item, as it is in the keys of entries.
    """

    at: Annotated[datetime, msgspec.Meta(tz=True)]
    item: bytes

    def is_newer(self, other: FeedPosition | None) -> bool:
        """Whether this place is before the other one in the feed, which begins with the newest; None is its end."""
        return other is None or self.at > other.at or (self.at == other.at and self.item < other.item)


class Marks(msgspec.Struct, frozen=True, dict=True):
    """How far a member has seen and read a feed.

    Arguments:
        seen: the entry up to which everything is seen; None if nothing is.
        read: the entry up to which everything is read.
    """

    seen: FeedPosition | None = None
    read: FeedPosition | None = None

    def has_seen(self, entry: Feed[Any]) -> bool:
        """Whether an entry of the feed, a row of a page, is at or behind the mark. Costs no request."""
        return not self._position_of(entry).is_newer(self.seen)

    def has_read(self, entry: Feed[Any]) -> bool:
        """The same of the other mark."""
        return not self._position_of(entry).is_newer(self.read)

    def _position_of(self, entry: Feed[Any]) -> FeedPosition:
        position_of: PositionOf = self.__dict__[POSITION_OF]
        return position_of(entry)


PositionOf: TypeAlias = Callable[[Any], FeedPosition]


class FeedMarks(Model[*tuple[Any, ...]]):
    """The base class of the models that hold marks; `feed` is the feed whose they are."""

    feed: ClassVar[type[Feed[Any]]]


def marks_models(feeds: Iterable[type[Feed[Any]]], names: Names) -> tuple[type[FeedMarks], ...]:
    """The model of each feed with `marks = True`.

    Raises:
        InvalidDeclaration: `marks` is something else, or the feed has a member's field that is called like a mark.
    """
    accesses = Accesses(names)
    found: list[type[FeedMarks]] = []
    for feed in feeds:
        given: Any = feed.marks
        if type(given) is not bool:
            raise InvalidDeclaration("marks: expected True or False", view=feed, marks=given)
        if given:
            found.append(_model_of(feed, accesses))
    return tuple(found)


def _model_of(feed: type[Feed[Any]], accesses: Accesses) -> type[FeedMarks]:
    """The model: the member's elements as the key, a reference to each entity among them, and the two marks."""
    rules = feed_rules(feed, accesses.names)
    keys: dict[str, Any] = {}
    references: dict[str, Any] = {}
    for field, rule in rules.member.items():
        if field in MARKS:
            raise InvalidDeclaration(
                "marks: this field of the feed is called like a mark; choose another name", view=feed, field=field
            )
        access = accesses.of_path(feed, field, rule.field, rules.membership)
        keys |= _elements(field, access, accesses.names)
        if access.target is not None:
            references[field] = Ref[access.target]  # type: ignore[name-defined]
    marks = dict.fromkeys(MARKS, FeedPosition | None)

    def declare(space: dict[str, Any]) -> None:
        space |= {
            "__module__": feed.__module__,
            "__annotations__": keys | references | marks,
            "__doc__": f"What members have marked of {feed.__name__}.",
            "stored_as": f"{stored_name(feed)}.marks",
            "feed": feed,
            "type_arguments": (),
            **{name: reference(on_delete="delete") for name in references},
            **dict.fromkeys(MARKS),
        }

    return new_class(f"{feed.__name__}.marks", (FeedMarks,), {}, declare)


def _elements(field: str, access: Access, names: Names) -> dict[str, Any]:
    """The parts of the key that a field of the feed makes: one for each of the key that it refers to."""
    if access.target is None:
        return {field: Annotated[access.type, KEY]}
    parts = key_codec(root_model(access.target), names).elements
    return {f"{field}_{each.name.replace('.', '_')}": Annotated[each.type, KEY] for each in parts}


class MarkedFeed:
    """A feed, and the model of its marks if it has them."""

    def __init__(self, view: FeedView, items: EntityKind, marks: EntityKind | None) -> None:
        self.view = view
        self.entries = Entries(view)
        self._kind = marks
        self._member_of = view.member_codec.encode
        self._width = len(view.member_codec.elements)
        self._put_time: Callable[[Any], bytes] = view.key.codec.parts[-1].put
        self._item_of = items.suffix if view.groups is None else _group_suffix(view.groups.key)

    @property
    def parts(self) -> frozenset[bytes]:
        """The prefixes of the items and the memberships that the feed is made of."""
        return frozenset((self.entries.items, self.entries.members))

    @property
    def groups(self) -> bytes | None:
        """The prefix of the aggregate whose groups the feed lists; None for a feed of entities."""
        return None if self.view.groups is None else self.view.groups.prefix

    @property
    def kind(self) -> EntityKind:
        """The model of the marks. Raises InvalidQuery if the feed has none."""
        if self._kind is None:
            raise InvalidQuery("this feed has no marks; declare them in its class: marks = True", view=self.view.cls)
        return self._kind

    def values(self, member: Sequence[Any]) -> tuple[Any, ...]:
        """Whose feed it is, as `page` takes it, as values of the key's elements.

        Raises:
            InvalidKey: the member is not whole, or there is more.
        """
        values = self.view.key.flat(tuple(member))
        if len(values) != self._width:
            raise InvalidKey(
                "give whose feed it is: all of its by(...) fields, and no others", view=self.view.cls, given=member
            )
        return values

    def member(self, values: tuple[Any, ...]) -> bytes:
        """Whose feed it is, as it is in an entry's key."""
        return self._member_of(values)

    def tail(self, position: FeedPosition) -> bytes:
        """What the key of an entry at this position has behind the member."""
        return self._put_time(position.at) + position.item

    def position_at(self, key: bytes) -> FeedPosition:
        """The position of an entry."""
        values, end = self.view.key.codec.decode_prefix(key, VIEW_BYTES)
        at: Any = values[-1]
        return FeedPosition(at, key[end:])

    def position_of(self, entry: Any) -> FeedPosition:
        """The position of an entry as a page shows it.

        Raises:
            InvalidQuery: it is not an entry of this feed.
        """
        view = self.view
        key: Any = getattr(getattr(entry, "source", None), "key", None)
        at: Any = getattr(entry, view.rules.time, None)
        if not isinstance(entry, view.cls) or type(key) is not tuple or not isinstance(at, datetime):
            raise InvalidQuery("expected an entry of this feed, a row of its page", view=view.cls, given=type(entry))
        self._put_time(at)  # refuses an instant without a time zone
        return FeedPosition(in_utc(at), self._item_of(key))

    def whose(self, entry: Any) -> tuple[Any, ...]:
        """The values of the member in whose feed an entry is."""
        return self.values([getattr(entry, name) for name in self.view.rules.member])

    def entity(self, values: tuple[Any, ...], marks: Mapping[str, FeedPosition | None]) -> Any:
        """The entity that holds these marks of a member."""
        kind = self.kind
        fields: dict[str, Any] = dict(zip(kind.names, values, strict=True))
        place = 0
        for part in self.view.key.parts[:-1]:
            if part.kind is not None:
                fields[part.field] = ref_class(part.kind.cls)(values[place : place + part.width])
            place += part.width
        return kind.cls(**fields, **marks)

    def shown(self, entity: Any) -> Marks:
        """Marks as users see them; `entity` is None for a member without."""
        marks: Any = Marks() if entity is None else Marks(entity.seen, entity.read)
        marks.__dict__[POSITION_OF] = self.position_of
        found: Marks = marks
        return found


def _group_suffix(key: ViewKey) -> Callable[[tuple[Any, ...]], bytes]:
    """From the key of a group to what the keys of entries have of it."""
    encode: Callable[[tuple[Any, ...]], bytes] = key.codec.encode
    return lambda group: encode(key.flat(group))


class MarkChange(Patch):
    """Sets marks; leaves an entity alone that has them already."""

    def question(self, seen: Callable[[bytes], Root]) -> SaveQuestion | None:
        before = self._catalog.known_to_core(self.key, seen(self.key).body)
        return None if before is not None and self._change(before) == before else super().question(seen)

    def decide(self, seen: Root, version: int, sources: CommittedRows) -> Decision:
        before = self._catalog.state(self.key, seen).entity
        if before is None or self._change(before) != before:
            return super().decide(seen, version, sources)
        self.written.entity, self.written.version = self._shown(before), seen.own
        return NO_CHANGE


def moving(wanted: Mapping[str, FeedPosition | None], *, back: bool) -> Callable[[Any], Any]:
    """The function from stored marks to those that are wanted: forwards only, unless `back`; None takes one away."""

    def move(entity: Any) -> Any:
        moved = {
            name: position
            for name, position in wanted.items()
            if back or position is None or position.is_newer(getattr(entity, name))
        }
        return msgspec.structs.replace(entity, **moved)

    return move
