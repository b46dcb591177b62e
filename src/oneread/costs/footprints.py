"""Footprints: what a verb touches - the entity, its derived rows, sources, holders and groups -, from the declarations.

The one walk over a catalog that all bounds of writes begin with. What a footprint costs is said by the price lists:
`transaction_prices` where a store changes several rows at once, `journal_prices` where it changes one. See
docs/decisions/0138-one-walk-of-costs.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from oneread.costs.bounds import Bound
from oneread.costs.entity_costs import (
    AnyChange,
    ChangedFields,
    EntityCost,
    EntityCosts,
    ViewCost,
    ViewRows,
    touched_rows,
)
from oneread.costs.fan_outs import FanOut, FanOuts, FollowStep
from oneread.costs.sizes import Size, greatest
from oneread.costs.usual import UsualFanOuts
from oneread.derivations.copies import Reference
from oneread.derivations.counter_fields import ShownCounter
from oneread.derivations.rollups import ShownAggregate
from oneread.errors import Unsupported
from oneread.feeds.feed_view import FeedView
from oneread.models.registry import EntityKind, root_model
from oneread.store.limits import INLINE_HOLDERS

Verb: TypeAlias = Literal["save", "create", "get_or_create", "upsert", "patch", "delete"]

WHOLE: Final = ("save", "create", "get_or_create")
"""Verbs that are given all values of an entity."""

_ENDLESS: Final = (
    "this write has no bound on a store that changes one row at a time: an entity that has expired gives up its unique"
    " value, what copies it follows and may want the value of another one that has expired, without end"
)


class WriteCall(NamedTuple):
    """Changes of one kind in one transaction."""

    verb: Verb
    cls: type
    fields: Iterable[str] | None = None
    """That a patch changes; None for any."""
    entities: int = 1
    holders: int | None = None
    """Of each entity, when it is known how many there are."""
    within: tuple[type, ...] = ()
    """The models of whose expired entities this is the delete, or follows from it."""
    is_usual: bool = False
    """The holders are those to expect, and each of them has as many."""


class SourceRows(NamedTuple):
    """What an entity of a class refers to by one field: so many entities."""

    cls: type
    reference: Reference
    number: int


class CommitFootprint(NamedTuple):
    """What one change of one entity touches, at most: of an entity that is written, or of a holder that follows."""

    verb: Verb | Literal["follow"]
    what: str
    """The entity is, in bounds: entity, holders."""
    cost: EntityCost
    """Of whichever variant refers to most."""
    root: Size
    """A root row, of whichever variant has the key."""
    own: list[ViewRows]
    """The derived rows that it touches itself."""
    holding: Mapping[str, type]
    """Of a delete, the references that forbid it, with the classes that have them."""
    groups: int
    """That it may change, and that entities or indexes show."""
    totals: int
    """Aggregates and counters that the entity shows."""
    given: Sequence[SourceRows] = ()
    """What it refers to afterwards, as far as that may be new."""
    stored: Sequence[SourceRows] = ()
    """What else is read of what the entity refers to that is there already."""
    contributes: bool = False
    """Whether an entity that is new has derived rows."""
    is_numbered: bool = False
    """It is a child that may get a number from its root."""
    has_holders: bool = False
    """Whether holders of its copies may follow."""
    fan: FanOut | None = None
    """Of an entity that is written: these holders."""


class ChangedFeed(NamedTuple):
    """Rows of a feed's items and memberships that a commit writes or deletes, at most."""

    feed: FeedView
    items: int
    memberships: int

    @property
    def name(self) -> str:
        """The feed."""
        return self.feed.cls.__name__

    @property
    def rows(self) -> int:
        """Of both."""
        return self.items + self.memberships


class WriteFootprints:
    """What the writing verbs of one schema touch."""

    def __init__(self, costs: EntityCosts, usual: UsualFanOuts, inline: int) -> None:
        self.costs = costs
        self._has_limit = inline != INLINE_HOLDERS
        self.usual = usual
        self.catalog = costs.catalog
        self._fans = FanOuts(costs)
        types, views = self.catalog.entity_types.values(), self.catalog.views.values()
        self._shown = tuple(dict.fromkeys(shown for entity_type in types for shown in entity_type.shown))
        self._feeds = [view for view in views if isinstance(view, FeedView)]
        self.logged = frozenset(cls.__name__ for cls in self.catalog.logs)
        """The names of watched views and logged models."""

    def bound(self, write: WriteCall, price: Callable[[WriteCall], Bound]) -> Bound:
        """The bound of a write; what is typical is the price of one with as many holders as there usually are."""
        most = price(write)
        if write.holders is not None:
            return most
        is_new = write.verb in ("create", "get_or_create")
        holders = 0 if is_new else self.usual.holders_of(self.catalog.kinds[write.cls].cls)
        usual = price(write._replace(holders=holders, is_usual=True))
        return msgspec.structs.replace(most.expecting(usual), unlimited=self._unlimited(write))

    def _unlimited(self, write: WriteCall) -> tuple[str, ...]:
        """The feeds whose entries follow holders that follow: no declaration limits either."""
        fan = None if self._has_limit else self.of(write).fan
        rows = Counter[str]()
        for cls, change in () if fan is None else fan.steps:
            rows.update({cost.form.name: number for cost, number in self.costs.of[cls].touched(change)})
        return tuple(each.name for each in self.changed_feeds(rows) if each.feed.large is None)

    def usual_partners(self, changed: ChangedFeed) -> int:
        """Entries to expect that follow changed items and memberships of a feed."""
        cls = changed.feed.cls
        return changed.items * self.usual.members_of(cls) + changed.memberships * self.usual.items_of(cls)

    # The entity itself.

    def of(self, write: WriteCall) -> CommitFootprint:
        """The change of each entity that is written."""
        widest = max((self.costs.of[each] for each in self._models(write)), key=lambda each: each.sources)
        entity_type, fan = self.catalog.entity_types[write.cls], self._fan_out(write)
        footprint = self._footprint(write.verb, "entity", widest, self._own_rows(write))
        if write.verb == "delete":
            return footprint._replace(has_holders=fan is not None, fan=fan)
        is_whole = write.verb in WHOLE
        return footprint._replace(
            given=() if write.verb == "patch" else self._sources(write.cls, None),
            stored=self._sources(write.cls, ()) if is_whole else self._sources(widest.cls, write.fields),
            contributes=entity_type.contributes,
            is_numbered=is_whole and entity_type.numbered is not None,
            has_holders=fan is not None,
            fan=fan,
        )

    def of_holder(self, step: FollowStep, *, has_holders: bool) -> CommitFootprint:
        """The change of one holder when its source has changed, or is deleted."""
        cls, change = step
        cost = self.costs.of[cls]
        footprint = self._footprint("delete" if change.is_deleted else "follow", "holders", cost, cost.touched(change))
        return footprint._replace(given=[self.source_of(step)], has_holders=has_holders)

    def _footprint(
        self, verb: Verb | Literal["follow"], what: str, cost: EntityCost, own: list[ViewRows]
    ) -> CommitFootprint:
        kind, groups = self.catalog.kinds[cost.cls], self.groups_of(own, 1).total()
        holding = self.holding([kind]) if verb == "delete" else {}
        return CommitFootprint(verb, what, cost, self.root(cost.cls), own, holding, groups, self.totals_of(kind))

    def root(self, cls: type) -> Size:
        """A root row, of whichever variant has the key."""
        return greatest(each.root for each in self.costs.of_kind(self.catalog.kinds[cls]))

    def source_of(self, step: FollowStep) -> SourceRows:
        """The source that a holder follows."""
        cls, change = step
        (found,) = [each for each in self.catalog.entity_types[cls].references if each.name == change.reference]
        return SourceRows(cls, found, 1)

    def holding(self, kinds: Iterable[EntityKind]) -> dict[str, type]:
        """The references that forbid the delete of entities of these kinds, with the classes that have them."""
        forbidden = frozenset(kinds)
        return {
            f"{cls.__name__}.{reference.name}": cls
            for cls, entity_type in self.catalog.entity_types.items()
            for reference in entity_type.holding
            if reference.kind in forbidden
        }

    def models_of(self, kind: EntityKind) -> list[type]:
        """A model and its variants."""
        return [each for each in self.catalog.models if self.catalog.kinds[each] is kind]

    def models_in_group(self, root: type) -> list[type]:
        """The models of the children of a root, without variants, which are in the bounds of their models."""
        model, kinds = root_model(root), self.catalog.kinds
        return [each for each in self.catalog.models if kinds[each].child_of is model and root_model(each) is each]

    def shown_by(self, cls: type) -> list[ShownAggregate | ShownCounter]:
        """The aggregates and counters whose numbers an entity shows."""
        return list(dict.fromkeys(each.shown for each in self.catalog.entity_types[cls].rollups))

    def totals_of(self, kind: EntityKind) -> int:
        """How many of them an entity of whichever variant shows."""
        return max(len(self.shown_by(each)) for each in self.models_of(kind))

    def _models(self, write: WriteCall) -> list[type]:
        """The models of the entities that are written: a patch, delete or upsert may find any variant."""
        if write.verb in WHOLE:
            return [write.cls]
        return [each for each in self.catalog.models if issubclass(each, write.cls)]

    def _sources(self, cls: type, fields: Iterable[str] | None) -> list[SourceRows]:
        """What an entity refers to by these fields, or by any; and what it goes with, which is always read."""
        numbers = self.costs.of[cls].references
        return [
            SourceRows(cls, each, numbers[each.name])
            for each in self.catalog.entity_types[cls].references
            if fields is None or each.name in fields or each.on_delete == "delete"
        ]

    def _own_rows(self, write: WriteCall) -> list[ViewRows]:
        """The derived rows that one change of an entity touches itself, by declaration."""
        kind, verb, written = self.catalog.kinds[write.cls], write.verb, self._models(write)
        if self.is_first(write):
            return [ViewRows(each, each.rows) for each in self.costs.of[write.cls].views]
        most: dict[tuple[str, str], ViewRows] = {}
        for each in written if verb == "patch" else self.models_of(kind):
            change = self._changed(each, write.fields if verb == "patch" else None)
            for cost in self.costs.of[each].views:
                lasting = cost._replace(expires=cost.expires and not write.is_usual)
                found = ViewRows(cost, _rows_of_change(verb, lasting, change, is_new=each in written))
                place = (cost.form.name, cost.form.sort)
                if found.rows > (most[place].rows if place in most else 0):
                    most[place] = found
        return list(most.values())

    def is_first(self, write: WriteCall) -> bool:
        """Whether nothing is replaced: an entity that has expired is."""
        is_create = write.verb in ("create", "get_or_create")
        return is_create and self.catalog.kinds[write.cls].prefix not in self.catalog.expiries

    def _changed(self, cls: type, fields: Iterable[str] | None) -> ChangedFields:
        """The fields that a save or patch changes; the instant of the newest save as well."""
        cost = self.costs.of[cls]
        return ChangedFields(None if fields is None else frozenset(fields) | cost.updated_fields, cost.key_fields)

    # What follows from it: holders of copies, entities that show groups, and entries of feeds.

    def _fan_out(self, write: WriteCall) -> FanOut | None:
        """The holders that follow; None if none do."""
        for cls in self._models(write):
            change = None if write.verb != "patch" or write.fields is None else self._changed(cls, write.fields)
            found = self._fans.of(self.catalog.entity_types[cls], change, is_delete=write.verb == "delete")
            if found is not None:
                return found
        return None

    def groups_of(self, own: Iterable[ViewRows], entities: int) -> Counter[ShownAggregate]:
        """The shown groups that changes of entities may touch; a new extremum touches a group, too."""
        rows = {cost.form.name: rows for cost, rows in own}
        return Counter(
            {each: rows[each.name] * entities for each in self._shown if each.name in rows}
            | {each: rows[name] * entities for each in self._shown for name in each.watched if name in rows}
        )

    def groups_of_holders(self, steps: Iterable[FollowStep], holders: int) -> Counter[ShownAggregate]:
        """The shown groups that so many holders of any of these classes may touch when they follow."""
        found: Counter[ShownAggregate] = Counter()
        for cls, change in steps:
            found |= self.groups_of(self.costs.of[cls].touched(change), holders)
        return found

    def each_group(self, touched: Counter[ShownAggregate]) -> Iterator[tuple[int, ShownAggregate, int]]:
        """Takes groups with a number, those of low rank first; what follows from them may be added meanwhile."""
        for step in range(len(self._shown) + 1):  # an aggregate may follow itself once for each of its numbers
            if not touched:
                return
            shown = min(touched, key=lambda each: each.rank)
            yield step, shown, touched.pop(shown)

    def listed_extrema(self, own: Iterable[ViewRows]) -> Iterator[tuple[ShownAggregate, int]]:
        """The groups that indexes list of which nothing but extrema changes, and how many of each."""
        rows = {cost.form.name: rows for cost, rows in own}
        for shown in self._shown:
            changed = [] if shown.indexed is None else [name for name in shown.indexed.extrema_names if name in rows]
            if changed and shown.name not in rows:
                yield shown, max(rows[name] for name in changed)

    def showing(
        self, kind: EntityKind, shown: ShownAggregate | ShownCounter, entities: int = 1, of: WriteCall | None = None
    ) -> WriteCall:
        """The change of entities that show groups or a counter, of which these have changed, by the write `of`."""
        rollups = [each for cls in self.models_of(kind) for each in self.catalog.entity_types[cls].rollups]
        write = WriteCall("patch", kind.cls, {each.field for each in rollups if each.shown is shown}, entities)
        if of is None:
            return write
        usual = self.usual.holders_of(kind.cls) if of.is_usual else None
        return write._replace(within=of.within, holders=usual, is_usual=of.is_usual)

    def changed_feeds(self, written: Mapping[str, int]) -> list[ChangedFeed]:
        """The feeds of which so many rows are written, by the names of the indexes that they are in."""
        found = [ChangedFeed(feed, *(written.get(each.__name__, 0) for each in feed.parts)) for feed in self._feeds]
        return [each for each in found if each.rows]

    # Entities that have expired, and give up a unique value that another one wants.

    def freed_by(self, write: WriteCall) -> int:
        """How many entities that have expired may have unique values that a write wants."""
        fields = write.fields if write.verb == "patch" else None
        changes = [(each, self._changed(each, fields)) for each in self._models(write)]
        return 0 if write.verb == "delete" else self.freed(changes, write.entities)

    def freed(self, changes: Iterable[tuple[type, AnyChange]], times: int) -> int:
        """The same, of so many changes of one of these kinds."""
        return times * max((self._wanted(cls, change) for cls, change in changes if self._expires(cls)), default=0)

    def deletion(self, cls: type, within: tuple[type, ...]) -> WriteCall:
        """The delete of an entity that has expired.

        Raises:
            Unsupported: it follows from the delete of another one of its model.
        """
        root = self.catalog.kinds[cls].cls
        if root in within:
            raise Unsupported(_ENDLESS, model=root, holders=[each.__name__ for each in within])
        return WriteCall("delete", root, within=(*within, root))

    def _wanted(self, cls: type, change: AnyChange) -> int:
        """The unique values that a change may want; what only expires gives values up."""
        claims = [cost._replace(expires=False) for cost in self.costs.of[cls].views if cost.form.sort == "claim"]
        return sum(cost.rows for cost in claims if touched_rows(cost, change))

    def _expires(self, cls: type) -> bool:
        """Whether entities expire, or rows of them."""
        kind = self.catalog.kinds[cls]
        views = [view for each in self.models_of(kind) for view in self.catalog.entity_types[each].derivations]
        return kind.prefix in self.catalog.expiries or any(view.has_expiries for view in views)


def _rows_of_change(verb: Verb, cost: ViewCost, change: ChangedFields, *, is_new: bool) -> int:
    """Rows of one keyspace; those that an entity had as another variant are only deleted."""
    if verb == "delete" or not is_new:
        return cost.rows
    if verb == "patch":
        return touched_rows(cost, change)
    return max(cost.rows, touched_rows(cost, change))
