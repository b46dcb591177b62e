"""Markers of fields: a key, a generated key, a stamp, a reference with a policy, or a total of a group.

See docs/design/api.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, TypeGuard, TypeVar, cast, overload
from uuid import UUID

import msgspec

from oneread.errors import InvalidDeclaration, UsageError

T = TypeVar("T")

EVERY: Final = 10
"""Seconds within which a field shows what a counter was added, unless it says otherwise."""

FACTORY: Final[Any] = type(
    msgspec.defstruct("_Made", [("made", list, msgspec.field(default_factory=list))]).__struct_defaults__[0]
)
"""The type of msgspec's stand-in for a `default_factory`, which is its attribute `factory`."""


def defaults_of(cls: Any) -> dict[str, Any]:
    """The default of each field of a Struct: a value, a FACTORY, or `msgspec.NODEFAULT`.

    Not `msgspec.structs.fields`, which resolves all types first: a class inside a function needs its schema for that.
    """
    fields, defaults = cls.__struct_fields__, cls.__struct_defaults__
    lacking = (msgspec.NODEFAULT,) * (len(fields) - len(defaults))
    return dict(zip(fields, (*lacking, *defaults), strict=True))


class Marker(msgspec.Struct, frozen=True):
    """A default that names the value the database sets on `save`."""

    what: Literal["key", "generated", "created", "updated", "reference", "rollup"]
    missing_ok: bool = False
    on_delete: Literal["keep", "refuse", "delete"] = "keep"
    group: Any = None
    """Of a rollup: the field of the aggregate, a function that returns it, or the name of a counter."""
    every: float = 0
    """Of a rollup of a counter: seconds."""

    def __repr__(self) -> str:
        return f"<{self.what}>"


def rollup_names(cls: Any) -> list[str]:
    """The fields of a model that show numbers of groups."""
    return [name for name, default in defaults_of(cls).items() if is_rollup(default)]


def is_rollup(default: object) -> TypeGuard[Marker]:
    return isinstance(default, Marker) and default.what == "rollup"


class CounterName(msgspec.Struct, frozen=True):
    """The name of a counter, with parts of an entity's key in braces."""

    text: Any


def is_counter(default: object) -> bool:
    """Whether a field shows a named counter."""
    return is_rollup(default) and isinstance(default.group, CounterName)


KEY: Final = Marker("key")

GENERATED: Final[Any] = Marker("generated")
"""A key that the database gives on `save`.

`id: Key[UUID] = GENERATED` is a UUID of version 7 (RFC 9562); it sorts by the database's clock. `number: Key[int] =
GENERATED`, in a child of an entity group, is the group's next number: 1, 2, 3 without holes.
"""

CREATED: Final[Any] = Marker("created")
"""`made_at: datetime = CREATED`: the instant of the first save."""

UPDATED: Final[Any] = Marker("updated")
"""`changed_at: datetime = UPDATED`: the instant of the newest save or patch.

Copies that follow their source do not count.
"""


def reference(*, missing_ok: bool = False, on_delete: Literal["keep", "refuse", "delete"] = "keep") -> Any:
    """The policy of a reference, or of a list of references.

    `tag: Ref[Tag] = reference(on_delete="refuse")`.

    Arguments:
        missing_ok: a new reference to an entity that does not exist is allowed.
        on_delete: "keep" leaves the reference dangling; "refuse" forbids the delete while references exist; "delete"
            deletes this entity, too: up to `inline` in the commit of the delete, more as a task.
    """
    return cast("Any", Marker("reference", missing_ok, on_delete))


def counter(name: str) -> int:
    """Names the counter that a field shows: `views: int = rollup(counter("views:{number}"), every=10)`.

    Arguments:
        name: the counter's name, with each part of the entity's key once, in braces. It begins with other text. Parts
            are ints, UUIDs and, in the last place, text. Between two parts stands text that begins with another
            character than a digit, a letter or a dash.
    """
    return cast("int", CounterName(name))


@overload
def rollup(field: Callable[[], T], *, every: float | None = None, init: Literal[False] = False) -> T: ...
@overload
def rollup(field: T, *, every: float | None = None, init: Literal[False] = False) -> T: ...
def rollup(
    field: Any,
    *,
    every: float | None = None,
    init: Literal[False] = False,  # noqa: ARG001 - for type checkers
) -> Any:
    """Shows a number of the group that has this entity's key.

    `answers: int = rollup(AnswersOf.answers)`. The library keeps it: it changes in the commit that changes the group,
    and is a field like others from there on: indexed, copied and counted. It cannot be set: `save` leaves it as it is,
    and `patch` refuses it. An empty group gives 0, None or []. The group's key is one reference to the entity, or its
    key's fields by the same names.

    A commit that changes a group reads the group's row and the entity's, and writes the entity: 2 requests and 3 rows
    more for each entity that shows it, and one request more for each least(...), greatest(...) or newest_values(...).

    `views: int = rollup(counter("views:{number}"), every=10)` shows a named counter. An add never writes the entity: a
    worker copies the value, so that the field is exactly what the counter was at a moment no longer than `every` ago.

    Arguments:
        field: a field of an aggregate with count(), total(...), mean(...), least(...), greatest(...), or
            newest_values(...) of anything but references; a function that returns it if the aggregate is declared
            further down: `rollup(lambda: RepliesTo.replies)`; or `counter(...)`.
        every: of a counter: seconds, 1 to 86,400, after which an add is shown at the latest; 10 unless given.
        init: for type checkers, which refuse the field in a constructor; leave it out.
    """
    if isinstance(field, CounterName):
        return Marker("rollup", group=field, every=EVERY if every is None else every)
    if every is not None:
        raise InvalidDeclaration("every= is of a counter; a total of an aggregate is always current", every=every)
    return Marker("rollup", group=field)


RANDOM_BITS: Final = 74
_MILLISECOND_BITS: Final = 48
_LOW_BITS: Final = 62  # rand_b: what is behind the variant
_VERSION: Final = 7 << 76
_VARIANT: Final = 2 << 62


def uuid7(milliseconds: int, random: int) -> UUID:
    """The UUID of version 7 (RFC 9562, section 5.7) of an instant since 1970, with 74 random bits."""
    for number, bits in ((milliseconds, _MILLISECOND_BITS), (random, RANDOM_BITS)):
        if not 0 <= number < 1 << bits:
            raise UsageError("a number of a generated key is out of its range", given=number, bits=bits)
    high, low = random >> _LOW_BITS, random & (1 << _LOW_BITS) - 1
    return UUID(int=milliseconds << 80 | _VERSION | high << 64 | _VARIANT | low)
