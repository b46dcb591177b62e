"""Rules: what each field of a view is, written as the field's default.

`country: str = by(Purchase.country)` is an annotation and a rule, and type checkers compare the two. See
docs/design/api.md.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast, overload

import msgspec

from oneread.errors import InvalidDeclaration
from oneread.models.expressions import Expression
from oneread.models.fields import defaults_of
from oneread.models.paths import Path

T = TypeVar("T")
Summable = TypeVar("Summable", int, float, Decimal, timedelta)

NonePlace: TypeAlias = Literal["first", "last"]
"""The position of entities whose value is None; without it they are not in the view."""

BucketSize: TypeAlias = Literal["minute", "hour", "day", "week", "month", "year"]
"""The length of a time bucket; a week starts on Monday. Buckets are in UTC."""

_NOTHING: Final = None


class Rule(msgspec.Struct, frozen=True):
    """One field of a view: a part of its key, a value of the row, or a number folded from many entities."""

    kind: Literal["key", "shown", "fold"]
    field: Any = _NOTHING
    descending: bool = False
    none: NonePlace | None = None
    hashed: bool = False
    size: BucketSize | None = None
    fold: str | None = None
    """The word of the function that made the rule; a kind of view may have its own."""
    by: Any = _NOTHING
    """The field in whose order several values are kept."""
    most: int = 0
    """How many those are, at most."""
    where: Expression | None = None
    """Which entities of a group a number is folded from; None for all."""

    @property
    def given_fields(self) -> tuple[Any, ...]:
        """The fields that the rule names, as they were given."""
        return tuple(each for each in (self.field, self.by) if each is not _NOTHING)

    @property
    def condition_paths(self) -> tuple[Path, ...]:
        """The paths that the condition of a number reads; none for what is not a condition, which is refused."""
        return self.where.paths() if isinstance(self.where, Expression) else ()


class FeedJoin(msgspec.Struct, frozen=True):
    """The class option `joined` of a feed, as `on(...)` makes it."""

    item: Any
    membership: Any


def on(item: T | None, membership: T | None) -> FeedJoin:
    """Joins the items and the memberships of a feed: those whose fields refer to the same group.

    A mistake raises InvalidDeclaration when the schema is built.

    Arguments:
        item: a field of the item: `Post.group`, or `each(Post.groups)`.
        membership: a field of the membership's model: `Membership.group`.
    """
    return FeedJoin(item, membership)


@overload
def by(field: T | None, *, hashed: bool = False) -> T: ...
@overload
def by(field: T | None, *, none: NonePlace, hashed: bool = False) -> T | None: ...
def by(field: T | None, *, none: NonePlace | None = None, hashed: bool = False) -> T | None:
    """Groups or finds by this value. A reference stands for the referenced key.

    Arguments:
        field: `Purchase.country`, `within(Purchase.buyer, Buyer.country)`, `each(Post.tags)`.
        none: the position of None; without it an entity with None is not in the view.
        hashed: the key holds a 16-byte digest, so values may have any length; equality only.
    """
    return cast("T", Rule("key", field, none=none, hashed=hashed))


@overload
def ascending(field: T | None) -> T: ...
@overload
def ascending(field: T | None, *, none: NonePlace) -> T | None: ...
def ascending(field: T | None, *, none: NonePlace | None = None) -> T | None:
    """Orders from least to greatest."""
    return cast("T", Rule("key", field, none=none))


@overload
def descending(field: T | None) -> T: ...
@overload
def descending(field: T | None, *, none: NonePlace) -> T | None: ...
def descending(field: T | None, *, none: NonePlace | None = None) -> T | None:
    """Orders from greatest to least; ties are in ascending order of the source's key all the same."""
    return cast("T", Rule("key", field, descending=True, none=none))


def newest(field: datetime | None) -> datetime:
    """Orders by an instant, newest first."""
    return cast("datetime", Rule("key", field, descending=True))


def oldest(field: datetime | None) -> datetime:
    """Orders by an instant, oldest first."""
    return cast("datetime", Rule("key", field))


def bucket(field: datetime | None, size: BucketSize) -> datetime:
    """Groups by a time bucket in UTC; the value is its start."""
    return cast("datetime", Rule("key", field, size=size))


def shown(field: T) -> T:
    """Stores the value in the index row, so that a page is one range read."""
    return cast("T", Rule("shown", field))


def count(field: object = _NOTHING, *, where: Expression | None = None) -> int:
    """How many entities, or how many of them have a value in `field`.

    Arguments:
        field: of the model, or `within(...)`; without it, all entities count.
        where: which entities of the group count, as `field(Rsvp.answer) == "yes"`. All other folds have it, too.
    """
    return cast("int", Rule("fold", field, fold="count", where=where))


def total(field: Summable | None, *, where: Expression | None = None) -> Summable:
    """The exact sum, of the entities for which `where` holds; 0 if there are none."""
    return cast("Summable", Rule("fold", field, fold="total", where=where))


# Type checkers accept an int as a float, too, and None for all: the first overload that fits is the right one.
@overload
def mean(  # type: ignore[overload-overlap]
    field: int | Decimal | None,  # pyright: ignore[reportOverlappingOverload]
    *,
    where: Expression | None = None,
) -> Decimal | None: ...
@overload
def mean(  # type: ignore[overload-overlap]
    field: timedelta | None, *, where: Expression | None = None
) -> timedelta | None: ...
@overload
def mean(field: float | None, *, where: Expression | None = None) -> float | None: ...
def mean(field: Any, *, where: Expression | None = None) -> Any:
    """The exact sum divided by the number of values on read, to 28 digits; None without values.

    Both are of the entities for which `where` holds.
    """
    return Rule("fold", field, fold="mean", where=where)


def least(field: T | None, *, where: Expression | None = None) -> T | None:
    """The least value of the entities for which `where` holds; None without values.

    Exact after changes and deletes, too.
    """
    return cast("T | None", Rule("fold", field, fold="least", where=where))


def greatest(field: T | None, *, where: Expression | None = None) -> T | None:
    """The greatest value of the entities for which `where` holds; None without values.

    Exact after changes and deletes, too.
    """
    return cast("T | None", Rule("fold", field, fold="greatest", where=where))


def newest_values(field: T | None, *, by: datetime | None, most: int, where: Expression | None = None) -> list[T]:
    """The values of the newest entities of a group, newest first; exact after changes and deletes, too.

    `actors: list[Ref[Member]] = newest_values(Membership.member, by=Membership.joined_at, most=3)`. Entities without a
    value or without an instant are left out; those of one instant are in ascending order of the source's key. A value
    that several of these entities have is there several times. It costs a read of the group one request and `most` rows
    more, and a commit one row for each group of the entity.

    Arguments:
        field: the values: any field but a copy, also `within(Membership.member, Member.name)`. Each has 1,000 bytes at
            most as msgpack; a longer one is refused when an entity is saved.
        by: the instant by which an entity is new.
        most: how many values the list has at most, 1 to 100.
        where: which entities of the group are in the list.
    """
    return cast("list[T]", Rule("fold", field, fold="newest_values", by=by, most=most, where=where))


def rules_of(view: type[msgspec.Struct]) -> dict[str, Rule]:
    """The rules of a view's fields, in the order of declaration."""
    rules: dict[str, Rule] = {}
    for name, rule in defaults_of(view).items():
        if name == "source" and name in view.reserved_names:  # type: ignore[attr-defined]
            continue
        if not isinstance(rule, Rule):
            raise InvalidDeclaration(
                "a field of a view needs a rule: by(...), shown(...), total(...), ...", view=view, field=name
            )
        rules[name] = rule
    return rules
