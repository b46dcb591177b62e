"""What an annotation means: its names resolved to types, its wrappers peeled off.

Knows types. Must not know bytes, nor what a declaration is for. A class declared inside a function is found through the names that the schema
passes; nothing is looked up in frames. The law is "Documents" of docs/formats/rows.md.
"""

from __future__ import annotations

import sys
import types
from collections import ChainMap
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Annotated, Any, NamedTuple, NewType, Union, get_args, get_origin, get_type_hints

from oneread.errors import InvalidDeclaration

Names = Mapping[str, Any]


def resolved(annotation: Any, written_in: type, names: Names, field: str) -> Any:
    """The annotation with every name in it resolved as seen from the class it is written in.

    Raises:
        InvalidDeclaration: a name is known neither to the class's module nor to the schema.
    """
    module = vars(sys.modules[written_in.__module__]) if written_in.__module__ in sys.modules else {}
    # A class inside a function means its neighbours there, which only the schema knows; another one means its own module first.
    inside_function = "<locals>" in written_in.__qualname__
    near = (names, module) if inside_function else (module, names)
    holder = SimpleNamespace(__annotations__={field: annotation})
    scope: Any = ChainMap(*map(dict, near), dict(vars(written_in)))
    try:
        return get_type_hints(holder, globalns=dict(module), localns=scope, include_extras=True)[field]
    except Exception as error:
        raise InvalidDeclaration(
            "the type of this field cannot be resolved; import it in the module, or declare it there, or add its class to the schema",
            declaration=written_in,
            field=field,
            reason=str(error),
        ) from error


def field_types(cls: Any, names: Names) -> dict[str, Any]:
    """The resolved type of every field of a struct, in the order of declaration."""
    found: dict[str, Any] = {}
    for name in cls.__struct_fields__:
        written_in = next(base for base in cls.__mro__ if name in base.__dict__.get("__annotations__", {}))
        found[name] = resolved(written_in.__dict__["__annotations__"][name], written_in, names, name)
    return found


class Peeled(NamedTuple):
    """An annotation without its wrappers."""

    bare: Any
    optional: bool
    metadata: tuple[Any, ...]


def unwrapped(annotation: Any) -> Any:
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


def peeled(annotation: Any) -> Peeled:
    """Takes off Annotated, NewType, aliases, and `| None` when one alternative is left."""
    optional, metadata = False, ()
    while True:
        annotation = unwrapped(annotation)
        if get_origin(annotation) is Annotated:
            annotation, *more = get_args(annotation)
            metadata = (*metadata, *more)
        elif is_union(annotation) and type(None) in get_args(annotation) and len(get_args(annotation)) == 2:
            (annotation,) = (each for each in get_args(annotation) if each is not type(None))
            optional = True
        else:
            return Peeled(annotation, optional, metadata)
