"""Fingerprints: the types of a class's fields as they are stored and compared with later declarations.

See "Documents" of docs/formats/rows.md.
"""

from __future__ import annotations

from types import MappingProxyType, NoneType
from typing import Final

import msgspec

from oneread.models.fields import KEY, Marker, defaults_of
from oneread.models.paths import Path
from oneread.models.types import Annotation, FieldType, Names, type_of, types_of
from oneread.models.versions import Type, TypeValue

_CONSTRAINTS: Final = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length")
_NO_NAMES: Final[Names] = MappingProxyType({})
_NONE: Final = Type("None")
_NO_ARGUMENTS: Final = (Type("()"),)
"""Of `tuple[()]`, which is not `tuple`."""


def describe(cls: type, names: Names = _NO_NAMES) -> list[tuple[str, Type, bool]]:
    """The fields of a class in their order: name, type, and whether there is a default.

    A type is the same in every release of Python. A class used as a type is spelled out where it first occurs. Markers
    and the paths of copied fields are not defaults.
    """
    describer = _Describer()
    defaults = {
        name
        for name, default in defaults_of(cls).items()
        if default is not msgspec.NODEFAULT and not isinstance(default, Marker | Path)
    }
    return [(name, describer.type(each), name in defaults) for name, each in types_of(cls, names).items()]


def describe_type(annotation: Annotation, cls: type, field: str, names: Names = _NO_NAMES) -> Type:
    """A type as `describe` gives it. `cls` and `field` are for errors."""
    return _Describer().type(type_of(annotation, names, cls, field))


class _Describer:
    """Describes types; a class is spelled out once and named afterwards, which ends recursive ones."""

    def __init__(self) -> None:
        self._spelled: set[type] = set()

    def type(self, given: FieldType) -> Type:
        found = self._bare(given)
        for layer in given.layers:
            limits = tuple(
                (name, getattr(each, name))
                for each in layer
                if isinstance(each, msgspec.Meta)
                for name in _CONSTRAINTS
                if getattr(each, name) is not None
            )
            found = _limited(found, limits) if limits else found
            found = Type("Key", (found,)) if KEY in layer else found
        return found

    def _bare(self, given: FieldType) -> Type:
        if given.kind == "reference":
            target = given.target()
            return Type("Ref", () if target is None else (Type(target.__name__),))
        if given.kind == "literal":
            return Type("Literal", values=given.values)
        if given.kind == "union":  # None last, however it was written
            parts = [self.type(each) for each in given.parts if each.bare is not NoneType]
            return Type("|", (*parts, *[_NONE] * (len(parts) < len(given.parts))))
        found = self._named(given)
        if given.cls is given.bare:
            return found
        return msgspec.structs.replace(found, arguments=tuple(map(self.type, given.parts)) or _NO_ARGUMENTS)

    def _named(self, given: FieldType) -> Type:
        cls = given.cls
        if cls is NoneType:
            return _NONE
        if not isinstance(cls, type):
            return Type("..." if cls is ... else str(getattr(cls, "__name__", cls)))
        if cls in self._spelled or given.kind not in ("enum", "class", "copy", "model"):
            return Type(cls.__name__)
        if given.kind == "enum":
            self._spelled.add(cls)
            return Type(cls.__name__, values=tuple(each.value for each in given.values))
        fields = given.fields()
        if not fields:
            return Type(cls.__name__)
        self._spelled.add(cls)
        return Type(cls.__name__, fields=tuple((name, self.type(each)) for name, each in fields.items()))


def _limited(given: Type, limits: tuple[tuple[str, TypeValue], ...]) -> Type:
    """A type with further constraints; those of a union are those of each alternative."""
    if given.name == "|":
        parts = [each if each == _NONE else _limited(each, limits) for each in given.arguments]
        return msgspec.structs.replace(given, arguments=tuple(parts))
    return msgspec.structs.replace(given, limits=(*given.limits, *limits))
