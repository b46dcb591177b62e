"""Entity kinds: a model with its variants, and the codec of their keys.

See "Keys" of the decisions page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from operator import attrgetter
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

from oneread.encoding.codec import Codec, KeyElement
from oneread.encoding.codegen import function
from oneread.errors import InvalidDeclaration, InvalidKey, InvalidValue
from oneread.models.model import Model, key_names, referring_key_fields
from oneread.models.references import OTHER_CLASS, Copy, Ref
from oneread.models.types import Annotation, FieldType, Names, type_of, types_of, unwrap
from oneread.store.keys import KIND_BYTES, RootKey, entity_part, root_key, spread_part
from oneread.store.limits import KEY_BYTES

_KEY_TYPES: Final = (bool, int, float, Decimal, str, bytes, datetime, date, timedelta, UUID)


def element(
    name: str, annotation: Annotation, declaration: type, *, descending: bool = False, none: Any = None
) -> KeyElement:
    """The key element that holds values of a field's type.

    Raises:
        InvalidDeclaration: values of this type have no order of their own.
    """
    bare = unwrap(annotation).bare
    if not (isinstance(bare, type) and (bare in _KEY_TYPES or issubclass(bare, Enum))):
        raise InvalidDeclaration(
            "a key is made of bool, int, float, Decimal, str, bytes, date, datetime, timedelta, UUID, an Enum or a Ref",
            declaration=declaration, field=name, type=bare,
        )  # fmt: skip
    return KeyElement(name, bare, descending=descending, none=none, max_length=KEY_BYTES)


def elements_behind(
    name: str, parts: Sequence[KeyElement], *, descending: bool = False, none: Any = None
) -> tuple[KeyElement, ...]:
    """The key elements of a field that refers: the parts of the key that it refers to, one part by the field's name."""
    is_alone = len(parts) == 1
    return tuple(
        KeyElement(
            name if is_alone else f"{name}.{part.name}",
            part.type,
            descending=descending,
            none=none,
            max_length=KEY_BYTES,
        )
        for part in parts
    )


def key_behind(ref: Ref[Any], model: type[Model[Any]], field: str, parts: Sequence[KeyElement]) -> tuple[Any, ...]:
    """The key of a reference that stands for these parts of a key. Raises InvalidKey for one to another model."""
    if ref.refers_to is not None and not issubclass(ref.refers_to, model):
        raise InvalidKey(OTHER_CLASS, field=field, given=ref, expected=model)
    if type(ref.key) is not tuple or len(ref.key) != len(parts):
        raise InvalidKey(
            "the reference has a key of other parts than the model it refers to",
            field=field, given=ref, parts=[each.name for each in parts],
        )  # fmt: skip
    return ref.key


def instead_of(value: object, cls: type, made: str) -> tuple[str, str]:
    """What is wrong with a value of a field that refers, or with one of its elements, and what to write."""
    several: Iterable[object] = value if isinstance(value, (list, tuple, set, frozenset)) else (value,)
    wrong = next((each for each in several if made == "of" or not isinstance(each, Ref)), value)
    write = f"{cls.__name__}.{made}(...)"
    if isinstance(wrong, Model):
        return "write a reference, not the entity", write if made == "of" else "entity.ref()"
    if isinstance(wrong, Copy):
        return (
            ("this is a copy of another class", write)
            if made == "of"
            else ("write a reference, not a copy", "copy.ref")
        )
    if isinstance(wrong, Ref):
        return "write a copy, not a reference", f"{cls.__name__}.of(ref)"
    return "write a reference, not a key", write


class KeyField(NamedTuple):
    """A field of a model's key: one part of it, or the parts of the key of the entity that it refers to."""

    name: str
    elements: tuple[KeyElement, ...]
    target: type[Model[Any]] | None = None
    """The model that it refers to."""

    def parts_of(self, owner: type, value: Any) -> tuple[Any, ...]:
        """The parts of a key that a value of the field refers by. Raises InvalidValue for one that does not refer."""
        assert self.target is not None
        if not isinstance(value, Ref):
            why, write = instead_of(value, self.target, "at")
            raise InvalidValue(
                f"a value does not fit its field, which refers to an entity: {why}",
                model=owner.__name__, field=self.name, value=value, write=write,
            )  # fmt: skip
        return key_behind(value, root_model(self.target), self.name, self.elements)


def _parts_getter(cls: type, fields: Sequence[KeyField]) -> Callable[[Any], tuple[Any, ...]]:
    """The function from an entity to the parts of its key."""
    if any(each.target is not None for each in fields):
        scope = {f"parts_{place}": each.parts_of for place, each in enumerate(fields)}
        values = "".join(
            f"e.{each.name}, " if each.target is None else f"*parts_{place}(type(e), e.{each.name}), "
            for place, each in enumerate(fields)
        )
        return function("parts", "e", [f"return ({values})"], scope, cls.__qualname__)
    get = attrgetter(*[each.name for each in fields])
    return get if len(fields) > 1 else lambda entity: (get(entity),)


def _root_places(fields: Sequence[KeyField], root: Any, names: Names) -> tuple[int, ...]:
    """The places of the parts of a root's key: those of the first field that refers to it, else of the same names."""
    if not (isinstance(root, type) and issubclass(root, Model)):
        return ()
    own = [(each, part) for each in fields for part in each.elements]
    referring = next((each for each in fields if each.target is not None and root_model(each.target) is root), None)
    if referring is not None:
        return tuple(place for place, (each, _part) in enumerate(own) if each is referring)
    places = {(part.name, part.type): place for place, (_each, part) in enumerate(own)}
    theirs = [(part.name, part.type) for each in key_fields(root, names) for part in each.elements]
    return tuple(places[each] for each in theirs) if places.keys() >= set(theirs) else ()


class EntityKind:
    """A model and its variants; `number` is the first two bytes of their rows' keys."""

    def __init__(self, cls: type[Model[Any]], number: int, names: Names) -> None:
        self.cls = cls
        self.number = number
        self.prefix = number.to_bytes(KIND_BYTES, "big")
        self.fields = key_fields(cls, names)
        self.codec = _codec_of(self.fields)
        self.names = tuple(each.name for each in self.codec.elements)
        """Of the parts of the key: a field that refers has those of the key that it refers to."""
        self.spread = cls.spread
        """The ranges that its root rows are in."""
        self.start = KIND_BYTES + len(spread_part(b"", self.spread))
        """Where the entity's own key begins in the key of its root row."""
        self.child_of = child_of(cls, names)
        self.root_places = _root_places(self.fields, self.child_of, names)
        """Where the key of the root of its entity group is among the parts of its own; none if it is not there."""
        self._refers = any(each.target is not None for each in self.fields)
        self._arity = len(self.names)
        self._encode = cast("Callable[[tuple[Any, ...]], bytes]", self.codec.encode)
        self.locate = self.placed(self._encode)
        """From a key's parts to what is behind the prefix in the key of the root row."""
        self.parts = _parts_getter(cls, self.fields)

    def flat(self, given: tuple[Any, ...]) -> tuple[Any, ...]:
        """A key as a call gives it, as its parts: a reference in the place of a field that refers is its own key.

        Raises:
            InvalidKey: a reference is to another model, or has a key of other parts.
        """
        if not self._refers:
            return given
        rest, found = list(given), list[Any]()
        for each in self.fields:
            if not rest:
                break
            ref = rest[0].ref if isinstance(rest[0], Copy) else rest[0]
            if each.target is None or not isinstance(ref, Ref):
                width = len(each.elements)
                found += rest[:width]
            else:
                width = 1
                found += key_behind(ref, root_model(each.target), each.name, each.elements)
            del rest[:width]
        return (*found, *rest)

    def suffix(self, parts: tuple[Any, ...]) -> bytes:
        """The key of an entity, as keys of rows of views end in it."""
        if len(parts) != self._arity:
            raise InvalidKey(
                "the key has other parts than the model declares", model=self.cls, declared=self.names, given=parts
            )
        return self._encode(parts)

    def key(self, parts: tuple[Any, ...]) -> RootKey:
        """The key of an entity's root row."""
        if len(parts) != self._arity:
            raise InvalidKey(
                "the key has other parts than the model declares", model=self.cls, declared=self.names, given=parts
            )
        found: RootKey = self.prefix + self.locate(parts)  # type: ignore[assignment]  # a call of RootKey costs as much
        return found

    def root_of(self, suffix: bytes) -> RootKey:
        """The key of the root row of the entity with this key, as `suffix` returns it."""
        return root_key(self.prefix, suffix, self.spread)

    def placed(self, encode: Callable[[tuple[Any, ...]], bytes]) -> Callable[[tuple[Any, ...]], bytes]:
        """`locate`, by a function that encodes the parts."""
        if self.spread == 1:
            return encode
        ranges = self.spread

        def locate(parts: tuple[Any, ...]) -> bytes:
            suffix = encode(parts)
            return spread_part(suffix, ranges) + suffix

        return locate

    def end_of(self, key: bytes) -> int:
        """Where a root key of this kind ends that other bytes follow. Raises Corrupt."""
        return self.codec.decode_prefix(key, self.start)[1]

    def parts_of(self, key: bytes) -> tuple[Any, ...]:
        """The parts of a root row's key."""
        return self.codec.decode(entity_part(key))


def key_codec(cls: type[Model[Any]], names: Names) -> Codec:
    """The codec of a model's key, checked against `Model[...]`."""
    return _codec_of(key_fields(cls, names))


def _codec_of(fields: Iterable[KeyField]) -> Codec:
    return Codec(tuple(element for each in fields for element in each.elements), max_length=KEY_BYTES)


def key_fields(cls: type[Model[Any]], names: Names, holders: tuple[type, ...] = ()) -> tuple[KeyField, ...]:
    """The fields of a model's key, checked against `Model[...]`; `holders` are models whose keys refer to it.

    Raises:
        InvalidDeclaration: the key has none, has one that cannot be in a key, or contains itself.
    """
    declared = key_names(cls)
    if not declared:
        raise InvalidDeclaration("a model needs at least one Key[...] field", model=cls)
    if root_model(cls) in holders:
        circle = " -> ".join(each.__name__ for each in (*holders, root_model(cls)))
        raise InvalidDeclaration("a key cannot contain a reference to its own model", declaration=cls, circle=circle)
    types = types_of(cls, names)
    if set(declared) - set(types):
        raise InvalidDeclaration(
            "a Key[...] of this model is not a field", model=cls, fields=sorted(set(declared) - set(types))
        )
    fields = tuple(_key_field(cls, types[name], (*holders, root_model(cls))) for name in declared)
    given = cls.type_arguments
    meant = [each.elements[0].type if each.target is None else each.target for each in fields]
    if given and [_meant(type_of(each, names, cls, "Model[...]")) for each in given] != meant:
        raise InvalidDeclaration(
            "the types in Model[...] are not those of the Key[...] fields",
            model=cls,
            given=given,
            declared=[types[name].present.bare for name in declared],
        )
    return fields


def _meant(given: FieldType) -> Any:
    """What a type in `Model[...]` stands for: the model that it refers to, or itself."""
    found = reference_target(given)
    return given.present.bare if found is None or found[1] is not None else found[0]


def _key_field(cls: type[Model[Any]], given: FieldType, holders: tuple[type, ...]) -> KeyField:
    """One field of a key; one that refers has the parts of the key that it refers to."""
    name = given.field
    if given.optional:
        raise InvalidDeclaration("a part of a key cannot be None", model=cls, field=name)
    found = reference_target(given)
    if found is None:
        return KeyField(name, (element(name, given.bare, cls),))
    target, copy = found
    if copy is not None:
        raise InvalidDeclaration(
            "a copy changes and a key does not: refer by the key, and show the values in views by within(...)",
            model=cls, field=name, write=f"{name}: Key[Ref[{target.__name__}]]",
        )  # fmt: skip
    if name not in referring_key_fields(cls):
        raise InvalidDeclaration(
            "a reference in a key is written out, not by the name of an alias",
            model=cls, field=name, write=f"{name}: Key[Ref[{target.__name__}]]",
        )  # fmt: skip
    parts = [part for each in key_fields(target, given.names, holders) for part in each.elements]
    return KeyField(name, elements_behind(name, parts), target)


_ROOT_MODELS: dict[type, type[Model[Any]]] = {}


def root_model(cls: type) -> type[Model[Any]]:
    """The model of an entity class: its base that declares the key."""
    known = _ROOT_MODELS.get(cls)
    if known is None:
        bases = [base for base in cls.__mro__ if issubclass(base, Model) and base is not Model]
        declaring = [base for base in bases if key_names(base)]
        if not declaring:
            raise InvalidDeclaration("a model needs at least one Key[...] field", model=cls)
        known = _ROOT_MODELS[cls] = declaring[-1]
    return known


def child_of(cls: type, names: Mapping[str, Any]) -> type[Model[Any]] | None:
    """The root of the entity groups that a model's entities belong to, which may be declared after it, as a name.

    A name that is not known is returned as it is, for the schema to refuse.
    """
    root: Any = root_model(cls).child_of
    found: type[Model[Any]] | None = names.get(root, root) if isinstance(root, str) else root
    return found


def reference_target(given: FieldType) -> tuple[type[Model[Any]], type[Copy[Any]] | None] | None:
    """What a type refers to: the model, and the copy class when it is a copy; None for other types and for lists."""
    present = given.present
    if present.kind == "copy":
        return target_of(present.cls, given.names), present.cls
    if present.kind != "reference":
        return None
    if present.bare is Ref:
        raise InvalidDeclaration(
            "write which model is referred to: Ref[Model]", declaration=given.owner, field=given.field
        )
    return _model(present.bare.__args__[0], given.names, given.owner, given.field), None


def target_of(copy: type[Copy[Any]], names: Mapping[str, Any]) -> type[Model[Any]]:
    """The model that a copy class copies from."""
    if not copy.type_arguments:
        raise InvalidDeclaration("write which model is copied: class Buyer(Copy[Customer])", copy=copy)
    return _model(copy.type_arguments[0], names, copy, "ref")


def _model(argument: Annotation, names: Mapping[str, Any], declaration: type, field: str) -> type[Model[Any]]:
    name = argument if isinstance(argument, str) else getattr(argument, "__forward_arg__", None)
    found = names.get(name) if name is not None else argument
    if not (isinstance(found, type) and issubclass(found, Model)):
        raise InvalidDeclaration(
            "this refers to a class that is not a model of the schema",
            declaration=declaration,
            field=field,
            target=argument,
        )
    return found
