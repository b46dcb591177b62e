"""Fingerprints: what a declaration says about its documents, as text that can be compared with the text of last year.

See "Documents" of docs/formats/rows.md.
"""

from __future__ import annotations

import enum
from types import MappingProxyType, NoneType
from typing import Annotated, Any, Final, ForwardRef, Literal, get_args, get_origin

import msgspec

from oneread.models.annotations import Names, field_names, field_types, is_union, resolved, without_alias
from oneread.models.fields import KEY, Marker
from oneread.models.paths import Path
from oneread.models.shadow import is_copy, is_ref

_CONSTRAINTS: Final = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length")
_NO_NAMES: Final[Names] = MappingProxyType({})


def describe(cls: type, names: Names = _NO_NAMES) -> list[tuple[str, str, bool]]:
    """The fields of a class in their order: name, type as text, and whether there is a default.

    The text is the same in every release of Python. A class used as a type is spelled out where it is met first. What
    the database fills in, and the path of a copied field, are no defaults.
    """
    writer = _Writer(names)
    defaults = _defaulted(cls)
    return [(name, writer.text(each, cls, name), name in defaults) for name, each in field_types(cls, names).items()]


def text_of(annotation: Any, cls: type, field: str, names: Names = _NO_NAMES) -> str:
    """A type as `describe` writes it. `cls` and `field` are for errors."""
    return _Writer(names).text(annotation, cls, field)


def _defaulted(cls: Any) -> set[str]:
    defaults = cls.__struct_defaults__  # of the last fields, so that those with defaults are all among them
    ending = cls.__struct_fields__[len(cls.__struct_fields__) - len(defaults) :]
    return {
        name
        for name, default in zip(ending, defaults, strict=True)
        if default is not msgspec.NODEFAULT and not isinstance(default, Marker | Path)
    }


class _Writer:
    """Writes types; classes that were spelled out once are named from then on, which ends recursive ones."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self._spelled: set[type] = set()

    def text(self, annotation: Any, cls: Any, field: str) -> str:
        annotation = without_alias(annotation)
        origin, arguments = get_origin(annotation), get_args(annotation)
        if is_ref(annotation):
            return self._reference(arguments, cls, field)
        if origin is Annotated:
            return self._annotated(arguments, cls, field)
        if origin is Literal:
            return f"Literal[{', '.join(map(repr, arguments))}]"
        if is_union(annotation):  # None last, however it was written
            parts = [self.text(each, cls, field) for each in arguments if each is not NoneType]
            return " | ".join(parts + ["None"] * (NoneType in arguments))
        if origin is not None:
            inner = ", ".join(self.text(each, cls, field) for each in arguments)
            return f"{self.text(origin, cls, field)}[{inner}]"
        return self._name(annotation)

    def _reference(self, arguments: tuple[Any, ...], cls: Any, field: str) -> str:
        if is_copy(cls) and field == "ref":
            arguments = cls.type_arguments
        targets = [
            resolved(each, cls, self.names, field) if isinstance(each, str | ForwardRef) else each for each in arguments
        ]
        return f"Ref[{', '.join(each.__name__ for each in targets)}]" if targets else "Ref"

    def _annotated(self, arguments: tuple[Any, ...], cls: Any, field: str) -> str:
        text = self.text(arguments[0], cls, field)
        limits = [
            f"{name}={getattr(each, name)!r}"
            for each in arguments[1:]
            if isinstance(each, msgspec.Meta)
            for name in _CONSTRAINTS
            if getattr(each, name) is not None
        ]
        text = f"{text}({', '.join(limits)})" if limits else text
        return f"Key[{text}]" if KEY in arguments[1:] else text

    def _name(self, annotation: Any) -> str:
        if annotation is NoneType:
            return "None"
        if not isinstance(annotation, type):
            return "..." if annotation is ... else str(getattr(annotation, "__name__", annotation))
        if annotation in self._spelled:
            return annotation.__name__
        if issubclass(annotation, enum.Enum):
            self._spelled.add(annotation)
            return f"{annotation.__name__}({', '.join(repr(member.value) for member in annotation)})"
        if not field_names(annotation):
            return annotation.__name__
        self._spelled.add(annotation)
        fields = field_types(annotation, self.names).items()
        inner = ", ".join(f"{name}: {self.text(each, annotation, name)}" for name, each in fields)
        return f"{annotation.__name__}{{{inner}}}"
