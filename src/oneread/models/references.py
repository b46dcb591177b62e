"""References to entities, and copies: fields of another entity that a holder has.

See "Copies" of the decisions page.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar, Generic, Literal, Self, TypeAlias, TypeVar

import msgspec
from typing_extensions import dataclass_transform

from oneread.models.declared import Declared
from oneread.models.evolving import EvolutionStep
from oneread.models.paths import within

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

OnDelete: TypeAlias = Literal["keep", "refuse", "clear", "delete"]
"""When the source is deleted, a copy keeps its last values, or forbids the delete, or becomes None, or goes with it.

With "delete" it is the whole holder that is deleted.
"""


class Ref(msgspec.Struct, Generic[T_co], frozen=True, array_like=True):
    """A reference to an entity of T by its key; hashable. Nothing is fetched through it.

    Of a variant it refers to entities of that variant only; those of others are missing to it.
    """

    key: tuple[Any, ...]


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(within,))
class Copy(msgspec.Struct, Generic[T], frozen=True, metaclass=Declared):
    """Fields of an entity of T, copied into the entity that holds this and kept up to date.

    Declare a subclass whose fields have names and types of T's fields; a field may take another path with `within`:

        class Buyer(Copy[Customer]):
            name: str
            city: str = within(Customer.home, Home.city)

    Class options: `on_delete` (default "keep": the last values stay and `deleted` is true; "refuse", "clear" or
    "delete"), `missing_ok` (a reference to an entity that does not exist yet is allowed; its fields are None until it
    does), `evolution` (copied fields that had another name or type).
    """

    reserved_names: ClassVar[frozenset[str]] = frozenset(
        {"of", "ref", "deleted", "on_delete", "missing_ok", "evolution", "type_arguments", "reserved_names"}
    )
    type_arguments: ClassVar[tuple[Any, ...]] = ()
    on_delete: ClassVar[OnDelete] = "keep"
    missing_ok: ClassVar[bool] = False
    evolution: ClassVar[tuple[EvolutionStep, ...]] = ()

    ref: Ref[T]
    deleted: bool = False

    @classmethod
    def of(cls, *key: Any) -> Self:
        """A copy that only refers: `save` fills it. Reading a field before that raises AttributeError."""
        empty, deleters = _emptying(cls)
        made = cls(ref=Ref(key), **empty)
        for delete in deleters:
            delete(made)
        return made

    def __eq__(self, other: object) -> bool:
        """Whether all values are equal; copies that only refer are equal when they refer to the same entity."""
        if type(other) is not type(self):
            return NotImplemented
        return _shown(self) == _shown(other)

    def __hash__(self) -> int:
        return hash(_shown(self))

    def __repr__(self) -> str:
        if not is_filled(self):
            return f"{type(self).__name__}.of({', '.join(map(repr, self.ref.key))})"
        shown = {name: getattr(self, name) for name in ("ref", *copied_names(type(self)))} | (
            {"deleted": True} if self.deleted else {}
        )
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


_EMPTY = object()
_OWN = frozenset(Copy.__struct_fields__)


def _shown(copy: Copy[Any]) -> tuple[Any, ...]:
    """Every field's value, with one placeholder for every empty slot."""
    return tuple(getattr(copy, name, _EMPTY) for name in copy.__struct_fields__)


def copied_names(cls: type[Copy[Any]]) -> tuple[str, ...]:
    """The names of the fields that a copy class copies from its source."""
    return tuple(name for name in cls.__struct_fields__ if name not in _OWN)


def is_copied(cls: type[Copy[Any]], name: str) -> bool:
    """Whether a copy class copies a field of this name from its source."""
    return name in cls.__struct_fields__ and name not in _OWN


@functools.cache
def _emptying(cls: type[Copy[Any]]) -> tuple[dict[str, Any], tuple[Callable[[Any], None], ...]]:
    """The values with which a copy that only refers is made, and the functions that empty its slots again."""
    names = copied_names(cls)
    return dict.fromkeys(names), tuple(getattr(cls, name).__delete__ for name in names)


def is_filled(copy: Copy[Any]) -> bool:
    """Whether the copied fields have been filled from the source."""
    return all(hasattr(copy, name) for name in copied_names(type(copy)))
