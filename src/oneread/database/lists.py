"""Lists: what can be paged, as one type: the keyspace of its rows, and what a row shows.

An index, the entities of a model and the groups of an aggregate differ in their table and in how a row is shown only.
See "Pages" of the decisions page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from typing_extensions import TypeVarTuple

from oneread.database.operations import Operations
from oneread.database.results import METADATA_ATTRIBUTE
from oneread.database.store_parts import ListedRows
from oneread.derivations.catalog import Catalog
from oneread.derivations.derivation import CompiledView, RowDecoder
from oneread.encoding.codec import Codec
from oneread.errors import Corrupt, UsageError
from oneread.feeds.entries import Entries
from oneread.feeds.feed_view import FeedView
from oneread.feeds.merging import LargeGroupReader
from oneread.models.condition_checks import ConditionChecks
from oneread.models.expiry import is_living_row
from oneread.models.model import Model
from oneread.models.references import Ref, ViewKeyValue
from oneread.models.types import Names
from oneread.plans.plan import Plan
from oneread.store.keys import number_and_generation
from oneread.store.requests import Found
from oneread.store.rows import VALUE, Table
from oneread.transactions.group_shards import BEHIND_SHARDS, SpreadGroups
from oneread.transactions.intents import own_version
from oneread.transactions.root import BODY

E = TypeVar("E", bound=Model[*tuple[Any, ...]])
R = TypeVar("R")
T_co = TypeVar("T_co", covariant=True)
K1 = TypeVar("K1")
K2 = TypeVar("K2")
K3 = TypeVar("K3")
K4 = TypeVar("K4")
K1_contra = TypeVar("K1_contra", contravariant=True)
K2_contra = TypeVar("K2_contra", contravariant=True)
K3_contra = TypeVar("K3_contra", contravariant=True)
K4_contra = TypeVar("K4_contra", contravariant=True)
KeyTypes = TypeVarTuple("KeyTypes")

ShowRows: TypeAlias = Callable[[Sequence[Found]], Plan[list[Any]]]
"""From rows of a page to what it shows."""


Asked: TypeAlias = Any
"""What a caller gives or gets, where the overloads of a verb or the declared fields hold the type."""


class Located(Protocol[T_co, *KeyTypes]):
    """A class whose rows are found by a key of these types; model classes fit it."""

    def _located(self, *key: *KeyTypes) -> Ref[T_co]: ...


class AnyRows(Protocol[T_co]):
    """A view class that does not say the types of its key."""

    def _keyed(
        self, first: ViewKeyValue, second: ViewKeyValue, third: ViewKeyValue, fourth: ViewKeyValue, /
    ) -> Ref[T_co]: ...


class KeyedRows(Protocol[T_co, K1_contra, K2_contra, K3_contra, K4_contra]):
    """A view class, with the types of the first parts of its key."""

    def _keyed(self, first: K1_contra, second: K2_contra, third: K3_contra, fourth: K4_contra, /) -> Ref[T_co]: ...


class Exact(Protocol[R]):
    """A model or view class, and no base class of it: so that a `Ref[User]` is not taken for a `Ref[Question]`."""

    def _same(self, at: Ref[R], /) -> Ref[R]: ...


class Copied(Protocol[E]):
    """The same for the model that a copy refers to."""

    def _same(self, at: Ref[E], /) -> Ref[E]: ...


class FeedLimits(NamedTuple):
    """What a page of a feed is limited to: one member's entries, and those that have not expired."""

    members: int
    """The elements of the key that say whose feed it is; a page gives all of them."""
    oldest: Callable[[int], bytes | None]
    """The next element from which entries have expired at a clock; None if none has."""


class Listed(NamedTuple):
    """Something that can be paged.

    `flat` turns arguments into values of the codec's elements; cursors are bound to `view` and `generation`; `is_shown`
    is None when every row is; `is_living` says at which clocks a row counts as present, None when it always does;
    `decoder` is None unless rows hold what they show in one cell; `encoders` encode the
    first 0, 1, ... elements of the key; `plain` are the types of arguments that are the values of as many elements;
    `hashed` elements are digests, which have no order; `feed` is None for what is not a feed; `merged` is None unless
    its pages merge the items of large groups; `entry` makes what is shown of a stored row, None where that is the row;
    `groups` is None unless its rows are groups of an aggregate, of which each may be spread over several rows; the rows
    are in `spread` ranges, each in the order of the list; `kept_in` is the view whose rows are read, None for `cls`.
    """

    cls: Any
    table: Table
    prefix: bytes
    codec: Codec
    flat: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    view: int
    generation: int
    max_limit: int
    show: ShowRows
    is_shown: Callable[[Found], bool] | None
    decoder: RowDecoder | None
    encoders: tuple[Callable[[tuple[Any, ...]], bytes], ...]
    conditions: ConditionChecks
    plain: frozenset[tuple[type, ...]] = frozenset()
    hashed: frozenset[int] = frozenset()
    is_living: Callable[[Found, int], bool] | None = None
    feed: FeedLimits | None = None
    merged: LargeGroupReader | None = None
    entry: Callable[[Found], Found] | None = None
    groups: SpreadGroups | None = None
    spread: int = 1
    kept_in: Any = None

    @property
    def rows_of(self) -> Any:
        """The model or view whose rows are read."""
        return self.cls if self.kept_in is None else self.kept_in

    @property
    def behind(self) -> bytes:
        """What makes of the key of a row one that comes directly behind it."""
        return b"\x00" if self.groups is None else BEHIND_SHARDS

    @property
    def width(self) -> int:
        """Elements of the key."""
        return len(self.encoders) - 1


def listed(operations: Operations, cls: Any) -> Listed:
    """The list of this model or view; checks that it may be read."""
    operations.fence.check(cls)
    return list_of(operations, cls)


def list_of(operations: Operations, cls: Any) -> Listed:
    """The list of this model or view, whether or not it may be read."""
    catalog = operations.catalog
    if cls in catalog.views:
        view = catalog.views[cls]
        return _named(catalog, _of_view(view, catalog.names, operations.parts.rows_of(view)))
    if cls in catalog.kinds:
        return _named(catalog, _entities(catalog, cls, operations.parts.rows_of(None)))
    raise UsageError("not a model or view of the schema", given=cls)


def _encoders(codec: Codec) -> tuple[Callable[[tuple[Any, ...]], bytes], ...]:
    return tuple(codec.prefix_encoder(count) for count in range(len(codec.elements) + 1))


def _named(catalog: Catalog, of: Listed) -> Listed:
    """A list whose error of a damaged row says what the row is called."""

    def show(rows: Sequence[Found]) -> Plan[list[Any]]:
        try:
            return (yield from of.show(rows))
        except Corrupt as error:
            for row in rows if len(rows) > 1 else ():
                yield from show([row])  # raises for the first that is damaged
            catalog.name_damaged(error, of.table, rows[0][0])
            raise

    return of._replace(show=show)


def _of_view(view: CompiledView, names: Names, rows: ListedRows) -> Listed:
    number, generation = number_and_generation(view.prefix)
    key, limit = view.key, view.cls.max_limit
    referring = view.referring.union(each.field for each in key.parts if each.access.copy or each.access.stands_for)
    conditions = ConditionChecks(names, view.cls, referring)
    feed = FeedLimits(len(view.member_codec.elements), Entries(view).oldest) if isinstance(view, FeedView) else None
    in_one_cell = not view.has_expiries and rows.merged is None and rows.entry is None
    return Listed(
        view.cls, view.table, view.prefix, key.codec, key.flat, number, generation, limit,
        view.show, rows.is_shown, view.row_decoder if in_one_cell else None, _encoders(key.codec),
        conditions, _plain_types(view), key.hashed, _is_living if view.has_expiries else None, feed, rows.merged,
        rows.entry, rows.groups, key.spread,
    )  # fmt: skip


def _plain_types(view: CompiledView) -> frozenset[tuple[type, ...]]:
    """The types of arguments that are the values of as many elements; of a feed from the member on."""
    needed = len(view.member_codec.elements) if isinstance(view, FeedView) else 0
    return frozenset(view.key.plain[needed:])


def _is_living(found: Found, now: int) -> bool:
    """Whether a row of an index, which ends in its expiry, counts as present."""
    return is_living_row(found[1][VALUE].value, now)


def _entities(catalog: Catalog, cls: Any, rows: ListedRows) -> Listed:
    kind = catalog.kinds[cls]
    layouts, expiry = catalog.layouts[kind.prefix], catalog.expiries.get(kind.prefix)

    def show(rows: Sequence[Found]) -> Plan[list[Any]]:
        yield from ()
        entities = layouts.decode_many([row[BODY].value for _key, row in rows])
        for entity, (_key, row) in zip(entities, rows, strict=True):
            entity.__dict__[METADATA_ATTRIBUTE] = row[BODY].value, own_version(row)
        return entities

    def is_shown(found: Found) -> bool:
        body = found[1].get(BODY)
        return body is not None and (cls is kind.cls or issubclass(layouts.class_of(body.value), cls))

    def is_living(found: Found, now: int) -> bool:
        assert expiry is not None, "asked only of entities that expire"
        return not expiry.is_expired(layouts.decode(found[1][BODY].value), now)

    return Listed(
        cls, "roots", kind.prefix, kind.codec, kind.flat, kind.number, 0, cls.max_limit,
        show, is_shown, None, _encoders(kind.codec), ConditionChecks(catalog.names, cls),
        is_living=None if expiry is None else is_living, entry=rows.entry, spread=kind.spread,
    )  # fmt: skip
