"""Words of a command line as values of a key, by the types that were declared.

See "Values" of the page of the command line in the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from oneread.derivations.catalog import Catalog
from oneread.derivations.keyed import ViewKey
from oneread.errors import InvalidKey, UsageError
from oneread.models.annotations import unwrap

NONE: Final = "@none"
"""Stands for None; a text that begins with @ is given with two."""


class WantedType(NamedTuple):
    """One argument of a key."""

    name: str
    type: Any
    optional: bool = False
    further: bool = False
    """A part of a reference's key behind the first one; `@none` for the whole reference leaves it out."""


def wanted(catalog: Catalog, cls: Any) -> list[WantedType]:
    """What the key of a model or view is made of, in order; a reference takes the parts of its own key."""
    view = catalog.views.get(cls)
    if view is not None:
        return _of_view(view.key)
    return [WantedType(element.name, element.type) for element in catalog.kinds[cls].codec.elements]


def _of_view(key: ViewKey) -> list[WantedType]:
    found: list[WantedType] = []
    for part in key.parts:
        optional = part.rule.none is not None
        if part.rule.hashed:
            found.append(WantedType(part.field, unwrap(part.access.type).bare, optional))
        else:
            found.extend(
                WantedType(element.name, element.type, optional, further=place > 0)
                for place, element in enumerate(part.elements)
            )
    return found


def values(cls: type, declared: Sequence[WantedType], words: Sequence[str]) -> tuple[Any, ...]:
    """The words as values of the first parts of a key.

    Raises:
        InvalidKey: there are more words than parts, or one is not written as its type is.
    """
    return tuple(value(cls, each, word) for each, word in _pairs(cls, declared, words)[0])


def whole_key(cls: type, declared: Sequence[WantedType], words: Sequence[str]) -> tuple[Any, ...]:
    """The words as a whole key.

    Raises:
        InvalidKey: there are more or fewer words than parts, or one is not written as its type is.
    """
    pairs, lacking = _pairs(cls, declared, words)
    if lacking:
        raise InvalidKey(
            "the key has more parts than values were given",
            of=cls,
            parts=[each.name for each in declared],
            given=list(words),
        )
    return tuple(value(cls, each, word) for each, word in pairs)


def rest_of_key(cls: type, declared: Sequence[WantedType], words: Sequence[str]) -> Sequence[WantedType]:
    """The parts of a key behind those that the words are values of. Raises InvalidKey for more words than parts."""
    return _pairs(cls, declared, words)[1]


def _pairs(
    cls: type, declared: Sequence[WantedType], words: Sequence[str]
) -> tuple[list[tuple[WantedType, str]], Sequence[WantedType]]:
    """The part that each word is a value of, and the parts that no word is left for."""
    pairs: list[tuple[WantedType, str]] = []
    left = list(declared)
    for word in words:
        if pairs and pairs[-1][1] == NONE and word != NONE:
            left = _behind_reference(left)
        if not left:
            raise InvalidKey(
                "more values than the key has parts", of=cls, parts=[each.name for each in declared], given=list(words)
            )
        pairs.append((left.pop(0), word))
    if pairs and pairs[-1][1] == NONE:
        left = _behind_reference(left)
    return pairs, left


def _behind_reference(left: list[WantedType]) -> list[WantedType]:
    """The parts without the rest of the reference that they begin with."""
    return next((left[place:] for place, each in enumerate(left) if not each.further), [])


def value(cls: type, declared: WantedType, word: str) -> Any:
    """One word as a value. Raises InvalidKey."""
    if word == NONE:
        if not declared.optional:
            raise InvalidKey("this part of the key is never None", of=cls, part=declared.name)
        return None
    text = word[1:] if word.startswith("@@") else word
    kind = _written(declared.type)
    try:
        return kind.read(declared.type, text)
    except (ValueError, InvalidOperation, msgspec.MsgspecError, OverflowError) as error:
        raise InvalidKey(
            "this is not how a value of the key is written",
            of=cls, part=declared.name, type=declared.type, given=word, example=kind.example,
        ) from error  # fmt: skip


class _Written(NamedTuple):
    read: Callable[[Any, str], Any]
    example: str


def _by(read: Callable[[str], Any]) -> Callable[[Any, str], Any]:
    return lambda _type, text: read(text)


_TRUTH: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _bool(_type: Any, text: str) -> bool:
    known = _TRUTH.get(text.lower())
    if known is None:
        raise ValueError
    return known


def _instant(_type: Any, text: str) -> datetime:
    """An instant; a date alone is its midnight in UTC, and anything else says its offset."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        if len(text) > len("2010-12-07"):
            raise ValueError
        return found.replace(tzinfo=UTC)
    return found


def _duration(_type: Any, text: str) -> timedelta:
    if text.lstrip("+-").startswith("P"):
        return msgspec.convert(text, timedelta)
    return timedelta(seconds=float(text))


def _member(cls: type[Enum], text: str) -> Enum:
    """A member by its name, else by its value."""
    if text in cls.__members__:
        return cls.__members__[text]
    found = [each for each in cls if str(each.value) == text]
    if not found:
        raise ValueError
    return found[0]


def _bytes(_type: Any, text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


_BY_TYPE: Final[dict[type, _Written]] = {
    bool: _Written(_bool, "true"),
    int: _Written(_by(int), "-12"),
    float: _Written(_by(float), "2.5"),
    Decimal: _Written(_by(Decimal), "2.55"),
    str: _Written(_by(str), "text"),
    bytes: _Written(_bytes, "00ff1a"),
    datetime: _Written(_instant, "2010-12-07T08:26:00Z, or 2010-12-07 for midnight in UTC"),
    date: _Written(_by(date.fromisoformat), "2010-12-07"),
    timedelta: _Written(_duration, "90 (seconds), or PT1M30S"),
    UUID: _Written(_by(UUID), "0192f0c1-5d3e-7c3a-9d53-6f0a3b1c2d4e"),
}


def _written(kind: Any) -> _Written:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _Written(_member, ", ".join(kind.__members__))
    known = _BY_TYPE.get(kind)
    if known is None:
        raise UsageError("values of this type cannot be written on a command line", type=kind)
    return known
