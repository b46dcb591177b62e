"""Entity kinds: a model with its variants, and the codec of their keys.

See "Keys" of the decisions page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from operator import attrgetter
from typing import Any, Final, cast
from uuid import UUID

from oneread.encoding.codec import Codec, KeyElement
from oneread.errors import InvalidDeclaration, InvalidKey
from oneread.models.model import Model, key_names
from oneread.models.references import Copy, Ref
from oneread.models.types import Annotation, FieldType, Names, types_of, unwrap
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
            "a key is made of bool, int, float, Decimal, str, bytes, date, datetime, timedelta, UUID or an Enum",
            declaration=declaration, field=name, type=bare,
        )  # fmt: skip
    return KeyElement(name, bare, descending=descending, none=none, max_length=KEY_BYTES)


class EntityKind:
    """A model and its variants; `number` is the first two bytes of their rows' keys."""

    def __init__(self, cls: type[Model[Any]], number: int, names: Names) -> None:
        self.cls = cls
        self.number = number
        self.prefix = number.to_bytes(KIND_BYTES, "big")
        self.names = key_names(cls)
        self.spread = cls.spread
        """The ranges that its root rows are in."""
        self.start = KIND_BYTES + len(spread_part(b"", self.spread))
        """Where the entity's own key begins in the key of its root row."""
        self.child_of = child_of(cls, names)
        self.codec = key_codec(cls, names)
        self._arity = len(self.names)
        self._encode = cast("Callable[[tuple[Any, ...]], bytes]", self.codec.encode)
        self.locate = self.placed(self._encode)
        """From a key's parts to what is behind the prefix in the key of the root row."""
        get = attrgetter(*self.names)
        self.parts: Callable[[Any], tuple[Any, ...]] = get if self._arity > 1 else lambda entity: (get(entity),)

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
    declared = key_names(cls)
    if not declared:
        raise InvalidDeclaration("a model needs at least one Key[...] field", model=cls)
    types = types_of(cls, names)
    if set(declared) - set(types):
        raise InvalidDeclaration(
            "a Key[...] of this model is not a field", model=cls, fields=sorted(set(declared) - set(types))
        )
    elements = tuple(element(name, types[name].bare, cls) for name in declared)
    for name in declared:
        if types[name].optional:
            raise InvalidDeclaration("a part of a key cannot be None", model=cls, field=name)
    given = cls.type_arguments
    if given and tuple(unwrap(part).bare for part in given) != tuple(each.type for each in elements):
        raise InvalidDeclaration(
            "the types in Model[...] are not those of the Key[...] fields",
            model=cls,
            given=given,
            declared=[each.type for each in elements],
        )
    return Codec(elements, max_length=KEY_BYTES)


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
