"""Rollups: fields in which an entity shows numbers of the group that has its key.

A group is a source like an entity, but its holder needs no back-reference: it is the entity whose key is the group's.
So a change of a group is followed by one root row at most. See docs/explanation/rollups.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from oneread.derivations.access import Accesses, FieldRoute, GroupField
from oneread.derivations.aggregates import AggregateView
from oneread.derivations.copies import Reference
from oneread.derivations.counter_fields import ShownCounter, ShownCounters
from oneread.derivations.derivation import CompiledView
from oneread.derivations.emitted_record import Record
from oneread.derivations.group_indexes import IndexedGroups, indexed_groups
from oneread.errors import InvalidDeclaration
from oneread.models.fields import CounterName, defaults_of, is_counter, is_rollup
from oneread.models.model import Model, key_names
from oneread.models.references import is_copied
from oneread.models.registry import EntityKind
from oneread.models.types import field_types, types_of, unwrap
from oneread.store.keys import row_part, view_part
from oneread.transactions.derived_writes import Group
from oneread.transactions.root_rows import GroupNumbers


class ShownAggregate:
    """An aggregate whose groups entities show, or indexes.

    `rank` is that of the `fields` that entities show, `kinds` are the entities' kinds.
    """

    def __init__(
        self,
        view: AggregateView,
        rank: int,
        fields: tuple[str, ...],
        kinds: tuple[EntityKind, ...],
        indexed: IndexedGroups | None,
    ) -> None:
        self.view = view.cls
        self.name = view.cls.__name__
        self.rank = rank
        self.kinds = kinds
        self.indexed = indexed
        self._view = view
        self._extrema = tuple(each for each in view.extrema if each.field in fields)
        self._sums, *_hidden = view.tokens
        self.tokens = view.tokens
        self.key = view.prefix

    def key_of(self, suffix: bytes) -> bytes:
        """The key in `counts` of the group with this key."""
        return self.key + suffix

    def group(self, suffix: bytes) -> Group:
        """The group with this key, as it is behind the view's prefix."""
        view = self._view
        extrema = tuple(each.first_rows(suffix) for each in self._extrema)
        holders = tuple(kind.root_of(suffix) for kind in self.kinds)
        return Group(view.prefix + suffix, self.rank, extrema, holders, self.indexed)

    def group_at(self, key: bytes) -> Group:
        """The group with this row in `counts`."""
        return self.group(row_part(self._view.group_row(key)))

    @property
    def extrema(self) -> list[str]:
        """The extrema that entities show: each is the first rows of a keyspace of this name."""
        return [f"{self.name}.{each.field}" for each in self._extrema]

    @property
    def watched(self) -> list[str]:
        """The extrema whose rows change what entities or indexes show."""
        return [*self.extrema, *(() if self.indexed is None else self.indexed.extrema_names)]

    def touched(self, before: Record, after: Record) -> Iterable[Group]:
        """The groups whose numbers may differ after a commit that turns one record into another.

        Sums alone do not tell: a new greatest value changes none.
        """
        if all(before.get(token) == after.get(token) for token in self.tokens):
            return ()
        both = (*before.get(self._sums, ())[::2], *after.get(self._sums, ())[::2])
        return [self.group(suffix) for suffix in dict.fromkeys(both)]

    def whole_number(self, field: str) -> int | None:
        """The place in a group's row of the whole number that a field is; None for one that is made of more."""
        return self._view.whole_number(field)

    def reader(self, field: str) -> Callable[[GroupNumbers], Any]:
        """The function from the numbers of a group to a field of its row."""
        return self._view.reader(field, [each.field for each in self._extrema])


class Rollup(NamedTuple):
    """One field of an entity that shows a number of the group with the entity's key, or a named counter."""

    field: str
    number: GroupField | None
    """None for a counter."""
    shown: ShownAggregate | ShownCounter
    read: Callable[[GroupNumbers], Any]


class Rollups:
    """All rollups of a schema, compiled. Raises InvalidDeclaration for those that cannot work."""

    def __init__(
        self,
        models: tuple[type[Model[Any]], ...],
        views: Mapping[type, CompiledView],
        kinds: Mapping[type, EntityKind],
        accesses: Accesses,
    ) -> None:
        self._views = views
        self._kinds = kinds
        self._accesses = accesses
        self._fields = {cls: self._declared(cls) for cls in models}
        self._counters = {cls: self._declared_counters(cls) for cls in models}
        self.counters = ShownCounters([each for fields in self._counters.values() for each in fields.values()])
        groups = [(cls, name, found) for cls, fields in self._fields.items() for name, found in fields.items()]
        indexed = indexed_groups(views.values())
        shown = dict.fromkeys([*(each.view for *_, each in groups), *indexed])
        self._shown = {view: self._compile(view, groups, indexed.get(view)) for view in shown}

    def of_model(self, cls: type[Model[Any]]) -> tuple[Rollup, ...]:
        """The rollups of an entity class."""
        found = ((name, each, self._shown[each.view]) for name, each in self._fields[cls].items())
        totals = [Rollup(name, each, shown, shown.reader(each.field)) for name, each, shown in found]
        return (*totals, *(Rollup(name, None, each, each.value) for name, each in self._counters[cls].items()))

    def made_of(self, kind: EntityKind) -> tuple[ShownAggregate, ...]:
        """The aggregates of entities of this kind whose groups are shown anywhere, by entities or indexes."""
        return tuple(shown for view, shown in self._shown.items() if self._kinds[self._views[view].model] is kind)

    def shown_by(self, kinds: Collection[EntityKind]) -> list[bytes]:
        """The prefixes in `counts` of the groups that entities of these kinds show."""
        return [each.key for each in self._shown.values() if any(kind in kinds for kind in each.kinds)]

    @property
    def shows_groups(self) -> bool:
        """Whether entities or indexes show groups of any aggregate."""
        return bool(self._shown)

    def group_at(self, key: bytes) -> Group | None:
        """The group with this row in `counts`, if entities or indexes show it."""
        shown = next((each for each in self._shown.values() if each.key == view_part(key)), None)
        return None if shown is None else shown.group_at(key)

    def check_reference(self, cls: type[Model[Any]], reference: Reference) -> None:
        """Refuses a copy of a total of the holder's own kind: each insert would commit all its siblings again."""
        source = reference.access.target
        assert source is not None
        hidden = [name.split(".")[1:] for name, _get, _type in reference.hidden]
        for route in [*(route.split(".") for _name, route in reference.routes if route), *hidden]:
            found = self._group_at(source, tuple(route))
            if found is not None and self._kinds[self._views[found.view].model] is self._kinds[cls]:
                raise InvalidDeclaration(
                    "this copies a total of the very entities that would hold it, so that each new one would commit "
                    "all the others again; read the total beside them: db.get(...)",
                    model=cls, field=reference.name, total=f"{found.view.__name__}.{found.field}",
                )  # fmt: skip

    def _group_at(self, model: type[Model[Any]], route: FieldRoute) -> GroupField | None:
        """The number of a group that is at the end of a route; None for another field."""
        name, *rest = route
        if not rest:
            marker = defaults_of(model).get(name)
            return GroupField.of(model, name, marker) if is_rollup(marker) and not is_counter(marker) else None
        access = self._accesses.of_route(model, (name,))
        if access.target is None:
            return None
        if access.copy is not None and is_copied(access.copy, rest[0]):
            rest[:1] = self._accesses.source_route(access.copy, rest[0])
        return self._group_at(access.target, tuple(rest))

    def _declared(self, cls: type[Model[Any]]) -> dict[str, GroupField]:
        """The rollups of a model by field, checked."""
        found = {
            name: GroupField.of(cls, name, marker)
            for name, marker in defaults_of(cls).items()
            if is_rollup(marker) and not is_counter(marker)
        }
        names = self._accesses.names
        for name, group in found.items():
            if name in key_names(cls):
                raise InvalidDeclaration("a part of the key cannot be a rollup", model=cls, field=name)
            if group.view not in self._views:
                raise InvalidDeclaration(
                    "the aggregate of this rollup is not in the schema", model=cls, field=name, aggregate=group.view
                )
            own = unwrap(field_types(cls, names)[name])
            its = unwrap(field_types(group.view, names)[group.field])
            if (own.bare, own.optional) != (its.bare, its.optional):
                raise InvalidDeclaration(
                    "a rollup has the type of the number that it shows",
                    model=cls, field=name, declared=own.bare | None if own.optional else own.bare,
                    number=its.bare | None if its.optional else its.bare,
                )  # fmt: skip
            self._check_key(cls, name, group.view)
            self._accesses.of_route(cls, (name,))  # a circle shows here
        return found

    def _declared_counters(self, cls: type[Model[Any]]) -> dict[str, ShownCounter]:
        """The fields of a model that show counters, checked."""
        found: dict[str, ShownCounter] = {}
        kind = self._kinds[cls]
        for name, marker in defaults_of(cls).items():
            if isinstance(marker, CounterName):
                raise InvalidDeclaration(
                    "a field shows a counter by rollup(counter(...), every=10)", model=cls, field=name
                )
            if not is_counter(marker):
                continue
            if name in key_names(cls):
                raise InvalidDeclaration("a part of the key cannot be a rollup", model=cls, field=name)
            own = types_of(cls, self._accesses.names)[name]
            if own.bare is not int or own.metadata:
                raise InvalidDeclaration(
                    "a counter is shown by an int without a constraint: what was added cannot be refused afterwards",
                    model=cls, field=name, declared=own.bare,
                )  # fmt: skip
            found[name] = ShownCounter.of(cls, name, marker, kind)
        return found

    def _check_key(self, cls: type[Model[Any]], name: str, aggregate: type) -> None:
        """Refuses an aggregate whose groups do not have the keys of the entities that would show them."""
        kind, parts = self._kinds[cls], self._views[aggregate].key.parts
        is_plain = all(part.rule.none is None and part.rule.size is None for part in parts)
        if is_plain and len(parts) == 1 and parts[0].kind is kind:
            return
        own = [
            (each.name, each.elements[0].type if each.target is None else self._kinds[each.target])
            for each in kind.fields
        ]
        if is_plain and own == [(part.field, part.kind or part.access.type) for part in parts]:
            return
        raise InvalidDeclaration(
            "the groups of this aggregate do not have the keys of this model: group by one reference to it, or by the "
            "fields of its key under their own names",
            model=cls, field=name, aggregate=aggregate, key=kind.names, groups=[part.field for part in parts],
        )  # fmt: skip

    def _compile(
        self, view: type, groups: list[tuple[type[Model[Any]], str, GroupField]], indexed: IndexedGroups | None
    ) -> ShownAggregate:
        """`groups` are the rollups of all models: (model, field, number)."""
        compiled = self._views[view]
        assert isinstance(compiled, AggregateView), "a rollup names a field of an aggregate"
        here = [(cls, name, found.field) for cls, name, found in groups if found.view is view]
        rank = max((self._accesses.of_route(cls, (name,)).rank for cls, name, _field in here), default=0)
        fields = tuple(dict.fromkeys(field for _cls, _name, field in here))
        kinds = tuple(dict.fromkeys(self._kinds[cls] for cls, _name, _field in here))
        return ShownAggregate(compiled, rank, fields, kinds, indexed)
