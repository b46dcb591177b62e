"""Shares: what one entity of a class has in each view, in rows and bytes, and which of its fields that depends on.

Knows declarations and sizes. Must not know verbs. A share says where its rows lie (a change there takes a row away and
puts another), what they hold (a change there writes the row again), and when they are there at all; so a change of some
fields touches each row of a share never, once, or twice. The law is docs/explanation/costs.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from oneread.costs.sizes import FLAG, HEADER, NOTHING, OPEN, Size, Sizes, element, greatest, most_elements
from oneread.derivations.aggregates import AggregateView
from oneread.derivations.catalog import Catalog
from oneread.derivations.copies import Reference
from oneread.derivations.entity_type import EntityType
from oneread.derivations.indexes import IndexView
from oneread.derivations.keyed import VALUES_BYTES, KeyRule
from oneread.derivations.rules import Rule, rules_of
from oneread.models.annotations import Names, field_types, unwrap
from oneread.models.fields import UPDATED, defaults_of
from oneread.models.paths import Path, path_of
from oneread.models.registry import KEY_BYTES, EntityKind, reference_target
from oneread.models.shadow import is_copy
from oneread.store.rows import Table
from oneread.transactions.deltas import MAGNITUDE

CostRoute: TypeAlias = tuple[str, ...]

Sort: TypeAlias = Literal["index rows", "group", "extremum rows", "claim", "back-references", "holds"]

AMOUNT: Final = Size(2 * MAGNITUDE + 100 + HEADER, 8)
"""A Decimal sum; `deltas` refuses what has more digits."""

_PREFIX: Final = Size(4, 4)
_KIND: Final = Size(2, 2)


class ViewCost(NamedTuple):
    """What one entity has in one view, or of one kind of row.

    Arguments:
        because: the declaration.
        sort: what its rows are.
        table: where they lie.
        rows: how many there are at most.
        place: the paths that their keys depend on.
        value: the paths that what they hold depends on.
        where: the paths that decide whether there are any.
        key, held: bytes of each.
        told: bytes of each in the emitted record.
        alone: there is one such row for all entities together.
        undeclared: the list that no maximum is declared for, if each of its elements is a row.
    """

    because: str
    sort: Sort
    table: Table
    rows: int
    place: frozenset[CostRoute]
    value: frozenset[CostRoute]
    where: frozenset[CostRoute]
    key: Size
    held: Size
    told: Size
    alone: bool = False
    undeclared: frozenset[str] = frozenset()


class FollowedFields(NamedTuple):
    """A source changed, and its carriers are given its new values.

    Arguments:
        reference: the carrier's field that refers to it.
        copy: it is a copy, whose fields change where it is shown.
    """

    reference: str
    copy: bool

    def touches(self, route: CostRoute) -> bool:
        """Whether a value may change that is reached by this path."""
        return route[0] == self.reference and (len(route) > 1)

    def shows(self, route: CostRoute) -> bool:
        """Likewise, of a value that is shown, as whole copies are."""
        return route[0] == self.reference and (len(route) > 1 or self.copy)


class Fields(NamedTuple):
    """Some fields of an entity change; None for any but those of its key."""

    names: frozenset[str] | None
    keys: frozenset[str]

    def touches(self, route: CostRoute) -> bool:
        """Whether a value may change that is reached by this path."""
        return route[0] not in self.keys if self.names is None else route[0] in self.names

    def shows(self, route: CostRoute) -> bool:
        """Likewise."""
        return self.touches(route)


def touched(share: ViewCost, change: Fields | FollowedFields) -> int:
    """How many rows of a share a change writes or takes away, at most."""
    if any(map(change.touches, share.place)):
        return 2 * share.rows
    return share.rows if any(map(change.shows, share.value)) or any(map(change.touches, share.where)) else 0


class EntityCost(NamedTuple):
    """What entities of one class weigh.

    Arguments:
        cls: the class.
        kind: the name of its table's model.
        references: its referring fields, and how many keys each holds at most.
        shares: what it has in views.
        key: of its commit row.
        shown: of its commit row, as readers see it.
        whole: of its commit row with its emitted record.
        keys: fields of its key.
        updated: fields that each save and patch changes.
    """

    cls: type
    kind: str
    references: Mapping[str, int]
    shares: tuple[ViewCost, ...]
    key: Size
    shown: Size
    whole: Size
    keys: frozenset[str]
    updated: frozenset[str]

    @property
    def sources(self) -> int:
        """Commit rows that it refers to, at most."""
        return sum(self.references.values())


class EntityCosts:
    """The weights of a schema's entities and the sizes of its views' rows.

    Arguments:
        catalog: the schema compiled.
        names: its classes by name.
    """

    def __init__(self, catalog: Catalog, names: Names) -> None:
        self.catalog = catalog
        self._names = names
        self._sizes = Sizes(names)
        self.views: dict[type, tuple[ViewCost, ...]] = {}
        self.views.update({cls: tuple(self._indexed(view)) for cls, view in catalog.indexes.items()})
        self.views.update({cls: tuple(self._folded(view)) for cls, view in catalog.aggregates.items()})
        self.of: dict[type, EntityCost] = {
            cls: self._weight(entity_type) for cls, entity_type in catalog.entity_types.items()
        }

    def key(self, kind: EntityKind) -> Size:
        """The key of a commit row."""
        return _KIND.plus(self._suffix(kind))

    def _suffix(self, kind: EntityKind) -> Size:
        types = field_types(kind.cls, self._names)
        parts = [element(each.type, unwrap(types[each.name]).metadata) for each in kind.codec.elements]
        return NOTHING.plus(*parts).within(KEY_BYTES)

    def _weight(self, entity_type: EntityType) -> EntityCost:
        kind, cls = entity_type.kind, entity_type.cls
        counts = {each.name: self._many(cls, each) for each in entity_type.references}
        shares = [share for view in entity_type.derivations for share in self.views[_declared(view)]]
        shares += [
            self._pointing(entity_type, each, counts[each.name], "back-references") for each in entity_type.tracked
        ]
        shares += [self._pointing(entity_type, each, counts[each.name], "holds") for each in entity_type.holding]
        shown = Size(8, 8).plus(self._sizes.document(cls))
        return EntityCost(
            cls,
            kind.cls.__name__,
            counts,
            tuple(shares),
            self.key(kind),
            shown,
            shown.plus(self._record(entity_type, shares)),
            frozenset(kind.names),
            frozenset(name for name, default in defaults_of(cls).items() if default == UPDATED),
        )

    def _many(self, cls: type, reference: Reference) -> int:
        if not reference.many:
            return 1
        return most_elements(unwrap(field_types(cls, self._names)[reference.name]).metadata)

    def _pointing(self, entity_type: EntityType, reference: Reference, count: int, sort: Sort) -> ViewCost:
        place, kind = frozenset({(reference.name,)}), entity_type.kind
        key = _KIND.plus(self.key(reference.kind), self.key(kind))
        told = self.key(reference.kind).plus(Size(HEADER, 2))
        none: frozenset[CostRoute] = frozenset()
        named = kind.cls if reference.name in kind.cls.__struct_fields__ else entity_type.cls
        because = f"{named.__name__}.{reference.name}"
        return ViewCost(because, sort, "views", count, place, none, none, key, FLAG, told)

    def _record(self, entity_type: EntityType, shares: list[ViewCost]) -> Size:
        """The emitted record: what is told now, or of a deleted entity what it told last."""
        told = Size(2 * HEADER, 2).plus(*(share.told.times(share.rows) for share in shares))
        tokens = Size(3 * HEADER, 8).times(len(shares) + 4)
        used = [
            self._along(entity_type.cls, name, kind).plus(Size(len(name) + HEADER, len(name) + 2))
            for each in entity_type.references
            for name, _get, kind in each.hidden
        ]
        if entity_type.told is None:
            return told.plus(tokens, *used)
        last = [
            self._along(entity_type.kind.cls, route, kind).plus(Size(len(route) + HEADER, 0))
            for route, kind in entity_type.told.types.items()
        ]
        routes = Size(sum(len(route) + HEADER for route in entity_type.told.types) + 40, 17)
        living, gone = told.plus(*used), NOTHING.plus(*last)._replace(typical=0)
        return greatest((living, gone)).plus(tokens, routes)

    def _along(self, cls: Any, route: str, kind: Any) -> Size:
        """A value at the end of a route, which may lead through copies, references and nested classes.

        Arguments:
            cls: where the route begins.
            route: names of fields, with dots.
            kind: the value's type, for a route to nothing.
        """
        *before, last = route.split(".")
        for name in before:
            bare = unwrap(field_types(cls, self._names)[name]).bare
            target = reference_target(bare, cls, name, self._names)
            cls = bare if target is None else target[0]
        annotation = field_types(cls, self._names).get(last, kind)
        return self._sizes.field(cls, last, annotation).plus(FLAG)

    def _indexed(self, view: IndexView) -> Iterator[ViewCost]:
        rules = rules_of(view.cls)
        kind = self.catalog.kinds[view.model]
        values = self._values(view.key.parts)
        key = _PREFIX.plus(values, self._suffix(kind))
        shown = [self._shown(view.cls, name, rule) for name, rule in rules.items()]
        row = Size(2 * HEADER, 3).plus(Size(4 * KEY_BYTES, self._suffix(kind).typical), *shown)
        place = frozenset(path_of(part.rule.field).names for part in view.key.parts)
        value = frozenset(path_of(rule.field).names for rule in rules.values() if rule.kind == "shown")
        where = _where(view.cls)
        count, undeclared = self._rows_of(view.key.parts)
        told = values.plus(self._suffix(kind), Size(16 + 3 * HEADER, 18))
        name = view.cls.__name__
        yield ViewCost(name, "index rows", "views", count, place, value, where, key, row, told, undeclared=undeclared)
        if view.unique:
            owner = self.key(kind)
            none: frozenset[CostRoute] = frozenset()
            told = values.plus(Size(HEADER, 2))
            yield ViewCost(name, "claim", "counts", count, place, none, where, _PREFIX.plus(values), owner, told)

    def _folded(self, view: AggregateView) -> Iterator[ViewCost]:
        rules = rules_of(view.cls)
        kind = self.catalog.kinds[view.model]
        values = self._values(view.key.parts)
        place = frozenset(path_of(part.rule.field).names for part in view.key.parts)
        count, undeclared = self._rows_of(view.key.parts)
        where = _where(view.cls)
        amounts = self._amounts(rules)
        summed = frozenset(
            path_of(rule.field).names
            for rule in rules.values()
            if rule.kind == "fold" and rule.field is not None and rule.fold not in ("least", "greatest")
        )
        name, alone = view.cls.__name__, not view.key.parts
        told = values.plus(amounts, Size(2 * HEADER, 3))
        key = _PREFIX.plus(values)
        yield ViewCost(name, "group", "counts", count, place, summed, where, key, amounts, told, alone, undeclared)
        for extremum in view.extrema:
            path = path_of(rules[extremum.field].field)
            size = values.plus(element(extremum.type)).within(VALUES_BYTES).plus(self._suffix(kind))
            value = Size(HEADER, 1).plus(self._at(path))
            places, none = place | {path.names}, frozenset[CostRoute]()
            what = f"{name}.{extremum.field}"
            told = size.plus(Size(2 * HEADER, 3))
            yield ViewCost(what, "extremum rows", "views", count, places, none, where, _PREFIX.plus(size), value, told)

    def _amounts(self, rules: Mapping[str, Rule]) -> Size:
        """The numbers of a group's row: contributions, and a sum and a number of values for each field."""
        places: dict[str, Size] = {}
        for rule in rules.values():
            if rule.kind != "fold" or rule.field is None or rule.fold in ("least", "greatest"):
                continue
            path = path_of(rule.field)
            if rule.fold in ("count", "mean"):
                places[f"values {path}"] = Size(9, 2)
            if rule.fold in ("total", "mean"):
                bare = unwrap(self._annotation(path)).bare
                whole = self._at(path).plus(Size(HEADER + 8, 1)) if bare is int else AMOUNT
                places[f"sum {path}"] = whole
        return Size(HEADER + 9, 3).plus(*places.values())

    def _values(self, parts: tuple[KeyRule, ...]) -> Size:
        """The values of a view's key rules."""
        return NOTHING.plus(*map(self._element, parts)).within(VALUES_BYTES)

    def _element(self, part: KeyRule) -> Size:
        if part.kind is not None:
            return self._suffix(part.kind)
        if part.rule.hashed:
            return Size(2 * 16 + 2, 19)
        path = path_of(part.rule.field)
        metadata = () if path.every else unwrap(self._annotation(path)).metadata
        return greatest((element(part.elements[0].type, metadata), FLAG))

    def _rows_of(self, parts: tuple[KeyRule, ...]) -> tuple[int, frozenset[str]]:
        """Rows of one entity in a view: one, or one for each distinct element of a list; and that list, if open."""
        several = [path_of(part.rule.field) for part in parts if part.access.many]
        if not several:
            return 1, frozenset()
        most = most_elements(unwrap(self._annotation(several[0])).metadata)
        cls, name = several[0].steps[-1]
        return most, frozenset({f"{cls.__name__}.{name}"}) if most >= OPEN else frozenset()

    def _shown(self, view: type, name: str, rule: Rule) -> Size:
        """A field of an index row."""
        path = path_of(rule.field)
        annotation = field_types(view, self._names)[name]
        if rule.kind == "key" and is_copy(unwrap(annotation).bare):
            return Size(4 * KEY_BYTES + 20 * HEADER, 12)  # it only refers there
        found = self._sizes.field(view, name, annotation) if path.every else self._at(path)
        if rule.kind != "key" or rule.hashed:
            return found
        return found.within(4 * KEY_BYTES + HEADER)._replace(open=frozenset())  # longer ones are refused

    def _annotation(self, path: Path) -> Any:
        cls, name = path.steps[-1]
        return field_types(cls, self._names)[name]

    def _at(self, path: Path) -> Size:
        """The value at the end of a path, in a document."""
        cls, name = path.steps[-1]
        return self._sizes.field(cls, name, self._annotation(path)).plus(FLAG)


def _declared(view: Any) -> type:
    cls: type = view.cls
    return cls


def _where(view: Any) -> frozenset[CostRoute]:
    return frozenset() if view.where is None else frozenset(path.names for path in view.where.paths())
