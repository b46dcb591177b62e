"""Fingerprints: the types of a class's fields as text, which is stored and compared with later declarations.

See "Documents" of docs/formats/rows.md.
"""

from __future__ import annotations

from types import MappingProxyType, NoneType
from typing import Final

import msgspec

from oneread.models.fields import KEY, Marker, defaults_of
from oneread.models.paths import Path
from oneread.models.types import Annotation, FieldType, Names, type_of, types_of

_CONSTRAINTS: Final = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length")
_NO_NAMES: Final[Names] = MappingProxyType({})


def describe(cls: type, names: Names = _NO_NAMES) -> list[tuple[str, str, bool]]:
    """The fields of a class in their order: name, type as text, and whether there is a default.

    The text is the same in every release of Python. A class used as a type is spelled out where it first occurs.
    Markers and the paths of copied fields are not defaults.
    """
    writer = _Writer()
    defaults = {
        name
        for name, default in defaults_of(cls).items()
        if default is not msgspec.NODEFAULT and not isinstance(default, Marker | Path)
    }
    return [(name, writer.text(each), name in defaults) for name, each in types_of(cls, names).items()]


def text_of(annotation: Annotation, cls: type, field: str, names: Names = _NO_NAMES) -> str:
    """A type as `describe` writes it. `cls` and `field` are for errors."""
    return _Writer().text(type_of(annotation, names, cls, field))


class _Writer:
    """Writes types; a class is spelled out once and named afterwards, which ends recursive ones."""

    def __init__(self) -> None:
        self._spelled: set[type] = set()

    def text(self, given: FieldType) -> str:
        text = self._bare(given)
        for layer in given.layers:
            limits = [
                f"{name}={getattr(each, name)!r}"
                for each in layer
                if isinstance(each, msgspec.Meta)
                for name in _CONSTRAINTS
                if getattr(each, name) is not None
            ]
            text = f"{text}({', '.join(limits)})" if limits else text
            text = f"Key[{text}]" if KEY in layer else text
        return text

    def _bare(self, given: FieldType) -> str:
        if given.kind == "reference":
            target = given.target()
            return "Ref" if target is None else f"Ref[{target.__name__}]"
        if given.kind == "literal":
            return f"Literal[{', '.join(map(repr, given.values))}]"
        if given.kind == "union":  # None last, however it was written
            parts = [self.text(each) for each in given.parts if each.bare is not NoneType]
            return " | ".join(parts + ["None"] * (len(parts) < len(given.parts)))
        if given.cls is not given.bare:
            inner = ", ".join(map(self.text, given.parts))
            return f"{self._name(given)}[{inner}]"
        return self._name(given)

    def _name(self, given: FieldType) -> str:
        cls = given.cls
        if cls is NoneType:
            return "None"
        if not isinstance(cls, type):
            return "..." if cls is ... else str(getattr(cls, "__name__", cls))
        if cls in self._spelled or given.kind not in ("enum", "class", "copy", "model"):
            return cls.__name__
        if given.kind == "enum":
            self._spelled.add(cls)
            return f"{cls.__name__}({', '.join(repr(each.value) for each in given.values)})"
        fields = given.fields()
        if not fields:
            return cls.__name__
        self._spelled.add(cls)
        return f"{cls.__name__}{{{', '.join(f'{name}: {self.text(each)}' for name, each in fields.items())}}}"
