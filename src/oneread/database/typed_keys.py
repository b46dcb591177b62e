"""Words of a command line or an address as values of a key, by their declared types.

See "Values" in docs/reference/command-line.md.
"""

from __future__ import annotations

import functools
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
from oneread.models.json_numbers import IS_NUMBER, SPELLINGS, spell
from oneread.models.references import Ref
from oneread.models.types import unwrap
from oneread.models.wide import digits_of

NONE: Final = "@none"
"""The word for None; a text that begins with @ is written with two."""


class WantedType(NamedTuple):
    """One argument of a key."""

    name: str
    type: Any
    optional: bool = False
    further: bool = False
    """A later part of a reference's key; left out when the reference is `@none`."""


def key_parts(catalog: Catalog, cls: Any) -> list[WantedType]:
    """The parts of the key of a model or view, in order; a reference is the parts of its own key."""
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


def values(cls: type, declared: Sequence[WantedType], words: Sequence[str]) -> tuple[object, ...]:
    """Converts words to values of the first parts of a key.

    Raises:
        InvalidKey: there are more words than parts, or one does not fit its type.
    """
    return tuple(value(cls, each, word) for each, word in _pairs(cls, declared, words)[0])


def whole_key(cls: type, declared: Sequence[WantedType], words: Sequence[str]) -> tuple[object, ...]:
    """Converts words to a whole key.

    Raises:
        InvalidKey: there are more or fewer words than parts, or one does not fit its type.
    """
    pairs, missing = _pairs(cls, declared, words)
    if missing:
        raise InvalidKey(
            "too few values for the key",
            of=cls,
            parts=[each.name for each in declared],
            given=list(words),
        )
    return tuple(value(cls, each, word) for each, word in pairs)


def key_words(catalog: Catalog, cls: Any, record: Any) -> list[str]:
    """The words of the whole key of an entity, or of a row of a view that `get` finds."""
    view = catalog.views.get(cls)
    if view is None:
        return [word(each) for each in catalog.kinds[cls].parts(record)]
    found: list[str] = []
    for part in view.key.parts:
        given = getattr(record, part.field)
        ref = getattr(given, "ref", given)
        found.extend(map(word, ref.key) if isinstance(ref, Ref) else [word(given)])
    return found


def word(value: object) -> str:
    """The word of a value, from which `value` reads the same again."""
    if value is None:
        return NONE
    if isinstance(value, str):
        return f"@{value}" if value.startswith("@") else value
    return next((write(value) for kind, write in _WORDS.items() if isinstance(value, kind)), str(value))


def rest_of_key(cls: type, declared: Sequence[WantedType], words: Sequence[str]) -> Sequence[WantedType]:
    """The parts of a key after those that words are given for. Raises InvalidKey for more words than parts."""
    return _pairs(cls, declared, words)[1]


def _pairs(
    cls: type, declared: Sequence[WantedType], words: Sequence[str]
) -> tuple[list[tuple[WantedType, str]], Sequence[WantedType]]:
    """Each word with its part, and the parts without a word."""
    pairs: list[tuple[WantedType, str]] = []
    left = list(declared)
    for word in words:
        if pairs and pairs[-1][1] == NONE and word != NONE:
            left = _skip_reference(left)
        if not left:
            raise InvalidKey(
                "too many values for the key", of=cls, parts=[each.name for each in declared], given=list(words)
            )
        pairs.append((left.pop(0), word))
    if pairs and pairs[-1][1] == NONE:
        left = _skip_reference(left)
    return pairs, left


def _skip_reference(left: list[WantedType]) -> list[WantedType]:
    """The parts after the rest of the reference that they begin with."""
    return next((left[place:] for place, each in enumerate(left) if not each.further), [])


def value(cls: type, declared: WantedType, word: str) -> Any:
    """Converts one word to a value. Raises InvalidKey."""
    if word == NONE:
        if not declared.optional:
            raise InvalidKey("this part of the key cannot be None", of=cls, part=declared.name)
        return None
    text = word[1:] if word.startswith("@@") else word
    form = _word_form(declared.type)
    try:
        return form.read(text)
    except (ValueError, InvalidOperation, msgspec.MsgspecError, OverflowError) as error:
        raise InvalidKey(
            "the word is not a value of the key's type",
            of=cls, part=declared.name, type=declared.type, given=word, example=form.example,
        ) from error  # fmt: skip


class _WordForm(NamedTuple):
    read: Callable[[str], object]
    example: str


_TRUTH: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _bool(text: str) -> bool:
    known = _TRUTH.get(text.lower())
    if known is None:
        raise ValueError
    return known


def _instant(text: str) -> datetime:
    """An instant; a date alone is midnight in UTC, anything else must have an offset."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        if len(text) > len("2010-12-07"):
            raise ValueError
        return found.replace(tzinfo=UTC)
    return found


def _uuid(text: str) -> UUID:
    return msgspec.convert(text, UUID)


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


def _duration(text: str) -> timedelta:
    if text.lstrip("+-").startswith("P"):
        return msgspec.convert(text, timedelta)
    return timedelta(seconds=_number(float, text))


def _member(cls: type[Enum], text: str) -> Enum:
    """A member by name, else by value."""
    if text in cls.__members__:
        return cls.__members__[text]
    found = [each for each in cls if str(each.value) == text]
    if not found:
        raise ValueError
    return found[0]


def _number(kind: type[Any], text: str) -> Any:
    """A number in the form that JSON has, and of a float what is not finite."""
    if not IS_NUMBER(text) and (kind is not float or text not in SPELLINGS):
        raise ValueError
    return kind(text)


_BY_TYPE: Final[dict[object, _WordForm]] = {
    bool: _WordForm(_bool, "true"),
    int: _WordForm(functools.partial(_number, int), "-12"),
    float: _WordForm(functools.partial(_number, float), "2.5"),
    Decimal: _WordForm(functools.partial(_number, Decimal), "2.55"),
    str: _WordForm(str, "text"),
    bytes: _WordForm(_bytes, "00ff1a"),
    datetime: _WordForm(_instant, "2010-12-07T08:26:00Z, or 2010-12-07 for midnight in UTC"),
    date: _WordForm(date.fromisoformat, "2010-12-07"),
    timedelta: _WordForm(_duration, "90 (seconds), or PT1M30S"),
    UUID: _WordForm(_uuid, "0192f0c1-5d3e-7c3a-9d53-6f0a3b1c2d4e"),
}


_WORDS: Final[dict[type, Callable[[Any], str]]] = {
    Enum: lambda value: value.name,
    bool: lambda value: "true" if value else "false",
    int: digits_of,
    float: lambda value: str(spell(value)),
    bytes: bytes.hex,
    datetime: datetime.isoformat,
    timedelta: lambda value: str(msgspec.to_builtins(value)),
}
"""The words of values whose text is another one; the first that matches counts."""


def has_words(kind: object) -> bool:
    """Whether values of this type are written as words."""
    return kind in _BY_TYPE or (isinstance(kind, type) and issubclass(kind, Enum))


def _word_form(kind: object) -> _WordForm:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _WordForm(functools.partial(_member, kind), ", ".join(kind.__members__))
    known = _BY_TYPE.get(kind)
    if known is None:
        raise UsageError("text has no form for values of this type", type=kind)
    return known
