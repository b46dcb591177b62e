"""Entity types: everything oneread does with an entity of one class when it is written, put together once.

See rules 3, 4, 13 and 14 of the commit protocol.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

import msgspec

from oneread.derivations import emitted_record
from oneread.derivations.copies import DELETES, ERASED, VARIANT, Refs, Source, compile_refs, compile_taken
from oneread.derivations.copy_filler import CopyFiller
from oneread.derivations.derivation import CompiledView, behind
from oneread.derivations.emitted_record import (
    COPIED,
    HELD,
    HIDDEN,
    LAST_VALUES,
    REFERENCES,
    Emission,
    Record,
)
from oneread.derivations.emitters import NO_TOKENS, Emitters
from oneread.derivations.entity_groups import CHILD_OF, numbered_field
from oneread.derivations.entity_state import EmissionOptions, EntityState, FillInputs, SourceMap
from oneread.derivations.expiry import has_expiring_rows
from oneread.derivations.hidden_copies import HiddenCopies
from oneread.derivations.record_tokens import RecordTokens
from oneread.derivations.reference_builder import ReferenceBuilder
from oneread.derivations.rollups import Rollups
from oneread.models.fields import CREATED, GENERATED, KEY, UPDATED, Marker, defaults_of, is_rollup
from oneread.models.layout import Layout
from oneread.models.model import Model
from oneread.models.references import Copy, copied_names
from oneread.models.registry import EntityKind
from oneread.store.keys import entity_part
from oneread.transactions.derived_writes import Group
from oneread.transactions.outbox import back_reference_key, hold_key
from oneread.transactions.root import Root
from oneread.transactions.root_rows import GroupNumbers
from oneread.transactions.sequences import NumberSequence

EVERYTHING: Final = EmissionOptions()


class FilledEntity(msgspec.Struct, frozen=True, gc=False):
    """An entity as it is to be stored."""

    entity: Model[Any]
    body: bytes
    emission: Emission


class DefaultFields(NamedTuple):
    """The fields whose values are given where they are left out."""

    created: tuple[str, ...]
    updated: tuple[str, ...]
    generated: tuple[str, ...]
    """Parts of keys, without the number of a child."""


class EntityType:
    """One entity class, a model or a variant; `copied` are the values that holders copy, None without holders."""

    def __init__(
        self,
        cls: type[Model[Any]],
        kind: EntityKind,
        layout: Layout[Any],
        references: ReferenceBuilder,
        derivations: tuple[CompiledView, ...],
        rollups: Rollups,
    ) -> None:
        self.cls = cls
        self.kind = kind
        self.layout = layout
        self.references = tuple(references.references(cls).values())
        self.tracked = tuple(each for each in self.references if each.tracked)
        self.holding = tuple(each for each in self.references if each.on_delete == "refuse")
        self.going = tuple(each for each in self.references if each.on_delete == "delete")
        self.refs = compile_refs(cls, self.references)
        """The root rows that each referring field of an entity names."""
        self.taken = compile_taken(cls, self.tracked)
        """The sources that must reach an entity with these references, each with its selection."""
        self._filler = CopyFiller(cls, self.references)
        self.hidden = HiddenCopies(self.references)
        self.copied = references.copied_values(kind.cls)
        self.rollups = rollups.of_model(cls)
        self.shown = rollups.made_of(kind)
        self.numbered = numbered_field(cls, kind)
        self.defaults = _default_fields(cls, self.numbered)
        self.derivations = tuple(each for each in derivations if issubclass(cls, each.model))
        self.has_expiring_rows = any(has_expiring_rows(each.cls, each.model) for each in self.derivations)
        self._empty: Record = {token: [] for each in derivations for token in each.tokens}
        self.tokens = RecordTokens(self._empty, self.empty_record(), self.hidden)
        self.emitters = Emitters(cls.__qualname__, self.references, self.derivations, self.tokens.views)
        self._through: dict[tuple[str, ...], frozenset[str]] = {}
        filled = {*(behind(each.name) for each in self.references), *(each.field for each in self.rollups)}
        self._of_filled = self.emitters.tokens_with(filled)

    @property
    def is_plain(self) -> bool:
        """Whether nothing but rows of views follows from an entity, and these from its own document alone."""
        return not (
            self.hidden
            or self.rollups
            or self.shown
            or self.going
            or self.has_expiring_rows
            or self.layout.has_check
            or self.copied is not None
        )

    def fill(self, key: bytes, entity: Model[Any], refs: Refs, inputs: FillInputs) -> FilledEntity:
        """Fills the copies of an entity and computes its document and its contributions.

        Raises:
            InvalidValue: a field does not fit its type or constraint.
            MissingReference: a new reference to nothing.
            InvalidKey: a value that a view needs in its key cannot be in a key.
        """
        filled = self._filler.fill(key, entity, refs, inputs)
        before = inputs.before
        if entity is before.entity and before.body is not None and not filled:
            body, stored = before.body, entity
        else:
            body, stored = self.layout.validated(msgspec.structs.replace(entity, **filled) if filled else entity)
            if before.keep is not None:
                body = before.keep(body)
        used = self.hidden.used(refs, inputs) if self.hidden else {}
        if inputs.trusts_record and not inputs.skipped:
            kept = self._recorded_tokens(before, body)
        else:
            kept = NO_TOKENS if inputs.differing is None else self._kept_tokens(inputs)
        if not kept:
            return FilledEntity(stored, body, self.emission(stored, used, key, refs, inputs))
        emission = self.emission(stored, used, key, refs, EmissionOptions(kept, inputs.now))
        record = {**before.record, **emission.record}
        if inputs.trusts_record:  # in the order of a record that is emitted as a whole, and without other tokens
            record = {token: record[token] for token in self.emitters.order()} | emission.record
        return FilledEntity(stored, body, msgspec.structs.replace(emission, record=record))

    def _recorded_tokens(self, before: EntityState, body: bytes) -> AbstractSet[int]:
        """The tokens of declared views that a record has, of an entity whose document stays the same to the byte."""
        if body != before.body or self.hidden or self.has_expiring_rows:
            return NO_TOKENS
        return self.emitters.recorded_tokens(before.record)

    def _kept_tokens(self, inputs: FillInputs) -> AbstractSet[int]:
        """The tokens of views whose contributions are those that the record before lists, because no input differs.

        The record must be of the same declarations, and of the current layout: others may have had other values.
        """
        differing = inputs.differing
        if differing is None or inputs.skipped or self.has_expiring_rows or inputs.before.body is None:
            return NO_TOKENS
        kept = self.emitters.tokens_without(differing)
        return kept if self.tokens.cover_views(inputs.before.record, alive=True) else NO_TOKENS

    def check_values(self, values: Mapping[str, Any]) -> None:
        """Raises InvalidValue for the first of these values, by field, that does not fit; sources are not read."""
        for each in self.references:
            if each.name in values:
                each.keys_of(self.cls, values[each.name])
        self.layout.check_values(values)

    def check_entity(self, entity: Any) -> None:
        """Raises InvalidValue for the first value of an entity's own that does not fit; asks nothing of sources."""
        own = {each.name: getattr(entity, each.name, KEY) for each in self.layout.fields if each.kind != "copy"}
        self.layout.check_values({name: value for name, value in own.items() if not isinstance(value, Marker)})

    def sequence(self, refs: Refs) -> NumberSequence:
        """The sequence of the group that a child belongs to."""
        return NumberSequence(refs[CHILD_OF][0], self.kind.prefix)

    def groups(self, key: bytes, before: Any) -> list[Group]:
        """The groups whose numbers an entity must read: all it shows if it is new, else those that it lacks."""
        found = [each.shown for each in self.rollups if before is None or is_rollup(getattr(before, each.field))]
        return [each.group(entity_part(key)) for each in dict.fromkeys(found)]

    def with_totals(self, key: bytes, entity: Any, before: Any, numbers: Mapping[bytes, GroupNumbers]) -> Any:
        """The entity with its totals: of the groups that were read, else as it had them before.

        What `entity` says of them does not count: it may be stale.
        """
        if not self.rollups:
            return entity
        suffix = entity_part(key)
        totals: dict[str, Any] = {}
        for each in self.rollups:
            found = numbers.get(each.shown.key_of(suffix)) if numbers else None
            totals[each.field] = getattr(before, each.field) if found is None else each.read(found)
        return msgspec.structs.replace(entity, **totals)

    def touched(self, before: Record, after: Record) -> list[Group]:
        """The shown groups whose numbers a commit may change."""
        return [group for shown in self.shown for group in shown.touched(before, after)]

    def seen_through(self, names: tuple[str, ...]) -> frozenset[str]:
        """The inputs of views (`inputs_of`) that change with the sources of these references, and with totals."""
        found = self._through.get(names)
        if found is None:
            totals = [each.field for each in self.rollups]
            found = self._through[names] = frozenset([*map(behind, names), *totals])
        return found

    def emission(
        self,
        entity: Model[Any],
        used: Mapping[str, Any],
        key: bytes,
        refs: Refs,
        options: FillInputs | EmissionOptions = EVERYTHING,
    ) -> Emission:
        """The contributions of an entity whose copies and hidden copies are filled.

        Raises:
            InvalidKey: a value that a view needs in its key cannot be in a key.
            InvalidValue: a value that is summed cannot be.
        """
        found = self.emitters.skipping(options.skipped)(
            entity, used, self.kind.parts(entity), entity_part(key), refs, options.now
        )
        record = found.record
        if self.tracked:
            record[REFERENCES] = self.taken(refs)
        if self.holding:
            record[HELD] = self.held_sources(refs)
        if self.hidden:
            record[HIDDEN] = self.hidden.recorded(used)
        if self.copied is not None:
            record[COPIED] = self.copied.digests(entity, used)
        return found

    def refs_after(self, before: Any, known: Refs, entity: Any) -> Refs:
        """The references of an entity that was made from another one, whose own are known: mostly these."""
        if type(entity) is type(before):
            for each in self.references:
                if getattr(entity, each.name) is not getattr(before, each.name):
                    break
            else:
                return known
        return self.refs(entity)

    def is_early(self, view: CompiledView) -> bool:
        """Whether a view needs only what an entity is given: its sums are known before sources and totals are read."""
        return self._of_filled.isdisjoint(view.tokens)

    def likely_sums(self, key: bytes, entity: Model[Any], refs: Refs) -> list[bytes]:
        """The keys in `counts` of sums that an entity adds to, of views that need only what it was given."""
        emit = self.emitters.skipping(self._of_filled)
        found = emit(entity, {}, self.kind.parts(entity), entity_part(key), refs, 0)
        return list(dict.fromkeys([place for place, _amounts, _sign in found.deltas]))

    def pointers(self, key: bytes, refs: Refs) -> list[bytes]:
        """The keys in `views` of the back-references and holds of an entity with these references."""
        found = [back_reference_key(each, key) for each in self.taken(refs)]
        return found + [hold_key(source, key) for each in self.holding for source in refs[each.name]]

    def tombstone_record(self, before: EntityState) -> Record:
        """The record of a deleted entity: no contributions, but its last values, which holders may not have yet."""
        record = self.empty_record()
        if self.copied is not None:
            record[LAST_VALUES] = self.copied.snapshot(before.entity, before.used)
        return record

    def erased_record(self, cls: type, kept: Mapping[str, Any]) -> Record:
        """The record of an erased entity, of class `cls`; `kept` are the last values of one that was deleted before."""
        record = self.empty_record()
        if self.copied is None:
            record[LAST_VALUES] = {ERASED: True}
        else:
            variant = kept.get(VARIANT) or self.copied.variant_name(cls)
            record[LAST_VALUES] = self.copied.blank_snapshot(variant)
        return record

    def empty_record(self) -> Record:
        """The record of an entity without contributions: absent or deleted."""
        record = dict(self._empty)
        if self.tracked:
            record[REFERENCES] = []
        if self.holding:
            record[HELD] = []
        if self.copied is not None:
            record[COPIED] = emitted_record.SOURCE_DELETED
        return record

    def stale_sources(self, before: EntityState, refs: Refs) -> list[bytes]:
        """Sources that must be read although the references are the same.

        A program with other declarations wrote the row, without hidden copies or fields of copies that are needed now.
        """
        return [
            key
            for each in self.references
            if each.name in before.unfilled or any(name not in before.used for name, _get, _type in each.hidden)
            for key in refs[each.name]
        ]

    def with_all_copies(self, before: EntityState, sources: SourceMap) -> EntityState:
        """The state with all of its copies: those that a program with other declarations left out are filled."""
        if not self.hidden and not before.unfilled:
            return before
        refs = self.refs(before.entity)
        inputs = FillInputs(before, sources)
        filled = self._filler.fill_lacking(refs, inputs)
        entity = msgspec.structs.replace(before.entity, **filled) if filled else before.entity
        used = self.hidden.used(refs, inputs) if self.hidden else before.used
        return msgspec.structs.replace(before, entity=entity, used=used)

    def is_current(self, before: EntityState, left_out: AbstractSet[int] = NO_TOKENS) -> bool:
        """Whether a record is what the current declarations would make, as far as tokens, holds and copied values show.

        A program with other declarations may have written it, or one that left out other views.
        """
        record, entity = before.record, before.entity
        if not self.tokens.cover_views(record, alive=entity is not None, left_out=left_out):
            return False
        if entity is None:
            return True
        if self.holding and sorted(record[HELD]) != sorted(self.held_sources(self.refs(entity))):
            return False
        if self.tracked and sorted(record[REFERENCES]) != sorted(self.taken(self.refs(entity))):
            return False
        return self.copied is None or bool(record[COPIED] == self.copied.digests(entity, before.used))

    @property
    def needs_state(self) -> bool:
        """Whether `is_current` needs more of a row than its record."""
        return bool(self.holding or self.tracked) or self.copied is not None

    @property
    def contributes(self) -> bool:
        """Whether an entity has rows in views, or back-references: without, only its holders may follow a change."""
        return bool(self.tokens.views or self.tracked or self.holding)

    def goes_with(self, refs: Refs, key: bytes, source: Source) -> bool:
        """Whether an entity is to be deleted because this source of it was (`on_delete="delete"`)."""
        return any(key in refs[each.name] and each.goes_with(source) for each in self.going)

    def never_had(self, entity: object, names: Collection[str]) -> bool:
        """Whether these references are all copies that were made behind the delete of their source: without values."""
        held = [getattr(entity, each.name) for each in self.references if each.name in names]
        if not all(isinstance(each, Copy) and each.deleted for each in held):
            return False
        return all(getattr(each, name) is None for each in held for name in copied_names(type(each)))

    def held_sources(self, refs: Refs) -> list[bytes]:
        """The sources that must not be deleted while an entity with these references refers to them."""
        return list(dict.fromkeys([source for each in self.holding for source in refs[each.name]]))

    def source_of_deleted(self, record: Record) -> Source:
        """A deleted entity as its holders see it."""
        kept = record.get(LAST_VALUES) or {}
        if self.copied is None:
            return Source(None, {}, existed=True, erased=ERASED in kept)
        return Source(
            None,
            {},
            existed=True,
            last=self.copied.read_snapshot(kept),
            deletes=DELETES in kept,
            variant=self.copied.variant_of(kept),
            erased=ERASED in kept,
        )

    def fans_out(self, before: EntityState | None, after: Record) -> bool:
        """Whether holders must be notified. `before` is None when the row was never written."""
        if self.copied is None:
            return False
        if before is None:
            return self.copied.may_be_awaited(after[COPIED])
        return bool(before.record.get(COPIED) != after[COPIED])

    def unchanged_selections(self, before: EntityState, after: Record) -> list[bytes]:
        """The selections whose holders need not be notified, because their values are what the holders were given."""
        known, now = before.record.get(COPIED), after.get(COPIED)
        if not isinstance(known, dict) or not isinstance(now, dict):
            return []
        return [name for name, digest in now.items() if known.get(name) == digest]

    def root(self, version: int, own: int, filled: FilledEntity, seen: Root, before: Record) -> Root:
        """The root row of a filled entity, with its two versions; `before` is the record of the row that was seen."""
        record = filled.emission.record
        # Equal hidden copies may have other bytes, as 1 and 1.0; that of a deleted entity may be in another order.
        is_same = seen.body is not None and seen.emitted is not None and not self.hidden and record == before
        return Root(version, filled.body, seen.emitted if is_same else emitted_record.encode_record(record), own)


def _default_fields(cls: type[Model[Any]], numbered: str | None) -> DefaultFields:
    defaults = defaults_of(cls).items()
    created, updated, generated = (
        tuple(name for name, default in defaults if default == marker) for marker in (CREATED, UPDATED, GENERATED)
    )
    return DefaultFields(created, updated, tuple(name for name in generated if name != numbered))
