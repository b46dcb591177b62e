"""Shadows: hidden array-like subclasses, with every type resolved, through which documents are decoded.

A user's class is an object in JSON, so it cannot be array-like itself. A shadow adds no slots, so an instance of it can
be given the user's class after decoding: no second object is made. See "Documents" of docs/formats/rows.md.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from datetime import datetime
from types import GenericAlias
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, TypeVar, get_args, get_origin

import msgspec

from oneread.errors import InvalidDeclaration
from oneread.models.annotations import (
    Names,
    field_types,
    is_union,
    resolved,
    unwrap,
    without_alias,
    written_annotations,
)
from oneread.models.fields import Marker
from oneread.models.model import Model, key_names
from oneread.models.references import Copy, Ref
from oneread.models.set_order import holds_sets

become: Final[Callable[[object, type], None]] = object.__dict__["__class__"].__set__
"""Gives an instance of a shadow its user's class. Not `obj.__class__ = cls`, which a frozen struct refuses."""

_SURVIVES_ANY: Final = (str, bytes, int, bool, float)
_AWARE: Final = msgspec.Meta(tz=True)
_SAY_AWARE: Final = "in a class used as a field's type, an instant is Annotated[datetime, msgspec.Meta(tz=True)]"


def shadow_of(cls: Any, fields: dict[str, Any]) -> Any:
    """A subclass of `cls` that is array-like, takes exactly these concretely typed fields, and has no defaults.

    Its metaclass's own `__new__` is passed over, because that one judges what users write. Annotations that are not
    fields are hidden, so that msgspec never evaluates the text of one.
    """
    others = set(written_annotations(cls)) - set(fields)
    space = {
        "__annotations__": dict.fromkeys(others, ClassVar[Any]) | fields,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
    }
    made: Any = msgspec.StructMeta.__new__(
        type(cls), cls.__name__, (cls,), space, array_like=True, forbid_unknown_fields=True, tag=False,
        rename={name: name for name in fields},  # two names may differ only in what `field(name=...)` makes of them
    )  # fmt: skip
    _try_to_become(made, cls)
    return made


def _try_to_become(shadow: Any, cls: type) -> None:
    """Finds out when the schema is built whether this interpreter lets an instance change its class."""
    space = {"__post_init__": object.__init__, "__module__": cls.__module__}  # the user's must not judge the probe
    probe_class: Any = msgspec.StructMeta.__new__(type(shadow), cls.__name__, (shadow,), space)
    probe = probe_class(**dict.fromkeys(shadow.__struct_fields__))
    try:
        become(probe, cls)
    except TypeError as error:
        raise InvalidDeclaration(
            "this interpreter cannot decode into this class", declaration=cls, reason=str(error)
        ) from error


class _ByKey(type):
    """The metaclass of stand-ins for `Ref[X]` deep inside other types: msgspec hands those to a hook, `revive`.

    A shadow would not do there: a set's hashes include the class, which would not be the final one yet.
    """

    def __instancecheck__(cls, instance: object) -> bool:
        return type(instance) is Ref


def revive(stand_in: Any, decoded: Any) -> Ref[Any]:
    """The plain Ref for a stand-in."""
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
    sets: bool = False
    """A plain value that may be a set, or hold one."""


class Shapes:
    """Makes the shadows of one layout.

    Arguments:
        names: classes by name, for annotations that their module cannot resolve.
        nullable: the copy classes whose copied fields may be None although they are declared otherwise.
    """

    def __init__(self, names: Names, nullable: frozenset[type]) -> None:
        self.names = names
        self.nullable = nullable
        self._open: set[type] = set()
        self._judged: set[type] = set()

    def of(self, cls: Any) -> tuple[FieldShape, ...]:
        """The shapes of a class's fields."""
        return tuple(self._field(cls, name, annotation) for name, annotation in field_types(cls, self.names).items())

    def _field(self, cls: Any, name: str, annotation: Any) -> FieldShape:
        bare, optional, metadata = unwrap(annotation)
        if is_copy(bare):
            if is_copy(cls):
                raise InvalidDeclaration(
                    "a copy cannot hold a copy; take its fields with within()", declaration=cls, field=name
                )
            return self._copy(name, bare, optional=optional)
        if is_ref(bare):
            concrete, shadow = self._ref(cls, name, bare)
            return FieldShape(name, "ref", optional, wrapped(concrete, optional=optional), shadow=shadow)
        element = unwrap(get_args(bare)[0]) if get_origin(bare) is list else None
        if element is not None and is_ref(element.bare) and not element.optional:
            concrete, shadow = self._ref(cls, name, element.bare)
            many = wrapped(GenericAlias(list, (concrete,)), metadata, optional=optional)
            return FieldShape(name, "refs", optional, many, shadow=shadow)
        concrete, sets = self.concrete(annotation, cls, name), holds_sets(annotation, self.names)
        return FieldShape(name, "plain", optional, concrete, sets=sets)

    def _copy(self, name: str, cls: Any, *, optional: bool) -> FieldShape:
        fields = self.of(cls)
        if cls in self.nullable:
            own = Copy.__struct_fields__
            fields = tuple(each if each.name in own else _nullable(each) for each in fields)
        shadow = shadow_of(cls, {each.name: each.concrete for each in fields})
        return FieldShape(name, "copy", optional, wrapped(shadow, optional=optional), cls, shadow, fields)

    def _ref(self, cls: Any, name: str, bare: Any) -> tuple[Any, Any]:
        """The type to decode a reference to, and the same again if its class has to be set afterwards."""
        types = self._key_types(cls, name, bare)
        if types is None:
            return Ref, None
        space = {"__annotations__": {"key": GenericAlias(tuple, types)}, "__module__": Ref.__module__}
        shadow = msgspec.StructMeta.__new__(type(Ref), "Ref", (Ref,), space, forbid_unknown_fields=True)
        _try_to_become(shadow, Ref)
        return shadow, shadow

    def _key_types(self, cls: Any, name: str, bare: Any) -> tuple[Any, ...] | None:
        """The types of the key's parts in a reference; None when msgspec brings each back without being told."""
        arguments = get_args(bare)
        if arguments and isinstance(arguments[0], TypeVar):
            arguments = getattr(cls, "type_arguments", ())  # of a copy's `ref` and an index's `source`
        target = resolved(arguments[0], cls, self.names, name) if arguments else None
        if not (isinstance(target, type) and issubclass(target, Model)):
            raise InvalidDeclaration(
                "say which model is referred to: Ref[Customer], Copy[Customer]", declaration=cls, field=name
            )
        if target in self._open:
            raise InvalidDeclaration("a key cannot contain a reference to its own model", declaration=target)
        self._open.add(target)
        hints = field_types(target, self.names)
        types = tuple(self.concrete(hints[part], target, part) for part in key_names(target))
        self._open.remove(target)
        return None if all(part in _SURVIVES_ANY for part in types) else types

    def concrete(self, annotation: Any, cls: Any, name: str) -> Any:
        """The annotation as msgspec is to see it: resolved, instants aware, markers gone, references typed by keys."""
        annotation = without_alias(annotation)
        if annotation is datetime:
            return Annotated[datetime, _AWARE]
        if is_ref(annotation):
            types = self._key_types(cls, name, annotation)
            return Ref if types is None else _ByKey("Ref", (), {"key": GenericAlias(tuple, types)})
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            inner = arguments[0] if _is_aware(annotation, cls, name) else self.concrete(arguments[0], cls, name)
            return wrapped(inner, arguments[1:], optional=False)
        if origin is None or origin is Literal:
            self._judge(annotation, cls, name)
            return annotation
        parts = tuple(each if each is ... else self.concrete(each, cls, name) for each in arguments)
        if is_union(annotation):
            return functools.reduce(operator.or_, parts)
        self._judge(origin, cls, name)
        return origin[parts]

    def _judge(self, annotation: Any, cls: Any, name: str) -> None:
        """Refuses what has no place in a field, and what a class used as a field's type says too loosely.

        msgspec reads such a class by itself, so nothing in it is made aware or typed by keys.
        """
        if isinstance(annotation, TypeVar):
            raise InvalidDeclaration("a field's type is concrete, never a type variable", declaration=cls, field=name)
        if not isinstance(annotation, type) or annotation in self._judged:
            return
        if issubclass(annotation, Copy):
            raise InvalidDeclaration(
                "a copy stands in a field by itself, optional at most", declaration=cls, field=name
            )
        if issubclass(annotation, Model):
            raise InvalidDeclaration(
                "an entity cannot hold an entity; declare a Copy or a Ref", declaration=cls, field=name
            )
        self._judged.add(annotation)
        for inner, its_type in field_types(annotation, self.names).items():
            self._judge_inside(its_type, annotation, inner)

    def _judge_inside(self, annotation: Any, cls: Any, name: str) -> None:
        annotation = without_alias(annotation)
        if annotation is datetime:
            raise InvalidDeclaration(_SAY_AWARE, declaration=cls, field=name)
        if is_ref(annotation):
            if get_args(annotation) and self._key_types(cls, name, annotation) is not None:
                raise InvalidDeclaration(
                    "a reference by such a key cannot stand in a nested class", declaration=cls, field=name
                )
            return
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is not Literal and not isinstance(annotation, TypeVar) and not _is_aware(annotation, cls, name):
            self._judge(origin or annotation, cls, name)
            for each in arguments:
                self._judge_inside(each, cls, name)


def _nullable(field: FieldShape) -> FieldShape:
    return field._replace(optional=True, concrete=wrapped(field.concrete, optional=True))


def _is_aware(annotation: Any, cls: Any, name: str) -> bool:
    """Whether the annotation is of an instant and says itself that there is a time zone."""
    if get_origin(annotation) is not Annotated or get_args(annotation)[0] is not datetime:
        return False
    said = {each.tz for each in get_args(annotation) if isinstance(each, msgspec.Meta)}
    if False in said:
        raise InvalidDeclaration("instants have a time zone; leave out tz=False", declaration=cls, field=name)
    return True in said


def is_copy(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Copy)


def is_ref(annotation: Any) -> bool:
    return annotation is Ref or get_origin(annotation) is Ref


def wrapped(annotation: Any, metadata: tuple[Any, ...] = (), *, optional: bool) -> Any:
    """Puts constraints and `| None` around a type; markers are for the schema and left out."""
    meta = tuple(each for each in metadata if not isinstance(each, Marker))
    constrained: Any = Annotated[(annotation, *meta)] if meta else annotation
    return constrained | None if optional else constrained
