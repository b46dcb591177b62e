"""The base classes of view declarations. See docs/design/api.md."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeAlias

import msgspec
from typing_extensions import TypeVar, dataclass_transform

from oneread.derivations import rules
from oneread.models.declared import Declared, KeyedView
from oneread.models.expiry import Expiry
from oneread.models.expressions import Expression
from oneread.models.model import Model
from oneread.models.references import Ref, ViewKeyValue, ref_class
from oneread.store.limits import MAX_LIMIT

E = TypeVar("E", bound=Model[*tuple[Any, ...]])
T = TypeVar("T")
V = TypeVar("V", bound="Model[*tuple[Any, ...]] | AnyAggregate")

First = TypeVar("First", default=ViewKeyValue)
Second = TypeVar("Second", default=ViewKeyValue)
Third = TypeVar("Third", default=ViewKeyValue)
Fourth = TypeVar("Fourth", default=ViewKeyValue)
"""The types of the first parts of a view's key."""

if TYPE_CHECKING:

    class Viewed(Generic[T, First, Second, Third, Fourth]):
        """Carries what a view is of, and the types of its key, for type checkers."""
else:

    class Viewed:
        """Of a struct only what it is of is a type variable at run time."""

        def __class_getitem__(cls, given: Any) -> Any:
            return Generic[given[0]]


_RESERVED = frozenset(
    {
        "where",
        "unique",
        "stored_as",
        "max_limit",
        "watched",
        "costly",
        "replaces",
        "type_arguments",
        "key_arguments",
        "reserved_names",
        "is_added",
        "lists_expired",
        "former_of",
    }
)
_OF_FEEDS = frozenset(
    {"source", "ttl", "joined", "expires_after", "at_most", "marks", "large_group", "merged_groups", "spread"}
)


@dataclass_transform(
    kw_only_default=True,
    frozen_default=True,
    field_specifiers=(
        rules.by, rules.ascending, rules.descending, rules.newest, rules.oldest, rules.bucket, rules.shown,
        rules.count, rules.total, rules.mean, rules.least, rules.greatest, rules.newest_values,
    ),
)  # fmt: skip
class View(msgspec.Struct, Viewed[T, First, Second, Third, Fourth], frozen=True, dict=True, metaclass=Declared):
    """What all views share.

    `Index[Purchase, int]` says the types of the first parts of the key, four at most, for type checkers: `page`, `get`,
    `find`, `exists` and `get_many` then take these. They are compared with the fields of the key when the schema is
    built; without them values of any type that a key can have pass type checkers.

    Class options: `where` (only entities for which the expression holds), `stored_as` (the name in the store, which
    survives a rename of the class), `max_limit` (the largest page, default 1,000), `watched` (for how long its changes
    are kept, so that `db.changes` follows it: `timedelta(hours=1)`; default None, not at all), `replaces` (another view
    of the schema in whose place it is read: `at_once(OldHome)`, from the moment on at which it is built), `costly` (it
    shows a total that others count, on purpose: no `CostlyDeclaration`).
    """

    reserved_names: ClassVar[frozenset[str]] = _RESERVED
    type_arguments: ClassVar[tuple[Any, ...]] = ()
    key_arguments: ClassVar[tuple[Any, ...]] = ()
    where: ClassVar[Expression | None] = None
    stored_as: ClassVar[str | None] = None
    max_limit: ClassVar[int] = MAX_LIMIT
    watched: ClassVar[timedelta | None] = None
    costly: ClassVar[bool] = False
    replaces: ClassVar[Any] = None
    is_added: ClassVar[bool] = False
    """Whether the schema adds it, so that no program declares it."""
    lists_expired: ClassVar[bool] = False
    """Whether it lists entities that have expired until these are deleted."""
    former_of: ClassVar[Any] = None
    """The view whose former generation it is, which answers until that one is built."""

    if TYPE_CHECKING:

        @classmethod
        def _keyed(cls, first: First, second: Second, third: Third, fourth: Fourth, /) -> Ref[Self]: ...
        @classmethod
        def _same(cls, at: Ref[Self], /) -> Ref[Self]: ...
    else:

        def __class_getitem__(cls, given: Any) -> Any:
            of, *key = given if isinstance(given, tuple) and given else (given,)
            base = super().__class_getitem__(of)
            return KeyedView(base, tuple(key)) if key and First not in key else base

    @classmethod
    def at(cls, *key: ViewKeyValue) -> Ref[Self]:
        """A reference to a row of this view; reads nothing."""
        return ref_class(cls)(key)


class Index(View[V, First, Second, Third, Fourth], frozen=True):
    """Entities of V in another order, each row with the fields that a list shows; V may be an aggregate.

    `Index[Purchase, int]` says for type checkers which type the first field of the key has.

    Key rules (`by`, `newest`, `ascending`, ...) in the order of declaration make the order; ties are in ascending order
    of the source's key, and without any key rule that is the whole order. An entity with None in one of them is not in
    the index. `source` refers to the entity. Class option `unique`: the values of the key rules belong to one entity at
    most; None is never taken. Class option `ttl`: when a row leaves the index although its entity lives on, as
    `expires(Post.made_at, after=timedelta(days=7))`; a unique value is free from then on. Class option `spread`: ranges
    that the rows are in by a hash of the source's key, 1 to 100, so that rows in the order of time do not all go to one
    server; a page reads each of them in one round, and merges them.

    Of an aggregate, each group in which an entity counts has a row: `class TagsOfMonth(Index[QuestionsOfTag])`. The
    rules name the aggregate's fields, and `source` refers to the group. A commit writes two rows at most for each group
    that it changes, and makes one request for each changed group and each least, greatest or list of newest values
    that the index shows.
    """

    reserved_names: ClassVar[frozenset[str]] = _RESERVED | {"source", "ttl", "spread"}
    unique: ClassVar[bool] = False
    ttl: ClassVar[Expiry | None] = None
    spread: ClassVar[int] = 1

    source: Ref[V]


class Aggregate(View[E, First, Second, Third, Fourth], frozen=True):
    """Numbers computed from the entities of E that share the values of the `by` and `bucket` rules.

    Without such rules, from all of them. Each write keeps them exact.

    An empty group reads as count and total 0, mean, least and greatest None, and newest values [].

    Class option `shards`: rows that each group is spread over on a store that changes one row at a time, 1 to 64, so
    that more programs can add to one group at once. It may be changed at any time; a read adds them up. Other stores
    have one row for each group. Class option `ttl`: when an entity leaves its groups although it lives on, as
    `expires(within(Rsvp.event, Event.starts_at))`. Between that instant and the sweep the groups still have it:
    `db.survey().unswept` says for how long. When the instant is moved, the entity leaves later, or is in its groups
    again.
    """

    reserved_names: ClassVar[frozenset[str]] = _RESERVED | {"shards", "ttl"}
    shards: ClassVar[int] = 1
    ttl: ClassVar[Expiry | None] = None


class Feed(View[V, First, Second, Third, Fourth], frozen=True):
    """For each member, the items of V of the groups that the member is in, newest first; V may be an aggregate.

    First `by(...)` a field of the membership's model, whose feed it is; then `newest(...)` of an instant of the item;
    then what a row shows of the item. `source` refers to the item. Each item is one row of a member's feed, however
    many groups or memberships show it.

    Class options: `joined` says which items a membership shows: `joined = on(Post.group, Membership.group)`.
    `expires_after` is the age at which an item leaves every feed, 61 days unless declared; None keeps them. `at_most`
    is the number of entries that one feed keeps, the newest; None keeps all. `marks = True` lets members mark what they
    have seen and read, with `db.mark`. `where` and `max_limit` as for every view. `large_group`: the items of a group
    with more members are not written to their feeds, but read by each page, which merges `merged_groups` such groups at
    most, 20 unless declared; a member who is in more of them has the smallest written to him.

    A commit that changes an item or a membership writes the rows of the members, or of the items, in the same commit;
    of more than the schema's `inline` bound a task does. See docs/explanation/feeds.md.
    """

    reserved_names: ClassVar[frozenset[str]] = _RESERVED | _OF_FEEDS
    joined: ClassVar[rules.FeedJoin | None] = None
    expires_after: ClassVar[timedelta | None] = timedelta(days=61)
    at_most: ClassVar[int | None] = None
    marks: ClassVar[bool] = False
    large_group: ClassVar[int | None] = None
    merged_groups: ClassVar[int] = 20

    source: Ref[V]


AnyView: TypeAlias = View[Any, Any, Any, Any, Any]
"""A view whose key may have any types; `View[Any]` is one that does not say them."""
AnyAggregate: TypeAlias = Aggregate[Any, Any, Any, Any, Any]
AnyFeed: TypeAlias = Feed[Any, Any, Any, Any, Any]
