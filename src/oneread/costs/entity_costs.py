"""Entity costs: what one entity of a class has in each view, in rows and bytes, and the fields that it depends on.

A change of a field in a row's key deletes the row and writes another; a change of what the row holds writes it again; a
change of the view's condition does either. So a change touches each row never, once, or twice. See
docs/explanation/costs.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from oneread.costs.sizes import FLAG, HEADER, NOTHING, OPEN, Size, Sizes, element, greatest, most_elements
from oneread.derivations.access import FieldRoute
from oneread.derivations.catalog import Catalog
from oneread.derivations.copies import Reference
from oneread.derivations.derivation import CompiledView, RowForm
from oneread.derivations.entity_groups import CHILD_OF
from oneread.derivations.entity_type import EntityType
from oneread.derivations.expiry import has_expiring_rows
from oneread.derivations.keyed import KeyRule
from oneread.derivations.rules import Rule, rules_of
from oneread.models.expiry import EXPIRY_BYTES
from oneread.models.fields import UPDATED, defaults_of
from oneread.models.model import Model, key_names
from oneread.models.paths import Path, path_of
from oneread.models.registry import EntityKind, reference_target
from oneread.models.types import FieldType, type_of, types_of
from oneread.store.keys import KIND_BYTES, SELECTION_BYTES, SPREAD_BYTES, VIEW_BYTES
from oneread.store.limits import KEY_BYTES, NEWEST_BYTES, VALUES_BYTES
from oneread.store.rows import Table
from oneread.transactions.deltas import MAGNITUDE

AMOUNT: Final = Size(2 * MAGNITUDE + 100 + HEADER, 8)
"""A Decimal sum; `deltas` refuses what has more digits."""

_PREFIX: Final = Size(VIEW_BYTES, VIEW_BYTES)
_KIND: Final = Size(KIND_BYTES, KIND_BYTES)
_SELECTION: Final = Size(SELECTION_BYTES, SELECTION_BYTES)
_DIGEST: Final = Size(25, 20)
_SEQUENCE: Final = Size(16, 8)
"""What a record has of a selection: its name and the digest of its values."""


def _spread_size(ranges: int) -> Size:
    """The byte that says which of its ranges a row is in."""
    return NOTHING if ranges == 1 else Size(SPREAD_BYTES, SPREAD_BYTES)


_RECORDED: Final = Size(16 + 3 * HEADER, 18)
"""What a record has of a row's value."""
_ONLY_REFERS: Final = Size(4 * KEY_BYTES + 20 * HEADER, 12)
"""A copy in a row that only refers."""


class ViewCost(NamedTuple):
    """What one entity has in one keyspace."""

    form: RowForm
    """What the rows are, and the fields that they depend on."""
    rows: int
    """At most."""
    where: frozenset[FieldRoute]
    """The paths that decide whether there are any."""
    key: Size
    value: Size
    recorded: Size
    """What the emitted record has of each row."""
    is_shared: bool = False
    """There is one such row for all entities together."""
    undeclared: frozenset[str] = frozenset()
    """The list without a declared maximum, if each of its elements is a row."""
    expires: bool = False
    """Whether rows expire: the next change of the entity removes them, whatever it changes."""

    @property
    def row(self) -> Size:
        """Key and value."""
        return self.key.plus(self.value)


class FollowedFields(NamedTuple):
    """The change of a holder when its source changes: the fields of one copy, or the hidden copies of a reference.

    With `is_deleted` it is deleted with its source.
    """

    reference: str
    is_copy: bool
    is_deleted: bool = False

    def touches(self, route: FieldRoute) -> bool:
        """Whether the value at this path may change."""
        return self.is_deleted or (route[0] == self.reference and len(route) > 1)

    def touches_shown(self, route: FieldRoute) -> bool:
        """Whether what a row shows of this path may change; whole copies are shown too."""
        return self.is_deleted or (route[0] == self.reference and (len(route) > 1 or self.is_copy))


class ChangedFields(NamedTuple):
    """The change of some fields of an entity; None for any but those of its key."""

    names: frozenset[str] | None
    key_fields: frozenset[str]

    def touches(self, route: FieldRoute) -> bool:
        """Whether the value at this path may change."""
        return route[0] not in self.key_fields if self.names is None else route[0] in self.names

    def touches_shown(self, route: FieldRoute) -> bool:
        """Whether what a row shows of this path may change."""
        return self.touches(route)


AnyChange: TypeAlias = ChangedFields | FollowedFields


def touched_rows(cost: ViewCost, change: AnyChange) -> int:
    """How many rows a change writes or deletes, at most."""
    if isinstance(change, FollowedFields) and change.is_deleted:
        return cost.rows
    if any(map(change.touches, cost.form.place)):
        return 2 * cost.rows
    is_touched = any(map(change.touches_shown, cost.form.value)) or any(map(change.touches, cost.where))
    return cost.rows if is_touched or cost.expires else 0


class ViewRows(NamedTuple):
    """Rows of one view that one change writes or deletes, at most."""

    cost: ViewCost
    rows: int


class EntityCost(NamedTuple):
    """What an entity of one class has in its root row and in other rows."""

    cls: type[Model[Any]]
    references: Mapping[str, int]
    """Its referring fields, and how many keys each holds at most."""
    views: tuple[ViewCost, ...]
    key: Size
    """Of its root row."""
    data: Size
    """Of its root row, as reads see it."""
    root: Size
    """Of its root row with the emitted record."""
    key_fields: frozenset[str]
    updated_fields: frozenset[str]
    """Those that each save and patch changes."""

    @property
    def sources(self) -> int:
        """How many entities it refers to, at most."""
        return sum(self.references.values())

    def row_changes(self) -> dict[tuple[Table, str], dict[str, int]]:
        """By the rows' table and name: which fields' changes write or delete one such row, and how many rows then."""
        found: dict[tuple[Table, str], dict[str, int]] = {}
        fields = [name for name in self.cls.__struct_fields__ if name not in self.key_fields]
        for each in self.views:
            one = each._replace(rows=1, expires=False)
            rows = {name: touched_rows(one, ChangedFields(frozenset({name}), self.key_fields)) for name in fields}
            found[each.form.table, each.form.name] = {name: count for name, count in rows.items() if count}
        return found

    def touched(self, change: AnyChange) -> list[ViewRows]:
        """The derived rows that a change writes or deletes, at most."""
        rows = [ViewRows(each, touched_rows(each, change)) for each in self.views]
        return [each for each in rows if each.rows]


class EntityCosts:
    """The costs of a schema's entities and of its views' rows."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._names = catalog.names
        self._sizes = Sizes(catalog.names)
        self.views: dict[type, tuple[ViewCost, ...]] = {
            cls: tuple(self._of_form(view, form) for form in view.forms()) for cls, view in catalog.views.items()
        }
        self.of: dict[type, EntityCost] = {
            cls: self._entity_cost(entity_type) for cls, entity_type in catalog.entity_types.items()
        }

    def of_kind(self, kind: EntityKind) -> list[EntityCost]:
        """The costs of a model and its variants."""
        return [cost for cls, cost in self.of.items() if self.catalog.kinds[cls] is kind]

    def key(self, kind: EntityKind) -> Size:
        """The key of a root row."""
        return _KIND.plus(_spread_size(kind.spread), self._suffix(kind))

    def _suffix(self, kind: EntityKind) -> Size:
        return NOTHING.plus(*self._parts(kind)).within(KEY_BYTES)

    def _parts(self, kind: EntityKind) -> Iterator[Size]:
        """The parts of a key; those of a field that refers have the limits of the fields behind it."""
        types = types_of(kind.cls, self._names)
        for each in kind.fields:
            if each.target is None:
                yield element(each.elements[0].type, types[each.name].metadata)
            else:
                yield from self._parts(self.catalog.kinds[each.target])

    def _entity_cost(self, entity_type: EntityType) -> EntityCost:
        kind, cls = entity_type.kind, entity_type.cls
        counts = {each.name: self._most_keys(cls, each) for each in entity_type.references}
        views = [cost for view in entity_type.derivations for cost in self.views[view.cls]]
        views += [
            self._pointing(entity_type, each, counts[each.name], "back-references") for each in entity_type.tracked
        ]
        views += [self._pointing(entity_type, each, counts[each.name], "holds") for each in entity_type.holding]
        data = Size(8, 8).plus(self._sizes.document(cls))
        return EntityCost(
            cls,
            counts,
            tuple(views),
            self.key(kind),
            data,
            data.plus(self._record(entity_type, views), self._sequences(kind)),
            frozenset(key_names(cls)),
            frozenset(name for name, default in defaults_of(cls).items() if default == UPDATED),
        )

    def _sequences(self, kind: EntityKind) -> Size:
        """The counts of a root's children."""
        types = self.catalog.entity_types.values()
        numbered = {each.kind for each in types for one in each.references if one.name == CHILD_OF and one.kind is kind}
        return _SEQUENCE.times(len(numbered))

    def _most_keys(self, cls: type, reference: Reference) -> int:
        if not reference.many:
            return 1
        return most_elements(types_of(cls, self._names)[reference.name].metadata)

    def _pointing(self, entity_type: EntityType, reference: Reference, count: int, sort: str) -> ViewCost:
        place, kind = frozenset({(reference.name,)}), entity_type.kind
        taken = _SELECTION if sort == "back-references" else NOTHING
        key = _KIND.plus(self.key(reference.kind), taken, self.key(kind))
        recorded = self.key(reference.kind).plus(taken, Size(HEADER, 2))
        named = kind.cls if reference.name in kind.cls.__struct_fields__ else entity_type.cls
        because = f"{named.__name__}.{reference.name}"
        form = RowForm(because, sort, sort, sort, "views", place, frozenset(), "value")
        return ViewCost(form, count, frozenset(), key, NOTHING, recorded)

    def _record(self, entity_type: EntityType, views: list[ViewCost]) -> Size:
        """The emitted record: of a living entity its contributions, of a deleted one its last values."""
        contributions = Size(2 * HEADER, 2).plus(*(cost.recorded.times(cost.rows) for cost in views))
        tokens = Size(3 * HEADER, 8).times(len(views) + 4)
        hidden = [
            self._along(entity_type.cls, name, kind).plus(Size(len(name) + HEADER, len(name) + 2))
            for each in entity_type.references
            for name, _get, kind in each.hidden
        ]
        if entity_type.copied is None:
            return contributions.plus(tokens, *hidden)
        last = [
            greatest(self._along(cls, route, kind) for cls in self._having(entity_type.kind, route)).plus(
                Size(len(route) + HEADER, 0)
            )
            for route, kind in entity_type.copied.types.items()
        ]
        routes = Size(sum(len(route) + HEADER for route in entity_type.copied.types) + 40, 0)
        routes = routes.plus(_DIGEST.times(len(entity_type.copied.selections)))
        living, deleted = contributions.plus(*hidden), NOTHING.plus(*last)._replace(typical=0)
        return greatest((living, deleted)).plus(tokens, routes)

    def _having(self, kind: EntityKind, route: str) -> list[type]:
        """The classes of a kind whose entities have a value at a route; variants declare fields of their own."""
        first, classes = route.partition(".")[0], self.catalog.models
        found = [cls for cls in classes if self.catalog.kinds[cls] is kind and first in cls.__struct_fields__]
        return [*found] or [kind.cls]

    def _along(self, cls: Any, route: str, kind: Any) -> Size:
        """A value at the end of a route, which may lead through copies, references and nested classes."""
        *before, last = route.split(".")
        for name in before:
            given = types_of(cls, self._names)[name]
            target = reference_target(given)
            cls = given.present.bare if target is None else target[0]
        given = types_of(cls, self._names).get(last) or type_of(kind, self._names, cls, last)
        return self._sizes.field(given).plus(FLAG)

    def _of_form(self, view: CompiledView, form: RowForm) -> ViewCost:
        values, suffix = self._key_values(view), self._owner_key(view)
        if form.ends is not None:
            values = values.plus(element(form.ends[0])).within(VALUES_BYTES)
        value, recorded = self._value_sizes(view, form)
        values = _spread_size(view.key.spread).plus(values)
        is_owned = form.holds in ("row", "value", "short value")  # the key ends in that of its entity or group
        place = values.plus(suffix) if is_owned else values
        count, undeclared = self._rows_of(view.key.parts)
        return ViewCost(
            form,
            count,
            form.where if view.cls.where is None else form.where | {path.names for path in view.cls.where.paths()},
            _PREFIX.plus(place),
            value,
            place.plus(recorded),
            is_shared=form.holds == "numbers" and not view.key.parts,
            undeclared=undeclared,
            expires=has_expiring_rows(view.cls, view.model),
        )

    def _value_sizes(self, view: CompiledView, form: RowForm) -> tuple[Size, Size]:
        """The value of a row, and what the record has of it besides the row's key."""
        if form.holds == "row":
            rules = rules_of(view.cls).items()
            shown = [
                self._shown(view.cls, name, rule)
                if view.groups is None or not issubclass(view.groups.cls, path_of(rule.field).declared_in)
                else self._of_group(view.groups, path_of(rule.field))
                for name, rule in rules
            ]
            owner = self._owner_key(view)
            reference = Size(4 * KEY_BYTES if view.groups is None else 4 * VALUES_BYTES, owner.typical)
            expiry = Size(EXPIRY_BYTES, EXPIRY_BYTES).times(view.has_expiries)
            return Size(2 * HEADER, 3).plus(reference, expiry, *shown), _RECORDED
        if form.holds == "owner":
            return self.key(self.catalog.kinds[view.model]), Size(HEADER, 2)
        if form.ends is not None:
            value = self._at(form.ends[1])
            if form.holds == "value":
                return value, Size(2 * HEADER + 8, 3)
            return _short(Size(HEADER, 1).plus(value)), _RECORDED
        amounts = Size(HEADER + 9, 3).plus(*map(self._amount, form.numbers))
        return amounts, amounts.plus(Size(2 * HEADER, 3))

    def _key_values(self, view: CompiledView) -> Size:
        return NOTHING.plus(*map(self._element, view.key.parts)).within(VALUES_BYTES)

    def _owner_key(self, view: CompiledView) -> Size:
        """The key of what a row of a view is of: an entity, or a group."""
        return self._suffix(self.catalog.kinds[view.model]) if view.groups is None else self._key_values(view.groups)

    def _of_group(self, groups: CompiledView, path: Path) -> Size:
        """What an index row shows of a group: a value of its key, a number, or a value that is in a key elsewhere."""
        rule, given = rules_of(groups.cls)[path.names[0]], self._type(Path(path.steps[:1]))
        if given.present.kind == "copy":
            return _ONLY_REFERS
        if rule.fold == "count":
            return Size(9, 2)
        if rule.fold == "newest_values":
            return Size(HEADER, 1).plus(_short(self._at(path_of(rule.field))).times(rule.most))
        if rule.fold in ("total", "mean"):
            return self._amount(path_of(rule.field)) if rule.fold == "total" else AMOUNT
        return self._sizes.field(given).plus(FLAG).within(4 * KEY_BYTES + HEADER)._replace(open=frozenset())

    def _amount(self, path: Path | None) -> Size:
        """A number of a group's row: a count, or the sum of the values at a path."""
        if path is None:
            return Size(9, 2)
        is_whole = self._type(path).present.bare is int
        return self._at(path).plus(Size(HEADER + 8, 1)) if is_whole else AMOUNT

    def _element(self, part: KeyRule) -> Size:
        if part.kind is not None:
            return self._suffix(part.kind)
        if part.rule.hashed:
            return Size(2 * 16 + 2, 19)
        path = path_of(part.rule.field)
        metadata = () if path.every else self._type(path).metadata
        return greatest((element(part.elements[0].type, metadata), FLAG))

    def _rows_of(self, parts: tuple[KeyRule, ...]) -> tuple[int, frozenset[str]]:
        """Rows of one entity in a view: one, or one for each element of a list; and that list, if it has no maximum."""
        several = [path_of(part.rule.field) for part in parts if part.access.many]
        if not several:
            return 1, frozenset()
        most = most_elements(self._type(several[0]).metadata)
        cls, name = several[0].steps[-1]
        return most, frozenset({f"{cls.__name__}.{name}"}) if most >= OPEN else frozenset()

    def _shown(self, view: type, name: str, rule: Rule) -> Size:
        """A field of an index row."""
        path = path_of(rule.field)
        given = types_of(view, self._names)[name]
        if rule.kind == "key" and given.present.kind == "copy":
            return _ONLY_REFERS
        found = self._sizes.field(given) if path.every else self._at(path)
        if rule.kind != "key" or rule.hashed:
            return found
        return found.within(4 * KEY_BYTES + HEADER)._replace(open=frozenset())  # longer ones are refused

    def _type(self, path: Path) -> FieldType:
        cls, name = path.steps[-1]
        return types_of(cls, self._names)[name]

    def _at(self, path: Path) -> Size:
        """The value at the end of a path, in a document."""
        return self._sizes.field(self._type(path)).plus(FLAG)


def _short(value: Size) -> Size:
    """A value of which longer ones than `NEWEST_BYTES` are refused, so that nothing here is open."""
    return value.within(NEWEST_BYTES)._replace(open=frozenset())
