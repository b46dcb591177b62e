"""Shadows: hidden array-like subclasses, with every type resolved, through which documents are decoded.

A user's class is an object in JSON, so it cannot be array-like itself. A shadow adds no slots, so an instance of it can be given the user's
class after decoding: no second object is made. Knows types and msgspec. Must not know documents, ids or stores. The law is "Documents" of
docs/formats/rows.md.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, TypeVar, get_args, get_origin

import msgspec

from oneread.errors import InvalidDeclaration
from oneread.models.annotations import Names, field_types, is_union, peeled, resolved, unwrapped
from oneread.models.fields import Marker
from oneread.models.model import Model, key_names
from oneread.models.references import Copy, Ref

become: Final[Callable[[object, type], None]] = object.__dict__["__class__"].__set__
"""Gives an instance of a shadow its user's class. Not `obj.__class__ = cls`, which a frozen struct refuses."""

_SURVIVES_ANY: Final = (str, bytes, int, bool, float)
_AWARE: Final = msgspec.Meta(tz=True)


def shadow_of(cls: Any, fields: dict[str, Any]) -> Any:
    """A subclass of `cls` that is array-like, takes exactly these concretely typed fields, and has no defaults.

    Its metaclass's own `__new__` is passed over, because that one judges what users write. Annotations that are not fields are hidden, so
    that msgspec never evaluates the text of one.
    """
    others = {name for base in cls.__mro__ for name in base.__dict__.get("__annotations__", {})} - set(fields)
    space = {
        "__annotations__": dict.fromkeys(others, ClassVar[Any]) | fields,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
    }
    made = msgspec.StructMeta.__new__(
        type(cls), cls.__name__, (cls,), space, array_like=True, forbid_unknown_fields=True, tag=False
    )
    if made.__struct_fields__ != cls.__struct_fields__ or made.__struct_fields__ != tuple(fields):
        raise InvalidDeclaration(
            "the fields of this class are not in one order with those of its bases", declaration=cls
        )
    _try_to_become(made, cls)
    return made


def _try_to_become(shadow: Any, cls: type) -> None:
    """Whether this interpreter lets an instance change from the one class to the other is found out when the schema is built."""
    quiet = msgspec.StructMeta.__new__(
        type(shadow), cls.__name__, (shadow,), {"__post_init__": lambda _: None, "__module__": cls.__module__}
    )
    probe = quiet(**dict.fromkeys(shadow.__struct_fields__))
    try:
        become(probe, cls)
    except TypeError as error:
        raise InvalidDeclaration(
            "this interpreter cannot decode into this class", declaration=cls, reason=str(error)
        ) from error


class _ByKey(type):
    """The metaclass of stand-ins for `Ref[X]` deep inside other types: msgspec hands those to a hook, which answers a plain Ref.

    A shadow would not do there: a set's hashes include the class, which is not the final one yet.
    """

    key: Any

    def __instancecheck__(cls, instance: object) -> bool:
        return type(instance) is Ref


def revive(stand_in: Any, decoded: Any) -> Ref[Any]:
    """The hook for stand-ins."""
    (key,) = decoded
    return Ref(msgspec.convert(key, stand_in.key))


class FieldShape(NamedTuple):
    """How one field is laid out."""

    name: str
    kind: Literal["plain", "ref", "refs", "copy"]
    optional: bool
    concrete: Any
    """The type msgspec decodes to."""
    cls: Any = None
    """The user's class of a copy."""
    shadow: Any = None
    """Of a copy or reference, when its class has to be set after decoding."""
    fields: tuple[FieldShape, ...] = ()
    """Of a copy."""


class Shapes:
    """Makes the shadows of one layout.

    Arguments:
        names: classes by name, for annotations that their module cannot resolve.
        nullable: the copy classes whose copied fields may be None although they are declared otherwise.
    """

    def __init__(self, names: Names, nullable: frozenset[type]) -> None:
        self.names = names
        self.nullable = nullable
        self._seen: set[type] = set()

    def of(self, cls: Any) -> tuple[FieldShape, ...]:
        """The shapes of a class's fields."""
        return tuple(self._field(cls, name, annotation) for name, annotation in field_types(cls, self.names).items())

    def _field(self, cls: Any, name: str, annotation: Any) -> FieldShape:
        bare, optional, metadata = peeled(annotation)
        if is_copy(bare):
            if issubclass(cls, Copy):
                raise InvalidDeclaration(
                    "a copy cannot hold a copy; take the field itself with within()", declaration=cls, field=name
                )
            return self._copy(name, bare, optional)
        argument = get_args(bare)[0] if get_origin(bare) is list else None
        if argument is not None and is_ref(peeled(argument).bare) and not peeled(argument).optional:
            concrete, shadow = self._ref(cls, name, peeled(argument).bare)
            return FieldShape(name, "refs", optional, wrapped(list[concrete], optional, metadata), shadow=shadow)
        if is_ref(bare):
            concrete, shadow = self._ref(cls, name, bare)
            return FieldShape(name, "ref", optional, wrapped(concrete, optional, ()), shadow=shadow)
        return FieldShape(name, "plain", optional, self.concrete(annotation, cls, name))

    def _copy(self, name: str, cls: Any, optional: bool) -> FieldShape:
        fields = self.of(cls)
        if cls in self.nullable:
            own = Copy.__struct_fields__
            fields = tuple(
                each if each.name in own else each._replace(optional=True, concrete=each.concrete | None)
                for each in fields
            )
        shadow = shadow_of(cls, {each.name: each.concrete for each in fields})
        return FieldShape(name, "copy", optional, wrapped(shadow, optional, ()), cls, shadow, fields)

    def _ref(self, cls: type, name: str, bare: Any) -> tuple[Any, Any]:
        """The type to decode a reference to, and the same again if its class has to be set afterwards."""
        types = self.key_types(cls, name, bare)
        if types is None:
            return Ref, None
        shadow = msgspec.StructMeta.__new__(
            type(Ref),
            "Ref",
            (Ref,),
            {"__annotations__": {"key": tuple[types]}, "__module__": Ref.__module__},
            forbid_unknown_fields=True,
        )
        _try_to_become(shadow, Ref)
        return shadow, shadow

    def key_types(self, cls: Any, name: str, bare: Any) -> tuple[Any, ...] | None:
        """The types of the key's parts in a reference; None when msgspec brings each back without being told."""
        arguments = getattr(cls, "type_arguments", ()) if issubclass(cls, Copy) and name == "ref" else get_args(bare)
        target = resolved(arguments[0], cls, self.names, name) if arguments else None
        if not (isinstance(target, type) and issubclass(target, Model)):
            raise InvalidDeclaration(
                "say what is referred to: Ref[Customer], Copy[Customer] with a model", declaration=cls, field=name
            )
        if target in self._seen:
            raise InvalidDeclaration("a key cannot contain a reference to its own model", declaration=target)
        self._seen.add(target)
        hints = field_types(target, self.names)
        types = tuple(self.concrete(hints[part], target, part) for part in key_names(target))
        self._seen.remove(target)
        return None if all(part in _SURVIVES_ANY for part in types) else types

    def concrete(self, annotation: Any, cls: Any, name: str) -> Any:
        """The annotation as msgspec is to see it: no names left, instants aware, markers gone, references typed by their keys."""
        annotation = unwrapped(annotation)
        if annotation is datetime:
            return Annotated[datetime, _AWARE]
        if is_copy(annotation):
            raise InvalidDeclaration(
                "a copy stands in a field by itself, optional at most", declaration=cls, field=name
            )
        if is_ref(annotation):
            types = self.key_types(cls, name, annotation)
            return Ref if types is None else _ByKey("Ref", (), {"key": tuple[types]})
        if isinstance(annotation, TypeVar):
            raise InvalidDeclaration("a field's type is concrete, never a type variable", declaration=cls, field=name)
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            metadata = tuple(each for each in arguments[1:] if not isinstance(each, Marker))
            return wrapped(self.concrete(arguments[0], cls, name), False, metadata)
        if origin is None or origin is Literal:
            return annotation
        inner = tuple(each if each is ... else self.concrete(each, cls, name) for each in arguments)
        return functools.reduce(operator.or_, inner) if is_union(annotation) else origin[inner]


def is_copy(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Copy)


def is_ref(annotation: Any) -> bool:
    return annotation is Ref or get_origin(annotation) is Ref


def wrapped(annotation: Any, optional: bool, metadata: tuple[Any, ...]) -> Any:
    """Puts constraints and `| None` around a type."""
    meta = tuple(each for each in metadata if not isinstance(each, Marker))
    constrained = Annotated[annotation, *meta] if meta else annotation
    return constrained | None if optional else constrained
