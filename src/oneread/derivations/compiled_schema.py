"""A compiled schema: what its declarations and the numbers of a store make, which no store changes.

Openings of one schema with equal numbers share it (docs/decisions/0133-compiled-schemas-are-shared.md). See "Tables"
and "Bodies" of the decisions page.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, NamedTuple

import msgspec

from oneread.derivations.copies import Reference
from oneread.derivations.core_programs import CorePrograms
from oneread.derivations.counter_fields import ShownCounters
from oneread.derivations.derivation import CompiledView, key_values
from oneread.derivations.entity_type import EntityType
from oneread.derivations.expiry import ExpiryIndex
from oneread.derivations.probes import Probes
from oneread.derivations.replacing import Replacing
from oneread.derivations.rollups import Rollups
from oneread.errors import Corrupt, InvalidKey, UsageError
from oneread.models.expiry import ExpiryRule
from oneread.models.layout import Layout
from oneread.models.model import Model, stored_name
from oneread.models.older import OlderLayout
from oneread.models.paths import path_of
from oneread.models.references import OTHER_CLASS, Copy, Ref
from oneread.models.registry import EntityKind, target_of
from oneread.models.types import Named
from oneread.models.versions import StoredLayout, StoredRules
from oneread.plans.arguments import refuse_unawaited
from oneread.store.keys import kind_part, view_part
from oneread.store.limits import LAST_NUMBER
from oneread.transactions.change_log import LoggedAs, owning_log
from oneread.transactions.derived_writes import Group
from oneread.transactions.group_shards import MOST_SHARDS
from oneread.transactions.outbox import FEED, feed_row, group_of_root, is_group_root, kind_of
from oneread.transactions.sequences import NumberSequence, TakenNumber


class StoredForm(NamedTuple):
    """How a store keeps what is derived, by how much of it one commit changes."""

    has_cells: bool
    """Whether copied values from which nothing follows are in cells beside documents."""
    most_shards: int
    """The rows that a group may be spread over."""


SPANNING_FORM: Final = StoredForm(has_cells=False, most_shards=1)
"""That of stores whose transactions span rows."""
ROW_FORM: Final = StoredForm(has_cells=True, most_shards=MOST_SHARDS)
"""That of stores that change one row at a time."""


class FormerView(msgspec.Struct, frozen=True):
    """A view that the schema does not declare and writes all the same; names are those in the store.

    A former generation of a view answers until that one is built, `former_of`; what is of none is read by older
    programs alone.
    """

    name: str
    former_of: str
    model: str
    """What it is about: an entity class or, for an index over groups, an aggregate."""
    rules: StoredRules


class SchemaNumbers(msgspec.Struct, frozen=True):
    """The numbers that a store has given to declarations, by stored name, and the form in which it keeps rows."""

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
    logged: Mapping[str, int] = {}
    """The version of the schema since which the entities of a model are logged."""
    formers: tuple[FormerView, ...] = ()
    """Former generations of views, which are read beside them, and views that older programs read alone."""
    form: StoredForm = SPANNING_FORM


class CompiledSchema(msgspec.Struct, frozen=True, eq=False):
    """All that follows from declarations and numbers. Made by `compile_schema`; may be used by many threads at once."""

    names: Named
    """The declared classes by name."""
    models: tuple[type[Model[Any]], ...]
    numbers: SchemaNumbers
    nullable: frozenset[type]
    """Copy classes whose fields may be None although their annotations do not say so."""
    kinds: Mapping[type, EntityKind]
    kinds_by_prefix: Mapping[bytes, EntityKind]
    views: Mapping[type, CompiledView]
    replaced: Mapping[type, Replacing]
    """Views that replace another one, and those that are replaced."""
    logs: Mapping[type, bytes]
    """The change logs of watched views and logged models."""
    logged: Mapping[bytes, LoggedAs]
    """How changed rows are logged, by their prefixes: those that pages of watched views merge, too, and entities."""
    shards: Mapping[bytes, int]
    """The rows of each group of those aggregates whose groups have several, by prefix."""
    entity_types: Mapping[type, EntityType]
    any_types: Mapping[bytes, EntityType]
    """An entity type of each kind, by prefix, for what all variants have in common."""
    stored_types: Mapping[type, EntityType]
    """Those whose entities are stored."""
    older: Mapping[type, tuple[OlderLayout[Any], ...]]
    """The layouts before the current one that rows of an entity class may have."""
    expiries: Mapping[bytes, ExpiryRule]
    releasing: frozenset[bytes]
    """The kinds whose entities may have unique values that have expired: they give them up where others want them."""
    vanishing: frozenset[bytes]
    """The kinds of which what is stored may count as absent: it expires, or goes with a source."""
    held: frozenset[bytes]
    """The kinds whose deletes a reference may forbid."""
    with_hidden: frozenset[bytes]
    """The kinds with entities that have hidden copies."""
    with_totals: frozenset[bytes]
    """The kinds with entities that show totals."""
    rollups: Rollups
    probes: Probes
    core_programs: CorePrograms

    @property
    def formers(self) -> frozenset[type]:
        """The views that this schema does not declare and writes all the same."""
        names = {each.name for each in self.numbers.formers}
        return frozenset([cls for cls in self.views if names and stored_name(cls) in names])

    @property
    def counters(self) -> ShownCounters:
        """The counters that entities show."""
        return self.rollups.counters

    @property
    def group_at(self) -> Callable[[bytes], Group | None] | None:
        """From a row in `counts` to its group, if entities or indexes show that; None where they show none."""
        return self.rollups.group_at if self.rollups.shows_groups else None

    def layout_of_copy(self, copy: type[Copy[Any]]) -> Layout[Any]:
        """How copies of a class are in documents."""
        return Layout(copy, None, nullable=self.nullable, names=self.names)

    def given_key(self, model: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
        """The key of an entity as a call gives it: its parts, or one reference or copy that refers to the entity.

        Raises:
            InvalidKey: it refers to another class, or its key has other parts.
        """
        kind = self.kinds[model]
        at = given[0] if len(given) == 1 else None
        if not isinstance(at, (Ref, Copy)):
            return kind.flat(given)
        ref = at.ref if isinstance(at, Copy) else at
        cls = target_of(type(at), self.names) if isinstance(at, Copy) else ref.refers_to
        if cls is not None and not issubclass(cls, model):
            if kind.fields[0].target is not None:
                return kind.flat(given)
            raise InvalidKey(OTHER_CLASS, model=model, given=at)
        if type(ref.key) is not tuple or len(ref.key) != len(kind.names):
            raise InvalidKey(
                "the reference has a key of other parts than the model it refers to",
                model=model, declared=kind.names, given=at,
            )  # fmt: skip
        return ref.key

    def kind_of(self, key: bytes) -> EntityKind:
        """The kind of a root row."""
        try:
            return self.kinds_by_prefix[kind_part(key)]
        except KeyError:
            raise unknown_kind(key) from None

    def group_of(self, key: bytes) -> bytes:
        """The root row of the entity group that a root row is in: its own, or that of the root of a child."""
        kind = self.kind_of(key)
        root = kind.child_of
        if root is None:
            return key
        parts = kind.parts_of(key)
        return self.kinds[root].key(tuple([parts[place] for place in kind.root_places]))

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

    def kept(self, cls: Any) -> timedelta:
        """For how long what is in the log of a view or model is kept."""
        found: timedelta = cls.watched if cls in self.views else cls.logged
        return found

    def logged_class(self, key: bytes) -> type | None:
        """The view or model in whose change log this row is; None for one that this schema does not have."""
        return next((cls for cls, log in self.logs.items() if log == owning_log(key)), None)

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
        facts: dict[str, object] = {"view": view.cls.former_of or view.cls}
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
        found = self.stored_types.get(type(entity))
        if found is None and type(entity) in self.entity_types:
            raise UsageError("this model has variants_only: save one of its variants", given=type(entity))
        return found or self.type_of(entity)

    def any_type_of(self, key: bytes) -> EntityType:
        """An entity type of the kind of a root row, for what all variants have in common."""
        return self.any_types[self.kind_of(key).prefix]

    def is_expired(self, key: bytes, entity: object, now: int) -> bool:
        """Whether the entity of a root row, None for an absent one, counts as absent although it is stored."""
        rule = self.expiries.get(kind_part(key)) if entity is not None else None
        return rule is not None and rule.is_expired(entity, now)

    def expiry_indexes(self) -> list[CompiledView]:
        """The indexes by which a sweep finds what has expired."""
        return [view for cls, view in self.views.items() if issubclass(cls, ExpiryIndex)]

    def totals_of(self, names: Collection[str]) -> list[bytes]:
        """The prefixes in `counts` of the groups that entities of these models show, by their stored names."""
        kinds = {self.kinds[cls] for cls in self.entity_types if stored_name(cls) in names}
        return self.rollups.shown_by(kinds)

    def unready(self, building: frozenset[type]) -> frozenset[type]:
        """The views that cannot be read while some are being built: these, and the feeds that are made of them."""
        return building.union(cls for cls, view in self.views.items() if not building.isdisjoint(view.parts))

    def may_be_held(self, key: bytes) -> bool:
        """Whether any reference forbids the delete of rows of this kind."""
        return self.kind_of(key).prefix in self.held


def unknown_kind(key: bytes) -> Corrupt:
    """The error of a root row of no kind that the schema has."""
    return Corrupt("a row of a model that this schema does not have", key=key.hex())
