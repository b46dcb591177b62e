"""Parts: one declared element of a key, checked and encoded by plain methods, which the fast paths must equal.

See docs/formats/keys.md.
"""

from collections.abc import Callable
from enum import Enum, Flag
from typing import Final, Literal, NamedTuple, TypeAlias, cast

from oneread.encoding.framing import UNKNOWN_TAG, take_tag
from oneread.encoding.values import (
    PUTTERS,
    TAGS,
    TAKERS,
    Value,
    complement,
    kind_of,
    put_none,
    put_value,
    take_value,
)
from oneread.errors import Corrupt, InvalidDeclaration, InvalidKey

WRONG_TYPE: Final = "the value is not of the field's declared type"

PutElement: TypeAlias = Callable[[object], bytes]
TakeElement: TypeAlias = Callable[[bytes, bytes, int], tuple[object, int]]


class KeyElement(NamedTuple):
    """One declared element of a key.

    `name` is the `field` of errors; `none` is where None sorts in either direction, refused without it; `max_length` is
    in bytes.
    """

    name: str
    type: type
    descending: bool = False
    none: Literal["first", "last"] | None = None
    max_length: int | None = None


class EncodedPart:
    """One element of a key: `put` and `take` apply direction and None, the two `..._ascending` encode values only."""

    __slots__ = (
        "descending",
        "max_length",
        "name",
        "none",
        "none_element",
        "put_ascending",
        "tags",
        "take_ascending",
        "type",
    )

    def __init__(self, declared: KeyElement, tags: frozenset[int], put: PutElement, take: TakeElement) -> None:
        self.name = declared.name
        self.type = declared.type
        self.descending = declared.descending
        self.none = declared.none
        self.max_length = declared.max_length
        self.none_element = put_none(last=declared.none == "last")
        self.tags = tags
        self.put_ascending = put
        self.take_ascending = take

    def put(self, value: object) -> bytes:
        """The element's bytes."""
        if value is None:
            if self.none is None:
                raise InvalidKey("None has no place in this element of the key", field=self.name)
            return self.none_element
        element = self.put_ascending(value)
        if self.max_length is not None and len(element) > self.max_length:
            raise InvalidKey(
                "the value is too long for a key", field=self.name, length=len(element), limit=self.max_length
            )
        return complement(element) if self.descending else element

    def take(self, data: bytes, complemented: bytes, offset: int) -> tuple[object, int]:
        """The value of the element at `offset`, and the offset after it."""
        if self.none is not None and data[offset : offset + 1] == self.none_element:
            return None, offset + 1
        if self.descending:
            data, complemented = complemented, data
        if take_tag(data, offset) not in self.tags:
            raise Corrupt(UNKNOWN_TAG, field=self.name)
        return self.take_ascending(data, complemented, offset)


def part_of(declared: KeyElement) -> EncodedPart:
    """The part of a declared element."""
    if issubclass(declared.type, Enum):
        return _enum_part(declared, declared.type)
    if declared.type not in TAGS:
        raise InvalidDeclaration(
            "a field of this type cannot be part of a key", field=declared.name, type=declared.type
        )
    put = _float_putter(declared.name) if declared.type is float else _putter(declared.name, declared.type)
    return EncodedPart(declared, TAGS[declared.type], put, TAKERS[declared.type])


def _putter(name: str, kind: type) -> PutElement:
    scalar = PUTTERS.get(kind)

    def put(value: object) -> bytes:
        if kind_of(value) is not kind:
            raise InvalidKey(WRONG_TYPE, field=name, value=value, type=kind)
        return put_value(cast("Value", value), name) if scalar is None else scalar(value, name)

    return put


def _float_putter(name: str) -> PutElement:
    put_float = _putter(name, float)

    def put(value: object) -> bytes:
        if kind_of(value) is not int:
            return put_float(value)
        whole = cast("int", value)
        try:
            exact = float(whole)
        except OverflowError:
            exact = None
        if exact != whole:
            raise InvalidKey("the int has no exact float", field=name, value=whole)
        return put_float(exact)

    return put


def _enum_part(declared: KeyElement, members: type[Enum]) -> EncodedPart:
    """Members by the element of their value; any other value is Corrupt, except a combination of Flag members."""
    try:
        elements = {member.name: put_value(cast("Value", member.value), declared.name) for member in members}
    except InvalidKey as exc:
        raise InvalidDeclaration("a member's value cannot be part of a key", **exc.facts) from exc
    owners = {element: members[name] for name, element in elements.items()}
    combines = issubclass(members, Flag)

    def put(value: object) -> bytes:
        if not isinstance(value, members):
            raise InvalidKey(WRONG_TYPE, field=declared.name, value=value, type=members)
        return put_value(cast("Value", value.value), declared.name) if combines else elements[value.name]

    def take(data: bytes, complemented: bytes, offset: int) -> tuple[object, int]:
        value, end = take_value(data, complemented, offset)
        member = owners.get(data[offset:end])
        if member is None and combines:
            member = _combination(members, value)
        if member is None:
            raise Corrupt("the key holds a value that no member of its Enum has", field=declared.name)
        return member, end

    tags = frozenset(element[0] for element in elements.values())
    return EncodedPart(declared, tags | TAGS[int] if combines else tags, put, take)


def _combination(members: type[Enum], value: object) -> Enum | None:
    try:
        member = members(value)
    except ValueError:
        return None
    return member if member.value == value else None
