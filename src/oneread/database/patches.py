"""Patches: changes of single fields, applied to the entity that the commit reads.

See "Semantics" of the decisions page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow
from functools import cache
from types import MemberDescriptorType
from typing import Any, Final

import msgspec
from msgspec import UNSET

from oneread.errors import InvalidValue, NotFound, UsageError, perhaps
from oneread.models.expressions import Expression, FieldChange, FieldExpression
from oneread.models.fields import Marker, defaults_of, is_counter
from oneread.models.model import Model, key_names

_EXACT: Final = Context(prec=2500, traps=[Inexact, Overflow, InvalidOperation])
"""Adds without rounding, or not at all."""
_ADDED: Final[dict[type, tuple[type, ...]]] = {
    int: (int, float),
    float: (float, int),
    Decimal: (Decimal, int),
    timedelta: (timedelta,),
    datetime: (timedelta,),
    date: (timedelta,),
}
"""The types that can be added to a value of this type; other types take their own only, as text does.

An int field refuses the sum of an int and a float.
"""
_DAY: Final = timedelta(days=1)
_OF_VARIANT: Final = "a patch sets fields that the class declares, and this is one of a variant: patch that variant"
_STAMP: Final = "this field is a stamp, which the database sets: leave it out of the patch"
_COUNTER: Final = 'this field shows a counter and cannot be set; add to that counter: db.counter("NAME").add(1)'
_SET_BY_DATABASE: Final = {
    "rollup": "this field shows a number of a group and cannot be set; change what the group counts",
    "created": _STAMP,
    "updated": _STAMP,
}


class FieldStep(msgspec.Struct, frozen=True):
    """A change that depends on the stored value."""

    name: str
    argument: Any
    apply: Callable[[Any], Any]

    def __repr__(self) -> str:
        return f"{self.name}({self.argument!r})"


def add(amount: Any) -> Any:
    """`db.patch(Purchase, "537626", 1, quantity=add(1))`: adds to the stored number.

    Atomic, so no increment is lost.
    """
    return FieldStep("add", amount, lambda value: _sum(value, amount))


def append(element: Any) -> Any:
    """Adds an element to a list (at its end), set or tuple."""
    return FieldStep("append", element, lambda value: _joined(_several(value), element))


def remove(element: Any) -> Any:
    """Removes every element that equals this one from a list, set or tuple; absent ones are ignored."""
    return FieldStep(
        "remove", element, lambda value: type(value)(each for each in _several(value) if not _equals(each, element))
    )


def set_to(value: Any) -> Any:
    """`db.patch(Car, 1, if_version=set_to(7))`: sets a field, also one named like a parameter of `patch`."""
    return FieldStep("set_to", value, lambda _old: value)


_OF_FIELDS: Final = (FieldChange, FieldExpression, Expression, FieldStep, MemberDescriptorType)
"""What stands for a change of a field, or may have been meant for one, and is never a part of a key."""
_STEPS: Final = {"add": add, "append": append, "remove": remove}


def take_changes(model: Any, given: tuple[Any, ...], changes: dict[str, Any]) -> tuple[Any, ...]:
    """The key that a patch is given; `field(Purchase.quantity).to(2)` behind it goes to `changes`, as by name.

    Raises InvalidValue for what is not a change of a field of this model, and for a field that is changed twice.
    """
    for name, change in changes.items():
        if isinstance(change, (FieldChange, FieldExpression)):
            raise InvalidValue(
                "a change says its field itself: give it behind the key, not by name",
                model=model, field=name, given=change,
            )  # fmt: skip
    place = next((place for place, each in enumerate(given) if isinstance(each, _OF_FIELDS)), None)
    if place is None or not isinstance(model, type):
        return given
    for each in given[place:]:
        if not isinstance(each, FieldChange):
            raise InvalidValue(
                "behind its key a patch takes changes: field(Purchase.quantity).to(2)", model=model, given=each
            )
        name = _changed_field(model, each)
        if name in changes:
            raise InvalidValue("this patch changes a field twice; give one change of it", model=model, field=name)
        changes[name] = each.argument if each.verb == "to" else _STEPS[each.verb](each.argument)
    return given[:place]


def take_only_changes(model: type, given: tuple[Any, ...], changes: dict[str, Any]) -> None:
    """The same where no key is given; raises UsageError for anything else."""
    if take_changes(model, given, changes):
        raise UsageError("upsert takes one entity and changes: field(Visit.count).add(1)", model=model, given=given)


def _changed_field(model: type, change: FieldChange) -> str:
    (declaring, name), *further = change.path.steps
    if further:
        raise InvalidValue("a copy follows its source: patch the field there", model=model, field=change.path)
    if not issubclass(model, declaring):
        if issubclass(declaring, model):
            raise InvalidValue(_OF_VARIANT, model=model, field=name, variants=[declaring])
        raise InvalidValue("this is a field of another class", model=model, field=change.path)
    if isinstance(change.argument, FieldStep):
        raise InvalidValue(
            "a change takes a value: field(Purchase.quantity).add(1)", model=model, field=name, given=change.argument
        )
    return name


def may_repeat(wanted: tuple[Any, ...]) -> bool:
    """Whether a change of a bulk writer that is done again leaves what it left before, as what restores a dump does."""
    verb = wanted[0]
    if verb == "patch":
        steps = [each for each in wanted[3].values() if isinstance(each, FieldStep)]
        return all(each.name in ("set_to", "remove") for each in steps)
    return verb in ("save", "delete", "change")


def as_arguments(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changes by field as `patch(model, *key, **changes)` takes them."""
    return {name: set_to(value) if name == "if_version" else value for name, value in changes.items()}


def own_version(model: Any, changes: dict[str, Any], if_version: Any) -> int | None:
    """The version that a patch requires; a step for a field called `if_version` goes to `changes` instead.

    Raises UsageError when the model has such a field and the argument could mean the field or the version.
    """
    if if_version is UNSET:
        return None
    if "if_version" in getattr(model, "__struct_fields__", ()):
        if not isinstance(if_version, FieldStep):
            raise UsageError(
                "this model has a field `if_version`: change it with set_to(...), and give a version to `save`",
                model=model, if_version=if_version,
            )  # fmt: skip
        changes["if_version"] = if_version
        return None
    version: int | None = if_version
    return version


def _sum(value: Any, amount: Any) -> Any:
    if type(amount) not in _ADDED.get(type(value), (type(value),)):
        raise TypeError("these two types cannot be added")
    if type(value) is Decimal:
        return _EXACT.add(value, amount)
    if type(value) is float and float(amount) != amount and amount == amount:  # noqa: PLR0124  NaN differs from itself
        raise ValueError("the int has no exact float")
    if type(value) is date and amount % _DAY:
        raise ValueError("a date takes whole days")
    return value + amount


def _equals(each: Any, element: Any) -> bool:
    """True does not equal 1 here: it is another value."""
    return each == element and (type(each) is bool) == (type(element) is bool)


def _several(value: Any) -> Any:
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise TypeError("not a list, set or tuple")
    return value


def _joined(value: Any, element: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        return (value - {element}) | {element}  # True takes the place of 1, and the field's type refuses it
    return type(value)([*value, element])


def patching(model: type[Model[Any]], changes: Mapping[str, Any]) -> Callable[[Any], Any]:
    """The function from the old entity to the new one.

    Raises:
        InvalidValue: the model does not declare a field, it is part of the key, or the database sets it; when called: a
            step does not apply to the old value.
        NotFound: when called: the old entity is of another variant.
    """
    if not changes:
        raise InvalidValue("a patch needs at least one field", model=model.__name__)
    check_fields(model, changes)

    def apply(entity: Any) -> Any:
        kind: type = type(entity)
        if not isinstance(entity, model):
            raise NotFound("there is no such entity; another variant has this key", model=model, variant=kind)
        if kind is not model:
            check_fields(kind, changes)
        return msgspec.structs.replace(
            entity, **{name: _apply_change(entity, name, change) for name, change in changes.items()}
        )

    return apply


def check_fields(model: type[Model[Any]], names: Iterable[str]) -> None:
    """Raises InvalidValue for a field that a patch of this model cannot change."""
    keys, kept = key_names(model), _set_by_database(model)
    for name in names:
        if name in keys:
            raise InvalidValue(
                "a patch cannot change a part of the key; save a new entity and delete the old one",
                model=model.__name__,
                field=name,
            )
        if name not in model.__struct_fields__:
            raise _unknown_field(model, name)
        if name in kept:
            reason, facts = kept[name]
            raise InvalidValue(reason, model=model.__name__, field=name, **facts)


@cache
def _set_by_database(cls: type) -> dict[str, tuple[str, dict[str, object]]]:
    """The fields that a patch cannot change because the database sets them, each with what to say, and its facts."""
    found = {name: default for name, default in defaults_of(cls).items() if isinstance(default, Marker)}
    return {name: _reason(default) for name, default in found.items() if default.what in _SET_BY_DATABASE}


def _reason(default: Marker) -> tuple[str, dict[str, object]]:
    if is_counter(default):
        return _COUNTER, {"counter": default.group.text}
    return _SET_BY_DATABASE[default.what], {}


def values_of(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The values that do not depend on the stored ones, by field."""
    given = {name: change for name, change in changes.items() if not isinstance(change, FieldStep)}
    return given | {
        name: change.argument
        for name, change in changes.items()
        if isinstance(change, FieldStep) and change.name == "set_to"
    }


def _unknown_field(model: type[Model[Any]], name: str) -> InvalidValue:
    declaring = [each.__name__ for each in model.__subclasses__() if name in each.__struct_fields__]
    if declaring:
        return InvalidValue(_OF_VARIANT, model=model.__name__, field=name, variants=declaring)
    near = perhaps(name, model.__struct_fields__)
    return InvalidValue("the model has no such field", model=model.__name__, field=name, **near)


def _apply_change(entity: Any, name: str, change: Any) -> Any:
    if not isinstance(change, FieldStep):
        return change
    value = getattr(entity, name)
    try:
        return change.apply(value)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise InvalidValue(
            "this step does not apply to the stored value",
            model=type(entity).__name__, field=name, verb=change.name, operand=change.argument, stored=type(value),
        ) from error  # fmt: skip
