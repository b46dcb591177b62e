"""Variants in JSON: the field that says of which class an entity is, and the class that a body names by it.

See "Variants" in docs/reference/web.md.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from oneread.errors import InvalidDeclaration, InvalidValue
from oneread.models.json_body import FAULTS, NOT_FITTING, FieldFault, located, reason_of
from oneread.models.model import Model, key_names, stored_name
from oneread.models.registry import root_model

_TAKEN: Final = (
    "the JSON of a model with variants says in this field which one it is; set another name in the model: "
    'discriminator = "kind"'
)


class Discriminator:
    """The field in the JSON of a class of a model that has variants; `value` is that of the class itself."""

    def __init__(self, cls: type[Model[Any]], name: str) -> None:
        self.cls = cls
        self.name = name
        self.value = stored_name(cls)

    @functools.cached_property
    def variants(self) -> dict[str, type[Model[Any]]]:
        """The classes of entities that are read as this class, by their values; of two declared alike the newer."""
        return {stored_name(each): each for each in _with_variants(self.cls) if not is_variants_only(each)}

    @functools.cached_property
    def is_choice(self) -> bool:
        """Whether an entity that is read as this class may be of another one."""
        return list(self.variants.values()) != [self.cls]

    @functools.cached_property
    def patched(self) -> dict[str, type[Model[Any]]]:
        """The classes as which entities are patched: this one, which stands for all of them, and its variants."""
        return {self.value: self.cls} | self.variants

    @functools.cached_property
    def _decoder(self) -> msgspec.json.Decoder[Any]:
        fields: list[Any] = [("given", Any, msgspec.UNSET)]
        return msgspec.json.Decoder(msgspec.defstruct(self.cls.__name__, fields, rename={"given": self.name}))

    def choose(self, body: bytes, *, patches: bool = False) -> Any:
        """The class that a body names; one that patches may name none, and is for this class then.

        Raises:
            InvalidValue: the body is not a JSON object, or names none of them.
        """
        try:
            given: object = self._decoder.decode(body).given
        except FAULTS as error:
            raise self._refusal(located(reason_of(error))) from error
        if patches and given is msgspec.UNSET:
            return self.cls
        found = self.variants.get(given) if isinstance(given, str) else None
        if found is None:
            raise self._refusal(FieldFault((self.name,), expected(self.variants)))
        return found

    def _refusal(self, fault: FieldFault) -> InvalidValue:
        field = fault.place[0] if fault.place else None
        name = self.cls.__name__
        return InvalidValue(NOT_FITTING, model=name, field=field, reason=fault.reason, faults=[fault])


def expected(names: Iterable[str]) -> str:
    """What a discriminator must be, for an error message; never what it was."""
    *others, last = map(repr, names)
    return f"expected {', '.join(others)} or {last}" if others else f"expected {last}"


def discriminator_of(cls: type) -> Discriminator | None:
    """The discriminator of an entity class; None where the model has no variants.

    Raises:
        InvalidDeclaration: the class has a field that is called so, here or in JSON, or the option is wrong.
    """
    if not (issubclass(cls, Model) and key_names(cls)):
        return None
    root = root_model(cls)
    if is_variants_only(cls) and not _variants(cls):
        raise InvalidDeclaration("variants_only: this model has no variant", model=cls)
    if cls is root and not _variants(cls):
        return None
    name: object = root.discriminator
    if type(name) is not str or not name:
        raise InvalidDeclaration('discriminator: expected a name, as discriminator = "kind"', model=root, given=name)
    if cls.discriminator != name:
        raise InvalidDeclaration(
            "discriminator: all variants have that of their model; set it there",
            variant=cls, model=root, given=cls.discriminator,
        )  # fmt: skip
    if name in (*cls.__struct_fields__, *cls.__struct_encode_fields__):
        raise InvalidDeclaration(_TAKEN, declaration=cls, field=name)
    return Discriminator(cls, name)


def is_variants_only(cls: type[Model[Any]]) -> bool:
    """Whether no entity is exactly of this class; a variant does not inherit that."""
    return bool(cls.__dict__.get("variants_only", False))


def _variants(cls: type[Model[Any]]) -> list[type[Model[Any]]]:
    """The classes that users declare as variants of this one; a subclass that is array-like decodes documents."""
    return [each for each in cls.__subclasses__() if not each.__struct_config__.array_like]


def _with_variants(cls: type[Model[Any]]) -> Iterator[type[Model[Any]]]:
    yield cls
    for each in _variants(cls):
        yield from _with_variants(each)
