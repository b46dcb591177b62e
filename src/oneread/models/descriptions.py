"""Types of the schema row, and whether values of a stored type can be read as a declared one.

A type is *widened* when every element of a document that the old type allows is one of the new type with the same
meaning: `str` to `str | None`, a constraint loosened, one more member of an Enum or Literal, one more field with a
default in a nested class. Nothing else is: int does not widen to float, because a float cannot hold every int. See
"Schema history" of the decisions page and docs/explanation/schema-evolution.md.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from oneread.models.versions import StoredField, Type

_IMPLIED_BY: Final[Mapping[str, tuple[tuple[str, Callable[[Any, Any], bool]], ...]]] = {
    "le": (("le", operator.le), ("lt", operator.le)),
    "lt": (("lt", operator.le), ("le", operator.lt)),
    "ge": (("ge", operator.ge), ("gt", operator.ge)),
    "gt": (("gt", operator.ge), ("ge", operator.gt)),
    "max_length": (("max_length", operator.le),),
    "min_length": (("min_length", operator.ge),),
    "multiple_of": (("multiple_of", lambda before, after: after != 0 and before % after == 0),),
}
"""The limits that imply another one, and how their values must compare."""

_LITERALS: Final = ("str", "int")
"""Types that a Literal of their values widens to."""


class Nested(msgspec.Struct, frozen=True):
    """What descriptions lack about classes used as types.

    `defaults` holds `Class.field` of each nested field that may be left out, `arrays` the classes stored as arrays,
    whose fields are found by place, and `aliases` the stored names of models by class name, present and former.
    """

    defaults: frozenset[str] = frozenset()
    arrays: frozenset[str] = frozenset()
    aliases: Mapping[str, str] = {}


class Types:
    """The types of one description by field; a class is spelled out where it first occurs."""

    def __init__(self, types: Iterable[Type], nested: Nested) -> None:
        self.nested = nested
        self._spelled: dict[str, Type] = {}
        for each in types:
            self._collect(each)

    def _collect(self, found: Type) -> None:
        if found.fields is not None or (found.values is not None and found.name != "Literal"):
            self._spelled.setdefault(found.name, msgspec.structs.replace(found, limits=()))
        for each in (*found.arguments, *(inner for _name, inner in found.fields or ())):
            self._collect(each)

    def spelled_out(self, given: Type) -> Type:
        """The type with the fields or values of its class."""
        known = self._spelled.get(given.name)
        if known is None or given.arguments or given.fields is not None or given.values is not None:
            return given
        return msgspec.structs.replace(known, limits=given.limits)

    def model(self, given: Type) -> str:
        """The stored name of a model that is referred to."""
        return self.nested.aliases.get(given.name, given.name)


def widens(old: Types, before: Type, new: Types, after: Type) -> bool:
    """Whether everything of the type `before` in one description can be read as the type `after` in another."""
    return _Widening(old, new).fits(before, after)


class _Widening:
    def __init__(self, old: Types, new: Types) -> None:
        self._old = old
        self._new = new
        self._open: set[tuple[str, str]] = set()

    def fits(self, before: Type, after: Type) -> bool:
        before, after = self._old.spelled_out(before), self._new.spelled_out(after)
        if before.name == "|":
            return all(self.fits(each, after) for each in before.arguments)
        if after.name == "|":
            return any(self.fits(before, each) for each in after.arguments)
        if "Ref" in (before.name, after.name):
            old, new = map(self._old.model, before.arguments), map(self._new.model, after.arguments)
            return before.name == after.name and [*old] == [*new]
        return _loosened(dict(before.limits), dict(after.limits)) and self._fits_bare(before, after)

    def _fits_bare(self, before: Type, after: Type) -> bool:
        """The same without constraints and alternatives."""
        if before.values is not None:
            return self._member(before, after)
        if len(before.arguments) != len(after.arguments):
            return False
        if not all(self.fits(*pair) for pair in zip(before.arguments, after.arguments, strict=True)):
            return False
        if before.fields is not None and after.fields is not None:
            return self._class(before, after)
        return before.name == after.name and (before.fields is None) == (after.fields is None) and after.values is None

    def _member(self, before: Type, after: Type) -> bool:
        """Compares Enums and Literals."""
        assert before.values is not None
        if after.values is not None:
            return (before.name == "Literal") == (after.name == "Literal") and set(before.values) <= set(after.values)
        return (
            before.name == "Literal"
            and after.name in _LITERALS
            and not after.limits
            and all(type(value).__name__ == after.name for value in before.values)
        )

    def _class(self, before: Type, after: Type) -> bool:
        """Compares classes field by field: by name, or by place."""
        pair = before.name, after.name
        if pair in self._open:
            return True
        self._open.add(pair)
        assert before.fields is not None
        assert after.fields is not None
        old, new = dict(before.fields), dict(after.fields)
        by_place = after.name in self._new.nested.arrays
        if by_place != (before.name in self._old.nested.arrays):
            return False
        if by_place and [*old] != [*new][: len(old)]:
            return False
        added = [f"{after.name}.{name}" for name in new if name not in old]
        return (
            all(name in new and self.fits(each, new[name]) for name, each in old.items())
            and set(added) <= self._new.nested.defaults
        )


def _loosened(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    return all(_follows(before, name, limit) for name, limit in after.items())


def _follows(before: Mapping[str, Any], name: str, limit: Any) -> bool:
    """Whether the limits `before` imply this one."""
    if before.get(name) == limit:
        return True
    return any(each in before and holds(before[each], limit) for each, holds in _IMPLIED_BY.get(name, ()))


class DescribedField(NamedTuple):
    """A field of a described class; `inner` are a copy's fields."""

    type: Type
    inner: dict[str, StoredField]

    @property
    def copy(self) -> Type | None:
        """The copy, without `| None`; only copies have `on_delete`."""
        bare = self.type.arguments[0] if self.type.name == "|" else self.type
        return bare if any(name == "on_delete" for name, _value in bare.limits) else None

    @property
    def optional(self) -> bool:
        return self.type.name == "None" or any(each.name == "None" for each in self.type.arguments)


def fields_of(stored: Iterable[StoredField]) -> dict[str, DescribedField]:
    """The fields of a layout, in order."""
    found: dict[str, DescribedField] = {}
    for each in stored:
        top, _, inner = each.name.partition(".")
        if inner:
            found[top].inner[inner] = each
        else:
            found[top] = DescribedField(each.type, {})
    return found


def same_type(one: Type, other: Type, nested: Nested) -> bool:
    """Whether two types are the same, names of classes apart."""
    first, second = Types([one], nested), Types([other], nested)
    return widens(first, one, second, other) and widens(second, other, first, one)
