"""Shadows: hidden array-like subclasses, with every type resolved, through which documents are decoded.

A user's class is an object in JSON, so it cannot be array-like itself. A shadow adds no slots, so an instance of it can
be given the user's class after decoding: no second object is made. It is not frozen, because a statement sets its class
in less time than a call of `become`. See "Documents" of docs/formats/rows.md.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from datetime import datetime
from itertools import chain
from types import GenericAlias
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, NoReturn, TypeAlias, get_args

import msgspec

from oneread.errors import InvalidDeclaration
from oneread.models.differences import difference, is_abstract
from oneread.models.fields import defaults_of
from oneread.models.model import Model, key_names
from oneread.models.references import Copy, Ref, ref_class, refuse_copy_in_copy
from oneread.models.types import Annotation, FieldType, Names, types_of, written_annotations
from oneread.models.value_checks import refuse_metadata
from oneread.models.wide import pack_wide, unpack_wide

Fitting: TypeAlias = Callable[[Any], Any]
"""A value to the value that a field would be read with; ValueError when a save would refuse it."""

become: Final[Callable[[object, type], None]] = object.__dict__["__class__"].__set__
"""Sets the class of a shadow's instance to the user's. A frozen struct refuses `obj.__class__ = cls`."""

_SURVIVES_ANY: Final = (str, bytes, int, bool, float)
_AWARE: Final = msgspec.Meta(tz=True)
_NOT_AWARE: Final = "in a class used as a field's type, an instant is Annotated[datetime, msgspec.Meta(tz=True)]"


def shadow_of(cls: Any, fields: dict[str, Any]) -> Any:
    """A subclass of `cls` that is array-like, takes exactly these concretely typed fields, and has no defaults.

    It is made without the metaclass's own `__new__`, whose checks are for users' classes. Annotations that are not
    fields are hidden, so that msgspec does not evaluate their text.
    """
    others = set(written_annotations(cls)) - set(fields)
    space = {
        "__annotations__": dict.fromkeys(others, ClassVar[Any]) | fields,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
    }
    made: Any = msgspec.StructMeta.__new__(
        type(cls), cls.__name__, (cls,), space, array_like=True, forbid_unknown_fields=True, tag=False, frozen=False,
        rename={name: name for name in fields},  # two names may differ only in what `field(name=...)` makes of them
    )  # fmt: skip
    _try_to_become(made, cls)
    return made


def _try_to_become(shadow: Any, cls: type) -> None:
    """Checks, when the schema is built, that this interpreter can change the class of an instance."""
    space = {"__post_init__": object.__init__, "__module__": cls.__module__}  # the user's must not run on the probe
    probe_class: Any = msgspec.StructMeta.__new__(type(shadow), cls.__name__, (shadow,), space)
    probe = probe_class(**dict.fromkeys(shadow.__struct_fields__))
    try:
        become(probe, cls)
    except TypeError as error:
        raise InvalidDeclaration(
            "this interpreter cannot decode into this class", declaration=cls, reason=str(error)
        ) from error


class _ByKey(type):
    """The metaclass of stand-ins for `Ref[X]` inside other types, which msgspec decodes by the hook `revive`.

    A shadow does not work there: nothing would give the instances the class that users know.
    """

    def __instancecheck__(cls, instance: object) -> bool:
        return issubclass(type(instance), Ref)


def revive(stand_in: Any, decoded: tuple[Any]) -> Ref[Any]:
    """The reference for a stand-in."""
    (key,) = decoded
    made: Ref[Any] = stand_in.made(msgspec.convert(key, stand_in.key))
    return made


AWARE: Final = msgspec.Meta(tz=True)
"""What each datetime has, which no document lacks."""


class FieldShape(NamedTuple):
    """How one field is laid out."""

    name: str
    kind: Literal["plain", "ref", "refs", "copy"]
    type: FieldType
    optional: bool
    concrete: Annotation
    """The type msgspec decodes to."""
    cls: Any = None
    """The user's class of a copy."""
    shadow: Any = None
    """What a copy is decoded to; the class that a decoded reference is given, if that has to be done."""
    fields: tuple[FieldShape, ...] = ()
    """Of a copy."""
    sets: bool = False
    """A plain value that may be a set, or hold one."""

    @property
    def has_limits(self) -> bool:
        """Whether decoding refuses some values of its types."""
        found = [each for part in self.type.walk() for each in part.metadata if isinstance(each, msgspec.Meta)]
        return any(each != AWARE for each in found) or any(
            each.has_limits for each in self.fields if each.kind != "ref"
        )

    def reference(self) -> FieldType:
        """The Ref in a field that refers: itself, an element of a list, or a copy's `ref`."""
        if self.kind == "copy":
            return self.fields[0].reference()
        found = self.type.present
        return found.parts[0].present if self.kind == "refs" else found


class Shapes:
    """Makes the shadows of one layout.

    `names` are classes by name, for annotations that their module cannot resolve; `nullable` the copy classes whose
    copied fields may be None although they are declared otherwise.
    """

    def __init__(self, names: Names, nullable: frozenset[type]) -> None:
        self.names = names
        self.nullable = nullable
        self._open: set[type] = set()
        self._checked: set[type] = set()

    def of(self, cls: Any) -> tuple[FieldShape, ...]:
        """The shapes of a class's fields."""
        types = types_of(cls, self.names).values()
        for each in types:
            refuse_metadata(each, self.names, of_model=issubclass(cls, Model))
        return tuple(self._field(each) for each in types)

    def _field(self, given: FieldType) -> FieldShape:
        name, optional, present = given.field, given.optional, given.present
        if present.kind == "copy":
            if issubclass(given.owner, Copy):
                refuse_copy_in_copy(given.owner, given.field, present.cls)
            return self._copy(given)
        if present.kind == "reference":
            concrete, shadow = self._ref(present)
            return FieldShape(name, "ref", given, optional, wrapped(concrete, optional=optional), shadow=shadow)
        element = present.several if present.cls is list else None
        if element is not None and element.present.kind == "reference" and not element.optional:
            concrete, shadow = self._ref(element.present)
            many = wrapped(GenericAlias(list, (concrete,)), given.metadata, optional=optional)
            return FieldShape(name, "refs", given, optional, many, shadow=shadow)
        return FieldShape(name, "plain", given, optional, self.concrete(given), sets=given.holds_sets)

    def _copy(self, given: FieldType) -> FieldShape:
        cls, optional = given.present.cls, given.optional
        fields = self.of(cls)
        if cls in self.nullable:
            own = Copy.__struct_fields__
            fields = tuple(each if each.name in own else _nullable(each) for each in fields)
        shadow = shadow_of(cls, {each.name: each.concrete for each in fields})
        return FieldShape(given.field, "copy", given, optional, wrapped(shadow, optional=optional), cls, shadow, fields)

    def _ref(self, reference: FieldType) -> tuple[Any, Any]:
        """The type to decode a reference to, and the class to set afterwards if that differs."""
        types = self.key_types(reference)
        made = ref_class(reference.target())
        if _are_exact(types):
            return made, None
        space = {"__annotations__": {"key": GenericAlias(tuple, types)}, "__module__": Ref.__module__}
        shadow = msgspec.StructMeta.__new__(type(Ref), "Ref", (made,), space, forbid_unknown_fields=True)
        _try_to_become(shadow, made)
        return shadow, made

    def key_types(self, reference: FieldType) -> tuple[Any, ...]:
        """The types of the key's parts in a reference, as msgspec is to see them."""
        target = reference.target()
        if reference.field == "source" and _groups_by(target):
            return self._group_key_types(target)
        if not (isinstance(target, type) and issubclass(target, Model)):
            _refuse("write which model is referred to: Ref[Customer], Copy[Customer]", reference)
        if target in self._open:
            raise InvalidDeclaration("a key cannot contain a reference to its own model", declaration=target)
        self._open.add(target)
        fields = types_of(target, self.names)
        types: list[Any] = []
        for part in key_names(target):
            is_reference = fields[part].present.kind == "reference"
            types += self.key_types(fields[part].present) if is_reference else (self.concrete(fields[part]),)
        self._open.remove(target)
        return tuple(types)

    def _group_key_types(self, aggregate: type) -> tuple[Any, ...]:
        """Those of a group's key, which a row of an index refers to: a reference is the parts of its own key."""
        fields = types_of(aggregate, self.names)
        types: list[Any] = []
        for name in _groups_by(aggregate):
            present, optional = fields[name].present, fields[name].optional
            if present.kind == "copy":
                present = types_of(present.cls, self.names)["ref"].present
            if present.kind == "reference":
                types += [wrapped(each, optional=optional) for each in self.key_types(present)]
            else:
                types.append(self.concrete(fields[name]))
        return tuple(types)

    def concrete(self, given: FieldType) -> Annotation:
        """The type for msgspec: resolved, instants aware, without markers, references typed by their keys."""
        bare = given.bare
        if given.kind == "reference":
            types = self.key_types(given)
            made = ref_class(given.target())
            bare = made if _are_exact(types) else _ByKey("Ref", (), {"key": GenericAlias(tuple, types), "made": made})
        elif bare is datetime:
            bare = bare if _is_aware(given) else Annotated[datetime, _AWARE]
        elif given.parts:
            parts = tuple(map(self.concrete, given.parts))
            bare = functools.reduce(operator.or_, parts) if given.kind == "union" else given.cls[parts]
        self._check(given)
        return wrapped(bare, tuple(chain(*given.layers)), optional=False)

    def _check(self, given: FieldType) -> None:
        """Refuses types that a field, or a class used as a field's type, cannot have.

        msgspec decodes such a class by itself, so its instants are not made aware nor its references typed by keys.
        """
        for each in given.walk(self._checked):
            is_inside = each.owner is not given.owner
            if each.kind == "copy":
                _refuse("a copy is the whole type of a field, optional at most", each)
            if each.kind == "model":
                _refuse("an entity cannot hold an entity; declare a Copy or a Ref", each)
            if each.kind == "variable" and not is_inside:
                _refuse("a field's type is concrete, never a type variable", each)
            if is_inside and each.bare is datetime and not _is_aware(each):
                _refuse(_NOT_AWARE, each)
            if is_inside and each.kind == "reference" and get_args(each.bare) and not _are_exact(self.key_types(each)):
                _refuse("a nested class cannot hold a reference with such a key; declare it in the model", each)


def _groups_by(cls: Any) -> list[str]:
    """The fields of an aggregate that its groups are found by; none for other classes."""
    if not (isinstance(cls, type) and issubclass(cls, msgspec.Struct)):
        return []
    rules = defaults_of(cls).items()  # a rule is of a higher room
    return [name for name, rule in rules if getattr(rule, "kind", None) == "key"]


def _are_exact(types: tuple[Any, ...]) -> bool:
    """Whether msgspec reads keys of these types back as they were without a declared type."""
    return all(part in _SURVIVES_ANY for part in types)


def _nullable(field: FieldShape) -> FieldShape:
    return field._replace(optional=True, concrete=wrapped(field.concrete, optional=True))


def _is_aware(given: FieldType) -> bool:
    """Whether the annotation of an instant requires a time zone."""
    zones = {each.tz for each in given.metadata if isinstance(each, msgspec.Meta)}
    if False in zones:
        _refuse("instants have a time zone; leave out tz=False", given)
    return True in zones


def _refuse(reason: str, given: FieldType) -> NoReturn:
    raise InvalidDeclaration(reason, declaration=given.owner, field=given.field)


def wrapped(annotation: Annotation, metadata: tuple[Any, ...] = (), *, optional: bool) -> Annotation:
    """Puts constraints and `| None` around a type; what msgspec does not know is left out."""
    meta = tuple(each for each in metadata if isinstance(each, msgspec.Meta))
    constrained: Annotation = Annotated[(annotation, *meta)] if meta else annotation
    return constrained | None if optional else constrained


def fitting(given: FieldType) -> Fitting:
    """The function that takes values as a field of this type does.

    The operand of a condition and the arguments of a page are never saved: without it one of another type than the
    field's would equal nothing, and a list would be empty.
    """
    concrete, loose = Shapes(given.names, frozenset()).concrete(given), is_abstract(given)

    def fit(value: object) -> object:
        try:
            (plain,) = unpack_wide(pack_wide((value,)))
            read = msgspec.convert(plain, concrete, dec_hook=revive)
            found = difference(value, read, loose=loose)
        except (TypeError, OverflowError, AttributeError, RecursionError, msgspec.MsgspecError) as error:
            raise ValueError(str(error)) from error
        if found is not None:
            raise ValueError(f"expected another type than {type(found.given).__name__}")
        return read

    return fit
