"""Whether conditions can hold at all: each operand is a value that its field could have.

Python compares values of any two types as unequal, so a condition with an operand of another type would hold for no
entity, and a list would silently be empty. See "Conditions" of docs/reference/views.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from types import GenericAlias, NoneType
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

import msgspec

from oneread.errors import InvalidDeclaration, InvalidKey
from oneread.models.expressions import Condition, Expression, Joined, Negated
from oneread.models.model import Model
from oneread.models.paths import Path
from oneread.models.references import Copy, Ref
from oneread.models.registry import key_codec
from oneread.models.shadow import Shapes, fitting
from oneread.models.types import Annotation, FieldType, Names, types_of

Accepts: TypeAlias = Callable[[str, Any], bool]
"""Whether a field's value can be in a relation to an operand: (relation, operand)."""

WRONG_TYPE: Final = "this condition can never apply to a value of this field"
_COPY: Final = (
    "a copy is not a value to compare with; compare its reference: field(within(Purchase.buyer, Buyer.ref)) == ..."
)
_ONLY_REFERS: Final = (
    "a copy by which rows are grouped only refers in them: compare its `ref`, or show the field with "
    "shown(within(Purchase.buyer, Buyer.name))"
)
_NEVER_NONE: Final = "this field is never None"
_NO_PATH: Final = "this path does not lead to a field; it goes through copies and structs"

_COMPARED: Final[dict[Any, tuple[type, ...]]] = {
    bool: (bool,),
    int: (int, float, Decimal, bool),
    float: (float, int),
    Decimal: (Decimal, int),
    str: (str,),
    bytes: (bytes,),
    datetime: (datetime,),
    date: (date,),
    timedelta: (timedelta,),
    UUID: (UUID,),
}
"""The types that a field of this type can be compared with."""

_EQUALITIES: Final = ("==", "!=", "one_of")
_ORDERS: Final = ("<", "<=", ">", ">=")


class _Field(NamedTuple):
    """The field at the end of a path."""

    type: Annotation
    is_copy: bool
    nullable: bool
    accepts: Accepts


class Contradiction(NamedTuple):
    """Why a condition can never hold."""

    reason: str
    condition: Condition
    type: Annotation


class ConditionChecks:
    """Checks conditions on entities of a model, or on rows of a view.

    `rows` is the class of the rows, None for a view's condition on its model; `referring` are fields of rows that hold
    copies without values.
    """

    def __init__(self, names: Names, rows: Any = None, referring: frozenset[str] = frozenset()) -> None:
        self._names = names
        self._rows = rows
        self._referring = referring
        self._known: dict[Path, _Field | None] = {}

    def find_contradiction(self, expression: Expression) -> Contradiction | None:
        """The first part of a condition that can never hold, or whose opposite always does."""
        for condition in _conditions(expression):
            reason, kind = self._check(condition)
            if reason:
                return Contradiction(reason, condition, kind)
        return None

    def _check(self, condition: Condition) -> tuple[str, Any]:
        path = condition.path
        if path not in self._known:
            self._known[path] = self._field(path)
        field = self._known[path]
        if field is None:
            return _NO_PATH, None
        if path.names[0] in self._referring and path.names[1:] and path.names[1] != "ref":
            return _ONLY_REFERS, field.type
        if condition.relation in ("is_none", "is_not_none"):
            never = condition.relation == "is_none" and not field.nullable
            return _NEVER_NONE if never else "", field.type
        if field.is_copy:
            return _COPY, field.type
        return "" if field.accepts(condition.relation, condition.operand) else WRONG_TYPE, field.type

    def _field(self, path: Path) -> _Field | None:
        """The field of a path; None when there is none."""
        nullable = False
        owner = self._rows or path.declared_in
        found: FieldType | None = None
        for name in path.names:
            types = types_of(owner, self._names) if _is_looked_into(owner) else {}
            if name not in types:
                return None
            nullable |= types[name].allows_none or _may_be_empty(owner, name)
            found = types[name].present
            owner = found.bare
        return None if found is None else _Field(found.bare, found.kind == "copy", nullable, _accepting(found))


def _accepting(given: FieldType) -> Accepts:
    """Makes the check of the operands that a value of a type can be compared with."""
    alternatives = [_accepting_one(each) for each in _alternatives(given)]
    return lambda relation, operand: any(each(relation, operand) for each in alternatives)


def _accepting_one(given: FieldType) -> Accepts:
    """The same for one type that is not a union; Any accepts every operand."""
    bare = given.bare
    if bare in (Any, object):
        return lambda _relation, _operand: True
    if bare is NoneType or given.kind == "copy":
        return lambda _relation, _operand: False
    equal = _equal(given)
    contained = _contained(given)

    def accepts(relation: str, operand: Any) -> bool:
        if relation in _EQUALITIES:
            return all(map(equal, operand if relation == "one_of" else (operand,)))
        if relation in _ORDERS:
            return equal(operand) if given.kind == "tuple" else _is_ordered(given, operand)
        if relation == "starts_with":
            return _is_text(given) and type(operand) in _bases(given)
        return contained(operand)

    return accepts


def _equal(given: FieldType) -> Callable[[Any], bool]:
    """Whether a value of the type can equal the operand."""
    bare = given.bare
    if bare in _COMPARED:
        return lambda operand: type(operand) in _COMPARED[bare] and _is_reached(bare, operand)
    if given.kind == "reference":
        return _refers(given)
    if given.kind == "enum":
        return lambda operand: isinstance(operand, bare) or any(member == operand for member in bare)
    fit = fitting(given)

    def is_value(operand: object) -> bool:
        try:
            fit(operand)
        except ValueError:
            return False
        return True

    return is_value


def _refers(given: FieldType) -> Callable[[Any], bool]:
    target = given.target()
    if not issubclass(target, Model):
        return _refers_to_group(given)
    codec = key_codec(target, given.names)

    def is_key(operand: object) -> bool:
        if not isinstance(operand, Ref) or len(operand.key) != len(codec.elements):
            return False
        try:
            codec.encode(operand.key)
        except InvalidKey:
            return False
        return True

    return is_key


def _refers_to_group(given: FieldType) -> Callable[[Any], bool]:
    types = Shapes(given.names, frozenset()).key_types(given)

    def is_key(operand: object) -> bool:
        if not isinstance(operand, Ref):
            return False
        try:
            msgspec.convert(operand.key, GenericAlias(tuple, types))
        except (TypeError, msgspec.ValidationError):
            return False
        return True

    return is_key


def _contained(given: FieldType) -> Callable[[Any], bool]:
    """Whether a value of the type can contain the operand."""
    if _is_text(given):
        return lambda operand: type(operand) in _bases(given)
    if not (isinstance(given.cls, type) and hasattr(given.cls, "__contains__")) or given.kind == "enum":
        return lambda _operand: False
    parts = [each for each in given.parts if each.kind != "ellipsis"]
    if not parts:
        return lambda _operand: True
    accepted = [_accepting(each) for each in (parts if given.kind == "tuple" else parts[:1])]
    return lambda operand: any(accepts("==", operand) for accepts in accepted)


def _is_looked_into(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, msgspec.Struct)


def _may_be_empty(owner: Any, name: str) -> bool:
    """Whether a copied field is None where its source is missing."""
    return (
        issubclass(owner, Copy)
        and name not in Copy.__struct_fields__
        and (owner.missing_ok or owner.on_delete == "clear")
    )


def _conditions(expression: Expression) -> Iterator[Condition]:
    if isinstance(expression, Condition):
        yield expression
    elif isinstance(expression, Negated):
        yield from _conditions(expression.condition)
    elif isinstance(expression, Joined):
        for part in expression.parts:
            yield from _conditions(part)


def _alternatives(given: FieldType) -> Iterator[FieldType]:
    present = given.present
    if present.kind == "union":
        for each in present.parts:
            yield from _alternatives(each)
    else:
        yield present


def _bases(given: FieldType) -> tuple[type, ...]:
    """The plain types that values of a type are compared as."""
    if given.kind == "literal":
        return tuple(dict.fromkeys(map(type, given.values)))
    if given.kind == "enum":  # a member of an Enum can be a plain value as well
        return tuple(each for each in (str, bytes, int, float) if each in given.cls.__mro__)
    return (given.bare,)


def _is_text(given: FieldType) -> bool:
    return any(each in (str, bytes) for each in _bases(given))


def _is_ordered(given: FieldType, operand: object) -> bool:
    """Whether values of a type are ordered with the operand."""
    if given.kind == "enum" and isinstance(operand, given.cls) and _bases(given):
        return True
    return any(type(operand) in _COMPARED.get(each, ()) for each in _bases(given))


def _is_reached(bare: Annotation, operand: Any) -> bool:
    """Whether a number of the type equals the operand exactly."""
    if bare is int:
        return bool(operand % 1 == 0) if type(operand) in (float, Decimal) else True
    if bare is float and type(operand) is int:
        try:
            return float(operand) == operand
        except OverflowError:
            return False
    return True


def refuse_declared(view: type, expression: Expression, names: Names) -> None:
    """Raises InvalidDeclaration for a view whose condition can never hold."""
    found = ConditionChecks(names).find_contradiction(expression)
    if found is not None and found.reason is not _NO_PATH:  # a path without a field is refused where it is read
        raise InvalidDeclaration(
            found.reason,
            view=view,
            field=repr(found.condition.path),
            condition=found.condition,
            value=found.condition.operand,
            type=found.type,
        )
