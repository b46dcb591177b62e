"""Changes: what the writing verbs do to one root row, and how a holder follows its source.

See rules 3-5, 14 and 17 of the commit protocol, and "Semantics" of the decisions page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from oneread.derivations import emitted_record
from oneread.derivations.catalog import Catalog
from oneread.derivations.copies import Refs, keys_of
from oneread.derivations.decisions import CommitAttempt, LookedAt, decision, deletion, is_same, look_at
from oneread.derivations.derivation import behind
from oneread.derivations.emitted_record import LAST_VALUES, record_diff
from oneread.derivations.entity_state import NOTHING_STORED, EntityState, FillInputs
from oneread.derivations.entity_type import EntityType
from oneread.derivations.plain_commits import reemission
from oneread.derivations.source_cache import SourceCache
from oneread.derivations.stamps import stamped
from oneread.errors import (
    AlreadyExists,
    Conflict,
    Corrupt,
    InvalidKey,
    InvalidValue,
    MissingReference,
    NotFound,
    OnereadError,
    UsageError,
)
from oneread.models.fields import GENERATED
from oneread.store.engine import DELETED, PATCHED, SAVED, UPSERTED, SavedEntity, SaveQuestion
from oneread.store.keys import kind_part
from oneread.store.rows import MAX_STAMP
from oneread.transactions.commit import NO_CHANGE, CommittedRows, Decision, PlainChange
from oneread.transactions.derived_writes import Group
from oneread.transactions.root import NO_ROOT, Root
from oneread.transactions.sequences import LAST_OF_SEQUENCE, NumberSequence, TakenNumber, last_number

Mode: TypeAlias = Literal["save", "create", "keep"]
"""What happens to an existing entity: `save` replaces it, `create` raises AlreadyExists, `keep` leaves it."""

_OTHER_VARIANT: Final = (
    "an entity of another variant has this key; to change the variant, delete it and save the new one in a transaction"
)


class ChangeResult(msgspec.Struct):
    """The result of a change: the entity with its copies, None for an absent one, and its own version.

    The version is that of the row for an entity that was deleted, and 0 for a row that was never written; `created`
    says that there was no entity before.
    """

    entity: Any = None
    version: int = 0
    created: bool = False


class WritingChange(PlainChange):
    """The common part of all changes of an entity."""

    _restores = False
    """Whether an entity may bring a number that its group has not given."""

    sequence: NumberSequence | None = None
    _asked: Any = None
    """The entity of its question."""

    def __init__(self, catalog: Catalog, key: bytes, if_version: int | None) -> None:
        self._catalog = catalog
        self._if_version = if_version
        self.key = key
        self.written = ChangeResult()

    @property
    def _may_vanish(self) -> bool:
        """Whether what is stored may count as absent, so that another entity takes its place."""
        return kind_part(self.key) in self._catalog.vanishing

    def pointers(self, seen: Root | None) -> Iterable[bytes]:
        """Those of the entity that the row holds."""
        if seen is None or seen.body is None:
            return ()
        entity = self._catalog.state(self.key, seen).entity
        entity_type = self._catalog.type_of(entity)
        return entity_type.pointers(self.key, entity_type.refs(entity))

    def groups(self, seen: Root) -> Sequence[Group]:
        """Those of totals that a row of an older layout lacks."""
        if seen.body is None or not self._catalog.may_lack_totals(self.key, seen.body):
            return ()
        entity = self._catalog.state(self.key, seen).entity
        return self._catalog.type_of(entity).groups(self.key, entity)

    def followed(self, root: Root) -> None:
        self.written.entity = self._shown(self._catalog.state(self.key, root).entity)
        self.written.version = root.own

    def _shown(self, entity: Any) -> Any:
        return self._catalog.layouts_at(self.key).shown(entity)

    def _expected(self, root: Root) -> int:
        """The own version that a question of what is stored expects: that of the row that was seen.

        No version is 0 or -1 where there is an entity: that the caller expects another one, `decide` finds out.
        """
        wanted = self._if_version
        return root.own if wanted is None or (type(wanted) is int and wanted == root.own) else -1

    def _question(
        self, verb: int, entity_type: EntityType, entity: Any, refs: Refs, expected: int | None
    ) -> SaveQuestion | None:
        """What compiled code is asked to store this entity; None where it does not know what follows."""
        document = entity_type.layout.encode_given(entity)
        sources = tuple(map(tuple, refs.values()))
        return None if document is None else self._asking(verb, entity, document, sources, expected)

    def _asking(
        self, verb: int, entity: Any, document: bytes, sources: tuple[tuple[bytes, ...], ...], expected: int | None
    ) -> SaveQuestion | None:
        catalog, cls, number = self._catalog, type(entity), 0
        program = catalog.core_programs[cls]
        if program is None or (catalog.learned.shares.leaves_out_some and catalog.left_out(self.key)):
            return None
        if expected is not None and not (type(expected) is int and 0 <= expected <= MAX_STAMP):
            return None
        holds = program.holding(entity) if program.asked else 0
        if holds is None:
            return None
        self._asked = entity
        if self.sequence is not None:
            numbered = catalog.type_of(entity).numbered
            number = 0 if numbered is None else getattr(entity, numbered)
        followers = catalog.core_programs.of_followers(cls)
        counters = program.counters_of(self.key) if verb == SAVED and program.counters else ()
        return SaveQuestion(
            program.table, self.key, document, sources, expected, holds, verb, number, followers, counters
        )

    def take_saved(self, saved: SavedEntity) -> bool:
        asked, written, catalog = self._asked, self.written, self._catalog
        entity_type = catalog.entity_types[type(asked)]
        version, document, is_new, is_source = saved
        entity = entity_type.layout.read_back(asked, document)
        if entity is None:
            return False
        if is_source:
            catalog.probes.check(entity_type.kind.cls, entity, {})
        written.entity = catalog.layouts[entity_type.kind.prefix].shown(entity)
        written.version, written.created = version, is_new
        return True

    def _check_version(self, own: int) -> None:
        """Raises Conflict when an entity does not have the own version that the caller expects; 0 if it is absent."""
        if self._if_version is not None:
            if type(self._if_version) is not int:
                raise InvalidValue(
                    "if_version: expected a version, as db.version(entity) returns", if_version=self._if_version
                )
            if own != self._if_version:
                self._check_values()
                raise Conflict(
                    "the entity has another version",
                    key=self._catalog.name_of(self.key),
                    expected=self._if_version,
                    version=own,
                )

    def _check_values(self) -> None:
        """Raises InvalidValue for a value that is given and fits no entity; asked before what the store has refuses.

        A change that is not refused has its values checked with its document, and only then.
        """

    def _state(self, seen: Root) -> EntityState:
        """The row, decoded."""
        return self._catalog.state(self.key, seen)

    def _attempt(self, seen: Root, version: int) -> CommitAttempt:
        """Decodes the row; raises Conflict when it does not have the version that the caller expects."""
        self._check_version(seen.own)
        return CommitAttempt(seen, self._catalog.state(self.key, seen), version, version)

    def _attempt_living(self, seen: Root, version: int, rows: CommittedRows) -> CommitAttempt:
        """`_attempt` for what users write: an entity that has expired, or goes with a source, counts as absent."""
        if seen is NO_ROOT:
            self._check_version(0)
            return CommitAttempt(seen, NOTHING_STORED, version, version)
        before, catalog = self._state(seen), self._catalog
        has_expired = bool(catalog.expiries) and catalog.is_expired(self.key, before.entity, rows.now)
        if not (has_expired or self._goes(before, rows)):
            if self._if_version is not None:
                self._check_version(seen.own)
            return CommitAttempt(seen, before, version, version)
        self._check_version(0)
        absent = msgspec.structs.replace(before, entity=None, used={}, unfilled=frozenset(), keep=None)
        return CommitAttempt(seen, absent, version, version, before.entity)

    def _goes(self, before: EntityState, rows: CommittedRows) -> bool:
        """Whether a source of an entity was deleted and a task is to delete it, too (docs/decisions/0117).

        A source that the same transaction has deleted may be made again in it.
        """
        going = self._catalog.going(before.entity)
        if not going:
            return False
        sources, left = SourceCache(self._catalog, rows), self._catalog.going(self._left_by(before))
        kept = [each for each in going if each in left]
        return any(rows.has(key) and key not in rows.changed and each.goes_with(sources[key]) for each, key in kept)

    def _left_by(self, before: EntityState) -> Any:
        """The entity whose references say what is still referred to afterwards: a save makes another one."""
        return before.entity

    def _other_variant(self, before: object, wanted: type) -> AlreadyExists:
        return AlreadyExists(
            _OTHER_VARIANT, owner=self._catalog.name_of(self.key), stored=type(before).__name__, variant=wanted.__name__
        )

    def _known_sources(self, rows: CommittedRows) -> SourceCache:
        """The sources that copies are filled from."""
        return SourceCache(self._catalog, rows)

    def _store(
        self, entity_type: EntityType, entity: Any, refs: Refs, attempt: CommitAttempt, rows: CommittedRows
    ) -> Decision:
        """Decides to store an entity as given, with its copies filled."""
        before, written = attempt.before, self.written
        is_new = before.entity is None or attempt.seen.body is None  # a restored one may have copies from before it
        takes = entity_type.numbered is not None and is_new
        taken = (self._taken(entity_type, entity, refs, rows),) if takes else ()
        if entity_type.rollups:
            entity = entity_type.with_totals(self.key, entity, before.entity or attempt.replaced, rows.groups)
        differing = self._differing(before.entity, entity)
        left_out = self._catalog.left_out(self.key)
        inputs = FillInputs(before, self._known_sources(rows), (), left_out, rows.now, differing)
        try:
            filled = entity_type.fill(self.key, entity, refs, inputs)
        except MissingReference:
            entity_type.check_entity(entity)
            raise
        written.entity, written.version = self._shown(filled.entity), attempt.own
        written.created = is_new
        found = decision(self._catalog, entity_type, self.key, filled, attempt)
        return msgspec.structs.replace(found, taken=taken) if taken else found

    def _differing(self, before: Any, entity: Any) -> frozenset[str] | None:  # noqa: ARG002 - of a patch
        """The inputs of views that the change may give another value; None if any."""
        return None

    def _taken(self, entity_type: EntityType, entity: Any, refs: Refs, rows: CommittedRows) -> TakenNumber:
        """The number of a new entity: the next one of its group, or one that was given before."""
        assert entity_type.numbered is not None, "asked only of entities with a number"
        sequence, number = entity_type.sequence(refs), getattr(entity, entity_type.numbered)
        last = last_number(rows.row(sequence.root), sequence, self._catalog.name_of)
        if not 1 <= number <= LAST_OF_SEQUENCE or (number > last and self.sequence is None and not self._restores):
            raise InvalidKey(
                "the database gives the number of a new entity: leave it out, or name one that was given",
                model=type(entity).__name__, field=entity_type.numbered, value=number, last=last,
            )  # fmt: skip
        return TakenNumber(sequence, number)


class Save(WritingChange):
    """Stores an entity, replacing any previous one."""

    def __init__(self, catalog: Catalog, entity: Any, mode: Mode = "save", if_version: int | None = None) -> None:
        self._entity_type = catalog.type_of(entity)
        kind = self._entity_type.kind
        numbered = self._entity_type.numbered
        waits = numbered is not None and getattr(entity, numbered) == GENERATED
        super().__init__(catalog, b"" if waits else kind.key(kind.parts(entity)), if_version)
        self._entity = entity
        self._mode = mode
        self._refs = self._entity_type.refs(entity)
        if waits:
            self.sequence = self._entity_type.sequence(self._refs)

    def take_number(self, number: int) -> None:
        numbered, kind = self._entity_type.numbered, self._entity_type.kind
        assert numbered is not None, "only an entity with a number waits for one"
        self._entity = msgspec.structs.replace(self._entity, **{numbered: number})
        self.key = kind.key(kind.parts(self._entity))

    @property
    def likely_derives(self) -> bool:
        return self._mode == "create" or (self._mode == "save" and self._entity_type.contributes)

    def pointers(self, seen: Root | None) -> Iterable[bytes]:
        if self._mode == "keep" and (seen is None or (seen.body is not None and not self._may_vanish)):
            return ()
        return self._entity_type.pointers(self.key, self._refs)

    def likely_sums(self, now: int) -> Iterable[bytes]:
        try:
            entity = stamped(self._entity_type, self._entity, None, now)
            return self._entity_type.likely_sums(self.key, entity, self._refs)
        except Exception:  # noqa: BLE001 - only a hint: what is wrong with the entity, the decision raises
            return ()

    def hints(self) -> Iterable[bytes]:
        return keys_of(self._refs)

    def links(self, seen: Root) -> Iterable[bytes]:
        if not self._entity_type.going or seen.body is None:
            return ()
        return [key for _reference, key in self._catalog.going(self._catalog.state(self.key, seen).entity)]

    def groups(self, seen: Root) -> Sequence[Group]:
        entity_type = self._entity_type
        if not entity_type.rollups:
            return ()
        if not self._catalog.is_of_type(seen, entity_type):
            return entity_type.groups(self.key, None)
        return super().groups(seen)

    def decide(self, seen: Root, version: int, sources: CommittedRows) -> Decision:
        if self.sequence is not None and seen.version:
            raise Corrupt(
                "the sequence of an entity group is behind its numbers; run a repair",
                key=self._catalog.name_of(self.key),
            )
        attempt = self._attempt_living(seen, version, sources)
        before = attempt.before.entity
        if before is not None:
            if self._mode != "keep" or not isinstance(before, self._entity_type.cls):
                self._refuse_other_variant(before)
            if self._mode != "save":
                self._check_values()
            if self._mode == "create":
                raise AlreadyExists("an entity with this key exists", owner=self._catalog.name_of(self.key))
            if self._mode == "keep":
                self.written.entity, self.written.version = self._shown(before), seen.own
                return NO_CHANGE
        entity = stamped(self._entity_type, self._entity, before, sources.now)
        return self._store(self._entity_type, entity, self._refs, attempt, sources)

    def question(self, seen: Callable[[bytes], Root]) -> SaveQuestion | None:
        if type(self) is not Save or (self._mode == "keep" and seen(self.key).body is not None):
            return None  # others decide otherwise
        expected = self._if_version if self._mode == "save" else 0
        return self._question(SAVED, self._entity_type, self._entity, self._refs, expected)

    def _check_values(self) -> None:
        self._entity_type.check_entity(self._entity)

    def _refuse_other_variant(self, before: object) -> None:
        """Raises AlreadyExists when the stored entity is of another variant: its fields and rows would be lost."""
        if before is not None and type(before) is not self._entity_type.cls:
            self._check_values()
            raise self._other_variant(before, self._entity_type.cls)


class Patch(WritingChange):
    """Changes fields of an existing entity: `change` makes the new entity from the old one.

    Where there is none, `otherwise` is created; without it, NotFound. `_linked` is what `links` computed for `decide`:
    the row, its state, the wanted entity and its references. `check` raises InvalidValue for a value that fits no
    entity.
    """

    def __init__(
        self,
        catalog: Catalog,
        key: bytes,
        change: Callable[[Any], Any],
        if_version: int | None = None,
        otherwise: Any = None,
    ) -> None:
        super().__init__(catalog, key, if_version)
        self.check: Callable[[], None] | None = None
        self._change = change
        self._otherwise = otherwise
        self._linked: tuple[Root, EntityState, Any, Refs] | None = None

    def pointers(self, seen: Root | None) -> Iterable[bytes]:
        if seen is None:
            return ()
        try:
            wanted = [self._wanted(self._catalog.state(self.key, seen).entity)]
        except UsageError:
            wanted = []  # `decide` raises it again
        if self._otherwise is not None and self._may_vanish:
            wanted.append(self._otherwise)
        types = [self._catalog.type_of(each) for each in wanted]
        return [
            place for cls, each in zip(types, wanted, strict=True) for place in cls.pointers(self.key, cls.refs(each))
        ]

    def hints(self) -> Iterable[bytes]:
        return () if self._otherwise is None else keys_of(self._catalog.type_of(self._otherwise).refs(self._otherwise))

    def groups(self, seen: Root) -> Sequence[Group]:
        if self._otherwise is not None:
            entity_type = self._catalog.type_of(self._otherwise)
            if entity_type.rollups and not self._catalog.is_of_type(seen, entity_type):
                return entity_type.groups(self.key, None)
        return super().groups(seen)

    def _wanted(self, before: Any) -> Any:
        if before is not None:
            if self._otherwise is not None and not isinstance(before, type(self._otherwise)):
                self._check_values()
                raise self._other_variant(before, type(self._otherwise))
            return self._change(before)
        if self._otherwise is not None:
            return self._otherwise
        self._check_values()
        raise NotFound("there is no such entity", key=self._catalog.name_of(self.key))

    def _check_values(self) -> None:
        if self.check is not None:
            self.check()

    def links(self, seen: Root) -> Iterable[bytes]:
        before = self._catalog.state(self.key, seen)
        if before.entity is None:
            return ()
        entity_type = self._catalog.type_of(before.entity)
        try:
            known, entity = entity_type.refs(before.entity), self._wanted(before.entity)
            wanted = entity_type.refs_after(before.entity, known, entity)
        except UsageError:
            if not self._may_vanish:
                raise
            return ()  # `decide` raises it again, unless the entity has expired
        self._linked = seen, before, entity, wanted
        new = () if wanted is known else wanted.items()
        links = [key for name, keys in new for key in keys if key not in known[name]]
        if entity_type.going:
            links += [key for each, key in self._catalog.going(before.entity) if key in wanted[each.name]]
        return links + entity_type.stale_sources(before, known) if entity_type.hidden or before.unfilled else links

    def _differing(self, before: Any, entity: Any) -> frozenset[str] | None:
        if type(before) is not type(entity):
            return None
        names = [name for name in before.__struct_fields__ if getattr(before, name) is not getattr(entity, name)]
        return frozenset([*names, *map(behind, names)])

    def decide(self, seen: Root, version: int, sources: CommittedRows) -> Decision:
        attempt = self._attempt_living(seen, version, sources)
        linked, self._linked = self._linked, None
        if linked is not None and attempt.before is linked[1]:
            _seen, _state, wanted, refs = linked
        else:  # there was no entity, or it has expired
            wanted, refs = self._wanted(attempt.before.entity), None
        entity_type = self._catalog.type_of(wanted)
        entity = stamped(entity_type, wanted, attempt.before.entity, sources.now)
        refs = refs if refs is not None and entity is wanted else entity_type.refs(entity)
        return self._store(entity_type, entity, refs, attempt, sources)

    def question(self, seen: Callable[[bytes], Root]) -> SaveQuestion | None:
        root, otherwise = seen(self.key), self._otherwise
        before = self._catalog.known_to_core(self.key, root.body)
        if before is None and (otherwise is None or root.body is not None):
            return None
        try:
            hints = {} if otherwise is None else self._catalog.type_of(otherwise).refs(otherwise)
            expected, wanted = self._expected(root), otherwise if before is None else self._wanted(before)
            entity_type = self._catalog.type_of(wanted)
            if before is None:
                return self._question(SAVED, entity_type, wanted, hints, expected)
            refs = entity_type.refs(wanted)
        except OnereadError:
            return None  # `decide` raises it again, unless the entity has expired
        if otherwise is not None and refs != hints:
            return None
        return self._question(PATCHED if otherwise is None else UPSERTED, entity_type, wanted, refs, expected)

    def _left_by(self, before: EntityState) -> Any:
        return self._linked[2] if self._linked is not None and self._linked[1] is before else before.entity

    def _state(self, seen: Root) -> EntityState:
        return self._linked[1] if self._linked is not None and self._linked[0] is seen else super()._state(seen)


class Delete(WritingChange):
    """Deletes an entity and everything derived from it; does nothing for an absent one, or one of another variant."""

    def __init__(self, catalog: Catalog, key: bytes, if_version: int | None = None, model: type = object) -> None:
        super().__init__(catalog, key, if_version)
        self._model = model

    def pointers(self, seen: Root | None) -> Iterable[bytes]:  # noqa: ARG002 - part of the contract
        return ()

    def links(self, seen: Root) -> Iterable[bytes]:
        return stale_sources(self._catalog, self.key, seen)

    def groups(self, seen: Root) -> Sequence[Group]:  # noqa: ARG002 - part of the contract
        return ()

    def decide(self, seen: Root, version: int, sources: CommittedRows) -> Decision:
        attempt = self._attempt_living(seen, version, sources)
        if attempt.before.entity is None or not isinstance(attempt.before.entity, self._model):
            return NO_CHANGE
        self.written.version, self.written.created = version, False
        return deletion(self._catalog, self.key, attempt, sources)

    def question(self, seen: Callable[[bytes], Root]) -> SaveQuestion | None:
        root = seen(self.key)
        entity = self._catalog.known_to_core(self.key, root.body) if type(self) is Delete else None
        if entity is None or not isinstance(entity, self._model):
            return None
        left = self._catalog.any_type_of(self.key).tombstone_record(EntityState(entity, {}, {}))
        sources = ((),) * len(self._catalog.type_of(entity).references)
        return self._asking(DELETED, entity, emitted_record.encode_record(left), sources, self._expected(root))

    def take_saved(self, saved: SavedEntity) -> bool:
        self.written.version, self.written.created = saved[0], False
        return True

    def _goes(self, before: EntityState, rows: CommittedRows) -> bool:  # noqa: ARG002 - a delete does what the task would
        return False


class Reemit(WritingChange):
    """Commits a root row again for the views that are declared now, with the values its sources have now.

    A backfill does this to each row that lacks something, deleted ones too (rule 17). The entity's own fields stay; a
    row of an older layout is written under the current one. Where the document stays the same, only views are emitted
    that the record lacks: a row that lacks none is not committed again either. Values of a deleted source are not
    taken: its task gives them to the entities that held it, and only to them. `looked` is how the row was found.
    """

    def __init__(self, catalog: Catalog, key: bytes, looked: LookedAt | None = None) -> None:
        super().__init__(catalog, key, None)
        self._looked = looked

    @property
    def takes_all(self) -> bool:
        return True

    def hints(self) -> Iterable[bytes]:
        return () if self._looked is None else keys_of(self._looked.refs)

    def _read(self, seen: Root) -> tuple[EntityState, Refs]:
        """The state and its references, decoded once."""
        looked = self._looked
        if looked is None or (looked.root is not seen and looked.root != seen):
            looked = self._looked = look_at(self._catalog, self.key, seen)
        return looked.state, looked.refs

    def links(self, seen: Root) -> Iterable[bytes]:
        return keys_of(self._read(seen)[1])

    def groups(self, seen: Root) -> Sequence[Group]:
        """All that the entity shows."""
        entity = self._read(seen)[0].entity
        return () if entity is None else self._catalog.type_of(entity).groups(self.key, None)

    def decide(self, seen: Root, version: int, sources: CommittedRows) -> Decision:
        before, refs = self._read(seen)
        if before.entity is None:
            return self._of_deleted(seen, before, version)
        entity_type = self._catalog.type_of(before.entity)
        entity = entity_type.with_totals(self.key, before.entity, before.entity, sources.groups)
        known, left_out = SourceCache(self._catalog, sources), self._catalog.left_out(self.key)
        attempt = CommitAttempt(seen, before, version, seen.own)
        plain = None if left_out else reemission(entity_type, self.key, attempt, refs, known)
        if plain is not None:
            return plain
        readable = [key for key in keys_of(refs) if known[key].entity is not None or not known[key].existed]
        inputs = FillInputs(before, known, readable, left_out, sources.now, trusts_record=True)
        filled = entity_type.fill(self.key, entity, refs, inputs)
        found = decision(self._catalog, entity_type, self.key, filled, attempt)
        return NO_CHANGE if is_same(found, seen) else found

    def _of_deleted(self, seen: Root, before: EntityState, version: int) -> Decision:
        entity_type = self._catalog.any_type_of(self.key)
        record = entity_type.empty_record()
        if LAST_VALUES in before.record:
            record[LAST_VALUES] = before.record[LAST_VALUES]
        if not seen.version or record == before.record:
            return NO_CHANGE
        return Decision(
            Root(version, None, emitted_record.encode_record(record)),
            record_diff(self.key, before.record, record, {}),
            entity_type.fans_out(before, record),
            groups=entity_type.touched(before.record, record),
        )


def stale_sources(catalog: Catalog, key: bytes, seen: Root) -> list[bytes]:
    """Sources of copied values that a row lacks, because older code that did not know these copies wrote it."""
    if seen.body is None or not catalog.may_lack(key, seen.body):
        return []
    before = catalog.state(key, seen)
    entity_type = catalog.type_of(before.entity)
    return entity_type.stale_sources(before, entity_type.refs(before.entity))
