"""Shares: what one entity of a class has in each view, in rows and bytes, and which of its fields that depends on.

A share says where its rows lie (a change there takes a row away and puts another), what they hold (a change there
writes the row again), and when they are there at all; so a change of some fields touches each row of a share never,
once, or twice. See docs/explanation/costs.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from oneread.costs.sizes import FLAG, HEADER, NOTHING, OPEN, Size, Sizes, element, greatest, most_elements
from oneread.derivations.access import FieldRoute
from oneread.derivations.catalog import Catalog
from oneread.derivations.copies import Reference
from oneread.derivations.derivation import CompiledView, RowForm
from oneread.derivations.entity_type import EntityType
from oneread.derivations.keyed import KeyRule
from oneread.derivations.rules import Rule, rules_of
from oneread.models.annotations import FieldType, Names, type_of, types_of
from oneread.models.fields import UPDATED, defaults_of
from oneread.models.paths import Path, path_of
from oneread.models.registry import EntityKind, reference_target
from oneread.store.keys import KIND_BYTES, VIEW_BYTES
from oneread.store.limits import KEY_BYTES, VALUES_BYTES
from oneread.transactions.deltas import MAGNITUDE

AMOUNT: Final = Size(2 * MAGNITUDE + 100 + HEADER, 8)
"""A Decimal sum; `deltas` refuses what has more digits."""

_PREFIX: Final = Size(VIEW_BYTES, VIEW_BYTES)
_KIND: Final = Size(KIND_BYTES, KIND_BYTES)


class ViewCost(NamedTuple):
    """What one entity has in one keyspace.

    Arguments:
        form: what the rows are, and which fields they depend on.
        rows: how many there are at most.
        where: the paths that decide whether there are any.
        key, held: bytes of each.
        told: bytes of each in the emitted record.
        alone: there is one such row for all entities together.
        undeclared: the list that no maximum is declared for, if each of its elements is a row.
    """

    form: RowForm
    rows: int
    where: frozenset[FieldRoute]
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

    def touches(self, route: FieldRoute) -> bool:
        """Whether a value may change that is reached by this path."""
        return route[0] == self.reference and (len(route) > 1)

    def shows(self, route: FieldRoute) -> bool:
        """Likewise, of a value that is shown, as whole copies are."""
        return route[0] == self.reference and (len(route) > 1 or self.copy)


class Fields(NamedTuple):
    """Some fields of an entity change; None for any but those of its key."""

    names: frozenset[str] | None
    keys: frozenset[str]

    def touches(self, route: FieldRoute) -> bool:
        """Whether a value may change that is reached by this path."""
        return route[0] not in self.keys if self.names is None else route[0] in self.names

    def shows(self, route: FieldRoute) -> bool:
        """Likewise."""
        return self.touches(route)


def touched(share: ViewCost, change: Fields | FollowedFields) -> int:
    """How many rows of a share a change writes or takes away, at most."""
    if any(map(change.touches, share.form.place)):
        return 2 * share.rows
    return share.rows if any(map(change.shows, share.form.value)) or any(map(change.touches, share.where)) else 0


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
    """The weights of a schema's entities and the sizes of its views' rows."""

    def __init__(self, catalog: Catalog, names: Names) -> None:
        self.catalog = catalog
        self._names = names
        self._sizes = Sizes(names)
        self.views: dict[type, tuple[ViewCost, ...]] = {
            cls: tuple(self._of_form(view, form) for form in view.forms()) for cls, view in catalog.views.items()
        }
        self.of: dict[type, EntityCost] = {
            cls: self._weight(entity_type) for cls, entity_type in catalog.entity_types.items()
        }

    def key(self, kind: EntityKind) -> Size:
        """The key of a commit row."""
        return _KIND.plus(self._suffix(kind))

    def _suffix(self, kind: EntityKind) -> Size:
        types = types_of(kind.cls, self._names)
        parts = [element(each.type, types[each.name].metadata) for each in kind.codec.elements]
        return NOTHING.plus(*parts).within(KEY_BYTES)

    def _weight(self, entity_type: EntityType) -> EntityCost:
        kind, cls = entity_type.kind, entity_type.cls
        counts = {each.name: self._many(cls, each) for each in entity_type.references}
        shares = [share for view in entity_type.derivations for share in self.views[view.cls]]
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
        return most_elements(types_of(cls, self._names)[reference.name].metadata)

    def _pointing(self, entity_type: EntityType, reference: Reference, count: int, sort: str) -> ViewCost:
        place, kind = frozenset({(reference.name,)}), entity_type.kind
        key = _KIND.plus(self.key(reference.kind), self.key(kind))
        told = self.key(reference.kind).plus(Size(HEADER, 2))
        named = kind.cls if reference.name in kind.cls.__struct_fields__ else entity_type.cls
        because = f"{named.__name__}.{reference.name}"
        form = RowForm(because, sort, sort, sort, "views", place, frozenset(), "value")
        return ViewCost(form, count, frozenset(), key, FLAG, told)

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
        """A value at the end of a route, which may lead through copies, references and nested classes."""
        *before, last = route.split(".")
        for name in before:
            given = types_of(cls, self._names)[name]
            target = reference_target(given)
            cls = given.present.bare if target is None else target[0]
        given = types_of(cls, self._names).get(last) or type_of(kind, self._names, cls, last)
        return self._sizes.field(given).plus(FLAG)

    def _of_form(self, view: CompiledView, form: RowForm) -> ViewCost:
        """What one entity has in one keyspace of a view."""
        kind = self.catalog.kinds[view.model]
        values, suffix = self._values(view.key.parts), self._suffix(kind)
        if form.ends is not None:
            values = values.plus(element(form.ends[0])).within(VALUES_BYTES)
        holds, told = self._held_by(view, form)
        is_owned = form.holds in ("row", "value")  # the key ends in that of its entity
        place = values.plus(suffix) if is_owned else values
        count, undeclared = self._rows_of(view.key.parts)
        return ViewCost(
            form,
            count,
            _where(view.cls),
            _PREFIX.plus(place),
            holds,
            place.plus(told),
            alone=form.holds == "numbers" and not view.key.parts,
            undeclared=undeclared,
        )

    def _held_by(self, view: CompiledView, form: RowForm) -> tuple[Size, Size]:
        """What a row holds, and what the record holds of it besides its key."""
        kind = self.catalog.kinds[view.model]
        if form.holds == "row":
            shown = [self._shown(view.cls, name, rule) for name, rule in rules_of(view.cls).items()]
            reference = Size(4 * KEY_BYTES, self._suffix(kind).typical)
            return Size(2 * HEADER, 3).plus(reference, *shown), Size(16 + 3 * HEADER, 18)
        if form.holds == "owner":
            return self.key(kind), Size(HEADER, 2)
        if form.ends is not None:
            return Size(HEADER, 1).plus(self._at(form.ends[1])), Size(2 * HEADER, 3)
        amounts = Size(HEADER + 9, 3).plus(*map(self._amount, form.numbers))
        return amounts, amounts.plus(Size(2 * HEADER, 3))

    def _amount(self, path: Path | None) -> Size:
        """A number of a group's row: a count, or the sum of the values at a path."""
        if path is None:
            return Size(9, 2)
        is_whole = self._type(path).present.bare is int
        return self._at(path).plus(Size(HEADER + 8, 1)) if is_whole else AMOUNT

    def _values(self, parts: tuple[KeyRule, ...]) -> Size:
        """The values of a view's key rules."""
        return NOTHING.plus(*map(self._element, parts)).within(VALUES_BYTES)

    def _element(self, part: KeyRule) -> Size:
        if part.kind is not None:
            return self._suffix(part.kind)
        if part.rule.hashed:
            return Size(2 * 16 + 2, 19)
        path = path_of(part.rule.field)
        metadata = () if path.every else self._type(path).metadata
        return greatest((element(part.elements[0].type, metadata), FLAG))

    def _rows_of(self, parts: tuple[KeyRule, ...]) -> tuple[int, frozenset[str]]:
        """Rows of one entity in a view: one, or one for each distinct element of a list; and that list, if open."""
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
            return Size(4 * KEY_BYTES + 20 * HEADER, 12)  # it only refers there
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


def _where(view: Any) -> frozenset[FieldRoute]:
    return frozenset() if view.where is None else frozenset(path.names for path in view.where.paths())
