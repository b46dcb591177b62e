"""Compiles a schema: its declarations, with the numbers that a store gives to models, layouts and views.

Each step takes what those before it made. The order is that of dependence: views need the kinds of their entities,
references are complete when all views have been added, and entity types need all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from oneread.derivations.access import Accesses
from oneread.derivations.aggregates import AggregateView, check_folds, keyspace_fields
from oneread.derivations.compiled_schema import CompiledSchema, SchemaNumbers
from oneread.derivations.core_programs import CorePrograms
from oneread.derivations.derivation import VIEW_KINDS, CompiledView, Compiling, ViewKind, is_emitted, kind_of_view
from oneread.derivations.entity_type import EntityType
from oneread.derivations.expiry import model_expiry, own_expiry
from oneread.derivations.indexes import IndexView, check_index, index_options
from oneread.derivations.probes import Probes
from oneread.derivations.reference_builder import ReferenceBuilder
from oneread.derivations.replacing import replaced_views
from oneread.derivations.rollups import Rollups
from oneread.derivations.views import Aggregate, Feed, Index, View
from oneread.errors import InvalidDeclaration
from oneread.models.expiry import ExpiryRule
from oneread.models.layout import Layout
from oneread.models.model import Model, stored_name
from oneread.models.older import OlderLayout
from oneread.models.registry import EntityKind, root_model
from oneread.models.types import Named
from oneread.models.variants import is_variants_only
from oneread.store.keys import KIND_BYTES, VIEW_BYTES, view_prefix
from oneread.transactions.change_log import LoggedAs, log_of, log_of_entities

VIEW_KINDS[Index] = ViewKind(IndexView, check_index, options=index_options, can_be_watched=True)
VIEW_KINDS[Aggregate] = ViewKind(AggregateView, check_folds, keyspace_fields)


class Declarations(NamedTuple):
    """The classes of a schema, with those that it adds."""

    models: tuple[type[Model[Any]], ...]
    views: tuple[type[View[Any]], ...]
    names: Named
    """All of them by name."""


def keyspace_names(view: type[View[Any]]) -> dict[str, str]:
    """Field to stored name of each field of a view that has a keyspace of its own."""
    return {name: f"{stored_name(view)}.{name}" for name in kind_of_view(view).keyspace_fields(view)}


class _References(NamedTuple):
    """The references of all models, complete, with what entity types need besides."""

    builder: ReferenceBuilder
    rollups: Rollups
    emitted: Mapping[EntityKind, Sequence[CompiledView]]
    """The views that entities of each kind emit."""


def compile_schema(declared: Declarations, numbers: SchemaNumbers) -> CompiledSchema:
    """Compiles declarations; raises InvalidDeclaration for those that cannot work."""
    models, names = declared.models, declared.names
    accesses = Accesses(names)
    kinds = _compile_kinds(declared, numbers)
    builder = ReferenceBuilder({stored_name(cls): cls for cls in models}, kinds, accesses)
    nullable = builder.nullable_copies()
    views = _ViewCompiler(numbers, accesses, kinds, nullable).compile_all(declared.views)
    logs = _logs(views, kinds, numbers)
    emitted = _complete_references(builder, views, kinds, has_cells=numbers.form.has_cells)
    references = _References(builder, Rollups(models, views, kinds, accesses), emitted)
    layouts = {cls: Layout(cls, numbers.layouts[stored_name(cls)], nullable=nullable, names=names) for cls in models}
    older = {cls: _compile_older(layout, numbers, names) for cls, layout in layouts.items()}
    entity_types = {cls: _compile_model(layout, kinds[cls], references) for cls, layout in layouts.items()}
    expiries = _expiries(kinds)
    logged = _logged(views, kinds, logs)
    return CompiledSchema(
        names=names,
        models=models,
        numbers=numbers,
        nullable=nullable,
        kinds=kinds,
        kinds_by_prefix={kind.prefix: kind for kind in kinds.values()},
        views=views,
        replaced=replaced_views(views, names),
        logs=logs,
        logged=logged,
        shards=_shards(views),
        entity_types=entity_types,
        any_types={kinds[cls].prefix: entity_types[cls] for cls in reversed(models)},
        stored_types={cls: each for cls, each in entity_types.items() if not is_variants_only(cls)},
        older=older,
        expiries=expiries,
        releasing=frozenset([*expiries, *_releasing(views.values(), kinds)]),
        vanishing=frozenset([*expiries, *(each.kind.prefix for each in entity_types.values() if each.going)]),
        held=frozenset(reference.kind.prefix for each in entity_types.values() for reference in each.holding),
        with_hidden=frozenset(each.kind.prefix for each in entity_types.values() if each.hidden),
        with_totals=frozenset(each.kind.prefix for each in entity_types.values() if each.rollups),
        rollups=references.rollups,
        probes=_compile_probes(entity_types, views, accesses, nullable),
        core_programs=CorePrograms(entity_types, expiries),
    )


def _compile_kinds(declared: Declarations, numbers: SchemaNumbers) -> dict[type, EntityKind]:
    roots = sorted({root_model(cls) for cls in declared.models}, key=stored_name)
    kinds: dict[type, EntityKind] = {
        cls: EntityKind(cls, numbers.kinds[stored_name(cls)], declared.names) for cls in roots
    }
    return {**kinds, **{cls: kinds[root_model(cls)] for cls in declared.models}}


class _ViewCompiler(NamedTuple):
    """Compiles the views of a schema."""

    numbers: SchemaNumbers
    accesses: Accesses
    kinds: Mapping[type, EntityKind]
    nullable: frozenset[type]

    def compile_all(self, views: tuple[type[View[Any]], ...]) -> dict[type, CompiledView]:
        """The compiled views in the order of declaration; those of groups are compiled after them, feeds last."""
        viewed = {view: self.accesses.viewed(view) for view in views}
        made: dict[type, CompiledView] = {}
        for view in sorted(views, key=lambda each: (issubclass(each, Feed), issubclass(viewed[each], Aggregate))):
            made[view] = self._compile(view, viewed[view], made)
        return {view: made[view] for view in views}

    def _compile(self, view: type[View[Any]], of: type[Any], made: Mapping[type, CompiledView]) -> CompiledView:
        numbers = self.numbers.views
        if issubclass(of, Aggregate) and of not in made:
            raise InvalidDeclaration("the aggregate of this view is not in the schema", view=view, aggregate=of)
        groups = made.get(of)
        model: Any = of if groups is None else groups.model
        prefixes = {field: view_prefix(*numbers[name]) for field, name in keyspace_names(view).items()}
        prefix = view_prefix(*numbers[stored_name(view)])
        if model not in self.kinds:
            raise InvalidDeclaration("the model of this view is not in the schema", view=view, model=model)
        compiling = Compiling(
            model, prefix, prefixes, self.accesses, self.kinds, self.nullable, groups, made,
            self.numbers.form.most_shards,
        )  # fmt: skip
        return kind_of_view(view).compile(view, compiling)


def _logs(
    views: Mapping[type, CompiledView], kinds: Mapping[type, EntityKind], numbers: SchemaNumbers
) -> dict[type, bytes]:
    entities = {
        cls: log_of_entities(kind.number, numbers.logged.get(stored_name(kind.cls), 0))
        for cls, kind in kinds.items()
        if kind.cls.logged is not None
    }
    return entities | {
        cls: log_of(view.prefix, numbers.watched.get(stored_name(cls), 0))
        for cls, view in views.items()
        if view.cls.watched is not None
    }


def _logged(
    views: Mapping[type, CompiledView], kinds: Mapping[type, EntityKind], logs: Mapping[type, bytes]
) -> dict[bytes, LoggedAs]:
    entities = {kind.prefix: LoggedAs(logs[cls], KIND_BYTES) for cls, kind in kinds.items() if cls in logs}
    return entities | {
        prefix: LoggedAs(logs[cls], 0 if view.merged else VIEW_BYTES)
        for cls, view in views.items()
        if cls in logs
        for prefix in (view.prefix, *view.merged)
    }


def _shards(views: Mapping[type, CompiledView]) -> dict[bytes, int]:
    aggregates = [view for view in views.values() if isinstance(view, AggregateView)]
    return {each.prefix: each.shards for each in aggregates if each.shards > 1}


def _releasing(views: Iterable[CompiledView], kinds: Mapping[type, EntityKind]) -> Iterator[bytes]:
    """The kinds that have unique values with a ttl of their own."""
    for view in views:
        if isinstance(view, IndexView) and view.unique and own_expiry(view.cls) is not None:
            yield kinds[view.model].prefix


def _expiries(kinds: Mapping[type, EntityKind]) -> dict[bytes, ExpiryRule]:
    found = {kind.prefix: model_expiry(kind.cls) for kind in kinds.values()}
    return {prefix: rule for prefix, rule in found.items() if rule is not None}


def _complete_references(
    builder: ReferenceBuilder, views: Mapping[type, CompiledView], kinds: Mapping[type, EntityKind], *, has_cells: bool
) -> dict[EntityKind, list[CompiledView]]:
    """Adds to references what views need of them; returns the views that entities emit, by kind."""
    emitted = [view for view in views.values() if is_emitted(view)]
    by_kind: dict[EntityKind, list[CompiledView]] = {}
    for view in emitted:
        builder.add_view(view)
        by_kind.setdefault(kinds[view.model], []).append(view)
    builder.mark_leaves(emitted, has_cells=has_cells)
    return by_kind


def _compile_older(layout: Layout[Any], numbers: SchemaNumbers, names: Named) -> tuple[OlderLayout[Any], ...]:
    return tuple(OlderLayout(each, layout, names) for each in numbers.older.get(stored_name(layout.cls), ()))


def _compile_model(layout: Layout[Any], kind: EntityKind, references: _References) -> EntityType:
    builder, rollups = references.builder, references.rollups
    for reference in builder.references(layout.cls).values():
        rollups.check_reference(layout.cls, reference)
    derivations = tuple(references.emitted.get(kind, ()))
    return EntityType(layout.cls, kind, layout, builder, derivations, rollups)


def _compile_probes(
    entity_types: Mapping[type, EntityType],
    views: Mapping[type, CompiledView],
    accesses: Accesses,
    nullable: frozenset[type],
) -> Probes:
    """The checks of new values that copies and views of other entities take."""
    probes = Probes(accesses)
    for entity_type in entity_types.values():
        for reference in entity_type.references:
            if reference.copy is not None:
                layout: Layout[Any] = Layout(reference.copy, None, nullable=nullable, names=accesses.names)
                probes.add_copy(reference, reference.copy, layout)
    for cls, view in views.items():
        for field, access, check in view.probed_values():
            if access.through is not None:
                probes.add_value(access.through, cls, field, check)
    return probes
