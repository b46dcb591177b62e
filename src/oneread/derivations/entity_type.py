"""Entity types: everything oneread does with an entity of one class when it is written, put together once.

See rules 3, 4, 13 and 14 of the commit protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, Protocol

import msgspec

from oneread.derivations import emitted_record
from oneread.derivations.copies import DELETES, NO_SOURCE, Reference, Refs, Source, compile_refs, compile_taken
from oneread.derivations.derivation import CompiledView, behind, inputs_of
from oneread.derivations.emission_code import EmissionCode, Emit
from oneread.derivations.emitted_record import (
    COPIED,
    HELD,
    HIDDEN,
    LAST_VALUES,
    REFERENCES,
    Emission,
    Record,
)
from oneread.derivations.entity_groups import CHILD_OF, numbered_field
from oneread.derivations.expiry import has_expiring_rows
from oneread.derivations.keyed import reference_signature
from oneread.derivations.reference_builder import ReferenceBuilder
from oneread.derivations.rollups import Rollups
from oneread.models.fields import CREATED, GENERATED, KEY, UPDATED, Marker, defaults_of, is_rollup
from oneread.models.layout import Layout
from oneread.models.model import Model
from oneread.models.references import Copy, copied_names
from oneread.models.registry import EntityKind
from oneread.models.set_order import order_sets
from oneread.models.shadow import revive
from oneread.store.keys import entity_part
from oneread.transactions.outbox import back_reference_key, hold_key
from oneread.transactions.root import Root
from oneread.transactions.root_rows import GroupNumbers
from oneread.transactions.sequences import NumberSequence
from oneread.transactions.unit_of_work import Group


class SourceMap(Protocol):
    """Sources by the key of their root row; `NO_SOURCE` for an unknown key."""

    def __getitem__(self, key: bytes, /) -> Source: ...


class EntityState(msgspec.Struct, frozen=True, gc=False):
    """What a root row holds."""

    entity: Any
    """None when it is absent or deleted."""
    used: Mapping[str, Any]
    """Hidden copies by name."""
    record: Record
    unfilled: frozenset[str] = frozenset()
    """Copies that lack values, because the row was written under an older layout."""
    must_notify: bool = False
    """Holders are to be notified even if the copied values look the same, because of the row's older layout."""
    keep: Callable[[bytes], bytes] | None = None
    """Gives a new document what only a newer program knows of the entity; None for a row without such fields."""
    body: bytes | None = None
    """The document of a row of the current layout."""


NOTHING_STORED: Final = EntityState(None, {}, {})
"""The state of a row that was never written."""


class FillInputs(msgspec.Struct, frozen=True, gc=False):
    """What the copies of an entity are filled from."""

    before: EntityState
    """Its copies are taken over for references that are the same."""
    sources: SourceMap
    """Of every new reference, and of those in `changed`."""
    changed: Container[bytes] = ()
    """Sources whose values are read again although the reference is the same."""
    skipped: AbstractSet[int] = frozenset()
    """Tokens of views that are left out, as if they were not declared."""
    now: int = 0
    """The clock: index rows that have expired are left out. 0 to have them all."""
    differing: frozenset[str] | None = None
    """The only inputs of views (`inputs_of`) that may differ from those before; None if any may."""
    trusts_record: bool = False
    """Whether contributions of declared views in the record before are right where the document stays the same."""


class EmissionOptions(msgspec.Struct, frozen=True, gc=False):
    """What an entity emits, where no copies are filled: as of `FillInputs`."""

    skipped: AbstractSet[int] = frozenset()
    now: int = 0


EVERYTHING: Final = EmissionOptions()

_NO_TOKENS: Final[frozenset[int]] = frozenset()
_WAYS: Final = 64
"""In which entities of one type may change and keep contributions: each may need a function that emits the others."""


class FilledEntity(msgspec.Struct, frozen=True, gc=False):
    """An entity as it is to be stored."""

    entity: Model[Any]
    body: bytes
    emission: Emission


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
        self.derivations = tuple(each for each in derivations if issubclass(cls, each.model))
        self.has_expiring_rows = any(has_expiring_rows(each.cls, each.model) for each in self.derivations)
        self._empty: Record = {token: [] for each in derivations for token in each.tokens}
        self.view_tokens = frozenset(self._empty)
        self.copied = references.copied_values(kind.cls)
        self.rollups = rollups.of_model(cls)
        self.shown = rollups.made_of(kind)
        defaults = defaults_of(cls).items()
        self.created = tuple(name for name, default in defaults if default == CREATED)
        self.numbered = numbered_field(cls, kind)
        self.generated = tuple(name for name, default in defaults if default == GENERATED and name != self.numbered)
        self.updated = tuple(name for name, default in defaults if default == UPDATED)
        self._copies = tuple(each for each in self.references if each.copy is not None)
        self._encoded = {
            reference_signature(each.name): f"refs[{each.name!r}][0][{len(each.kind.root_of(b''))}:]"
            for each in self.references
            if not each.many
        }
        self._emitters: dict[AbstractSet[int], Emit] = {}
        self._every_token: tuple[int, ...] = ()
        self._kept: dict[frozenset[str], frozenset[int]] = {}
        self._recorded: dict[frozenset[int], frozenset[int]] = {}
        self._through: dict[tuple[str, ...], frozenset[str]] = {}
        self._inputs = tuple((view, inputs_of(view)) for view in self.derivations)
        filled = {*(behind(each.name) for each in self.references), *(each.field for each in self.rollups)}
        self._of_filled = frozenset(token for view, needed in self._inputs if needed & filled for token in view.tokens)
        self._plain = tuple(each for each in self.references if each.copy is None)
        self.tracked = tuple(each for each in self.references if each.tracked)
        self.holding = tuple(each for each in self.references if each.on_delete == "refuse")
        self.going = tuple(each for each in self.references if each.on_delete == "delete")
        self.refs = compile_refs(cls, self.references)
        """The root rows that each referring field of an entity names."""
        self.taken = compile_taken(cls, self.tracked)
        """The sources that must reach an entity with these references, each with its selection."""
        self._hidden = tuple(each for each in self.references if each.hidden)
        self.has_hidden = bool(self._hidden)
        self.empty_tokens = frozenset(self.empty_record())
        """Of a record without hidden copies."""
        self._hidden_names = tuple(name for each in self._hidden for name, _get, _type in each.hidden)
        self._living = self.empty_tokens | {HIDDEN} if self._hidden else self.empty_tokens
        self._hidden_types = {name: type_ for each in self._hidden for name, _get, type_ in each.hidden}
        self.is_plain = not (
            self._hidden
            or self.rollups
            or self.shown
            or self.going
            or self.has_expiring_rows
            or self.layout.has_check
            or self.copied is not None
        )
        """Whether nothing but rows of views follows from an entity, and these from its own document alone."""

    def used_in(self, record: Record) -> dict[str, Any]:
        """The hidden copies that a record holds, by name."""
        values = record.get(HIDDEN)
        if not values or not self._hidden_names:
            return {}
        types = self._hidden_types
        return {
            name: msgspec.convert(value, types[name], dec_hook=revive)
            for name, value in values.items()
            if name in types
        }

    def fill(self, key: bytes, entity: Model[Any], refs: Refs, inputs: FillInputs) -> FilledEntity:
        """Fills the copies of an entity and computes its document and its contributions.

        Raises:
            InvalidValue: a field does not fit its type or constraint.
            MissingReference: a new reference to nothing.
            InvalidKey: a value that a view needs in its key cannot be in a key.
        """
        filled = self._fill_copies(key, entity, refs, inputs)
        for each in self._plain:
            self._check(each, entity, refs[each.name], inputs)
        before = inputs.before
        if entity is before.entity and before.body is not None and not filled:
            body, stored = before.body, entity
        else:
            body, stored = self.layout.validated(msgspec.structs.replace(entity, **filled) if filled else entity)
            if before.keep is not None:
                body = before.keep(body)
        used = self._used(refs, inputs) if self._hidden else {}
        if inputs.trusts_record:
            kept = self._recorded_tokens(before, body)
        else:
            kept = _NO_TOKENS if inputs.differing is None else self._kept_tokens(inputs)
        if not kept:
            return FilledEntity(stored, body, self.emission(stored, used, key, refs, inputs))
        emission = self.emission(stored, used, key, refs, EmissionOptions(kept, inputs.now))
        record = {**before.record, **emission.record}
        if inputs.trusts_record:  # in the order of a record that is emitted as a whole, and without other tokens
            record = {token: record[token] for token in self.order()} | emission.record
        return FilledEntity(stored, body, msgspec.structs.replace(emission, record=record))

    def _recorded_tokens(self, before: EntityState, body: bytes) -> AbstractSet[int]:
        """The tokens of declared views that a record has, of an entity whose document stays the same to the byte."""
        if body != before.body or self._hidden or self.has_expiring_rows:
            return _NO_TOKENS
        return self.recorded_tokens(before.record)

    def recorded_tokens(self, record: Record) -> frozenset[int]:
        """The tokens of declared views that a record has all tokens of; none where this is asked in many ways."""
        recorded = frozenset(record)
        kept = self._recorded.get(recorded)
        if kept is None:
            if len(self._recorded) >= _WAYS:
                return _NO_TOKENS
            views = (view for view in self.derivations if recorded.issuperset(view.tokens))
            kept = self._recorded[recorded] = frozenset(token for view in views for token in view.tokens)
        return kept

    def _kept_tokens(self, inputs: FillInputs) -> AbstractSet[int]:
        """The tokens of views whose contributions are those that the record before lists, because no input differs.

        The record must be of the same declarations, and of the current layout: others may have had other values.
        """
        differing = inputs.differing
        if differing is None or self.has_expiring_rows or inputs.before.body is None:
            return _NO_TOKENS
        kept = self.tokens_without(differing)
        return kept if self.covers_views(inputs.before.record, alive=True) else _NO_TOKENS

    def tokens_without(self, differing: frozenset[str]) -> frozenset[int]:
        """The tokens of views that need none of these inputs (`inputs_of`); none where this is asked in many ways."""
        kept = self._kept.get(differing)
        if kept is None:
            if len(self._kept) >= _WAYS:
                return _NO_TOKENS
            unchanged = (view for view, needed in self._inputs if needed.isdisjoint(differing))
            kept = self._kept[differing] = frozenset(token for view in unchanged for token in view.tokens)
        return kept

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

    def _fill_copies(self, key: bytes, entity: Model[Any], refs: Refs, inputs: FillInputs) -> dict[str, Copy[Any]]:
        """The copies that are not as given."""
        filled: dict[str, Copy[Any]] = {}
        for each in self._copies:
            keys = refs[each.name]
            if keys:
                copy = self._fill_copy(each, entity, keys[0], inputs)
                if keys[0] == key:
                    copy = self._own_copy(each, entity, copy, inputs)
                if copy is not getattr(entity, each.name):
                    filled[each.name] = copy
        return filled

    def _fill_copy(self, reference: Reference, entity: Model[Any], key: bytes, inputs: FillInputs) -> Copy[Any]:
        before, given = inputs.before, getattr(entity, reference.name)
        if before.entity is not None:
            old: Any = getattr(before.entity, reference.name, None)
            if type(old) is reference.access.copy and (old is given or reference.kind.key(old.ref.key) == key):
                is_stale = key in inputs.changed or reference.name in before.unfilled
                return reference.updated_copy(old, reference.narrowed(inputs.sources[key])) if is_stale else old
        source = inputs.sources[key]
        if type(source.entity) is not reference.access.target:
            source = reference.narrowed(source)
        if source.entity is not None and not source.expired:
            return reference.fill(given.ref, source.entity, source.used)
        reference.refuse_missing(entity, source)
        return reference.filled_copy(given, source)

    def _own_copy(self, reference: Reference, entity: Model[Any], copy: Copy[Any], inputs: FillInputs) -> Copy[Any]:
        """The copy of an entity that copies itself, of what is written; what it copies from others follows later."""
        is_new = inputs.before.entity is None or not reference.accepts(self.cls)
        if is_new or any("." in route for _name, route in reference.routes):
            return copy
        return reference.fill(copy.ref, entity, {})

    def _check(self, reference: Reference, entity: Model[Any], keys: list[bytes], inputs: FillInputs) -> None:
        known = reference.keys(inputs.before.entity)
        for key in keys:
            if key in known:
                continue
            source = reference.narrowed(inputs.sources[key])
            if source.entity is None or source.expired:
                reference.refuse_missing(entity, source)

    def _used(self, refs: Refs, inputs: FillInputs) -> dict[str, Any]:
        held = inputs.before.used
        used: dict[str, Any] = {}
        for each in self._hidden:
            keys = refs[each.name]
            same = keys == each.keys(inputs.before.entity) and all(name in held for name, _get, _type in each.hidden)
            if same and not any(key in inputs.changed for key in keys):
                used.update({name: held.get(name) for name, _get, _type in each.hidden})
            else:
                source = each.narrowed(inputs.sources[keys[0]]) if keys else NO_SOURCE
                used.update(each.hidden_values(source, held if same else None))
        return used

    def missing_views(self, record: Record) -> frozenset[int]:
        """Tokens of views that are not in a record, which has an entry even for a view without contributions."""
        return self.view_tokens.difference(record)

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
        found = self.emitter(options.skipped)(
            entity, used, self.kind.parts(entity), entity_part(key), refs, options.now
        )
        record = found.record
        if self.tracked:
            record[REFERENCES] = self.taken(refs)
        if self.holding:
            record[HELD] = self.held_sources(refs)
        if self._hidden:
            record[HIDDEN] = msgspec.to_builtins(
                {name: order_sets(used.get(name)) for name in self._hidden_names}, builtin_types=_PLAIN
            )
        if self.copied is not None:
            record[COPIED] = self.copied.digests(entity, used)
        return found

    def emitter(self, skipped: AbstractSet[int]) -> Emit:
        """The function that emits the views without these tokens."""
        return self._emitters.get(skipped) or self._generate_emitter(skipped)

    def _generate_emitter(self, skipped: AbstractSet[int]) -> Emit:
        code = EmissionCode(self.cls.__qualname__, self._encoded)
        for view in self.derivations:
            if skipped.isdisjoint(view.tokens):
                view.write_emission(code)
        for token in self.view_tokens - skipped:
            code.contributions(token)
        found = self._emitters[frozenset(skipped)] = code.compiled()
        if not skipped:
            self._every_token = code.tokens
        return found

    def order(self) -> tuple[int, ...]:
        """The tokens of all views, in the order of a record."""
        if not self._every_token:
            self._generate_emitter(_NO_TOKENS)
        return self._every_token

    def refs_after(self, before: Any, known: Refs, entity: Any) -> Refs:
        """The references of an entity that was made from another one, whose own are known: mostly these."""
        if type(entity) is type(before):
            for each in self.references:
                if getattr(entity, each.name) is not getattr(before, each.name):
                    break
            else:
                return known
        return self.refs(entity)

    def likely_sums(self, key: bytes, entity: Model[Any], refs: Refs) -> list[bytes]:
        """The keys in `counts` of sums that an entity adds to, of views that need only what it was given."""
        emit = self.emitter(self._of_filled)
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
        if not self._hidden and not before.unfilled:
            return before
        refs = self.refs(before.entity)
        inputs = FillInputs(before, sources)
        filled = {
            each.name: self._fill_copy(each, before.entity, refs[each.name][0], inputs)
            for each in self._copies
            if each.name in before.unfilled and refs[each.name]
        }
        entity = msgspec.structs.replace(before.entity, **filled) if filled else before.entity
        used = self._used(refs, inputs) if self._hidden else before.used
        return msgspec.structs.replace(before, entity=entity, used=used)

    def covers_views(self, record: Record, *, alive: bool) -> bool:
        """Whether a record has the tokens of all declared views, and no others (commit protocol, rule 17)."""
        if not alive:
            return frozenset(record) - {LAST_VALUES} == self.empty_tokens
        return record.keys() == self._living and (
            not self._hidden or record[HIDDEN].keys() == self._hidden_types.keys()
        )

    def is_current(self, before: EntityState) -> bool:
        """Whether a record is what the current declarations would make, as far as tokens, holds and copied values show.

        A program with other declarations may have written it.
        """
        record, entity = before.record, before.entity
        if not self.covers_views(record, alive=entity is not None):
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
        return bool(self._empty or self.tracked or self.holding)

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
        if self.copied is None:
            return Source(None, {}, existed=True)
        kept = record.get(LAST_VALUES) or {}
        return Source(
            None,
            {},
            existed=True,
            last=self.copied.read_snapshot(kept),
            deletes=DELETES in kept,
            variant=self.copied.variant_of(kept),
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
        # Equal hidden copies may have other bytes, as 1 and 1.0.
        is_same = seen.emitted is not None and not self._hidden and record == before
        return Root(version, filled.body, seen.emitted if is_same else emitted_record.encode_record(record), own)


_PLAIN = (bytes,)
