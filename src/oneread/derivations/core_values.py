"""Values as the tables of the core name them: where documents have them, which types keys have, and how they compare.

See docs/design/native.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

from oneread.derivations.access import ValuePath
from oneread.encoding.ordered import encode
from oneread.models.expressions import Condition, Expression, Joined, Negated
from oneread.models.layout import Layout
from oneread.models.registry import EntityKind, reference_target
from oneread.models.shadow import FieldShape
from oneread.store.engine import CORE_TYPES

DocumentPath: TypeAlias = tuple[int, ...]
"""Where a document has a value: the place of a field, and of elements of arrays within."""

KEPT_TYPES: Final = frozenset(CORE_TYPES[each] for each in (str, int, Decimal, bool, date, bytes))
"""Of values that records keep as documents have them."""
ASKED, _COMPARES, _IS_NONE, _ALL, _ANY, _NONE_OF = range(6)
_RELATIONS: Final = {"<": 1, "==": 2, "<=": 3, ">": 4, "!=": 5, ">=": 6, "one_of": 2}
"""What a value may be to an operand: 1 below it, 2 equal, 4 above."""
_MOST_PARTS: Final = 8
"""Of a key, in a row that follows its source."""


class UnknownToCoreError(Exception):
    """Something that follows from an entity is Python's alone."""


class CoreCondition(NamedTuple):
    """One condition of the table, as `take_condition` of conditions.c reads it."""

    how: int
    relation: int = 0
    kind: int = 0
    path: DocumentPath = ()
    operands: Sequence[bytes] = ()
    """Elements of keys."""
    parts: Sequence[CoreCondition] = ()


def path_in(fields: Sequence[FieldShape], value: ValuePath) -> DocumentPath:
    """Where documents of these fields have a value."""
    if value.is_hidden:
        raise UnknownToCoreError(value)
    path = list[int]()
    for name in (value.name, *value.steps):
        place = next((at for at, each in enumerate(fields) if each.name == name), None)
        if place is None:
            raise UnknownToCoreError(value)
        path.append(place)
        fields = fields[place].fields
    return tuple(path)


def shape_at(fields: Sequence[FieldShape], path: DocumentPath) -> FieldShape:
    shape = fields[path[0]]
    for place in path[1:]:
        shape = shape.fields[place]
    return shape


def route_in(layout: Layout[Any], route: str) -> DocumentPath:
    """The place of a copied value in its source; none for the route of what only refers."""
    if not route:
        return ()
    name, *steps = route.split(".")
    path = path_in(layout.fields, ValuePath(name, tuple(steps)))
    shape = shape_at(layout.fields, path)
    if shape.kind not in ("plain", "ref", "copy") or shape.sets:
        raise UnknownToCoreError(route)
    return (*path, 0) if shape.kind == "copy" else path  # of a copy its reference


def kept_in(layout: Layout[Any], route: str, kinds: Mapping[type, EntityKind]) -> DocumentPath:
    """`route_in` of a value that records keep as documents have it; `kinds` are those of all classes."""
    if route.endswith(".ref"):
        return kept_in(layout, route.removesuffix(".ref"), kinds)
    path = route_in(layout, route)
    shape = layout.fields[path[0]] if path[-1] == 0 and len(path) > 1 else shape_at(layout.fields, path)
    if shape.kind == "plain":
        types = [number_of(shape.type.present.bare)]
    else:
        target, _copy = reference_target(shape.type) or (None, None)
        types = next((key_types(each) for cls, each in kinds.items() if target and issubclass(cls, target)), [])
    if not types or not KEPT_TYPES.issuperset(types):
        raise UnknownToCoreError(route)
    return path


def number_of(kind: Any) -> int:
    """The number of a type whose values are in keys."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        kinds = {type(each.value) for each in kind}
        kind = kinds.pop() if len(kinds) == 1 else None
    if kind not in CORE_TYPES:
        raise UnknownToCoreError(kind)
    return CORE_TYPES[kind]


def key_types(kind: EntityKind) -> list[int]:
    """The types of the parts of a key; none where the core does not make such keys."""
    found = [CORE_TYPES.get(each.type, 0) for each in kind.codec.elements]
    return found if all(found) and len(found) <= _MOST_PARTS else []


def condition_in(fields: Sequence[FieldShape], expression: Expression) -> CoreCondition:
    """The condition that the core decides, of documents of these fields."""
    if isinstance(expression, Joined):
        parts = [condition_in(fields, each) for each in expression.parts]
        return CoreCondition(_ALL if expression.how == "and" else _ANY, parts=parts)
    if isinstance(expression, Negated):
        return CoreCondition(_NONE_OF, parts=[condition_in(fields, expression.condition)])
    if not isinstance(expression, Condition):
        raise UnknownToCoreError(expression)
    name, *steps = expression.path.names
    path = path_in(fields, ValuePath(name, tuple(steps)))
    if expression.relation in ("is_none", "is_not_none"):
        found = CoreCondition(_IS_NONE, path=path)
        return found if expression.relation == "is_none" else CoreCondition(_NONE_OF, parts=[found])
    return _comparison(expression, path, _type_at(fields, path))


def _comparison(condition: Condition, path: DocumentPath, kind: type) -> CoreCondition:
    """A comparison of values that are ordered, and equal, where their elements of keys are."""
    relation, given = condition.relation, condition.operand
    operands = given if relation == "one_of" else (given,)
    is_known = all(type(each) is kind for each in operands) and relation in _RELATIONS
    if not is_known or (issubclass(kind, Enum) and relation not in ("==", "!=", "one_of")):
        raise UnknownToCoreError(condition)
    found = [encode((each.value if isinstance(each, Enum) else each,)) for each in operands]
    return CoreCondition(_COMPARES, _RELATIONS[relation], number_of(kind), path, found)


def _type_at(fields: Sequence[FieldShape], path: DocumentPath) -> type:
    """The type of the values at a path, without None."""
    kind = shape_at(fields, path).type.present.bare
    if not isinstance(kind, type):
        raise UnknownToCoreError(kind)
    return kind
