"""Placeholders: entities without personal data, for dumps that are test data.

Each value of a personal field becomes one that its type makes of a number; the number is a hash of the value under a
secret that ends with the dump. So equal values stay equal, unique ones unique, and a reference, a copy and what it is
of are changed alike. See docs/decisions/0156-personal-data-is-declared.md.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from hashlib import blake2b
from typing import Any, Final, TypeAlias
from uuid import UUID

import msgspec

from oneread.derivations.access import Accesses
from oneread.derivations.catalog import Catalog
from oneread.derivations.personal_fields import DeclaredValue, PersonalFields
from oneread.errors import InvalidValue
from oneread.models.fields import defaults_of, is_rollup
from oneread.models.personal import Personal
from oneread.models.references import Copy, copied_names
from oneread.models.registry import EntityKind, root_model, target_of
from oneread.models.types import FieldType, type_of, types_of

_Make: TypeAlias = Callable[[Any], Any]
_DAY: Final = 86_400
_YEARS: Final = 36_525
"""Days of placeholders that are dates, from 1950 on."""
_NO_PLACEHOLDER: Final = "no placeholder of this field fits; give Personal(...) a function that makes one of a number"


class Placeholders:
    """Replaces the personal values of the entities of one dump."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._personal = PersonalFields(catalog)
        self._accesses = Accesses(catalog.names)
        self._secret = secrets.token_bytes(32)
        self._open: set[type] = set()
        self._keys = {kind.cls: self._of_key(kind) for kind in catalog.kinds.values()}
        self._fields = {cls: self._of_class(cls) for cls in catalog.entity_types}
        self._hidden = {cls: self._of_hidden(cls) for cls in catalog.entity_types}

    def entity(self, entity: Any) -> Any:
        """An entity with placeholders. Raises InvalidValue for one that a save would refuse."""
        made = self._fields[type(entity)]
        if not made:
            return entity
        found = msgspec.structs.replace(entity, **{name: make(getattr(entity, name)) for name, make in made.items()})
        try:
            self._catalog.type_of(found).check_entity(found)
        except InvalidValue as error:
            raise InvalidValue(_NO_PLACEHOLDER, model=type(entity).__name__, reason=str(error)) from error
        return found

    def key(self, kind: EntityKind, parts: tuple[Any, ...]) -> tuple[Any, ...]:
        """The parts of a key."""
        return tuple([make(part) for make, part in zip(self._keys[kind.cls], parts, strict=True)])

    def hidden(self, cls: type, used: Mapping[str, Any]) -> dict[str, Any]:
        """Hidden copies of an entity of a class, by name."""
        made = self._hidden[cls]
        return {name: made[name](value) if name in made else value for name, value in used.items()}

    # What makes the values of one declaration; None where they stay as they are.

    def _of_key(self, kind: EntityKind) -> list[_Make]:
        return [self._of_declared(DeclaredValue(kind.cls, (name,))) or _same for name in kind.names]

    def _of_class(self, cls: type) -> dict[str, _Make]:
        defaults = defaults_of(cls)
        made: dict[str, _Make | None] = {}
        for name in types_of(cls, self._catalog.names):
            made[name] = self._of_declared(DeclaredValue(cls, (name,)))
            if is_rollup(defaults[name]):
                origins = self._personal.origins(cls, (name,))
                made[name] = _each(self._of_declared(origins[0])) if origins else None
        return {name: make for name, make in made.items() if make is not None}

    def _of_hidden(self, cls: type) -> dict[str, _Make]:
        found: dict[str, _Make] = {}
        for name, type_ in self._catalog.entity_types[cls].hidden.types.items():
            make = self._of_copied(cls, tuple(name.split(".")), type_of(type_, self._catalog.names))
            if make is not None:
                found[name] = make
        return found

    def _of_copied(self, model: type, route: tuple[str, ...], given: FieldType) -> _Make | None:
        """Of a value that is taken from another entity."""
        if given.present.kind == "reference":
            return self._of_type(given, "", None)
        origins = self._personal.origins(model, route)
        return self._of_declared(origins[0]) if origins else None

    def _of_declared(self, value: DeclaredValue) -> _Make | None:
        """Of a field of a model, or what is inside of it."""
        types, personal = types_of(value.model, self._catalog.names), None
        given: FieldType | None = None
        for name in value.route:
            given = types[name]
            personal = _said(given) or personal
            types = given.present.fields()
        assert given is not None, "a route has a field"
        label = self._label(value)
        return self._of_type(given, str(label), personal or self._of_root(label))

    def _label(self, value: DeclaredValue) -> DeclaredValue:
        """The field that a value is hashed as: parts of a child's key are those of the root of its group."""
        model: Any = root_model(value.model)
        kind = self._catalog.kinds[model]
        while kind.child_of is not None and value.route[0] in self._catalog.kinds[kind.child_of].names:
            kind = self._catalog.kinds[kind.child_of]
        return DeclaredValue(kind.cls, value.route)

    def _of_root(self, label: DeclaredValue) -> Personal | None:
        return _said(types_of(label.model, self._catalog.names)[label.route[0]]) if len(label.route) == 1 else None

    def _of_type(self, given: FieldType, label: str, personal: Personal | None) -> _Make | None:
        personal = _said(given) or personal
        if personal is not None and personal.placeholder is not None:
            made = personal.placeholder
            return _unless_none(lambda value: made(self._number(label, value)))
        if given.kind in ("reference", "copy"):
            referred = self._of_reference(given.target()) if given.kind == "reference" else self._of_copy(given.cls)
            return _unless_none(referred)
        inside: Mapping[str, Callable[..., _Make | None]] = {
            "union": self._of_union,
            "list": self._of_elements,
            "set": self._of_elements,
            "tuple": self._of_elements,
            "mapping": self._of_mapping,
            "class": self._of_struct,
        }
        if given.kind in inside:
            return inside[given.kind](given, label, personal)
        return None if personal is None else self._of_scalar(given, label)

    def _of_reference(self, target: Any) -> _Make | None:
        if target is None or target not in self._catalog.kinds or not self._personal.key_of(target):
            return None
        kind = self._catalog.kinds[target]
        return lambda ref: type(ref)(self.key(kind, ref.key))

    def _of_copy(self, copy: type[Copy[Any]]) -> _Make | None:
        target: Any = target_of(copy, self._catalog.names)
        types = types_of(copy, self._catalog.names)
        made = {"ref": self._of_reference(target)}
        for name in copied_names(copy):
            route = self._accesses.source_route(copy, name)
            made[name] = self._of_copied(target, route, types[name])
        return _replacing(msgspec.structs.replace, made)

    def _of_union(self, given: FieldType, label: str, personal: Personal | None) -> _Make | None:
        if given.optional:
            return _unless_none(self._of_type(given.present, label, personal))
        made = [(each, self._of_type(each, label, personal)) for each in given.parts]
        if not any(make for _each, make in made):
            return None

        def make_any(value: Any) -> Any:
            for each, make in made:
                if make is not None and isinstance(each.cls, type) and type(value) is each.cls:
                    return make(value)
            return value

        return make_any

    def _of_elements(self, given: FieldType, label: str, personal: Personal | None) -> _Make | None:
        parts = [each for each in given.parts if each.kind != "ellipsis"]
        made = [self._of_type(each, label, personal) for each in parts]
        if not any(made):
            return None if personal is None or parts else _unknown
        if given.kind != "tuple" or len(parts) < len(given.parts):
            made_of_each = made[0] or _same
            return _unless_none(lambda value: type(value)(map(made_of_each, value)))
        several = [each or _same for each in made]
        return _unless_none(lambda value: tuple([make(each) for make, each in zip(several, value, strict=True)]))

    def _of_mapping(self, given: FieldType, label: str, personal: Personal | None) -> _Make | None:
        made = [self._of_type(each, label, personal) for each in given.parts]
        if not any(made):
            return None if personal is None or made else _unknown
        of_key, of_value = [each or _same for each in made]
        return _unless_none(lambda value: {of_key(key): of_value(each) for key, each in value.items()})

    def _of_struct(self, given: FieldType, label: str, personal: Personal | None) -> _Make | None:
        if given.cls in self._open:
            return None if personal is None else _unknown
        self._open.add(given.cls)
        made = {name: self._of_type(each, f"{label}.{name}", personal) for name, each in given.fields().items()}
        self._open.discard(given.cls)
        if issubclass(given.cls, msgspec.Struct):
            replace: Any = msgspec.structs.replace
        elif dataclasses.is_dataclass(given.cls):
            replace = dataclasses.replace
        elif issubclass(given.cls, tuple):
            replace = getattr(given.cls, "_replace")  # noqa: B009 - of a NamedTuple
        else:
            replace = _with_values
        return _unless_none(_replacing(replace, made))

    def _of_scalar(self, given: FieldType, label: str) -> _Make:
        limits = {
            name: getattr(each, name)
            for each in given.metadata
            if isinstance(each, msgspec.Meta)
            for name in ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length")
            if getattr(each, name) is not None
        }
        name = label.rpartition(".")[2]
        among = given.values if given.kind == "literal" else ()
        if among:
            return lambda value: None if value is None else among[self._number(label, value) % len(among)]
        return lambda value: None if value is None else _placeholder(value, self._number(label, value), name, limits)

    def _number(self, label: str, value: Any) -> int:
        given = value.normalize() if isinstance(value, Decimal) and value.is_finite() else value
        text = f"{label}\n{given!r}".encode("utf-8", "surrogatepass")
        return int.from_bytes(blake2b(text, key=self._secret, digest_size=8).digest())


def _same(value: Any) -> Any:
    return value


def _with_values(value: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return {**value, **changed}


def _said(given: FieldType) -> Personal | None:
    """What a type itself says, without its elements."""
    return next((each for layer in given.layers for each in layer if isinstance(each, Personal)), None)


def _unless_none(make: _Make | None) -> _Make | None:
    return None if make is None else lambda value: None if value is None else make(value)


def _each(make: _Make | None) -> _Make | None:
    """Of the numbers of a group, which may be a list of values."""
    if make is None:
        return None
    return lambda value: [make(each) for each in value] if isinstance(value, list) else make(value)


def _replacing(replace: Callable[..., Any], made: Mapping[str, _Make | None]) -> _Make | None:
    changed = {name: make for name, make in made.items() if make is not None}
    if not changed:
        return None

    def make_all(value: Any) -> Any:
        known = value if isinstance(value, dict) else _fields_of(value)
        return replace(value, **{name: make(known[name]) for name, make in changed.items() if name in known})

    return make_all


def _fields_of(value: Any) -> Mapping[str, Any]:
    """The fields of a value by name, without those that it has not, as a copy that only refers."""
    names = getattr(value, "__struct_fields__", None) or getattr(value, "_fields", None)
    names = names or [each.name for each in dataclasses.fields(value)]
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def _unknown(value: Any) -> Any:
    """Of values whose type says nothing of what they hold."""
    if value:
        raise InvalidValue(_NO_PLACEHOLDER, type=type(value))
    return value


def _placeholder(value: Any, number: int, name: str, limits: Mapping[str, Any]) -> Any:
    """A value of the same type as the given one, made of a number."""
    made = _SCALARS.get(type(value))
    if made is not None:
        return made(number, name, limits)
    if isinstance(value, Enum):
        members = list(type(value))
        return members[number % len(members)]
    raise InvalidValue(_NO_PLACEHOLDER, field=name, type=type(value))


def _text(number: int, name: str, limits: Mapping[str, Any]) -> str:
    digits = f"{number:016x}"
    most = limits.get("max_length", len(name) + 1 + len(digits))
    text = f"{name[: max(0, most - 1 - len(digits))]} {digits}".strip()
    return text[max(0, len(text) - most) :].rjust(limits.get("min_length", 0), "x")


def _whole(number: int, _name: str, limits: Mapping[str, Any]) -> int:
    step = limits.get("multiple_of", 1)
    least = limits["gt"] + 1 if "gt" in limits else limits.get("ge", 0)
    most = limits["lt"] - 1 if "lt" in limits else limits.get("le", max(least, 0) + (1 << 53))
    least = min(least, most)
    first = -(-least // step)
    return int((first + number % max(most // step - first + 1, 1)) * step)


_SCALARS: Final[Mapping[type, Callable[[int, str, Mapping[str, Any]], Any]]] = {
    str: _text,
    bytes: lambda number, name, limits: _text(number, name, limits).encode(),
    bool: lambda number, _name, _limits: bool(number & 1),
    int: _whole,
    float: lambda number, name, limits: float(_whole(number, name, limits)),
    Decimal: lambda number, name, limits: Decimal(_whole(number, name, limits)),
    UUID: lambda number, _name, _limits: UUID(int=number << 64 | number),
    datetime: lambda number, _name, _limits: (
        datetime(1950, 1, 1, tzinfo=UTC) + timedelta(microseconds=number % (_YEARS * _DAY * 1_000_000))
    ),
    date: lambda number, _name, _limits: date(1950, 1, 1) + timedelta(days=number % _YEARS),
    time: lambda number, _name, _limits: (
        datetime(1950, 1, 1, tzinfo=UTC) + timedelta(microseconds=number % (_DAY * 1_000_000))
    ).time(),
    timedelta: lambda number, _name, _limits: timedelta(microseconds=number % (_DAY * 1_000_000)),
}
