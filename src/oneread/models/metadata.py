"""What stands beside a type in `Annotated[...]`: constraints of other libraries, as the library's own.

msgspec checks `msgspec.Meta` and passes over everything else, so a `pydantic.Field(max_length=3)` would be stored and
never looked at. Here each piece becomes a `msgspec.Meta`, a `Check` that a save runs, or a `Refused` that no
declaration may hold. Nothing of these libraries is imported: what they made is there, or they are not used. See
"Constraints" of docs/reference/declarations.md.
"""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Annotated, Any, Final, NamedTuple, TypeAlias
from uuid import UUID

import msgspec

from oneread.models.fields import Marker
from oneread.models.personal import Personal

Layers: TypeAlias = "tuple[tuple[Any, ...], ...]"
"""The metadata of each Annotated around a type, the innermost first."""


class Check(NamedTuple):
    """What a save does with a value: returns it, or raises ValueError."""

    run: Callable[[Any], object]


class Refused(NamedTuple):
    """Metadata that a declaration cannot hold, and why."""

    metadata: object
    reason: str


_NOT_UNDERSTOOD: Final = (
    "this metadata of a type is not understood, so that it would be ignored; leave it out, or set "
    "`__oneread_ignore__ = True` in its class if it is for another library"
)
_NOT_OF_A_TYPE: Final = "this constraint does not apply to values of this type, or compares them with another type"
_NOT_OF_PYDANTIC: Final = (
    "this part of pydantic has no meaning for a stored field; constraints, descriptions and validators do"
)
_NO_DEFAULT: Final = "a default is written behind the type: `name: str = 'Ada'`, or msgspec.field(default_factory=list)"
_ALWAYS_STRICT: Final = "a value is stored as it is given, never converted: leave strict=False out"
_NO_ZONE: Final = "an instant has a time zone and is kept in UTC: Timezone(...) with dots, or leave it out"
_CANNOT_RUN: Final = "pydantic cannot run this validator for a stored value; move it to check()"
_CHANGED: Final = "a validator returned {!r} instead; a value is stored as it is given, so convert it before"

_COMPARED: Final[Mapping[str, tuple[str, Callable[[Any, Any], bool]]]] = MappingProxyType(
    {
        "gt": (">", operator.gt),
        "ge": (">=", operator.ge),
        "lt": ("<", operator.lt),
        "le": ("<=", operator.le),
        "multiple_of": ("that is a multiple of", lambda value, limit: value % limit == 0),
        "min_length": ("of length >=", lambda value, limit: len(value) >= limit),
        "max_length": ("of length <=", lambda value, limit: len(value) <= limit),
        "pattern": ("matching regex", lambda value, limit: re.search(limit, value) is not None),
    }
)
_SINGLE: Final = frozenset({"Gt", "Ge", "Lt", "Le", "MultipleOf", "MinLen", "MaxLen"})
_RIVALS: Final = MappingProxyType({"gt": "ge", "ge": "gt", "lt": "le", "le": "lt"})
"""Constraints of which msgspec takes one."""
_NUMBERS: Final = frozenset({int, float, Decimal})
_ORDERED: Final = frozenset({str, bytes, date, time, timedelta, UUID})
_SIZED: Final = frozenset({str, bytes, bytearray, list, set, frozenset, dict, tuple, Any})
_VALIDATORS: Final = frozenset(
    {"AfterValidator", "BeforeValidator", "PlainValidator", "WrapValidator", "AllowInfNan", "UuidVersion"}
)
_FOR_READERS: Final = frozenset({"Doc", "DocInfo", "Unit"})
_DESCRIBING: Final = frozenset({"title", "description", "examples"})
_ALWAYS_THERE: Final = frozenset({"annotation", "required", "metadata"})
"""What the description of every field has."""
_INT_BITS: Final = 63
_FIELD_INFOS: Final = frozenset({("pydantic", "FieldInfo"), ("dataclasses", "Field"), ("attr", "_CountingAttr")})
"""The classes of what functions of pydantic, dataclasses and attrs return for a field; msgspec takes it as a value."""
ANOTHER_FIELD: Final = (
    "this default is the description of a field for another library; write the value, `name: str = 'Ada'`, constraints "
    "in the type, `Annotated[str, Field(max_length=3)]`, and a factory as msgspec.field(default_factory=list)"
)


def translate_metadata(layers: Layers, bare: Any, cls: Any) -> Layers:
    """The metadata of a type, as markers, `msgspec.Meta`, Check and Refused.

    `bare` is the type, without None; `cls` the same without arguments.
    """
    if all(is_own(each) for layer in layers for each in layer):
        return layers
    metas = [each for layer in layers for each in layer if isinstance(each, msgspec.Meta)]
    taken = {name for name in _COMPARED for each in metas if getattr(each, name) is not None}
    translator = _Translator(bare, cls, taken)
    return tuple(tuple(made for each in layer for made in translator.translate(each)) for layer in layers)


def is_own(metadata: object) -> bool:
    """Whether the library understands this metadata as it is."""
    return isinstance(metadata, (msgspec.Meta, Marker, Personal, Check, Refused))


def describes_field(default: object) -> bool:
    """Whether a default is another library's description of a field."""
    return any((each.__module__.partition(".")[0], each.__name__) in _FIELD_INFOS for each in type(default).__mro__)


def is_for_others(metadata: object) -> bool:
    """Whether metadata says that it is for people, or for another library."""
    return type(metadata).__name__ in _FOR_READERS or getattr(metadata, "__oneread_ignore__", False) is True


def is_limit(metadata: object) -> bool:
    """Whether metadata limits values, and does not only describe them."""
    return isinstance(metadata, msgspec.Meta) and any(
        getattr(metadata, name) is not None for name in (*_COMPARED, "tz")
    )


class _Translator:
    """Translates the metadata of one type. `taken` are the constraints that it has in a `msgspec.Meta`."""

    def __init__(self, bare: Any, cls: Any, taken: set[str]) -> None:
        self._bare = bare
        self._cls = cls
        self._taken = taken

    def translate(self, given: Any) -> Iterator[Any]:
        """What one piece of metadata says."""
        room, name = type(given).__module__.partition(".")[0], type(given).__name__
        if is_own(given):
            yield given
        elif is_for_others(given):
            return
        elif getattr(given, "__is_annotated_types_grouped_metadata__", False):
            for each in given:
                yield from self.translate(each)
        elif room == "annotated_types":
            yield from self._of_annotated_types(given, name)
        elif room == "pydantic":
            yield from self._of_pydantic(given, name)
        elif hasattr(given, "__get_pydantic_core_schema__"):
            yield self._run(given)
        else:
            yield Refused(given, _NOT_UNDERSTOOD)

    def _of_annotated_types(self, given: Any, name: str) -> Iterator[Any]:
        if name in _SINGLE:
            yield from (self._limit(each, getattr(given, each), given) for each in _COMPARED if hasattr(given, each))
        elif name == "Predicate":
            yield Check(_predicate(given.func))
        elif name == "Timezone":
            yield msgspec.Meta(tz=True) if given.tz is ... else Refused(given, _NO_ZONE)
        else:
            yield Refused(given, _NOT_UNDERSTOOD)

    def _of_pydantic(self, given: Any, name: str) -> Iterator[Any]:
        if name == "FieldInfo":
            yield from self._of_field(given)
        elif name == "Strict":
            if not given.strict:
                yield Refused(given, _ALWAYS_STRICT)
        elif name in _VALIDATORS:
            yield self._run(given)
        elif name == "_PydanticGeneralMetadata":
            pattern = getattr(given, "pattern", None)
            if isinstance(pattern, str):
                yield self._limit("pattern", pattern, given)
            if vars(given).keys() - ({"pattern"} if isinstance(pattern, str) else set()):
                yield self._run(given)
        else:
            yield Refused(given, _NOT_OF_PYDANTIC)

    def _of_field(self, given: Any) -> Iterator[Any]:
        """What `pydantic.Field(...)` says beside a type."""
        facts = dict(given.__repr_args__())
        facts = {name: value for name, value in facts.items() if name not in _ALWAYS_THERE and value is not None}
        if facts.keys() & {"default", "default_factory"}:
            yield Refused(given, _NO_DEFAULT)
        elif facts.keys() - _DESCRIBING:
            yield Refused(given, _NOT_OF_PYDANTIC)
        elif facts:
            yield msgspec.Meta(**facts)
        for each in given.metadata:
            yield from self.translate(each)

    def _limit(self, name: str, limit: Any, given: object) -> Any:
        """A constraint: of msgspec where it has one for the type, else checked by a save."""
        if not self._applies(name, limit):
            return Refused(given, _NOT_OF_A_TYPE)
        if self._is_of_msgspec(name, limit):
            self._taken.add(name)
            return msgspec.Meta(**{name: limit})
        return Check(_constraint(getattr(self._cls, "__name__", "value"), name, limit))

    def _applies(self, name: str, limit: Any) -> bool:
        cls = self._cls
        if name == "pattern":
            return cls is str
        if name.endswith("_length"):
            return cls in _SIZED and type(limit) is int
        if cls is datetime and name != "multiple_of":
            return type(limit) is datetime and limit.tzinfo is not None
        if cls in _NUMBERS:
            exact = name == "multiple_of" and cls is not float
            return type(limit) in _NUMBERS and not (exact and type(limit) is float) and limit == limit  # noqa: PLR0124
        return cls in _ORDERED and name != "multiple_of" and type(limit) is cls

    def _is_of_msgspec(self, name: str, limit: Any) -> bool:
        if name in self._taken or _RIVALS.get(name) in self._taken:
            return False
        if name == "pattern" or name.endswith("_length"):
            is_fixed = self._cls is tuple and ... not in getattr(self._bare, "__args__", (...,))
            return self._cls is not Any and not is_fixed
        return (self._cls is int and type(limit) is int and limit.bit_length() <= _INT_BITS) or (
            self._cls is float and type(limit) in (int, float)
        )

    def _run(self, given: object) -> Check | Refused:
        """A validator that pydantic runs. Its type is checked before, so pydantic need not know it."""
        pydantic: Any = sys.modules.get("pydantic")
        if pydantic is None:
            return Refused(given, _CANNOT_RUN)
        known = self._cls if self._cls in _NUMBERS | _ORDERED | {datetime} else Any
        try:
            return Check(_validator(pydantic.TypeAdapter(Annotated[known, given]).validate_python))
        except Exception:  # noqa: BLE001 - what pydantic raises here is of no class of its own
            return Refused(given, _CANNOT_RUN)


def _constraint(type_name: str, name: str, limit: Any) -> Callable[[Any], object]:
    words, holds = _COMPARED[name]

    def check(value: Any) -> object:
        if value is not None and not holds(value, limit):
            raise ValueError(f"Expected `{type_name}` {words} {limit!r}")
        return value

    return check


def _predicate(holds: Callable[[Any], object]) -> Callable[[Any], object]:
    def check(value: Any) -> object:
        if not holds(value):
            raise ValueError(f"{getattr(holds, '__qualname__', repr(holds))} does not hold")
        return value

    return check


def _validator(validate: Callable[[Any], object]) -> Callable[[Any], object]:
    def check(value: Any) -> object:
        try:
            found = validate(value)
        except ValueError as error:  # pydantic's own: its text has the value and an address of its manual
            errors: Any = getattr(error, "errors", None)
            raise ValueError("; ".join(each["msg"] for each in errors()) if errors else str(error)) from error
        if type(found) is not type(value) or found != value:
            raise ValueError(_CHANGED.format(found))
        return value

    return check
