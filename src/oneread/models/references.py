"""References to entities, and copies: fields of another entity that a holder has.

See "Copies" of the decisions page.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, NoReturn, Self, TypeAlias, TypeVar, overload
from uuid import UUID

import msgspec
from typing_extensions import dataclass_transform

from oneread.encoding.codegen import function
from oneread.errors import InvalidDeclaration
from oneread.models.declared import Declared, Keyed
from oneread.models.evolving import EvolutionStep
from oneread.models.paths import path_of, within

E = TypeVar("E", bound="Keyed[*tuple[Any, ...]]")
"""A model: what is copied is an entity."""
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

OnDelete: TypeAlias = Literal["keep", "refuse", "clear", "delete"]
"""When the source is deleted, a copy keeps its last values, or forbids the delete, or becomes None, or goes with it.

With "delete" it is the whole holder that is deleted.
"""


class Ref(msgspec.Struct, Generic[T_co], frozen=True, array_like=True, gc=False):
    """A reference to an entity of T by its key, or to a row of a view; hashable. Nothing is fetched through it.

    Of a variant it refers to entities of that variant only; those of others are missing to it.

    `Question.at(1)` makes one. References that the library made or read know their class: it is in their `repr`, and
    `db.get(User, Question.at(1))` is refused. `Ref((1,))` fits any class. Two references with equal keys are equal.
    """

    refers_to: ClassVar[type[Any] | None] = None
    key: tuple[Any, ...]

    # References with and without a class are equal, which the methods that msgspec makes do not see, `!=` among them.
    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, Ref) else NotImplemented  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]

    def __ne__(self, other: object) -> bool:
        return self.key != other.key if isinstance(other, Ref) else NotImplemented  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        cls = self.refers_to
        if cls is None:
            return f"Ref(key={self.key!r})"
        if "at" in cls.__struct_fields__:
            return f"Ref[{cls.__name__}]({self.key!r})"
        return f"{cls.__name__}.at({', '.join(map(repr, self.key))})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Ref, (self.key,)  # the class of one that knows its model has no name to be found by


OTHER_CLASS: Final = "this refers to another class; if its key is meant all the same, write the parts: *ref.key"

_REFS: Final[dict[type[Any], type[Ref[Any]]]] = {}


def ref_class(cls: type[T]) -> type[Ref[T]]:
    """The class of references that know their class: documents are decoded into it, so that knowing costs nothing."""
    known = _REFS.get(cls)
    if known is None:
        space = {"__module__": Ref.__module__, "refers_to": cls, "__annotations__": {}}
        known = _REFS[cls] = msgspec.StructMeta.__new__(type(Ref), f"Ref[{cls.__name__}]", (Ref,), space)
    return known


if TYPE_CHECKING:
    DeclaredCopy = Declared
else:

    class DeclaredCopy(Declared):
        """The metaclass of copies: `headline: str = shown(Question.title)` is the path that `within` would make."""

        def __new__(mcs, name: str, bases: tuple[type, ...], space: dict[str, Any], **config: object) -> Any:
            fields = space.get("__annotations__", {})
            shown = {
                field: path_of(given.field)
                for field, given in space.items()
                if field in fields and getattr(given, "kind", None) == "shown"  # a rule, which is of a higher room
            }
            return super().__new__(mcs, name, bases, space | shown, **config)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(within,))
class Copy(msgspec.Struct, Generic[E], frozen=True, metaclass=DeclaredCopy):
    """Fields of an entity of E, copied into the entity that holds this and kept up to date.

    Declare a subclass whose fields have names and types of E's fields; a field may have another name with `shown`, or
    take another path with `within`:

        class Buyer(Copy[Customer]):
            name: str
            since: datetime = shown(Customer.joined_at)
            city: str = within(Customer.home, Home.city)

    Class options: `on_delete` (default "keep": the last values stay and `deleted` is true; "refuse", "clear" or
    "delete"), `missing_ok` (a reference to an entity that does not exist yet is allowed; its fields are None until it
    does), `evolution` (copied fields that had another name or type), `costly` (it takes a total on purpose: no
    `CostlyDeclaration`).
    """

    reserved_names: ClassVar[frozenset[str]] = frozenset(
        {"of", "ref", "deleted", "on_delete", "missing_ok", "evolution", "costly", "type_arguments", "reserved_names"}
    )
    type_arguments: ClassVar[tuple[Any, ...]] = ()
    on_delete: ClassVar[OnDelete] = "keep"
    missing_ok: ClassVar[bool] = False
    costly: ClassVar[bool] = False
    evolution: ClassVar[tuple[EvolutionStep, ...]] = ()

    ref: Ref[E]
    deleted: bool = False

    @overload
    @classmethod
    def of(cls, at: Ref[E] | Copy[E], /) -> Self: ...
    @overload
    @classmethod
    def of(cls, *key: KeyValue) -> Self: ...
    @classmethod
    def of(cls, *key: Any) -> Self:
        """A copy that only refers, by a key, a reference or another copy: `save` fills it.

        Reading a field or `deleted` before that raises AttributeError.
        """
        made: Self = maker_of_referring(cls)(_given_ref(key))
        return made

    if not TYPE_CHECKING:  # type checkers know the fields, and would believe that it makes any other

        def __getattr__(self, name: str) -> NoReturn:
            """Raises AttributeError: a copy that only refers says what to write where its field was read."""
            if name != "ref" and name in type(self).__struct_fields__:
                text = f"{type(self).__name__}.{name} is not filled, because this copy only refers; {_WHERE_IT_IS}"
            else:
                text = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(text, name=name, obj=self)

    def __eq__(self, other: object) -> bool:
        """Whether all values are equal; copies that only refer are equal when they refer to the same entity."""
        if type(other) is not type(self):
            return NotImplemented
        return _shown(self) == _shown(other)

    def __hash__(self) -> int:
        return hash(_shown(self))

    def __reduce__(self) -> Any:
        """How it is pickled and copied: one that only refers is made again of its reference."""
        return super().__reduce__() if hasattr(self, "deleted") else (type(self).of, (self.ref,))

    def __copy__(self) -> Self:
        return self

    def __repr__(self) -> str:
        if not is_filled(self):
            return f"{type(self).__name__}.of({', '.join(map(repr, self.ref.key))})"
        shown = {name: getattr(self, name) for name in ("ref", *copied_names(type(self)))} | (
            {"deleted": True} if self.deleted else {}
        )
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def refuse_copy_in_copy(owner: type, field: str, copy: type[Copy[Any]]) -> NoReturn:
    """Raises InvalidDeclaration for a field of a copy that is a copy, with what to write."""
    model = copy.type_arguments[0] if copy.type_arguments else "Model"
    name = getattr(model, "__forward_arg__", None) or getattr(model, "__name__", model)
    raise InvalidDeclaration(
        "a copy cannot hold a copy: declare its reference, or take its fields with within(Post.author, Author.name)",
        declaration=owner, field=field, write=f"{field}: Ref[{name}]",
    )  # fmt: skip


KeyValue: TypeAlias = str | int | float | Decimal | bytes | date | timedelta | UUID | Enum | tuple[Any, ...] | None
"""What a part of a key can be; bool is an int, datetime a date. A tuple only where a view's key is hashed."""

ViewKeyValue: TypeAlias = KeyValue | Ref[Any] | Copy[Any]
"""What stands for a part of a view's key where the view does not say its type."""


def _given_ref(key: tuple[Any, ...]) -> Ref[Any]:
    """The reference that a copy is made of: the one given, that of a copy, or one by a key."""
    if len(key) == 1:
        ref = getattr(key[0], "ref", key[0]) if isinstance(key[0], Copy) else key[0]
        if isinstance(ref, Ref):
            return ref  # pyright: ignore[reportUnknownVariableType]
    return Ref(key)


_EMPTY = object()
_WHERE_IT_IS = (
    "save fills the copies of an entity; an index shows the one that its rows are grouped by as one more field, "
    "writer: Author = shown(Post.author); db.get(User, row.author) reads its source"
)
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
def maker_of_referring(cls: type[Copy[Any]]) -> Callable[[Ref[Any]], Any]:
    """Generates the function from a reference to a copy of this class that only refers: its other slots are empty."""
    names = copied_names(cls)
    scope = {f"empty{number}": getattr(cls, name).__delete__ for number, name in enumerate(("deleted", *names))}
    given = "".join(f", {name}=None" for name in names)
    lines = [f"made = CLS(ref=ref{given})", *(f"{empty}(made)" for empty in scope), "return made"]
    return function("refer", "ref", lines, scope | {"CLS": cls}, cls.__qualname__)


def is_filled(copy: Copy[Any]) -> bool:
    """Whether the copied fields have been filled from the source."""
    return all(hasattr(copy, name) for name in ("deleted", *copied_names(type(copy))))
