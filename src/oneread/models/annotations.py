"""What an annotation means: its names resolved to types, its wrappers peeled off.

A class declared inside a function is found through the names that the schema passes; nothing is looked up in frames.
See "Documents" of docs/formats/rows.md.
"""

from __future__ import annotations

import dataclasses
import sys
import types
from collections import ChainMap
from collections.abc import Iterable, Mapping
from inspect import get_annotations
from types import NoneType, SimpleNamespace
from typing import Annotated, Any, Final, NamedTuple, NewType, Union, get_args, get_origin, get_type_hints, is_typeddict

from oneread.errors import InvalidDeclaration

Names = Mapping[str, Any]

_UNRESOLVED: Final = (
    "the type of this field cannot be resolved; import it or declare it in the module, or add it to the schema"
)


class Named(dict[str, Any]):
    """The classes of a schema by name, which remember the types of fields that were resolved by them.

    A schema asks for the types of a class once for each of its fields and views; a class with many fields would be
    resolved as many times over.
    """

    def __init__(self, classes: Iterable[type]) -> None:
        super().__init__((each.__name__, each) for each in classes)
        self.resolved: dict[Any, Mapping[str, Any]] = {}


class _Scope:
    """Where the names in the annotations of one class are looked up."""

    def __init__(self, written_in: type, names: Names) -> None:
        module = vars(sys.modules[written_in.__module__]) if written_in.__module__ in sys.modules else {}
        # A class inside a function means its neighbours there, which only the schema knows; another one its module.
        inside_function = "<locals>" in written_in.__qualname__
        near = (names, module) if inside_function else (module, names)
        fields = frozenset(field_names(written_in))
        # A field may be called like a type: `list: list[int]` means the type.
        own = {name: value for name, value in vars(written_in).items() if name not in fields}
        self._written_in = written_in
        self._module = dict(module)
        self._names: Any = ChainMap(*map(dict, near), own)

    def resolve(self, annotation: Any, field: str) -> Any:
        """The annotation with every name in it replaced by what it stands for. Raises InvalidDeclaration."""
        if isinstance(annotation, type):
            return annotation
        holder = SimpleNamespace(__annotations__={field: annotation})
        try:
            return get_type_hints(holder, globalns=self._module, localns=self._names, include_extras=True)[field]
        except Exception as error:
            raise InvalidDeclaration(
                _UNRESOLVED,
                declaration=self._written_in,
                field=field,
                reason=str(error),
            ) from error


def resolved(annotation: Any, written_in: type, names: Names, field: str) -> Any:
    """The annotation with every name in it resolved as seen from the class it is written in.

    Raises:
        InvalidDeclaration: a name is known neither to the class's module nor to the schema.
    """
    return _Scope(written_in, names).resolve(annotation, field)


def field_types(cls: Any, names: Names) -> Mapping[str, Any]:
    """The resolved type of every field of a class, in the order of declaration; empty for a class without fields."""
    if not isinstance(names, Named):
        return _field_types(cls, names)
    known = names.resolved.get(cls)
    if known is None:
        known = names.resolved[cls] = _field_types(cls, names)
    return known


def _field_types(cls: Any, names: Names) -> Mapping[str, Any]:
    fields = field_names(cls)
    if not fields:
        return {}
    written = written_annotations(cls)
    scopes = {base: _Scope(base, names) for base in {written[name][1] for name in fields}}
    return {name: scopes[written[name][1]].resolve(written[name][0], name) for name in fields}


def field_names(cls: Any) -> tuple[str, ...]:
    """The fields of a Struct, dataclass, attrs class, NamedTuple or TypedDict."""
    if dataclasses.is_dataclass(cls):
        return tuple(each.name for each in dataclasses.fields(cls))
    if hasattr(cls, "__attrs_attrs__"):
        return tuple(each.name for each in cls.__attrs_attrs__)
    if is_typeddict(cls):
        return tuple(cls.__annotations__)
    names: tuple[str, ...] = getattr(cls, "__struct_fields__", ()) or getattr(cls, "_fields", ())
    return names


def written_annotations(cls: type) -> dict[str, tuple[Any, type]]:
    """Everything annotated in a class and its bases, unresolved, and the class each stands in."""
    return {
        name: (annotation, base) for base in reversed(cls.__mro__) for name, annotation in get_annotations(base).items()
    }


class Unwrapped(NamedTuple):
    """An annotation without its wrappers."""

    bare: Any
    optional: bool
    metadata: tuple[Any, ...]


def without_alias(annotation: Any) -> Any:
    """What a NewType or a `type` alias stands for."""
    while True:
        if isinstance(annotation, NewType):
            annotation = annotation.__supertype__
        elif hasattr(annotation, "__value__") and not isinstance(annotation, type):
            annotation = annotation.__value__
        else:
            return annotation


def is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, types.UnionType)


def unwrap(annotation: Any) -> Unwrapped:
    """Takes off Annotated, NewType, aliases, and `| None` when one alternative is left."""
    optional, metadata = False, ()
    while True:
        annotation = without_alias(annotation)
        if get_origin(annotation) is Annotated:
            annotation, *more = get_args(annotation)
            metadata = (*metadata, *more)
        elif (
            is_union(annotation)
            and len(present := [each for each in get_args(annotation) if each is not NoneType]) == 1
        ):
            annotation, optional = present[0], True
        else:
            return Unwrapped(annotation, optional, metadata)
