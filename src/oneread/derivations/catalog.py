"""The catalog: a schema compiled with the numbers that one store gives to models, layouts and views.

See "Tables" and "Bodies" of the decisions page.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from oneread.derivations import emitted_record
from oneread.derivations.access import Accesses
from oneread.derivations.aggregates import AggregateView, check_folds, keyspace_fields
from oneread.derivations.copies import NO_SOURCE, Reference, Source
from oneread.derivations.derivation import (
    VIEW_KINDS,
    CompiledView,
    Compiling,
    ViewKind,
    is_emitted,
    key_values,
    kind_of_view,
)
from oneread.derivations.entity_type import NOTHING_STORED, EntityState, EntityType
from oneread.derivations.expiry import ExpiryIndex, model_expiry
from oneread.derivations.indexes import IndexView, check_index, index_options
from oneread.derivations.probes import Probes
from oneread.derivations.reference_builder import ReferenceBuilder
from oneread.derivations.rollups import Rollups
from oneread.derivations.views import Aggregate, Feed, Index, View
from oneread.errors import Corrupt, InvalidDeclaration, InvalidKey, SchemaMismatch, UsageError
from oneread.models.layout import Layout
from oneread.models.model import Model, stored_name
from oneread.models.older import NewerLayout, OlderLayout
from oneread.models.paths import path_of
from oneread.models.references import OTHER_CLASS, Copy, Ref
from oneread.models.registry import EntityKind, root_model, target_of
from oneread.models.types import Named
from oneread.models.variants import is_variants_only
from oneread.models.versions import StoredLayout, StoredSchema
from oneread.plans.arguments import refuse_unawaited
from oneread.store.keys import VIEW_BYTES, kind_part, view_part, view_prefix
from oneread.store.limits import LAST_NUMBER
from oneread.transactions.change_log import LoggedAs, log_of
from oneread.transactions.outbox import FEED, feed_row, group_of_root, is_group_root, kind_of
from oneread.transactions.root import NO_ROOT, Root
from oneread.transactions.sequences import NumberSequence, TakenNumber

_UNKNOWN: Final = (
    "a newer program has changed this model, so that this one cannot dump, verify or repair its entities; run that "
    "with the program whose schema is the newest"
)

VIEW_KINDS[Index] = ViewKind(IndexView, check_index, options=index_options, can_be_watched=True)
VIEW_KINDS[Aggregate] = ViewKind(AggregateView, check_folds, keyspace_fields)


class SchemaNumbers(msgspec.Struct, frozen=True):
    """The numbers that a store has given to declarations, by stored name."""

    kinds: Mapping[str, int]
    """Of models."""
    layouts: Mapping[str, int]
    """Of the layouts of entity classes, as the program declares them."""
    views: Mapping[str, tuple[int, int]]
    """(id, generation) of views, and of `view.field` for fields with a keyspace of their own."""
    older: Mapping[str, tuple[StoredLayout, ...]] = {}
    """Layouts before that one, which rows of an entity class may still have."""
    last: int = LAST_NUMBER
    """The last number that was given."""
    watched: Mapping[str, int] = {}
    """The version of the schema since which a view is watched."""
    changes_one_row: bool = False
    """Whether the store changes one row at a time: it has copies in cells, and groups of several rows."""


def keyspace_names(view: type[View[Any]]) -> dict[str, str]:
    """Field to stored name of each field of a view that has a keyspace of its own."""
    return {name: f"{stored_name(view)}.{name}" for name in kind_of_view(view).keyspace_fields(view)}


class Catalog:
    """Compiles declarations; raises InvalidDeclaration for those that cannot work."""

    def __init__(
        self,
        models: tuple[type[Model[Any]], ...],
        views: tuple[type[View[Any]], ...],
        numbers: SchemaNumbers,
        names: Named,
    ) -> None:
        self.names = names
        """The declared classes by name."""
        self.models = models
        self._numbers = numbers
        self.kinds: dict[type, EntityKind] = self._number_kinds()
        self._by_prefix = {kind.prefix: kind for kind in self.kinds.values()}
        accesses = Accesses(self.names)
        references = ReferenceBuilder({stored_name(cls): cls for cls in models}, self.kinds, accesses)
        self._nullable = references.nullable_copies()
        self.views: dict[type, CompiledView] = self._compile_views(views, accesses)
        self.logs = {
            view.prefix: log_of(view.prefix, numbers.watched.get(stored_name(view.cls), 0))
            for view in self.views.values()
            if view.cls.watched is not None
        }
        """The change logs of watched views, by the views' prefixes."""
        self.logged = {
            prefix: LoggedAs(self.logs[view.prefix], 0 if view.merged else VIEW_BYTES)
            for view in self.views.values()
            if view.prefix in self.logs
            for prefix in (view.prefix, *view.merged)
        }
        """How changed rows are logged, by their prefixes: those that pages of watched views merge, too."""
        aggregates = [view for view in self.views.values() if isinstance(view, AggregateView)]
        self.shards = {each.prefix: each.shards for each in aggregates if each.shards > 1}
        """The rows of each group of those aggregates whose groups have several, by prefix."""
        emitted = [view for view in self.views.values() if is_emitted(view)]
        for view in emitted:
            references.add_view(view)
        references.mark_leaves(emitted, has_cells=numbers.changes_one_row)
        rollups = Rollups(models, self.views, self.kinds, accesses)
        by_kind: dict[EntityKind, list[CompiledView]] = {}
        for view in emitted:
            by_kind.setdefault(self.kinds[view.model], []).append(view)
        self.entity_types: dict[type, EntityType] = {
            cls: self._compile_model(cls, references, rollups, by_kind) for cls in models
        }
        expiries = {kind.prefix: model_expiry(kind.cls) for kind in self.kinds.values()}
        self.expiries = {prefix: rule for prefix, rule in expiries.items() if rule is not None}
        self._stored = {cls: each for cls, each in self.entity_types.items() if not is_variants_only(cls)}
        self.probes = self._add_probes(accesses)
        self._references = tuple(each for cls in models for each in self.entity_types[cls].references)
        going = (each.kind.prefix for each in self.entity_types.values() if each.going)
        self.vanishing = frozenset([*self.expiries, *going])
        """The kinds of which what is stored may count as absent: it expires, or goes with a source."""
        self._with_hidden = frozenset(each.kind.prefix for each in self.entity_types.values() if each.has_hidden)
        self.counters = rollups.counters
        self.group_at = rollups.group_at if rollups.shows_groups else None
        """From a row in `counts` to its group, if entities or indexes show that; None where they show none."""
        self._rollups = rollups
        self._with_totals = frozenset(each.kind.prefix for each in self.entity_types.values() if each.rollups)
        self._any_type = {self.kinds[cls].prefix: self.entity_types[cls] for cls in reversed(models)}

    def by_row(self) -> Catalog:
        """The same declarations, compiled for a store that changes one row at a time."""
        numbers = msgspec.structs.replace(self._numbers, changes_one_row=True)
        return Catalog(self.models, tuple(self.views), numbers, self.names)

    def _number_kinds(self) -> dict[type, EntityKind]:
        roots = sorted({root_model(cls) for cls in self.models}, key=stored_name)
        numbers, last = self._numbers.kinds, self._numbers.last
        kinds = {cls: EntityKind(cls, numbers[stored_name(cls)], self.names, last) for cls in roots}
        return {**kinds, **{cls: kinds[root_model(cls)] for cls in self.models}}

    def _compile_views(self, views: tuple[type[View[Any]], ...], accesses: Accesses) -> dict[type, CompiledView]:
        """The compiled views in the order of declaration; those of groups are compiled after them, feeds last."""
        viewed = {view: accesses.viewed(view) for view in views}
        made: dict[type, CompiledView] = {}
        for view in sorted(views, key=lambda each: (issubclass(each, Feed), issubclass(viewed[each], Aggregate))):
            made[view] = self._compile_view(view, viewed[view], made, accesses)
        return {view: made[view] for view in views}

    def _compile_view(
        self, view: type[View[Any]], of: type[Any], made: Mapping[type, CompiledView], accesses: Accesses
    ) -> CompiledView:
        numbers = self._numbers.views
        if issubclass(of, Aggregate) and of not in made:
            raise InvalidDeclaration("the aggregate of this view is not in the schema", view=view, aggregate=of)
        groups = made.get(of)
        model: Any = of if groups is None else groups.model
        prefixes = {field: view_prefix(*numbers[name]) for field, name in keyspace_names(view).items()}
        prefix = view_prefix(*numbers[stored_name(view)])
        if model not in self.kinds:
            raise InvalidDeclaration("the model of this view is not in the schema", view=view, model=model)
        compiling = Compiling(
            model, prefix, prefixes, accesses, self.kinds, self._nullable, groups, made, self._numbers.changes_one_row
        )
        return kind_of_view(view).compile(view, compiling)

    def _compile_model(
        self,
        cls: type[Model[Any]],
        references: ReferenceBuilder,
        rollups: Rollups,
        emitted: Mapping[EntityKind, Sequence[CompiledView]],
    ) -> EntityType:
        kind = self.kinds[cls]
        layout: Layout[Any] = Layout(
            cls, self._numbers.layouts[stored_name(cls)], nullable=self._nullable, names=self.names
        )
        kind.layouts.add(layout)
        for older in self._numbers.older.get(stored_name(cls), ()):
            kind.layouts.add_older(OlderLayout(older, layout, self.names))
        derivations = tuple(emitted.get(kind, ()))
        for reference in references.references(cls).values():
            rollups.check_reference(cls, reference)
        return EntityType(cls, kind, layout, references, derivations, rollups)

    def learn(self, stored: StoredSchema) -> None:
        """Learns the layouts that newer programs use, of which this one knows every field but those that they added.

        Only a program that may still write has such newer layouts.
        """
        for cls, entity_type in self.entity_types.items():
            known = stored.layouts_of(stored_name(cls)) if stored_name(cls) in stored.layouts else ()
            numbers = [each.number for each in known]
            own = entity_type.layout.layout_id
            for newer in known[numbers.index(own) + 1 :] if own in numbers else ():
                entity_type.kind.layouts.add_newer(NewerLayout(newer, entity_type.layout, self.names))

    def refuse_older(self, stored: StoredSchema) -> None:
        """Raises SchemaMismatch when a newer program has given an entity class another layout than this one's."""
        for cls, entity_type in self.entity_types.items():
            newest = stored.layouts.get(stored_name(cls))
            if newest is not None and newest.number != entity_type.layout.layout_id:
                known = {field.name for field in entity_type.layout.fields}
                unknown = [each.name for each in newest.fields if "." not in each.name and each.name not in known]
                raise SchemaMismatch(_UNKNOWN, model=cls, unknown=unknown, newest=stored.version)

    def _add_probes(self, accesses: Accesses) -> Probes:
        """The checks of new values that copies and views of other entities take."""
        probes = Probes(accesses)
        for entity_type in self.entity_types.values():
            for reference in entity_type.references:
                if reference.copy is not None:
                    probes.add_copy(reference, reference.copy, self.layout_of_copy(reference.copy))
        for cls, view in self.views.items():
            for field, access, check in view.probed_values():
                if access.through is not None:
                    probes.add_value(access.through, cls, field, check)
        return probes

    def layout_of_copy(self, copy: type[Copy[Any]]) -> Layout[Any]:
        """How copies of a class are in documents."""
        return Layout(copy, None, nullable=self._nullable, names=self.names)

    def given_key(self, model: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
        """The key of an entity as a call gives it: its parts, or one reference or copy that refers to the entity.

        Raises:
            InvalidKey: it refers to another class, or its key has other parts.
        """
        at = given[0] if len(given) == 1 else None
        if not isinstance(at, (Ref, Copy)):
            return given
        ref = at.ref if isinstance(at, Copy) else at
        cls = target_of(type(at), self.names) if isinstance(at, Copy) else ref.refers_to
        if cls is not None and not issubclass(cls, model):
            raise InvalidKey(OTHER_CLASS, model=model, given=at)
        kind = self.kinds[model]
        if type(ref.key) is not tuple or len(ref.key) != len(kind.names):
            raise InvalidKey(
                "the reference has a key of other parts than the model it refers to",
                model=model, declared=kind.names, given=at,
            )  # fmt: skip
        return ref.key

    def kind_of(self, key: bytes) -> EntityKind:
        """The kind of a root row."""
        try:
            return self._by_prefix[kind_part(key)]
        except KeyError:
            raise Corrupt("a row of a model that this schema does not have", key=key.hex()) from None

    def group_of(self, key: bytes) -> bytes:
        """The root row of the entity group that a root row is in: its own, or that of the root of a child."""
        kind = self.kind_of(key)
        root = kind.child_of
        if root is None:
            return key
        parts = dict(zip(kind.names, kind.parts_of(key), strict=True))
        return self.kinds[root].key(tuple([parts[name] for name in self.kinds[root].names]))

    def taken_number(self, key: bytes) -> TakenNumber | None:
        """The number that a root row's key has of the sequence of its group; None where keys have no such number."""
        kind, numbered = self.kind_of(key), self.any_type_of(key).numbered
        if numbered is None:
            return None
        number = kind.parts_of(key)[kind.names.index(numbered)]
        return TakenNumber(NumberSequence(self.group_of(key), kind.prefix), number)

    def name_of(self, key: bytes) -> str:
        """A root row's key for people: `Customer(7)`; of a group, or of a feed's task, the row that it is about."""
        if kind_of(key) == FEED:
            return self.name_of_row(feed_row(key))
        if is_group_root(key):
            return self.name_of_row(group_of_root(key))
        kind = self.kind_of(key)
        return f"{kind.cls.__name__}({', '.join(map(repr, kind.parts_of(key)))})"

    def name_damaged(self, error: Corrupt, table: object = "", key: object = b"") -> None:
        """Adds to the error of a damaged row what the row is called, unless its key is damaged, too."""
        table, key = table or error.facts.get("table"), key or error.facts.get("key")
        if "row" in error.facts or not isinstance(key, bytes):
            return
        with suppress(Corrupt, ValueError, IndexError):
            named = self.name_of(key) if table == "roots" else self.name_of_row(key)
            error.facts = {"row": named, **error.facts}

    def name_of_row(self, key: bytes) -> str:
        """A derived row's key for people: `Home.items(3, ...)`."""
        every = [space for each in self.views.values() for space in each.keyspaces(self.kinds[each.model])]
        found = next((each for each in every if each.prefix == view_part(key)), None)
        if found is None:
            raise Corrupt("a row of a view that this schema does not have", key=key.hex())
        return f"{found.name}({', '.join(map(repr, found.values(key)))})"

    def claim_facts(self, key: bytes) -> dict[str, object]:
        """What an error says of a claim: the view, the fields of the entity, and the value unless it is hashed."""
        view = next((each for each in self.views.values() if each.prefix == view_part(key)), None)
        if view is None:
            return {}
        fields = [".".join(path_of(part.rule.field).names) for part in view.key.parts]
        facts: dict[str, object] = {"view": view.cls}
        facts |= {"field": fields[0]} if len(fields) == 1 else {"fields": fields}
        if not view.key.hashed:
            values = key_values(view.key)(key)
            facts["value"] = values[0] if len(values) == 1 else values
        return facts

    def check_values(self, model: type, values: Mapping[str, Any]) -> None:
        """Raises InvalidValue for the first of these values, by field, that a save of the model would refuse."""
        self.entity_types[model].check_values(values)

    def type_of(self, entity: object) -> EntityType:
        """The entity type of an entity's class."""
        try:
            return self.entity_types[type(entity)]
        except KeyError:
            refuse_unawaited(entity)
            raise UsageError("not an entity of a model of the schema", given=type(entity)) from None

    def going(self, entity: Any) -> list[tuple[Reference, bytes]]:
        """The sources that an entity goes with when they are deleted, each with its reference; none of None."""
        entity_type = None if entity is None else self.type_of(entity)
        if entity_type is None or not entity_type.going:
            return []
        refs = entity_type.refs(entity)
        return [(each, key) for each in entity_type.going for key in refs[each.name]]

    def stored_type_of(self, entity: object) -> EntityType:
        """The entity type of an entity that is to be stored."""
        found = self._stored.get(type(entity))
        if found is None and type(entity) in self.entity_types:
            raise UsageError("this model has variants_only: save one of its variants", given=type(entity))
        return found or self.type_of(entity)

    def any_type_of(self, key: bytes) -> EntityType:
        """An entity type of the kind of a root row, for what all variants have in common."""
        return self._any_type[self.kind_of(key).prefix]

    def state(self, key: bytes, root: Root) -> EntityState:
        """The state that a root row holds."""
        if root is NO_ROOT:
            return NOTHING_STORED
        record = emitted_record.decode_record(root.emitted)
        if root.body is None:
            return EntityState(None, {}, record)
        layouts = self.kind_of(key).layouts
        entity, older = layouts.whole(root.body), layouts.older(root.body)
        if older is None:
            return EntityState(entity, self.entity_types[type(entity)].used_in(record), record, body=root.body)
        used = {} if older.stored.renew else self.entity_types[type(entity)].used_in(record)
        return EntityState(entity, used, record, older.unfilled, older.stored.notify_again, older.keeping(root.body))

    def source(self, key: bytes, root: Root) -> Source:
        """A root row as its holders see it."""
        if root.body is None:
            return (
                self.any_type_of(key).source_of_deleted(emitted_record.decode_record(root.emitted))
                if root.version
                else NO_SOURCE
            )
        layouts = self.kind_of(key).layouts
        entity = layouts.whole(root.body)
        entity_type = self.entity_types[type(entity)]
        if not entity_type.has_hidden:
            return Source(entity, {}, existed=True)
        older = layouts.older(root.body)
        is_held = older is None or not older.stored.renew
        return Source(
            entity, entity_type.used_in(emitted_record.decode_record(root.emitted)) if is_held else {}, existed=True
        )

    def is_expired(self, key: bytes, entity: object, now: int) -> bool:
        """Whether the entity of a root row, None for an absent one, counts as absent although it is stored."""
        rule = self.expiries.get(kind_part(key)) if entity is not None else None
        return rule is not None and rule.is_expired(entity, now)

    def expiry_indexes(self) -> list[CompiledView]:
        """The indexes by which a sweep finds what has expired."""
        return [view for cls, view in self.views.items() if issubclass(cls, ExpiryIndex)]

    def is_current(self, key: bytes, root: Root) -> bool:
        """Whether a root row has the current layout and a record of all declared views (commit protocol, rule 17)."""
        record = emitted_record.decode_record(root.emitted)
        if root.body is None:
            return self.any_type_of(key).covers_views(record, alive=False)
        entity_type = self.entity_types[self.kind_of(key).layouts.class_of(root.body)]
        layout = entity_type.layout
        if not root.body.startswith((layout.prefix, layout.wide_prefix)) or not entity_type.covers_views(
            record, alive=True
        ):
            return False
        return not entity_type.needs_state or entity_type.is_current(self.state(key, root))

    def may_lack(self, key: bytes, body: bytes) -> bool:
        """Whether a row may lack values of its sources: hidden copies, or fields that older layouts of copies lack."""
        return kind_part(key) in self._with_hidden or self.kind_of(key).layouts.older(body) is not None

    def totals_of(self, names: Collection[str]) -> list[bytes]:
        """The prefixes in `counts` of the groups that entities of these models show, by their stored names."""
        kinds = {self.kinds[cls] for cls in self.entity_types if stored_name(cls) in names}
        return self._rollups.shown_by(kinds)

    def may_lack_totals(self, key: bytes, body: bytes) -> bool:
        """Whether a row may lack totals that its entity shows: only one of an older layout does."""
        return kind_part(key) in self._with_totals and self.kind_of(key).layouts.older(body) is not None

    def unready(self, building: frozenset[type]) -> frozenset[type]:
        """The views that cannot be read while some are being built: these, and the feeds that are made of them."""
        return building.union(cls for cls, view in self.views.items() if not building.isdisjoint(view.parts))

    def withhold(self, building: Collection[type]) -> None:
        """Leaves totals of these aggregates empty in what users read: they would be too small."""
        with_totals = [each for each in self.entity_types.values() if each.rollups]
        found = {
            each.cls: [one.field for one in each.rollups if one.number is not None and one.number.view in building]
            for each in with_totals
        }
        fields = {cls: names for cls, names in found.items() if names}
        for kind in {each.kind for each in with_totals}:
            kind.layouts.withhold(fields)

    def may_be_held(self, key: bytes) -> bool:
        """Whether any reference forbids the delete of rows of this kind."""
        kind = self.kind_of(key)
        return any(each.kind is kind and each.on_delete == "refuse" for each in self._references)
