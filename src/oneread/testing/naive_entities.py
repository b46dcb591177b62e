"""Entities in the plainest way: where they are, what they refer to, and the stamps of a save.

See "Semantics" of the decisions page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from oneread.errors import NotUnique
from oneread.models.expiry import Expiry
from oneread.models.fields import CREATED, GENERATED, UPDATED, Marker, defaults_of, is_counter, is_rollup
from oneread.models.model import Model, key_names
from oneread.models.paths import Path
from oneread.models.references import Copy, Ref, copied_names, ref_class
from oneread.models.registry import child_of, key_fields, reference_target, root_model
from oneread.models.types import FieldType, Names, types_of
from oneread.testing.naive import comparable

M = TypeVar("M", bound=Model[*tuple[Any, ...]])

AnyModel: TypeAlias = Model[*tuple[Any, ...]]
KeyParts: TypeAlias = tuple[Any, ...]

Place: TypeAlias = tuple[type, KeyParts]
"""An entity's address: the model that declares its key, and the key."""

Route = tuple[str, ...]

CHILD_OF: Final = "child_of"
"""The reference of a child to its root, which is not a field."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class OracleField(NamedTuple):
    """A field that refers."""

    name: str
    target: type
    variant: type
    """The class that is referred to: `target`, or a variant of it."""
    copy: type[Copy[Any]] | None
    missing_ok: bool
    on_delete: str
    key_field: str = ""
    """Of a child: the field of its key that refers to the root, if one does."""


Referring: TypeAlias = dict[str, OracleField]
"""The fields of a model that refer, by name."""

Entry: TypeAlias = tuple[tuple[Any, ...], Place, Any]
"""What a view has of one entity: the values of its key rules, the entity's place, and the row."""


class Held(NamedTuple):
    """An entity, and the values that it last saw of its sources, by field and route; a group saw none."""

    entity: Any
    seen: dict[tuple[str, Route], Any]


def referring_fields(cls: type, names: Names) -> Referring:
    """The fields of a model that refer, by name; those of a child with the reference to its root."""
    defaults = defaults_of(cls)
    found: Referring = {}
    for name, given in types_of(cls, names).items():
        target = reference_target(given.present.several or given)
        if target is not None:
            policy: Any = target[1] or defaults[name]
            missing_ok, on_delete = getattr(policy, "missing_ok", False), getattr(policy, "on_delete", "keep")
            found[name] = OracleField(name, root_model(target[0]), target[0], target[1], missing_ok, on_delete)
    root = child_of(cls, names)
    if root is not None:
        by = next((name for name in key_names(cls) if name in found and found[name].target is root), "")
        found[CHILD_OF] = OracleField(CHILD_OF, root, root, None, missing_ok=False, on_delete="refuse", key_field=by)
    return found


def has_ended(ttl: Expiry | None, value: Callable[[Any], datetime | None], now: int) -> bool:
    """Whether the life that a class option gives has ended by the clock; `value` reads the field that it names."""
    since = None if ttl is None else value(ttl.field)
    if ttl is None or since is None:
        return False
    end: datetime = since if ttl.after is None else since + ttl.after
    return end < _EPOCH + timedelta(milliseconds=now + 1)


def place_of(entity: AnyModel) -> Place:
    cls = type(entity)
    return root_model(cls), _parts(entity, key_names(cls))


def _parts(entity: AnyModel, names: Iterable[str]) -> KeyParts:
    """The parts of a key in these fields: of one that refers those of the key behind it."""
    values = [getattr(entity, name) for name in names]
    return tuple([part for each in values for part in (each.key if isinstance(each, Ref) else (each,))])


def parts_in(model: type[AnyModel], names: Names) -> int:
    """The parts of a model's key."""
    return sum(len(each.elements) for each in key_fields(model, names))


def key_values(model: type[AnyModel], key: KeyParts, names: Names) -> dict[str, Any]:
    """The values of a model's key fields, by name, of the parts of a key."""
    rest = list(key)
    found: dict[str, Any] = {}
    for each in key_fields(model, names):
        parts = tuple([rest.pop(0) for _element in each.elements])
        found[each.name] = parts[0] if each.target is None else ref_class(each.target)(parts)
    return found


def numbered_part(cls: type) -> str | None:
    """The part of a key that a sequence gives."""
    defaults = defaults_of(cls)
    wanting = [name for name in key_names(cls) if defaults[name] == GENERATED]
    return wanting[0] if wanting and root_model(cls).child_of is not None else None


def flat_values(types: Sequence[FieldType], values: tuple[Any, ...]) -> KeyParts:
    """The values of a group by elements of its key: those of a reference one by one."""
    parts: list[Any] = []
    for given, value in zip(types, values, strict=True):
        target = reference_target(given)
        if target is not None and value is None:
            parts += [None] * parts_in(target[0], given.names)
        else:
            parts += [value] if target is None else value.key
    return tuple(parts)


def place_order(place: Place) -> tuple[Any, ...]:
    return tuple(comparable(part) for part in place[1])


def place_name(place: Place) -> str:
    return f"{place[0].__name__}({', '.join(map(repr, place[1]))})"


def owners_of(taken: Iterable[tuple[tuple[Any, tuple[Any, ...]], Place]]) -> dict[Any, Place]:
    """Who has each unique value, by view and value; one with None is none. Raises NotUnique where two have one."""
    owners: dict[Any, Place] = {}
    for value, place in taken:
        if None not in value[1] and owners.setdefault(value, place) != place:
            raise NotUnique("taken", owner=place_name(owners[value]))
    return owners


def targets_of(field: OracleField, entity: AnyModel) -> list[Place]:
    """The places that a field refers to, each once; a child refers to its root by its own key."""
    if field.name == CHILD_OF:
        by = [field.key_field] if field.key_field else key_names(field.target)
        return [(field.target, _parts(entity, by))]
    value = getattr(entity, field.name, None)
    if value is None:
        return []
    if field.copy is not None:
        return [(field.target, value.ref.key)]
    refs = [value] if isinstance(value, Ref) else list(value)
    return list(dict.fromkeys((field.target, ref.key) for ref in refs))


def as_held(value: object) -> Any:
    """A value of another entity, as its holder sees it: a copy stands for its reference."""
    return value.ref if isinstance(value, Copy) else value


@cache
def source_route(field: OracleField, route: Route) -> Route:
    """A route behind a reference by the source's own names: a copy may rename a field."""
    if field.copy is None or route[0] not in copied_names(field.copy):
        return route
    default = defaults_of(field.copy)[route[0]]
    return (*(default.names if isinstance(default, Path) else (route[0],)), *route[1:])


def written_at(entity: AnyModel, version: int) -> int:
    """The clock of an entity's stamps; `version`, which the database returned, if it has no stamps."""
    defaults = defaults_of(type(entity))
    for stamp in (UPDATED, CREATED):
        for name, default in defaults.items():
            if default == stamp:
                at: datetime = getattr(entity, name)
                return (at - _EPOCH) // timedelta(milliseconds=1)
    return version


def stamped(entity: M, before: AnyModel | None, version: int, empty_totals: Mapping[str, object]) -> M:
    """An entity with its stamps, and the totals that it had; `empty_totals` are those of a new one."""
    stamps: dict[str, Any] = {}
    for name, default in defaults_of(type(entity)).items():
        if default == UPDATED:
            stamps[name] = _EPOCH + timedelta(milliseconds=version)
        elif isinstance(given := getattr(entity, name), Marker) and given.what == "reference":
            stamps[name] = None  # left out where it may be empty
        elif is_rollup(default):
            stamps[name] = getattr(before, name, empty_totals[name])
        elif default == CREATED and hasattr(before, name):
            stamps[name] = getattr(before, name)
        elif default == CREATED and getattr(entity, name) == CREATED:
            stamps[name] = _EPOCH + timedelta(milliseconds=version)
    return msgspec.structs.replace(entity, **stamps)


def empty_totals_of(cls: type, names: Names) -> dict[str, object]:
    """What the totals of a model show of an empty group."""
    types = types_of(cls, names)
    totals = [name for name, default in defaults_of(cls).items() if is_rollup(default)]
    return {name: _empty_total(types[name]) for name in totals}


def _empty_total(given: FieldType) -> object:
    if given.present.several:
        return []
    return None if given.optional else _EMPTY_TOTALS[given.bare]


_EMPTY_TOTALS: Final[dict[type, object]] = {int: 0, float: 0.0, Decimal: Decimal(0), timedelta: timedelta()}


def totals_of(cls: type) -> dict[str, tuple[type[Any], str]]:
    """The aggregate and its field that each rollup of a model shows, but for counters."""
    given = {name: one.group for name, one in defaults_of(cls).items() if is_rollup(one) and not is_counter(one)}
    fields = {name: each if hasattr(each, "__objclass__") else each() for name, each in given.items()}
    return {name: (each.__objclass__, each.__name__) for name, each in fields.items()}


def with_copies(fields: Iterable[OracleField], entity: AnyModel, seen: Mapping[tuple[str, Route], Any]) -> AnyModel:
    """An entity with copies of the values that it has seen, by the field and the route from its source."""
    copies: dict[str, Any] = {}
    for field in fields:
        if field.copy is not None and getattr(entity, field.name) is not None:
            values = {name: seen[field.name, source_route(field, (name,))] for name in copied_names(field.copy)}
            ref = getattr(entity, field.name).ref
            copies[field.name] = field.copy(ref=ref, deleted=seen[field.name, ("deleted",)], **values)
    return msgspec.structs.replace(entity, **copies)
