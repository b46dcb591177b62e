"""Paths: the value of an entity that a rule or condition is about, through copies if necessary.

Copies and views declare one as the default of a field. See docs/design/api.md.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from types import MemberDescriptorType
from typing import Any, Final, TypeVar, cast

import msgspec

from oneread.errors import InvalidDeclaration

T = TypeVar("T")

_WRITE: Final = "this is not a field; write Purchase.quantity, or within(Purchase.buyer, Buyer.country)"


class Path(msgspec.Struct, frozen=True):
    """A field of a declared class, or of what that field holds.

    Each step is a name and the class that declares it: a base class, when the field is inherited. With `every`, it
    means each distinct element of the collection at its end.
    """

    steps: tuple[tuple[type, str], ...]
    every: bool = False

    @property
    def declared_in(self) -> type:
        """The class that declares the first step."""
        return self.steps[0][0]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for _, name in self.steps)

    def __repr__(self) -> str:
        (first, name), *further = self.steps
        text = f"{first.__name__}.{name}"
        for cls, inner in further:
            text = f"within({text}, {cls.__name__}.{inner})"
        return f"each({text})" if self.every else text


def path_of(field: object) -> Path:
    """The path of a class attribute like `Purchase.quantity`, or of `within(...)` or `each(...)`.

    Raises:
        InvalidDeclaration: it is not a field.
    """
    if isinstance(field, Path):
        return field
    declared_in = getattr(field, "__objclass__", None)
    if isinstance(field, MemberDescriptorType) and field.__name__ in getattr(declared_in, "__struct_fields__", ()):
        return Path(((cast("type", declared_in), field.__name__),))
    raise InvalidDeclaration(_WRITE, given=field)


def within(copy: object, field: T) -> T:
    """The field of a copy: `within(Purchase.buyer, Buyer.country)`; copies of copies nest.

    Raises:
        InvalidDeclaration: one of the two is not a field.
    """
    outer, inner = path_of(copy), path_of(field)
    if outer.every or inner.every:
        raise InvalidDeclaration("each() goes around the whole path: each(within(...))", copy=outer, field=inner)
    return cast("T", Path(outer.steps + inner.steps))


def each(field: list[T] | set[T] | frozenset[T] | tuple[T, ...] | None) -> T:
    """One entry for every distinct element of a collection: `tag: Ref[Tag] = by(each(Post.tags))`.

    Raises:
        InvalidDeclaration: this is not a field, or it is an element already.
    """
    path = path_of(field)
    if path.every:
        raise InvalidDeclaration("each() of each() has no meaning; give the field itself", field=path)
    return cast("T", Path(path.steps, every=True))


def getter(path: Path) -> Callable[[Any], Any]:
    """Makes the function that reads the path's value from an entity; with `every`, the whole collection.

    The value is None where a copy on the way is None or unfilled.
    """
    first, *names = path.names
    read: Callable[[Any], Any] = attrgetter(first)
    for name in names:
        read = _read_inside(read, name)
    return read


def _read_inside(read: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
    def value(entity: object) -> object:
        return getattr(read(entity), name, None)  # neither None nor an unfilled copy has it

    return value
