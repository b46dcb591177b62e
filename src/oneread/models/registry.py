"""Kinds: one table of entities each, a model with its variants, and how their keys are made.

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

from oneread.encoding.codec import Codec, Element
from oneread.errors import InvalidDeclaration, InvalidKey
from oneread.models.annotations import FieldType, Names, types_of, unwrap
from oneread.models.layout import Layouts
from oneread.models.model import Model, key_names
from oneread.models.references import Copy, Ref
from oneread.store.keys import KIND_BYTES, RootKey, entity_part
from oneread.store.limits import KEY_BYTES, LAST_NUMBER

_KEY_TYPES: Final = (bool, int, float, Decimal, str, bytes, datetime, date, timedelta, UUID)


def element(name: str, annotation: Any, declaration: type, *, descending: bool = False, none: Any = None) -> Element:
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
    return Element(name, bare, descending=descending, none=none, max_length=KEY_BYTES)


class EntityKind:
    """A model and its variants under one id.

    Arguments:
        cls: the model that declares the key.
        number: its id in the store; the first two bytes of its rows' keys.
        names: classes by name, to resolve annotations.
        last: the last number that the store had given to anything.
    """

    def __init__(self, cls: type[Model[Any]], number: int, names: Names, last: int = LAST_NUMBER) -> None:
        self.cls = cls
        self.number = number
        self.prefix = number.to_bytes(KIND_BYTES, "big")
        self.layouts = Layouts(last)
        self.names = key_names(cls)
        self.codec = key_codec(cls, names)
        self._arity = len(self.names)
        self._encode = cast("Callable[[tuple[Any, ...]], bytes]", self.codec.encode)
        get = attrgetter(*self.names)
        self.parts: Callable[[Any], tuple[Any, ...]] = get if self._arity > 1 else lambda entity: (get(entity),)

    def suffix(self, parts: tuple[Any, ...]) -> bytes:
        """A whole key without the kind's prefix."""
        if len(parts) != self._arity:
            raise InvalidKey(
                "the key has other parts than the model declares", model=self.cls, declared=self.names, given=parts
            )
        return self._encode(parts)

    def key(self, parts: tuple[Any, ...]) -> RootKey:
        """The key of the commit row of one entity."""
        if len(parts) != self._arity:
            raise InvalidKey(
                "the key has other parts than the model declares", model=self.cls, declared=self.names, given=parts
            )
        return RootKey(self.prefix + self._encode(parts))

    def parts_of(self, key: bytes) -> tuple[Any, ...]:
        """The parts of a commit row's key."""
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
            raise InvalidDeclaration("a part of a key is never None", model=cls, field=name)
    given = cls.type_arguments
    if given and tuple(unwrap(part).bare for part in given) != tuple(each.type for each in elements):
        raise InvalidDeclaration(
            "the types in Model[...] are not those of the Key[...] fields",
            model=cls,
            given=given,
            declared=[each.type for each in elements],
        )
    return Codec(elements, max_length=KEY_BYTES)


def root_model(cls: type) -> type[Model[Any]]:
    """The model whose table an entity class lives in: its base that declares the key."""
    bases = [base for base in cls.__mro__ if issubclass(base, Model) and base is not Model]
    declaring = [base for base in bases if key_names(base)]
    if not declaring:
        raise InvalidDeclaration("a model needs at least one Key[...] field", model=cls)
    return declaring[-1]


def reference_target(given: FieldType) -> tuple[type[Model[Any]], type[Copy[Any]] | None] | None:
    """What a type refers to: the model, and the copy class when it is a copy; None for other types and for lists."""
    present = given.present
    if present.kind == "copy":
        return target_of(present.cls, given.names), present.cls
    if present.kind != "reference":
        return None
    if present.bare is Ref:
        raise InvalidDeclaration("say what is referred to: Ref[Model]", declaration=given.owner, field=given.field)
    return _model(present.bare.__args__[0], given.names, given.owner, given.field), None


def target_of(copy: type[Copy[Any]], names: Mapping[str, Any]) -> type[Model[Any]]:
    """The model that a copy class copies from."""
    if not copy.type_arguments:
        raise InvalidDeclaration("say what is copied: class Buyer(Copy[Customer])", copy=copy)
    return _model(copy.type_arguments[0], names, copy, "ref")


def _model(argument: Any, names: Mapping[str, Any], declaration: type, field: str) -> type[Model[Any]]:
    name = argument if isinstance(argument, str) else getattr(argument, "__forward_arg__", None)
    found = names.get(name) if name is not None else argument
    if not (isinstance(found, type) and issubclass(found, Model)):
        raise InvalidDeclaration(
            "what is referred to is no model of this schema", declaration=declaration, field=field, target=argument
        )
    return found
