"""Types of fields: annotations with their names resolved, as a tree that is built once for each class of a schema.

A class declared inside a function is found through the names that the schema passes; nothing is looked up in frames.
See "Documents" of docs/formats/rows.md.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import ChainMap
from collections.abc import (
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    MutableSequence,
    MutableSet,
    Sequence,
)
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from inspect import get_annotations
from itertools import chain
from types import NoneType, SimpleNamespace, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Required,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)
from uuid import UUID

from oneread.errors import InvalidDeclaration
from oneread.models.metadata import is_limit, translate_metadata
from oneread.models.model import Model
from oneread.models.references import Copy, Ref

Names = Mapping[str, Any]

Annotation: TypeAlias = Any
"""What Python takes as a type: a class, a generic alias, a union, or text that names one."""

_UNRESOLVED: Final = (
    "the type of this field cannot be resolved; import it or declare it in the module, or add it to the schema"
)


class Named(dict[str, Any]):
    """The classes of a schema by name, which remember the types of fields that were resolved by them.

    The types of a class are needed for each of its fields and views; resolving them each time would be quadratic.
    """

    def __init__(self, classes: Iterable[type]) -> None:
        super().__init__((each.__name__, each) for each in classes)
        self.annotations: dict[Any, Mapping[str, Any]] = {}
        self.trees: dict[Any, Mapping[str, FieldType]] = {}


class _Scope:
    """Looks up the names in the annotations of one class."""

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

    def resolve(self, annotation: Annotation, field: str) -> Annotation:
        """The annotation with every name in it resolved. Raises InvalidDeclaration for an unknown name."""
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


def resolved(annotation: Annotation, written_in: type, names: Names, field: str) -> Annotation:
    """The annotation with every name in it resolved as seen from the class it is written in.

    Raises:
        InvalidDeclaration: a name is known neither to the class's module nor to the schema.
    """
    return _Scope(written_in, names).resolve(annotation, field)


def field_types(cls: Any, names: Names) -> Mapping[str, Any]:
    """The resolved type of every field of a class, in the order of declaration; empty for a class without fields."""
    known = names.annotations.get(cls) if isinstance(names, Named) else None
    if known is None:
        known = _resolve_fields(cls, names)
        if isinstance(names, Named):
            names.annotations[cls] = known
    return known


def _resolve_fields(cls: Any, names: Names) -> Mapping[str, Any]:
    fields = field_names(cls)
    written = written_annotations(cls) if fields else {}
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
    """The unresolved annotations of a class and its bases by name, each with the class that declares it."""
    return {
        name: (annotation, base) for base in reversed(cls.__mro__) for name, annotation in get_annotations(base).items()
    }


TypeKind: TypeAlias = Literal[
    "scalar", "enum", "literal", "union", "list", "set", "mapping", "tuple", "class", "reference", "copy", "model",
    "variable", "ellipsis", "qualified", "other",
]  # fmt: skip
"""`class` has fields; `qualified` is Required or NotRequired; `ellipsis` is that of `tuple[int, ...]`."""

_LISTS: Final = frozenset({list, Sequence, MutableSequence, Collection})
_SETS: Final = frozenset({set, frozenset, AbstractSet, MutableSet})
_MAPPINGS: Final = frozenset({dict, Mapping, MutableMapping})
_CONTAINERS: Final[Mapping[Any, TypeKind]] = {
    **dict.fromkeys(_LISTS, "list"),
    **dict.fromkeys(_SETS, "set"),
    **dict.fromkeys(_MAPPINGS, "mapping"),
    tuple: "tuple",
}
_SCALARS: Final = frozenset(
    {bool, int, float, Decimal, str, bytes, bytearray, date, datetime, time, timedelta, UUID, NoneType, Any}
)


class FieldType(NamedTuple):
    """A resolved annotation as a tree: NewType, `type` aliases and Annotated are taken off each node.

    The fields of a class are not part of the tree, so that a recursive class has a finite one: `fields` and `walk` look
    into it.
    """

    kind: TypeKind
    bare: Annotation
    """The annotation without aliases and Annotated."""
    cls: Any
    """The same without arguments: `list` of `list[int]`."""
    parts: tuple[FieldType, ...]
    """The alternatives of a union, or the arguments of a container or generic class."""
    layers: tuple[tuple[Any, ...], ...]
    """The metadata of each Annotated around it, the innermost first."""
    owner: type
    """The class that declares the field, for names and errors."""
    field: str
    names: Names

    @property
    def _only(self) -> FieldType | None:
        """The one alternative besides None."""
        found = [each for each in self.parts if each.bare is not NoneType] if self.kind == "union" else ()
        return found[0] if len(found) == 1 else None

    @property
    def present(self) -> FieldType:
        """The type without `| None`, when one alternative is left."""
        only = self._only
        return self if only is None else only.present

    @property
    def optional(self) -> bool:
        return self._only is not None

    @property
    def metadata(self) -> tuple[Any, ...]:
        """The metadata around this and around `present`, the outermost first."""
        only = self._only
        return (*chain(*reversed(self.layers)), *(() if only is None else only.metadata))

    @property
    def values(self) -> tuple[Any, ...]:
        """The values of a Literal, or the members of an Enum."""
        return tuple(self.cls) if self.kind == "enum" else get_args(self.bare)

    @property
    def several(self) -> FieldType | None:
        """The type of the elements of a `list[...]`, `set[...]` or `frozenset[...]`; None for other types."""
        return self.parts[0] if self.cls in (list, set, frozenset) and self.parts else None

    @property
    def allows_none(self) -> bool:
        return (
            self.bare in (None, NoneType, Any, object)
            or (self.kind == "literal" and None in self.values)
            or (self.kind == "union" and any(each.allows_none for each in self.parts))
        )

    @property
    def holds_sets(self) -> bool:
        """Whether a value may be a set, or hold one somewhere."""
        return any(each.kind == "set" for each in self.walk())

    def target(self) -> Annotation:
        """The class that a reference names, None for a bare Ref. Raises InvalidDeclaration for an unknown name."""
        arguments = get_args(self.bare)
        if arguments and isinstance(arguments[0], TypeVar):  # of a copy's `ref` and an index's `source`
            arguments = getattr(self.owner, "type_arguments", ())
        if not arguments or isinstance(arguments[0], type):
            return arguments[0] if arguments else None
        return resolved(arguments[0], self.owner, self.names, self.field)

    def fields(self) -> Mapping[str, FieldType]:
        """The fields of a class; empty for a type without fields."""
        return types_of(self.cls, self.names) if isinstance(self.cls, type) else {}

    def walk(self, entered: set[Any] | None = None) -> Iterator[FieldType]:
        """This type and every type inside of it. A class that is in `entered` is not entered again."""
        entered = set() if entered is None else entered
        yield self
        for each in self.parts:
            yield from each.walk(entered)
        if self.kind == "class" and self.cls not in entered:
            entered.add(self.cls)
            for each in self.fields().values():
                yield from each.walk(entered)


def types_of(cls: Any, names: Names) -> Mapping[str, FieldType]:
    """The type of every field of a class, in the order of declaration; built once for each schema."""
    known = names.trees.get(cls) if isinstance(names, Named) else None
    if known is None:
        annotations = field_types(cls, names).items()
        known = {name: type_of(each, names, cls, name) for name, each in annotations}
        if isinstance(names, Named):
            names.trees[cls] = known
    return known


def type_of(annotation: Any, names: Names, owner: type = object, field: str = "") -> FieldType:
    """The tree of one annotation."""
    layers: tuple[tuple[Any, ...], ...] = ()
    annotation = _without_alias(annotation)
    while get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        layers = (tuple(more), *layers)
        annotation = _without_alias(inner)
    cls = get_origin(annotation) or annotation
    kind = _kind_of(annotation, cls)
    arguments = () if kind in ("literal", "reference") else get_args(annotation)
    parts = tuple(type_of(each, names, owner, field) for each in arguments)
    found = FieldType(kind, annotation, cls, parts, layers, owner, field, names)
    if not layers:
        return found
    layers = translate_metadata(layers, found.present.bare, found.present.cls)
    if found.optional:
        parts, layers = _constrained(parts, layers)
    return found._replace(parts=parts, layers=layers)


def _constrained(
    parts: tuple[FieldType, ...], layers: tuple[tuple[Any, ...], ...]
) -> tuple[tuple[FieldType, ...], tuple[tuple[Any, ...], ...]]:
    """The alternatives of `X | None` and the metadata around it, whose limits are those of X: None has no length."""
    limits = tuple(each for layer in layers for each in layer if is_limit(each))
    inner = tuple(
        each if each.bare is NoneType else each._replace(layers=(*each.layers, limits)) for each in parts if limits
    )
    return inner or parts, tuple(tuple(each for each in layer if not is_limit(each)) for layer in layers)


def _without_alias(annotation: Any) -> Any:
    """The type that a NewType or a `type` alias names."""
    while True:
        if isinstance(annotation, NewType):
            annotation = annotation.__supertype__
        elif hasattr(annotation, "__value__") and not isinstance(annotation, type):
            annotation = annotation.__value__
        else:
            return annotation


def _kind_of(bare: Annotation, cls: Any) -> TypeKind:
    if isinstance(cls, type) and cls is not UnionType:
        return _kind_of_class(cls)
    if cls in (Union, UnionType):
        return "union"
    if cls is Literal:
        return "literal"
    if cls in (Required, NotRequired):
        return "qualified"
    if bare is ...:
        return "ellipsis"
    return "variable" if isinstance(bare, TypeVar) else "other"


def _kind_of_class(cls: type) -> TypeKind:
    if cls in _SCALARS:
        return "scalar"
    if cls in _CONTAINERS:
        return _CONTAINERS[cls]
    for base, kind in _BASES.items():
        if issubclass(cls, base):
            return kind
    declares_fields = any(
        hasattr(cls, each) for each in ("__struct_fields__", "__dataclass_fields__", "__attrs_attrs__")
    )
    is_named = issubclass(cls, tuple | dict) and hasattr(cls, "__annotations__")  # a NamedTuple or TypedDict
    return "class" if declares_fields or is_named else "other"


_BASES: Final[Mapping[type, TypeKind]] = {Ref: "reference", Copy: "copy", Model: "model", Enum: "enum"}


class Unwrapped(NamedTuple):
    """An annotation without its wrappers."""

    bare: Annotation
    optional: bool
    metadata: tuple[Any, ...]


def unwrap(annotation: Annotation) -> Unwrapped:
    """Takes off Annotated, NewType, aliases, and `| None` when one alternative is left."""
    found = type_of(annotation, {})
    return Unwrapped(found.present.bare, found.optional, found.metadata)
