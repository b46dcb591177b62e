"""Models: typed entities found by their key.

See docs/design/api.md.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Self, TypeVar, get_args, get_origin

import msgspec
from typing_extensions import dataclass_transform

from oneread.errors import InvalidKey
from oneread.models.declared import DeclaredModel, Keyed, KeyTypes
from oneread.models.evolving import EvolutionStep
from oneread.models.expiry import Expiry
from oneread.models.fields import KEY, reference, rollup
from oneread.models.references import OTHER_CLASS, Copy, Ref, ref_class
from oneread.store.limits import MAX_LIMIT

T = TypeVar("T")

_WRITTEN_REF: Final = re.compile(r"(?:\w+\.)*Key\[(?:\w+\.)*Ref\[[\"']?([\w.]+)[\"']?\]\]")

Key = Annotated[T, KEY]
"""`code: Key[str]` declares a part of the key, in the order of declaration; `group: Key[Ref[Group]]` refers as well."""


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field, reference, rollup))
class Model(msgspec.Struct, Keyed[*KeyTypes], frozen=True, dict=True, metaclass=DeclaredModel):
    """An entity. Declare a subclass with `Key[...]` fields and others.

    Frozen: change one with `db.patch` or `msgspec.structs.replace`.

    `Model[str, int]` lets type checkers see the key; it must agree with the `Key[...]` fields, which is checked when
    the schema is built. A subclass of a model is a variant: kept in the same table under the same keys, with further
    fields of its own. One variant never replaces another.

    A field may be called `at`, `ref` or `check`; it hides the method of that name, and a reference is written
    `Ref((key,))`.

    Class options: `stored_as` (the name in the store, which survives a rename of the class), `max_limit` (the largest
    page of entities, default 1,000), `evolution` (fields that had another name or type), `discriminator` (the field
    that says in JSON which variant an entity is, default "type"), `variants_only` (no entity is exactly of this class),
    `child_of` (the model of the root whose entity group the entities belong to, or its name where it is declared
    further down; their key refers to the root, or has the root's key in fields of the same names), `ttl` (when the
    entities expire, as `expires("expires_at")`), `spread` (ranges that the rows are in by a hash of their keys, 1 to
    100, so that keys that ascend do not all go to one server: a page then reads each of them; default 1), `logged` (for
    how long it is kept which entities have changed, so that `db.changes` follows them: `timedelta(days=7)`; default
    None, not at all).
    """

    reserved_names: ClassVar[frozenset[str]] = frozenset(
        {
            "stored_as", "max_limit", "evolution", "discriminator", "variants_only", "child_of", "ttl", "spread",
            "logged", "enqueue", "type_arguments", "reserved_names",
        }
    )  # fmt: skip
    type_arguments: ClassVar[tuple[Any, ...]] = ()
    stored_as: ClassVar[str | None] = None
    max_limit: ClassVar[int] = MAX_LIMIT
    evolution: ClassVar[tuple[EvolutionStep, ...]] = ()
    discriminator: ClassVar[str] = "type"
    variants_only: ClassVar[bool] = False
    child_of: ClassVar[type[Model[Any]] | str | None] = None
    ttl: ClassVar[Expiry | None] = None
    spread: ClassVar[int] = 1
    logged: ClassVar[timedelta | None] = None

    if TYPE_CHECKING:
        # The database's methods take the types of a key from this, because `at` may be a field.
        @classmethod
        def _located(cls, *key: *KeyTypes) -> Ref[Self]: ...
        @classmethod
        def _same(cls, at: Ref[Self], /) -> Ref[Self]: ...

    def __repr__(self) -> str:
        given = [name for name in self.__struct_fields__ if hasattr(self, name)]  # a total that is not built is empty
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in given)})"

    @classmethod
    def at(cls, *key: *KeyTypes) -> Ref[Self]:
        """A reference to the entity with this key; nothing is read. The key is checked where the reference is used.

        A reference in the place of a field that refers is the parts of its own key; one to another model than the field
        is refused, where the model's classes are known.
        """
        given: tuple[Any, ...] = key
        for each in given:
            if isinstance(each, (Ref, Copy)):
                return ref_class(cls)(flat_parts(cls, given))
        return ref_class(cls)(given)

    def ref(self) -> Ref[Self]:
        """A reference to this entity."""
        return ref_class(type(self))(key_of(self))

    def check(self) -> None:
        """The validation hook: override and raise ValueError for an entity that must not be stored.

        Called whenever the entity is written, copies that follow their source included. A read checks types and
        constraints, and does not call it.
        """


def stored_name(cls: type) -> str:
    """The name of a declaration in the store, and of a variant in JSON."""
    own = cls.__dict__.get("stored_as")
    return own if isinstance(own, str) else cls.__name__


def key_of(entity: object) -> tuple[Any, ...]:
    """The key of an entity, whatever its fields are called; a field that refers is the parts of the key behind it."""
    return tuple([part for name in key_names(type(entity)) for part in _parts_of(getattr(entity, name))])


def _parts_of(value: Any) -> tuple[Any, ...]:
    """The parts of a key that a value is: of a reference those of the key behind it."""
    return value.key if isinstance(value, Ref) and type(value.key) is tuple else (value,)


def has_check(cls: type) -> bool:
    """Whether a class checks its entities: `check` is its own method, and not a field of that name."""
    return issubclass(cls, Model) and cls.check is not Model.check and "check" not in cls.__struct_fields__


_KEY_NAMES: dict[type, tuple[str, ...]] = {}


def key_names(cls: type) -> tuple[str, ...]:
    """The names of a model's key fields, in the order of declaration, base classes first."""
    known = _KEY_NAMES.get(cls)
    if known is None:
        known = _KEY_NAMES[cls] = tuple(_key_annotations(cls))
    return known


def _key_annotations(cls: type) -> Mapping[str, tuple[object, type]]:
    """The annotation of each key field, and the class that declares it."""
    return {
        name: (annotation, base)
        for base in reversed(cls.__mro__)
        for name, annotation in vars(base).get("__annotations__", {}).items()
        if _is_key(annotation)
    }


def _is_key(annotation: object) -> bool:
    """Whether an annotation is `Key[...]`; it may still be text, by `from __future__ import annotations`."""
    if isinstance(annotation, str):
        return annotation.replace(" ", "").split("[")[0].rsplit(".", 1)[-1] == "Key"
    return KEY in getattr(annotation, "__metadata__", ())


@cache
def referring_key_fields(cls: type) -> Mapping[str, type | None]:
    """The key fields that are written as references, each with the class it names where that is known."""
    found: dict[str, type | None] = {}
    for name, (annotation, base) in _key_annotations(cls).items():
        if isinstance(annotation, str):
            written = _WRITTEN_REF.fullmatch(annotation.replace(" ", ""))
            named = () if written is None else (getattr(sys.modules.get(base.__module__), written[1], None),)
        else:
            inner = get_args(annotation)[0]
            named = get_args(inner) if get_origin(inner) is Ref else ()
        for target in named:
            found[name] = target if isinstance(target, type) else None
    return found


def flat_parts(cls: type, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """A key in which references stand for the parts of theirs, as far as the class alone shows which do."""
    names, referring = key_names(cls), referring_key_fields(cls)
    found: list[Any] = []
    for place, each in enumerate(given):
        ref = each.ref if isinstance(each, Copy) else each
        here = names[place : place + 1] if len(given) == len(names) else names
        targets = [referring[name] for name in here if name in referring]
        if not isinstance(ref, Ref) or not targets:
            found.append(each)
            continue
        if not any(_may_refer(ref.refers_to, target) for target in targets):
            raise InvalidKey(OTHER_CLASS, model=cls, given=ref, expected=targets)
        found += _parts_of(ref)
    return tuple(found)


def _may_refer(cls: type | None, target: type | None) -> bool:
    """Whether a reference to this class may be one to the target, or to a variant of it; None is not known."""
    return cls is None or target is None or issubclass(cls, target) or issubclass(target, cls)
