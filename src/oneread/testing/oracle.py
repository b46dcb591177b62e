"""The oracle: computes from scratch, in the plainest way, what a database must show.

Slow and short on purpose. See "Semantics" of the decisions page.

    oracle = Oracle(Customer, Purchase, PurchasesOfBuyer)
    oracle.save(customer)
    assert look(db.page(PurchasesOfBuyer, 1).rows) == look(oracle.rows(PurchasesOfBuyer, 1))
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from oneread.database.patches import FieldStep
from oneread.derivations.rules import Rule, rules_of
from oneread.derivations.views import Aggregate, Feed, Index, View
from oneread.errors import AlreadyExists, InvalidValue, MissingReference, NotFound, NotUnique, StillReferenced
from oneread.models.fields import GENERATED
from oneread.models.model import Model
from oneread.models.paths import Path, path_of
from oneread.models.references import Copy, Ref
from oneread.models.registry import root_model
from oneread.models.types import Named, types_of
from oneread.testing.naive import comparable, fold, in_buckets, key_value, look, sort_by_keys
from oneread.testing.naive_counters import NaiveCounters
from oneread.testing.naive_counts import count_aggregate, count_feed, count_index
from oneread.testing.naive_entities import (
    CHILD_OF,
    AnyModel,
    Entry,
    Held,
    KeyParts,
    OracleField,
    Place,
    Referring,
    Route,
    as_held,
    empty_totals_of,
    flat_values,
    has_ended,
    numbered_part,
    owners_of,
    place_name,
    place_of,
    place_order,
    referring_fields,
    source_route,
    stamped,
    targets_of,
    totals_of,
    with_copies,
    written_at,
)
from oneread.testing.naive_feeds import EverListed, FeedSides, Subjects, has_left, sides_of
from oneread.testing.naive_wanted import WantedValues, viewed_class

__all__ = ["Oracle", "look", "written_at"]

M = TypeVar("M", bound=Model[*tuple[Any, ...]])
V = TypeVar("V", bound=View[Any])

_rules: Final = cache(rules_of)
"""Cached, since msgspec reads the annotations at each call."""


class Oracle:
    """Entities in a dict. The writing verbs mean, return and raise what a database's do."""

    def __init__(self, *declarations: type) -> None:
        self.models = tuple(cls for cls in declarations if issubclass(cls, Model))
        self.views: tuple[type[View[Any]], ...] = tuple(
            cls for cls in declarations if issubclass(cls, View) and not cls.is_added
        )
        self.now = 0
        """The clock: what has expired by then counts as absent. An expired entity is held until it is swept."""
        self._names = Named(declarations)
        self._types: dict[type, dict[str, Any]] = {}
        self._fields: dict[type, Referring] = {cls: referring_fields(cls, self._names) for cls in self.models}
        self._fields |= {view: {} for view in self.views}  # a group refers, and has nothing of what it refers to
        self._wanted = WantedValues(self.models, self.views, self._fields, self._names)
        self._rollups = {cls: totals_of(cls) for cls in self.models}
        self._empty_totals = {cls: empty_totals_of(cls, self._names) for cls in self.models}
        self.counters = NaiveCounters(self._names)
        self.listed = EverListed([view for view in self.views if issubclass(view, Feed)])
        self.held: dict[Place, Held] = {}
        self.clock_of: Callable[[Place], int] = lambda _place: 0
        """The clock at the commit of an entity, where the caller does not give it: the source of its stamps."""
        self._is_within = False
        """Whether what is changed is not a commit yet."""
        self._leaving: set[Place] = set()  # deleted by one sweep: none of them holds another
        self.one_by_one = False
        """Whether each entity of several is a commit of its own, as of a portable schema."""
        self.holds_last: list[Place] | None = None
        """Of a store that changes one row at a time: what a transaction has deleted; holds are looked at behind all."""
        self.is_late: Callable[[type, Place], bool] = lambda _view, _place: False
        """Whether an entity that has left the groups of an aggregate by its ttl still counts there, until the sweep."""
        self.waits: Callable[[Place], bool] = lambda _place: False
        """Whether an entity that is to be deleted with its source is still there, waiting for its task."""
        self._given: dict[tuple[type, Place], int] = {}  # how many numbers each group gave to children of a model
        self.ever: set[Place] = set()  # every place that was ever written: those that are not held were deleted
        self.took_deleted = False  # an entity took a deleted source: without values, or with those a task still gives

    # The writing verbs.

    def save(self, entity: M, version: int = 0) -> M:
        """Stores an entity, replacing any previous value; `version` is the clock at the commit, for its stamps."""
        saved: M = self.save_all([(entity, version)])[0]
        return saved

    def save_all(self, entities: Sequence[tuple[Any, int]]) -> list[Any]:
        """Saves several with their versions as one commit; a unique value may move from one to another."""
        if self.one_by_one and len(entities) > 1:
            return [self.save(*each) for each in entities]
        return self._save_all(entities)

    def _save_all(self, entities: Sequence[tuple[Any, int]], patched: Place | None = None) -> list[Any]:
        given = dict(self._given)
        try:
            numbered = [(self._numbered(each), version) for each, version in entities]
            changes = [
                (place, stamped(each, before, version or self.clock_of(place), self._empty_totals[type(each)]))
                for each, version in numbered
                for place in [place_of(each)]
                for before in [self._present(place) if place == patched else self._written(place)]
            ]
            self._change(changes, patched)
        except Exception:
            self._given = given
            raise
        return [self.held[place].entity for place, _entity in changes]

    def _numbered(self, entity: Any) -> Any:
        """The entity with the next number of its group, where it has none."""
        part = numbered_part(type(entity))
        if part is None or getattr(entity, part) != GENERATED:
            return entity
        (root,) = targets_of(self._fields[type(entity)][CHILD_OF], entity)
        sequence = (root_model(type(entity)), root)
        self._given[sequence] = self._given.get(sequence, 0) + 1
        return msgspec.structs.replace(entity, **{part: self._given[sequence]})

    def settle(self) -> None:
        """Lets every entity see what has changed elsewhere; after a change of `counters`, too."""
        while self._refresh():
            pass
        self.listed.note(self.entries)

    def create(self, entity: M, version: int = 0) -> M:
        """Stores a new entity."""
        if self._written(place_of(entity)) is not None:
            raise AlreadyExists("an entity with this key exists", owner=place_name(place_of(entity)))
        return self.save(entity, version)

    def patch(self, model: type[M], key: KeyParts, changes: Mapping[str, object], version: int = 0) -> M:
        """Changes fields of an entity that exists."""
        for name in changes:
            if name not in model.__struct_fields__:
                raise InvalidValue("the model has no such field", model=model, field=name)
        before = self.get(model, *key)
        if before is None:
            raise NotFound("there is no such entity", key=key)
        applied = {
            name: change.apply(getattr(before, name)) if isinstance(change, FieldStep) else change
            for name, change in changes.items()
        }
        after = msgspec.structs.replace(before, **applied)
        if self._goes(before, after):
            raise NotFound("there is no such entity", key=key)
        saved: M = self._save_all([(after, version)], place_of(after))[0]
        return saved

    def delete(self, model: type[AnyModel], *key: object) -> None:
        """Deletes an entity; does nothing if there is none, or one of another variant."""
        if self.get(model, *key) is not None:
            self._change([((root_model(model), key), None)])

    def replace(self, entity: M) -> M:
        """Deletes what has the key of an entity, of whichever variant, and stores the entity, as one commit."""
        place = place_of(entity)
        made = stamped(entity, None, self.clock_of(place), self._empty_totals[type(entity)])
        self._change([(place, None), (place, made)])
        replaced: M = self.held[place].entity
        return replaced

    def get(self, model: type[M], *key: object) -> M | None:
        """The entity; None if there is none."""
        found = self._present((root_model(model), key))
        return found if isinstance(found, model) else None

    def is_absent(self, entity: AnyModel) -> bool:
        """Whether an entity is absent to who writes it: it has expired, or a source that it goes with was deleted."""
        return self.is_expired(entity) or self._goes(entity, entity)

    def together(self, changes: Iterable[Callable[[], object]]) -> None:
        """Does several changes as one commit: all or none; unique values are looked at behind the last.

        Of a portable schema, a value does not pass from one entity to another.
        """
        before = self._owners() if self.one_by_one else {}
        held, ever, given = dict(self.held), set(self.ever), dict(self._given)
        self._is_within = True
        self.holds_last = None if self.holds_last is None else []
        try:
            for each in changes:
                each()
            self._is_within = False
            self._refuse_taken(before)
            for deleted in self.holds_last or ():
                self._refuse_referenced(deleted)
        except Exception:
            self.held, self.ever, self._given = held, ever, given
            raise
        finally:
            self._is_within = False

    def is_expired(self, entity: object) -> bool:
        """Whether an entity counts as absent."""
        return has_ended(root_model(type(entity)).ttl, lambda field: getattr(entity, field), self.now)

    def drop_swept(self, is_stored: Callable[[Place], bool]) -> None:
        """Deletes the expired entities that a sweep has deleted from the store."""
        swept = [place for place, held in self.held.items() if self.is_expired(held.entity) and not is_stored(place)]
        if swept:
            self._leaving = set(swept)
            self._change([(place, None) for place in swept])
            self._leaving = set()

    def _present(self, place: Place) -> AnyModel | None:
        held = self.held.get(place)
        return None if held is None or self.is_expired(held.entity) else held.entity

    def _written(self, place: Place) -> AnyModel | None:
        """What a save finds."""
        held = self.held.get(place)
        return None if held is None or self.is_absent(held.entity) else held.entity

    def _change(self, changes: Sequence[tuple[Place, Any]], patched: Place | None = None) -> None:
        """Applies all changes or none, and recomputes everything."""
        held, ever = dict(self.held), set(self.ever)
        try:
            self._let_go()
            for place, entity in changes:
                self._apply(place, entity, is_patch=place == patched)
            self._let_go()
            self.settle()
            self._refuse_taken()
        except Exception:
            self.held, self.ever = held, ever
            raise

    def _apply(self, place: Place, entity: AnyModel | None, *, is_patch: bool) -> None:
        before = self.held.get(place)
        is_living = before is not None and not (self.is_expired if is_patch else self.is_absent)(before.entity)
        self.held.pop(place, None)
        if entity is None:
            self._refuse_referenced(place)
            return
        before = before if is_living else None
        if before is not None and type(before.entity) is not type(entity):
            raise AlreadyExists("an entity of another variant has this key", owner=place_name(place))
        self.ever.add(place)
        self.held[place] = Held(entity, {})
        for field in self._fields[type(entity)].values():
            known = () if before is None else targets_of(field, before.entity)
            for target in targets_of(field, entity):
                source = self._source(field, target)
                there = before is not None if target == place else source and not self.is_expired(source.entity)
                if target not in known and not (source and there) and not field.missing_ok:
                    raise MissingReference("the referenced entity does not exist", field=field.name, target=target)
                self.took_deleted |= target not in known and source is None and target in self.ever
            if before is not None and known == targets_of(field, entity):
                kept = {wanted: value for wanted, value in before.seen.items() if wanted[0] == field.name}
                self.held[place].seen.update(kept)

    def _source(self, field: OracleField, place: Place) -> Held | None:
        """The entity that a field refers to; one of another variant is missing to it."""
        held = self.held.get(place)
        return held if held is not None and isinstance(held.entity, field.variant) else None

    def delete_with_sources(self) -> None:
        """Deletes entities whose source was deleted, if they say `on_delete="delete"`, but for those that wait.

        What others show of them follows.
        """
        if self._let_go():
            self.settle()

    def _let_go(self) -> set[Place]:
        """Deletes what goes with its source; returns it.

        One that others refer to with "refuse" stays, and so does what would go with it.
        """
        refused: set[Place] = set()
        while True:
            gone = self._without_sources(refused)
            held = {place for place in gone if self._holders(place) - gone}
            if not held:
                break
            refused |= held
        for place in gone:
            del self.held[place]
        return gone

    def waiting(self) -> list[Place]:
        """The entities that are to be deleted with their source and are still there."""
        return [place for place, held in self.held.items() if self._goes(held.entity, held.entity)]

    def _without_sources(self, refused: set[Place]) -> set[Place]:
        gone: set[Place] = set()
        grown = True
        while grown:
            grown = False
            for place, held in self.held.items():
                if place not in gone | refused and self._goes(held.entity, held.entity, gone) and not self.waits(place):
                    gone.add(place)
                    grown = True
        return gone

    def _goes(self, before: AnyModel, after: AnyModel, gone: Collection[Place] = ()) -> bool:
        """Whether a source that an entity goes with, before a change and after it, is not there, or in `gone`."""
        going = [field for field in self._fields[type(before)].values() if field.on_delete == "delete"]
        kept = [target for field in going for target in targets_of(field, before) if target in targets_of(field, after)]
        return any(target in gone or target not in self.held for target in kept)

    def _holders(self, place: Place) -> set[Place]:
        """The entities that forbid the delete of one."""
        return {held_at for held_at, held in self.held.items() if place in self._wanted.holds_on(held.entity)}

    def _refuse_referenced(self, place: Place) -> None:
        if self._is_within and self.holds_last is not None:
            self.holds_last.append(place)
            return
        for holder in self._holders(place) - self._leaving:
            raise StillReferenced("others refer to it", owner=place_name(holder))

    def _refuse_taken(self, before: Mapping[Any, Place] = MappingProxyType({})) -> None:
        """Raises NotUnique for a value that two entities have, or that another one had before."""
        if not self._is_within:
            for value, place in self._owners().items():
                if before.get(value, place) != place:
                    raise NotUnique("taken", owner=place_name(before[value]))

    def _owners(self) -> dict[Any, Place]:
        """Who has each unique value. Raises NotUnique where two have one."""
        unique = [view for view in self.views if getattr(view, "unique", False)]
        return owners_of([((view, each[0]), each[1]) for view in unique for each in self._living(view)])

    # What entities see of their sources.

    def _refresh(self) -> bool:
        """Updates what every entity sees: living sources as they are, deleted ones as they were or not at all.

        Returns whether anything changed, which other entities may see in turn.
        """
        changed = False
        for place, held in list(self.held.items()):
            cls = type(held.entity)
            seen = dict(held.seen)
            for name, route in self._wanted.routes[cls]:
                field = self._fields[cls][name]
                targets = targets_of(field, held.entity)
                source = self._source(field, targets[0]) if targets else None
                is_gone = bool(targets) and source is None and targets[0] in self.ever
                if route == ("deleted",):
                    seen[name, route] = is_gone and field.on_delete != "delete"
                elif source is not None:
                    seen[name, route] = as_held(self.value(source, route))
                elif field.on_delete == "clear" or not is_gone:
                    seen[name, route] = None
                else:
                    seen.setdefault((name, route), None)
            changed = changed or seen != held.seen
            self.held[place] = Held(with_copies(self._fields[type(held.entity)].values(), held.entity, seen), seen)
        return self._refresh_totals() or changed

    def _refresh_totals(self) -> bool:
        """Gives every entity the numbers of its groups; returns whether any changed."""
        shown = {view for fields in self._rollups.values() for view, _field in fields.values()}
        groups = {view: dict(self.members(view)) for view in shown}
        changed = False
        for place, held in list(self.held.items()):
            totals: dict[str, Any] = dict(self.counters.shown_by(type(held.entity), place[1]))
            for name, (view, field) in self._rollups[type(held.entity)].items():
                values = self._group_of(view, place)
                totals[name] = getattr(self._fold(view, values, groups[view].get(values, [])), field)
            if any(getattr(held.entity, name) != total for name, total in totals.items()):
                changed = True
                self.held[place] = held._replace(entity=msgspec.structs.replace(held.entity, **totals))
        return changed

    def _group_of(self, view: type[Aggregate[Any]], place: Place) -> tuple[Any, ...]:
        """The values of the group that has the key of an entity."""
        first = next(name for name, rule in _rules(view).items() if rule.kind == "key")
        is_reference = types_of(view, self._names)[first].present.kind in ("reference", "copy")
        return (Ref(place[1]),) if is_reference else place[1]

    def value(self, held: Held, route: Route) -> Any:
        """The value at the end of a route, with every living entity on the way as it is now."""
        value: Any = held.entity
        for step, name in enumerate(route):
            field = self._fields[type(held.entity)].get(name) if step == 0 else None
            value = getattr(value, name)
            if value is None:
                return None
            if field is not None and len(route) > 1:
                if route[1:] == ("ref",):
                    return value.ref
                far = source_route(field, route[1:])
                source = self._source(field, targets_of(field, held.entity)[0])
                return held.seen.get((name, far)) if source is None else as_held(self.value(source, far))
        return value

    def all(self, model: type) -> list[Any]:
        """The entities of a model, its variants included, in the order of their keys."""
        places = sorted((place for place in self.held if place[0] is root_model(model)), key=place_order)
        return [each for place in places if isinstance(each := self._present(place), model)]

    # Views.

    def rows(self, view: type[Index[Any] | Feed[Any]], *equal: object) -> list[Any]:
        """The rows of an index or a feed, in order, whose first key fields are these; a reference is a `Ref`.

        Rows that differ only in a hashed field have no defined order.
        """
        entries = self._living(view)
        if not self.lists_groups(view):  # groups come in their own order
            entries.sort(key=lambda entry: place_order(entry[1]))
        sort_by_keys(entries, [rule for rule in _rules(view).values() if rule.kind == "key"])
        return [row for values, _place, row in entries if list(values[: len(equal)]) == list(equal)]

    def entries(self, view: type[View[Any]]) -> list[Entry]:
        """(values of the key rules, the place of the entity, the row) of everything in a view, in no order.

        Of an index over groups: in the order of the groups, with a place for each group.
        """
        if issubclass(view, Feed):
            names = [name for name, rule in _rules(view).items() if rule.kind == "key"]
            return [
                (values, place, self._row(view, (place, held), dict(zip(names, values, strict=True))))
                for values, place, held in self.sides(view).entries()
            ]
        rules = self._sized(view)
        keyed = {name: rule for name, rule in rules.items() if rule.kind == "key"}
        return [
            (tuple(values.values()), place, self._row(view, (place, held), values))
            for place, held in self._subjects(view)
            for values in self._keys(held, keyed)
        ]

    def sides(self, feed: type[Feed[Any]]) -> FeedSides:
        """What a feed joins."""
        return sides_of(feed, self._sized(feed), self._names, Subjects(self._subjects(feed), self.held, self._keys))

    def _living(self, view: Any) -> list[Entry]:
        """The entries of an index or a feed whose rows have not expired."""
        if issubclass(view, Feed):
            recent = [each for each in self.entries(view) if not has_left(view, each[0][-1], self.now)]
            return [each for each in recent if self.lists_groups(view) or self._present(each[1]) is not None]
        are_groups = self.lists_groups(view)
        return [each for each in self.entries(view) if are_groups or not self._has_left(view, self.held[each[1]])]

    def _has_left(self, view: Any, held: Held) -> bool:
        return self.is_expired(held.entity) or (issubclass(view, Index) and self._has_ended(view, held))

    def _has_ended(self, view: Any, held: Held) -> bool:
        return has_ended(view.ttl, lambda of: self.value(held, path_of(of).names), self.now)

    def lists_groups(self, view: type[View[Any]]) -> bool:
        """Whether a view lists the groups of an aggregate."""
        return issubclass(viewed_class(view, self._names), Aggregate)

    def _subjects(self, view: type[View[Any]]) -> Iterable[tuple[Place, Held]]:
        """What a view lists: entities, or groups that have entities, for which its `where` holds."""
        found = [each for each in self._listed(view) if view.where is None or view.where.test(each[1].entity)]
        if not issubclass(view, Aggregate) or view.ttl is None:
            return found
        return [each for each in found if not self._has_ended(view, each[1]) or self.is_late(view, each[0])]

    def _listed(self, view: type[View[Any]]) -> Iterable[tuple[Place, Held]]:
        of: Any = viewed_class(view, self._names)
        if not self.lists_groups(view):
            return [(place, held) for place, held in self.held.items() if isinstance(held.entity, of)]
        groups = [(values, self._fold(of, values, several)) for values, several in self.members(of)]
        keys = [types_of(of, self._names)[name] for name, rule in _rules(of).items() if rule.kind == "key"]
        return [((of, flat_values(keys, values)), Held(group, {})) for values, group in groups]

    def _sized(self, view: type[View[Any]]) -> Mapping[str, Rule]:
        """The rules of a view; those that take a time bucket of groups are of its size."""
        rules = _rules(view)
        return in_buckets(rules, _rules(viewed_class(view, self._names))) if self.lists_groups(view) else rules

    def _keys(self, held: Held, rules: Mapping[str, Rule]) -> Iterable[dict[str, Any]]:
        """The values of the key rules: once, never, or once for each distinct element of each(...)."""
        several: list[dict[str, Any]] = [{}]
        for name, rule in rules.items():
            path: Path = path_of(rule.field)
            value = self.value(held, path.names)
            values = list(dict.fromkeys(value or ())) if path.every else [value]
            shown = [key_value(each, rule) for each in values if each is not None or (rule.none and not path.every)]
            several = [{**known, name: each} for known in several for each in dict.fromkeys(shown)]
        return several

    def _row(self, view: type[View[Any]], of: tuple[Place, Held], values: dict[str, Any]) -> object:
        place, held = of
        if not issubclass(view, Index | Feed):
            return held
        fields = dict(values)
        for name, rule in _rules(view).items():
            if rule.kind == "shown":
                fields[name] = self.value(held, path_of(rule.field).names)
            else:
                fields[name] = self._as_declared(view, name, fields[name])
        return view(source=Ref(place[1]), **fields)

    def _as_declared(self, view: type[View[Any]], name: str, value: object) -> object:
        """A reference in a key in the type of the view's field; a copy there is not filled."""
        declared = self._declared(view, name)
        if isinstance(value, Ref) and isinstance(declared, type) and issubclass(declared, Copy):
            return declared.of(*value.key)
        return value

    def _declared(self, view: type[View[Any]], name: str) -> Any:
        """The type of a view's field."""
        types = self._types.get(view)
        if types is None:
            found = types_of(view, self._names)
            types = self._types[view] = {field: given.present.bare for field, given in found.items()}
        return types[name]

    def groups(self, view: type[Aggregate[Any]]) -> list[Any]:
        """The groups of an aggregate that have entities, in order."""
        return [self._fold(view, values, several) for values, several in self.members(view)]

    def group(self, view: type[V], *values: object) -> V:
        """One group, empty or not."""
        known = dict(self.members(view))
        return self._fold(view, values, known.get(values, []))

    def members(self, view: type[View[Any]]) -> list[tuple[tuple[Any, ...], list[Held]]]:
        found: dict[tuple[Any, ...], list[Held]] = {}
        for values, _place, held in self.entries(view):
            found.setdefault(values, []).append(held)
        groups = list(found.items())
        sort_by_keys(groups, [rule for rule in _rules(view).values() if rule.kind == "key"])
        return groups

    def _fold(self, view: type[V], values: tuple[Any, ...], several: list[Held]) -> V:
        rules = _rules(view).items()
        keys = [name for name, rule in rules if rule.kind == "key"]
        fields = {name: self._as_declared(view, name, value) for name, value in zip(keys, values, strict=True)}
        for name, rule in [each for each in rules if each[0] not in fields]:
            fields[name] = fold(rule, self.folded(rule, several), self._declared(view, name))
        return view(**fields)

    def folded(self, rule: Rule, several: list[Held]) -> list[list[Any]]:
        """What a rule names of several entities, in the order of their keys.

        Not of those that lack any of it, or for which its condition does not hold.
        """
        several = [held for held in several if rule.where is None or rule.where.test(held.entity)]
        routes = [path_of(given).names for given in rule.given_fields]
        ordered = sorted(several, key=lambda held: [comparable(part) for part in place_of(held.entity)[1]])
        rows = [[self.value(held, route) for route in routes] for held in ordered]
        return [row for row in rows if all(each is not None for each in row)]

    # The rows of a store.

    def lists(self, view: type[View[Any]]) -> list[tuple[Any, ...]]:
        """The values with which a view is paged: of a feed each member's, else none."""
        if not issubclass(view, Feed):
            return [()]
        return list(dict.fromkeys([each.member for each in self.sides(view).memberships]))

    def listing(self, view: type[View[Any]], *equal: object) -> list[Any]:
        """All rows of a view as pages show them, in order; of a feed, those of one member."""
        return _naive(view).rows(self, view, *equal)

    def expected_rows(self) -> dict[tuple[str, str], int]:
        """How many raw rows there are, by table and name of the keyspace; two further names are of table `views`.

        `back-references`: of holders whose source must reach them; `holds`: of those that forbid a delete.
        """
        counted: dict[tuple[str, str], int] = {}
        for view in self.views:
            counted.update(_naive(view).counted(self, view))
        entities = [held.entity for held in self.held.values()]
        counted["views", "back-references"] = sum(len(self._wanted.back_references(each)) for each in entities)
        counted["views", "holds"] = sum(len(self._wanted.holds_on(each)) for each in entities)
        return counted


class NaiveView(NamedTuple):
    """How the oracle computes one kind of view: its rows in order, and its raw rows by table and keyspace."""

    rows: Callable[..., list[Any]]
    counted: Callable[[Oracle, Any], dict[tuple[str, str], int]]


NAIVE_VIEWS: Final[dict[type, NaiveView]] = {
    Index: NaiveView(Oracle.rows, count_index),
    Feed: NaiveView(Oracle.rows, count_feed),
    Aggregate: NaiveView(Oracle.groups, count_aggregate),
}
"""By the base class of declarations; a test that registers a new kind of view adds the naive way to compute it."""


def _naive(view: type[View[Any]]) -> NaiveView:
    return next(NAIVE_VIEWS[base] for base in view.__mro__ if base in NAIVE_VIEWS)
