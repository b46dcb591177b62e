"""Restoring: commits entities and tombstones as they were: of a dump, or those a bulk writer is given as stored.

An entity is committed at the version it had, unless this store has a later one. Copies of sources that are not in the
store keep the values in the dump: those sources were deleted, or come later. See
docs/decisions/0026-dumps-hold-entities.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from msgspec.structs import replace

from oneread.derivations import emitted_record
from oneread.derivations.catalog import Catalog
from oneread.derivations.changes import ChangeResult, Save
from oneread.derivations.copies import DELETES, Source
from oneread.derivations.decisions import CommitAttempt, deletion
from oneread.derivations.emitted_record import LAST_VALUES, record_diff
from oneread.derivations.entity_state import EntityState, FillInputs
from oneread.derivations.erasing import is_erased
from oneread.derivations.source_cache import SourceCache
from oneread.derivations.stamps import stamped_as_given
from oneread.errors import Erased, MissingReference
from oneread.models.references import Copy
from oneread.transactions.commit import NO_CHANGE, CommittedRows, Decision, PlainChange
from oneread.transactions.derived_writes import Group
from oneread.transactions.root import Root
from oneread.transactions.sequences import TakenNumber


class DumpedCopies(NamedTuple):
    """Fields whose sources may be missing, the dumped entity with their copies, and its hidden copies by name."""

    fields: tuple[str, ...]
    entity: Any
    hidden: Mapping[str, Any]


NO_COPIES = DumpedCopies((), None, {})


class DumpedSources(SourceCache, frozen=True, gc=False):
    """The sources of a dumped entity: it referred to them before they expired."""

    def __getitem__(self, key: bytes) -> Source:
        return replace(super().__getitem__(key), expired=False)


class KeptVersion(NamedTuple):
    """The own version of an entity that is stored, 0 for an unknown one.

    With `always` it has this one whatever the clock and this store show: it comes from a store that is followed, and
    nothing else has changed it here.
    """

    version: int = 0
    always: bool = False


UNKNOWN = KeptVersion()


class RestoreEntity(Save):
    """Stores an entity of a dump, or of a store that is followed, at its version."""

    _restores = True

    def __init__(
        self,
        catalog: Catalog,
        entity: Any,
        kept: KeptVersion = UNKNOWN,
        copies: DumpedCopies = NO_COPIES,
        numbers: Sequence[TakenNumber] = (),
    ) -> None:
        super().__init__(catalog, entity)
        self._version, self._always = kept
        self.least_version = self._version if self._always else 0
        self._copies = copies
        self._numbers = numbers

    @property
    def likely_derives(self) -> bool:
        """Not with a version of its own: a marker in advance would be of a later one, and stay in the journal."""
        return not self._version and super().likely_derives

    def _known_sources(self, rows: CommittedRows) -> SourceCache:
        return DumpedSources(self._catalog, rows)

    def decide(self, seen: Root, version: int, sources: CommittedRows) -> Decision:
        if self._always and self._is_stored(seen):
            return NO_CHANGE
        before = self._attempt(seen, version).before
        self._refuse_erased(before, seen.version)
        self._refuse_other_variant(before.entity)
        if self._copies.fields:
            before = self._with_copies(before, sources)
        attempt = CommitAttempt(seen, before, *self._versions(seen, version))
        known = SourceCache(self._catalog, sources)
        keys = [key for each in self._entity_type.going for key in self._refs[each.name]]
        gone = [known[key] for key in keys if self._entity_type.goes_with(self._refs, key, known[key])]
        if gone:
            decided = self._delete(attempt, sources, erases=any(each.erased for each in gone))
        else:
            entity = stamped_as_given(self._entity_type, self._entity, sources.now)
            decided = self._store(self._entity_type, entity, self._refs, attempt, sources)
        return replace(decided, taken=(*decided.taken, *self._numbers)) if self._numbers else decided

    def _refuse_erased(self, before: EntityState, version: int) -> None:
        """Raises Erased for what was stored of an entity before it was erased; one that came later is another."""
        if before.entity is None and is_erased(before.record) and self._version <= version:
            raise Erased(
                "this entity was erased, and what was stored of it before is not restored",
                key=self._catalog.name_of(self.key),
            )

    def _is_stored(self, seen: Root) -> bool:
        """Whether the row has this own version, or a later one, which only programs give once they write here."""
        if seen.body is None or self._copies.fields or self._numbers or seen.own < self._version:
            return False
        return type(self._state(seen).entity) is self._entity_type.cls

    def _versions(self, seen: Root, version: int) -> tuple[int, int]:
        """The versions of the row and of the entity, in place of this one of the next commit."""
        is_next = seen.version < self._version and (self._always or self._version <= version)
        kept = self._version if is_next else version
        return kept, self._version if self._always or max(seen.own, 1) <= self._version <= kept else kept

    def _delete(self, attempt: CommitAttempt, sources: CommittedRows, *, erases: bool) -> Decision:
        """Stores a tombstone: the entity waited to be deleted with a source when it was dumped."""
        inputs = FillInputs(attempt.before, SourceCache(self._catalog, sources))
        entity = self._entity_type.with_totals(self.key, self._entity, attempt.before.entity, sources.groups)
        filled = self._entity_type.fill(self.key, entity, self._refs, inputs)
        whole = replace(attempt.before, entity=filled.entity)
        self.written.version = attempt.version
        return deletion(self._catalog, self.key, replace(attempt, before=whole), sources, erases=erases)

    def _with_copies(self, before: EntityState, sources: CommittedRows) -> EntityState:
        """The state before, as if it already had the dumped copies of sources that are not in the store."""
        _fields, entity, hidden = self._copies
        rows = SourceCache(self._catalog, sources)
        references = {each.name: each for each in self._entity_type.references}
        known = {name: getattr(before.entity, name, None) for name in references}
        hidden = dict(hidden)
        for name in self._copies.fields:
            each = references[name]
            sources_of = [each.narrowed(rows[key]) for key in self._refs.get(name, ())]
            if any(source.entity is None for source in sources_of):
                known[name] = getattr(entity, name, None)
            for source in sources_of:
                held = known[name]
                is_late = isinstance(held, Copy) and not held.deleted and source.entity is None and source.existed
                if source.erased or is_late:  # the dump has what it was, and its task may have been done
                    known[name] = each.updated_copy(held, source) if isinstance(held, Copy) else held
                    hidden |= each.hidden_values(source, {} if source.erased else hidden)
        return replace(before, entity=SimpleNamespace(**known), used={**before.used, **hidden})


class RestoreTombstone(PlainChange):
    """Stores the tombstone of a deleted entity, unless the store has its root row; `last` is by route.

    `numbers` are those that it has given to children.
    """

    def __init__(
        self,
        catalog: Catalog,
        key: bytes,
        version: int,
        last: Mapping[str, Any],
        numbers: Sequence[TakenNumber] = (),
    ) -> None:
        self._catalog = catalog
        self.key = key
        self.sequence = None
        self._version = version
        self._last = last
        self._taken = catalog.taken_number(key)
        self._numbers = numbers
        self.written = ChangeResult()

    def hints(self) -> tuple[bytes, ...]:
        """The root's row, which has given the number of a deleted child."""
        return () if self._taken is None else (self._taken.sequence.root,)

    def groups(self, seen: Root) -> tuple[Group, ...]:  # noqa: ARG002 - part of the contract
        return ()

    def followed(self, root: Root) -> None:
        """Does nothing: a deleted entity has no copies."""

    def decide(self, seen: Root, version: int, sources: CommittedRows) -> Decision:
        if seen.version:
            self.written.version = seen.version
            return NO_CHANGE
        if self._taken is not None and sources.row(self._taken.sequence.root) is None:
            raise MissingReference(
                "the root of this deleted child is not in the store; load the root's model too",
                key=self._catalog.name_of(self.key),
            )
        goes = DELETES in self._last  # holders that came before it in the dump go with it
        record = self._catalog.any_type_of(self.key).empty_record()
        if self._last:
            record[LAST_VALUES] = dict(self._last)
        kept = min(self._version, version) if self._version > 0 else version
        self.written.version = kept
        return Decision(
            Root(kept, None, emitted_record.encode_record(record)),
            record_diff(self.key, {}, record, {}),
            goes,
            taken=self._numbers if self._taken is None else (self._taken,),
        )
