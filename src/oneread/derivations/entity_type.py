"""Carriers: everything oneread does with an entity of one class when it is written, put together once.

See rules 3, 4, 13 and 14 of the commit protocol.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from oneread.derivations import emitted_record
from oneread.derivations.copies import NO_SOURCE, CopiedValues, Reference, Source
from oneread.derivations.derivation import CompiledView
from oneread.derivations.emitted_record import COPIED, HELD, HIDDEN, LAST_VALUES, REFERENCES, Emission, Record
from oneread.derivations.keyed import reference_signature
from oneread.models.fields import CREATED, GENERATED, UPDATED, defaults_of
from oneread.models.layout import Layout
from oneread.models.model import Model
from oneread.models.registry import EntityKind
from oneread.models.set_order import order_sets
from oneread.store.keys import entity_part
from oneread.transactions.root import Root

Refs: TypeAlias = dict[str, list[bytes]]
"""Field name to the keys of the commit rows that it refers to."""


class SourceMap(Protocol):
    """Sources by the key of their commit row; an unknown key is nobody."""

    def __getitem__(self, key: bytes, /) -> Source: ...


class EntityState(NamedTuple):
    """What a commit row says.

    Arguments:
        entity: None when it is absent or deleted.
        used: hidden copies by name.
        record: the emitted record.
        unfilled: copies that lack values, because the row was written under an older layout.
        retell: those who copy from it must be told anew, whatever they were told.
    """

    entity: Any
    used: Mapping[str, Any]
    record: Record
    unfilled: frozenset[str] = frozenset()
    retell: bool = False


class FilledEntity(NamedTuple):
    """An entity as it shall stand."""

    entity: Any
    body: bytes
    emission: Emission


class EntityType:
    """One entity class.

    Arguments:
        cls: the class, a model or a variant of one.
        kind: the table it lives in.
        layout: of its documents.
        references: its fields that refer.
        derivations: the views of its kind; those of other variants contribute nothing.
        told: what others copy from it; None when nobody does.
    """

    def __init__(
        self,
        cls: type[Model[Any]],
        kind: EntityKind,
        layout: Layout[Any],
        references: Mapping[str, Reference],
        derivations: tuple[CompiledView, ...],
        told: CopiedValues | None,
    ) -> None:
        self.cls = cls
        self.kind = kind
        self.layout = layout
        self.references = tuple(references.values())
        self.derivations = tuple(each for each in derivations if issubclass(cls, each.model))
        self._empty: Record = {token: [] for each in derivations for token in each.tokens}
        self.told = told
        defaults = defaults_of(cls).items()
        self.created = tuple(name for name, default in defaults if default == CREATED)
        self.generated = tuple(name for name, default in defaults if default == GENERATED)
        self.updated = tuple(name for name, default in defaults if default == UPDATED)
        self._copies = tuple(each for each in self.references if each.copy is not None)
        self._elements = tuple((each.name, reference_signature(each.name)) for each in self.references if not each.many)
        self._plain = tuple(each for each in self.references if each.copy is None)
        self.tracked = tuple(each for each in self.references if each.tracked)
        self.holding = tuple(each for each in self.references if each.on_delete == "refuse")
        self._hidden = tuple(each for each in self.references if each.hidden)
        self.has_hidden = bool(self._hidden)
        self._empty_tokens = frozenset(self.empty_record())
        self._hidden_names = tuple(name for each in self._hidden for name, _get, _type in each.hidden)
        self._living = self._empty_tokens | {HIDDEN} if self._hidden else self._empty_tokens
        self._hidden_types = {name: kind for each in self._hidden for name, _get, kind in each.hidden}

    def used_in(self, record: Record) -> dict[str, Any]:
        """The hidden copies that a record holds, by name."""
        values = record.get(HIDDEN)
        if not values or not self._hidden_names:
            return {}
        types = self._hidden_types
        return {name: msgspec.convert(value, types[name]) for name, value in values.items() if name in types}

    def fill(
        self,
        key: bytes,
        entity: Any,
        refs: Refs,
        before: EntityState,
        sources: SourceMap,
        told: Container[bytes] = (),
        untold: AbstractSet[bytes] = frozenset(),
    ) -> FilledEntity:
        """The entity with its copies filled, its document, and what it tells.

        Arguments:
            key: the commit row.
            entity: as the caller wants it; copies may be unfilled.
            refs: what its fields refer to, from `refs`.
            before: what the commit row says; its copies are taken over where the reference is the same.
            sources: of every reference that is not the same as before, and of those in `told`.
            told: keys of the sources whose values are taken anew although the reference is the same: of those that
                changed, or may have.
            untold: tokens of views that are left out, as if they were not declared.

        Raises:
            InvalidValue: a field does not fit its type or constraint.
            MissingReference: a new reference to nothing.
            InvalidKey: a value that a view needs in its key cannot be in a key.
        """
        filled = {
            each.name: self._fill_copy(each, entity, refs[each.name], before, sources, told)
            for each in self._copies
            if refs[each.name]
        }
        for each in self._plain:
            self._check(each, entity, refs[each.name], before, sources)
        body, seen = self.layout.validated(msgspec.structs.replace(entity, **filled) if filled else entity)
        used = self._used(refs, before, sources, told) if self._hidden else {}
        return FilledEntity(seen, body, self.emission(seen, used, key, refs, untold))

    def refs(self, entity: Any) -> Refs:
        """The commit rows that each referring field names."""
        return {each.name: each.keys(entity) for each in self.references}

    def _fill_copy(
        self,
        reference: Reference,
        entity: Any,
        keys: list[bytes],
        before: EntityState,
        sources: SourceMap,
        told: Container[bytes],
    ) -> Any:
        key = keys[0]
        old: Any = getattr(before.entity, reference.name, None)
        if type(old) is reference.copy and reference.kind.key(old.ref.key) == key:
            wanted = key in told or reference.name in before.unfilled
            return reference.updated_copy(old, sources[key]) if wanted else old
        source = sources[key]
        if source.entity is None:
            reference.refuse_missing(entity)
        return reference.filled(getattr(entity, reference.name), source)

    def _check(
        self, reference: Reference, entity: Any, keys: list[bytes], before: EntityState, sources: SourceMap
    ) -> None:
        known = reference.keys(before.entity)
        for key in keys:
            if key not in known and sources[key].entity is None:
                reference.refuse_missing(entity)

    def _used(self, refs: Refs, before: EntityState, sources: SourceMap, told: Container[bytes]) -> dict[str, Any]:
        used: dict[str, Any] = {}
        for each in self._hidden:
            keys = refs[each.name]
            same = keys == each.keys(before.entity) and all(name in before.used for name, _get, _type in each.hidden)
            if same and not any(key in told for key in keys):
                used.update({name: before.used.get(name) for name, _get, _type in each.hidden})
            else:
                used.update(
                    self._hidden_of(each, sources[keys[0]] if keys else NO_SOURCE, before.used if same else None)
                )
        return used

    def _hidden_of(self, reference: Reference, source: Source, held: Mapping[str, Any] | None) -> dict[str, Any]:
        """The hidden values of a source; a deleted one leaves its last to those who held some, unless that is cleared.

        `held` is None for a reference that is new.
        """
        if held is not None and source.entity is None and source.existed and reference.on_delete != "clear":
            return reference.last_hidden_values(source, held)
        return reference.hidden_values(source)

    def missing_views(self, record: Record) -> AbstractSet[bytes]:
        """Tokens of views that a record tells nothing of, not even that there is nothing."""
        return self._empty.keys() - record.keys()

    def emission(
        self, entity: Any, used: Mapping[str, Any], key: bytes, refs: Refs, untold: AbstractSet[bytes] = frozenset()
    ) -> Emission:
        """What an entity tells its views, its copies and its hidden copies being right.

        Raises:
            InvalidKey: a value that a view needs in its key cannot be in a key.
            InvalidValue: a value that is summed cannot be.
        """
        into = Emission(
            dict(self._empty),
            {},
            [],
            [],
            {code: entity_part(keys[0]) for name, code in self._elements if (keys := refs[name])},
        )
        parts, suffix = self.kind.parts(entity), entity_part(key)
        for derivation in self.derivations:
            if not untold or untold.isdisjoint(derivation.tokens):
                derivation.emit(entity, used, parts, suffix, into)
        record = into.record
        for token in untold:
            del record[token]
        if self.tracked:
            record[REFERENCES] = list(dict.fromkeys([source for each in self.tracked for source in refs[each.name]]))
        if self.holding:
            record[HELD] = list(dict.fromkeys([source for each in self.holding for source in refs[each.name]]))
        if self._hidden:
            record[HIDDEN] = msgspec.to_builtins(
                {name: order_sets(used.get(name)) for name in self._hidden_names}, builtin_types=_PLAIN
            )
        if self.told is not None:
            record[COPIED] = self.told.hash(entity, used)
        return into

    def tombstone_record(self, before: EntityState) -> Record:
        """What a deleted entity tells: nothing, and its carriers that it is gone; they may yet lack its last values."""
        record = self.empty_record()
        if self.told is not None:
            record[LAST_VALUES] = self.told.snapshot(before.entity, before.used)
        return record

    def empty_record(self) -> Record:
        """What an entity tells that is not there."""
        record = dict(self._empty)
        if self.tracked:
            record[REFERENCES] = []
        if self.holding:
            record[HELD] = []
        if self.told is not None:
            record[COPIED] = emitted_record.SOURCE_DELETED
        return record

    def stale_sources(self, before: EntityState, refs: Refs) -> list[bytes]:
        """Sources that must be asked although the references stay.

        Code that does not look through them wrote the row, and did not hold what is looked at, or show all that is
        shown now.
        """
        return [
            key
            for each in self.references
            if each.name in before.unfilled or any(name not in before.used for name, _get, _type in each.hidden)
            for key in refs[each.name]
        ]

    def with_all_copies(self, before: EntityState, sources: SourceMap) -> EntityState:
        """The state with all of its copies; those that code which did not know them left out are asked for."""
        if not self._hidden and not before.unfilled:
            return before
        refs = self.refs(before.entity)
        filled = {
            each.name: self._fill_copy(each, before.entity, refs[each.name], before, sources, ())
            for each in self._copies
            if each.name in before.unfilled and refs[each.name]
        }
        entity = msgspec.structs.replace(before.entity, **filled) if filled else before.entity
        used = self._used(refs, before, sources, ()) if self._hidden else before.used
        return before._replace(entity=entity, used=used)

    def covers_views(self, record: Record, *, alive: bool) -> bool:
        """Whether a record has told every declared view something, and no other (commit protocol, rule 17)."""
        if not alive:
            return frozenset(record) - {LAST_VALUES} == self._empty_tokens
        return record.keys() == self._living and (
            not self._hidden or record[HIDDEN].keys() == self._hidden_types.keys()
        )

    def is_current(self, before: EntityState) -> bool:
        """Whether a commit row has told what is declared, all of it and nothing else.

        Code under other declarations may have written it: then a view is missing, or what its carriers were told is
        something else, or a hold.
        """
        record, entity = before.record, before.entity
        if not self.covers_views(record, alive=entity is not None):
            return False
        if entity is None:
            return True
        if self.holding and sorted(record[HELD]) != sorted(self._held_sources(entity)):
            return False
        if self.told is None:
            return True
        now = self.told.hash(entity, before.used)
        return bool(record[COPIED] == now or self.told.is_of_before(record[COPIED], now))

    @property
    def needs_state(self) -> bool:
        """Whether `is_current` needs more of a row than its record."""
        return bool(self.holding) or self.told is not None

    def _held_sources(self, entity: Any) -> list[bytes]:
        return list(dict.fromkeys([source for each in self.holding for source in each.keys(entity)]))

    def source_of_deleted(self, record: Record) -> Source:
        """A deleted entity as those who copy from it see it."""
        last = {} if self.told is None else self.told.last(record.get(LAST_VALUES) or {})
        return Source(None, {}, existed=True, last=last)

    def fans_out(self, before: EntityState | None, after: Record) -> bool:
        """Whether carriers of copies must be told. `before` is None when the row was never written."""
        if self.told is None:
            return False
        if before is None:
            return self.told.may_be_awaited(after[COPIED])
        told = before.record.get(COPIED)
        if self.told.is_of_before(told, after[COPIED]):
            now = self.told.hash(before.entity, before.used)
            told = now if self.told.is_of_before(told, now) else told
        return bool(told != after[COPIED])  # a row from before anybody copied it has none, which differs too

    def must_notify_again(self, before: EntityState) -> bool:
        """Whether carriers must be told although what they were told may look the same."""
        return before.retell and self.told is not None

    def root(self, version: int, settled: FilledEntity) -> Root:
        """The commit row of a settled entity."""
        return Root(version, settled.body, emitted_record.encode_record(settled.emission.record))


_PLAIN = (bytes,)
