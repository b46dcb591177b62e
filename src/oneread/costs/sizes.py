"""Sizes: how many bytes a value of a declared type takes in a document and in a key, at most and typically.

Where a declaration says nothing (a `str` without `max_length`, an `int` without `ge` and `le`) the only bound is that
of the whole document; such a field is *open*, and named, so that a bound can be made smaller by declaring more. See
docs/explanation/costs.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from oneread.models.fields import defaults_of
from oneread.models.model import Model, key_names
from oneread.models.paths import Path
from oneread.models.references import Copy
from oneread.models.registry import target_of
from oneread.models.types import FieldType, Names, types_of
from oneread.store.limits import BODY_BYTES, KEY_BYTES

OPEN: Final = BODY_BYTES
"""Bytes of what only the limit of a whole document bounds."""

UTF8: Final = 4
"""Bytes of one character at most."""

HEADER: Final = 5
"""Bytes that msgpack puts before text, bytes, lists and maps, at most."""


class Size(NamedTuple):
    """Bytes of one value."""

    most: int
    typical: int
    """An estimate where nothing is declared."""
    open: frozenset[str] = frozenset()
    """Dotted names of the fields that no declaration bounds."""

    def plus(self, *others: Size) -> Size:
        """The size of this value and others together."""
        sizes = (self, *others)
        return Size(
            sum(each.most for each in sizes),
            sum(each.typical for each in sizes),
            frozenset().union(*(each.open for each in sizes)),
        )

    def times(self, count: int) -> Size:
        """The size of that many."""
        return Size(self.most * count, self.typical * count, self.open if count else frozenset())

    def within(self, limit: int) -> Size:
        """The same, where more than `limit` bytes are refused; a bound as good as the limit is a declared one."""
        return Size(min(self.most, limit), min(self.typical, limit), self.open)


NOTHING: Final = Size(0, 0)
FLAG: Final = Size(1, 1)
TASK: Final = Size(1100, 60)
"""A task: its key, the source's key and a cursor."""


def hold_size(key: Size) -> Size:
    """A hold on an entity with such a key."""
    return Size(2 * key.most + 203, 30)


def greatest(sizes: Iterable[Size]) -> Size:
    """The size of one of several."""
    found = [*sizes] or [NOTHING]
    return Size(
        max(each.most for each in found),
        max(each.typical for each in found),
        frozenset().union(*(each.open for each in found)),
    )


_FIXED: Final[dict[Any, tuple[int, int]]] = {
    bool: (1, 1),
    float: (9, 9),
    date: (11, 11),
    datetime: (36, 10),
    time: (40, 10),
    timedelta: (40, 12),
    UUID: (18, 18),
    type(None): (1, 1),
}
"""Most and typical bytes in a document; an instant is an extension, or text in classes nested deep."""

_FIXED_KEYS: Final[dict[Any, int]] = {
    bool: 1, float: 9, date: 4, datetime: 9, timedelta: 12, UUID: 17, type(None): 1,
}  # fmt: skip

_TYPICAL: Final = {str: 20, bytes: 32, bytearray: 32, int: 3, Decimal: 6}
_TYPICAL_ELEMENTS: Final = 5
_TYPICAL_ANYTHING: Final = 40


class Sizes:
    """Sizes of one schema's types."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._open: set[Any] = set()

    def document(self, cls: type) -> Size:
        """The document of an entity, copy or view row: an array of its fields."""
        keys = key_names(cls) if issubclass(cls, Model) else ()
        fields = [
            self._key(each) if each.field in keys else self.field(each) for each in types_of(cls, self._names).values()
        ]
        return Size(HEADER + 2, 4).plus(*fields).within(BODY_BYTES)

    def _key(self, given: FieldType) -> Size:
        """A field of a key, which is refused when it is too long for one."""
        if given.kind == "reference":
            return self.field(given)
        return self.field(given).within(HEADER + 4 * KEY_BYTES)._replace(open=frozenset())

    def field(self, given: FieldType) -> Size:
        """One field of a document."""
        return self._value(given, f"{given.owner.__name__}.{given.field}")

    def _value(self, given: FieldType, where: str) -> Size:
        """A value of a declared type; `where` names it if it is open."""
        present, metadata = given.present, given.metadata
        bare = present.bare
        if bare in _FIXED:
            return Size(*_FIXED[bare])
        if bare in _TYPICAL:
            return _scalar(bare, metadata, where)
        return self._composed(present, metadata, where)

    def _composed(self, present: FieldType, metadata: tuple[Any, ...], where: str) -> Size:
        match present.kind:
            case "reference":
                return Size(2 * HEADER + 4 * KEY_BYTES, 8)  # short elements of keys are longer in a document
            case "union":
                return greatest(self._value(each, where) for each in present.parts)
            case "literal" | "enum":
                return greatest(map(_text, present.values))
            case "list" | "set" | "mapping" | "tuple":
                return self._several(present, metadata, where)
            case _:
                return self._class(present, where)

    def _several(self, given: FieldType, metadata: tuple[Any, ...], where: str) -> Size:
        parts = [part for part in given.parts if part.kind != "ellipsis"]
        each = NOTHING.plus(*(self._value(part, where) for part in parts))
        if given.kind == "tuple" and parts == [*given.parts] and parts:
            return each.plus(Size(HEADER, 1))
        count = _declared(metadata, "max_length")
        if count is None or not parts:
            return Size(OPEN, 1 + _TYPICAL_ELEMENTS * max(1, each.typical), frozenset({where}))
        return each.times(count).plus(Size(HEADER, 1))._replace(typical=1 + each.typical * min(count, 3))

    def _class(self, given: FieldType, where: str) -> Size:
        types = {} if given.cls in self._open else given.fields()
        if not types:  # unknown, or inside of itself
            return Size(OPEN, _TYPICAL_ANYTHING, frozenset({where}))
        self._open.add(given.cls)
        try:
            fields = [self._inner(given, each, where) for each in types.values()]
        finally:
            self._open.discard(given.cls)
        named = 0 if given.kind == "copy" else _names(given.cls, types)
        return Size(HEADER + named, 2 + named).plus(*fields)

    def _inner(self, outer: FieldType, given: FieldType, where: str) -> Size:
        """A field of a nested class; one of a copy is as small as its source declares, or smaller."""
        cls, name = outer.cls, given.field
        found = self._value(given, f"{where}.{name}")
        if outer.kind != "copy" or name in Copy.__struct_fields__:
            return found
        default = defaults_of(cls)[name]
        owner, inner = default.steps[-1] if isinstance(default, Path) else (target_of(cls, self._names), name)
        source = self.field(types_of(owner, self._names)[inner])
        return source._replace(most=max(1, source.most)) if source.most <= found.most else found


def _names(cls: type, fields: Iterable[str]) -> int:
    """Bytes of the names of a nested class's fields, which are in the document unless it is an array."""
    tag = len(str(getattr(getattr(cls, "__struct_config__", None), "tag", "") or "")) + HEADER
    encoded: Iterable[str] = getattr(cls, "__struct_encode_fields__", fields)
    return tag + sum(len(name.encode()) + HEADER for name in encoded)


def element(kind: Any, metadata: tuple[Any, ...] = ()) -> Size:
    """A value as an element of a key; longer ones than `KEY_BYTES` are refused, so that nothing here is open."""
    if kind in _FIXED_KEYS:
        return Size(_FIXED_KEYS[kind], _FIXED_KEYS[kind])
    if isinstance(kind, type) and issubclass(kind, Enum):
        return greatest(_text(each.value).plus(Size(2, 1)) for each in kind).within(KEY_BYTES)
    most = KEY_BYTES
    length = _declared(metadata, "max_length")
    if kind is str and length is not None:
        most = 2 * UTF8 * length + 2
    elif kind is bytes and length is not None:
        most = 2 * length + 2
    return Size(most, _TYPICAL.get(kind, 12)).within(KEY_BYTES)


def most_elements(metadata: tuple[Any, ...]) -> int:
    """Elements of a list or set: as declared, or as many as the largest document can hold."""
    count = _declared(metadata, "max_length")
    return OPEN if count is None else int(count)


def _scalar(kind: Any, metadata: tuple[Any, ...], where: str) -> Size:
    typical = _TYPICAL[kind]
    length = _declared(metadata, "max_length")
    if kind is int:
        least = _declared(metadata, "ge", "gt")
        most = _declared(metadata, "le", "lt")
        if least is not None and most is not None:
            return Size(9 + max(abs(int(least)), abs(int(most))).bit_length() // 8, typical)
    elif kind is str and length is not None:
        return Size(HEADER + UTF8 * length, min(typical, length) + 1)
    elif length is not None and kind is not Decimal:
        return Size(HEADER + length, min(typical, length) + 2)
    return Size(OPEN, typical + 1, frozenset({where}))


def _declared(metadata: tuple[Any, ...], *names: str) -> Any:
    """The first of these constraints that is declared."""
    for each in metadata:
        if isinstance(each, msgspec.Meta):
            for name in names:
                if getattr(each, name) is not None:
                    return getattr(each, name)
    return None


def _text(value: object) -> Size:
    """A value that is known when the schema is declared."""
    try:
        size = len(msgspec.msgpack.encode(value))
    except (TypeError, ValueError, OverflowError):
        size = len(repr(value))
    return Size(size, size)
