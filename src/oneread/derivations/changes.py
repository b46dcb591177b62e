"""Changes: what the writing verbs want of one commit row, and how a carrier follows its source.

See rules 3-5, 14 and 17 of the commit protocol, and "Semantics" of the decisions page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

import msgspec

from oneread.derivations import emitted_record
from oneread.derivations.catalog import Catalog
from oneread.derivations.copies import Source
from oneread.derivations.emitted_record import LAST_VALUES, Emission, first_writes, record_diff
from oneread.derivations.entity_type import EntityState, EntityType, FilledEntity, FillInputs, Refs
from oneread.errors import AlreadyExists, Conflict, InvalidValue, LimitExceeded, NotFound
from oneread.models.fields import CREATED
from oneread.store.limits import BODY_BYTES
from oneread.transactions.commit import NO_CHANGE, Change, CommittedRows, Decision
from oneread.transactions.outbox import holds_on
from oneread.transactions.root import NO_ROOT, Root, parse_root
from oneread.transactions.unit_of_work import NO_DERIVED_WRITES, DerivedWrites

Mode: TypeAlias = Literal["save", "create", "keep"]
"""`save` replaces what is there, `create` refuses it, `keep` leaves it."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def instant_of(milliseconds: int) -> datetime:
    """Milliseconds since 1970 as an instant in UTC, exactly."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


class ChangeResult:
    """What a change came to.

    Arguments:
        entity: as it stands now, filled; None when it is gone or was never there.
        version: of its commit row; 0 when there is none.
        created: it was not there before.
    """

    __slots__ = ("created", "entity", "version")

    def __init__(self) -> None:
        self.entity: Any = None
        self.version = 0
        self.created = False


class _Writing:
    """What all changes of an entity share."""

    def __init__(self, catalog: Catalog, key: bytes, if_version: int | None) -> None:
        self._catalog = catalog
        self._if_version = if_version
        self.key = key
        self.written = ChangeResult()

    def hints(self) -> Iterable[bytes]:
        return ()

    def links(self, seen: Root) -> Iterable[bytes]:  # noqa: ARG002 - part of the contract
        return ()

    def followed(self, root: Root) -> None:
        self.written.entity, self.written.version = self._catalog.state(self.key, root).entity, root.version

    def _seen(self, seen: Root) -> EntityState:
        """The state before, once the version is what the caller expects."""
        if self._if_version is not None:
            if type(self._if_version) is not int:
                raise InvalidValue("if_version is a number: db.version(entity)", if_version=self._if_version)
            version = seen.version if seen.body is not None else 0
            if version != self._if_version:
                raise Conflict(
                    "the entity has another version",
                    key=self._catalog.name_of(self.key),
                    expected=self._if_version,
                    version=version,
                )
        return self._catalog.state(self.key, seen)

    def _settle(
        self,
        entity_type: EntityType,
        entity: Any,
        refs: Refs,
        seen: Root,
        before: EntityState,
        version: int,
        rows: CommittedRows,
    ) -> Decision:
        settled = entity_type.fill(self.key, entity, refs, FillInputs(before, SourceCache(self._catalog, rows)))
        self.written.entity, self.written.version, self.written.created = settled.entity, version, before.entity is None
        return decision(self._catalog, entity_type, self.key, settled, seen, before, version)


class SourceCache:
    """Sources by key, read out of commit rows when asked for and kept with them; a row that nobody loaded is nobody."""

    __slots__ = ("_catalog", "_rows")

    def __init__(self, catalog: Catalog, rows: CommittedRows) -> None:
        self._catalog = catalog
        self._rows = rows

    def __getitem__(self, key: bytes) -> Source:
        source: Source | None = self._rows.made.get(key)
        if source is None:
            row = self._rows.get(key)
            source = self._rows.made[key] = self._catalog.source(key, NO_ROOT if row is None else parse_root(row))
        return source


def decision(
    catalog: Catalog,
    entity_type: EntityType,
    key: bytes,
    settled: FilledEntity,
    seen: Root,
    before: EntityState,
    version: int,
) -> Decision:
    """The decision to let an entity stand as settled."""
    if len(settled.body) > BODY_BYTES:
        raise LimitExceeded(
            "the entity is too large", key=catalog.name_of(key), bytes=len(settled.body), limit=BODY_BYTES
        )
    root = entity_type.root(version, settled)
    operations = operations_of(key, root, seen, before, settled.emission)
    record = settled.emission.record
    fans_out = entity_type.fans_out(before if seen.version else None, record) or entity_type.must_notify_again(before)
    if fans_out:
        catalog.probes.check(entity_type.kind.cls, settled.entity, entity_type.used_in(record))
    return Decision(root, operations, fans_out)


def operations_of(key: bytes, root: Root, seen: Root, before: EntityState, emission: Emission) -> DerivedWrites:
    """The derived operations of a commit row that becomes `root`."""
    if root.emitted == seen.emitted:
        return NO_DERIVED_WRITES
    if not before.record:
        return first_writes(key, emission)
    return record_diff(key, before.record, emission.record, emission.shown)


class Save(_Writing):
    """Lets an entity stand as given, as a whole."""

    def __init__(self, catalog: Catalog, entity: Any, mode: Mode = "save", if_version: int | None = None) -> None:
        self._entity_type = catalog.type_of(entity)
        kind = self._entity_type.kind
        super().__init__(catalog, kind.key(kind.parts(entity)), if_version)
        self._entity = entity
        self._mode = mode
        self._refs = self._entity_type.refs(entity)

    def hints(self) -> Iterable[bytes]:
        return _flat(self._refs)

    def decide(self, seen: Root, version: int, sources: CommittedRows) -> Decision:
        before = self._seen(seen)
        if before.entity is not None and self._mode != "save":
            if self._mode == "create":
                raise AlreadyExists("an entity with this key exists", owner=self._catalog.name_of(self.key))
            self.written.entity, self.written.version = before.entity, seen.version
            return NO_CHANGE
        entity = stamped(self._entity_type, self._entity, before.entity, sources.now)
        return self._settle(self._entity_type, entity, self._refs, seen, before, version, sources)


class Patch(_Writing):
    """Changes fields of an entity that is there.

    Arguments:
        change: makes the new entity of the old one.
        otherwise: the entity to create when there is none; without it NotFound.
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
        self._change = change
        self._otherwise = otherwise

    def hints(self) -> Iterable[bytes]:
        return () if self._otherwise is None else _flat(self._catalog.type_of(self._otherwise).refs(self._otherwise))

    def _wanted(self, before: EntityState) -> Any:
        if before.entity is not None:
            return self._change(before.entity)
        if self._otherwise is not None:
            return self._otherwise
        raise NotFound("there is no such entity", key=self._catalog.name_of(self.key))

    def links(self, seen: Root) -> Iterable[bytes]:
        before = self._catalog.state(self.key, seen)
        if before.entity is None:
            return ()
        entity_type = self._catalog.type_of(before.entity)
        known, wanted = entity_type.refs(before.entity), entity_type.refs(self._wanted(before))
        links = [key for name, keys in wanted.items() for key in keys if key not in known[name]]
        return links + entity_type.stale_sources(before, known) if entity_type.has_hidden or before.unfilled else links

    def decide(self, seen: Root, version: int, sources: CommittedRows) -> Decision:
        before = self._seen(seen)
        wanted = self._wanted(before)
        entity_type = self._catalog.type_of(wanted)
        entity = stamped(entity_type, wanted, before.entity, sources.now)
        return self._settle(entity_type, entity, entity_type.refs(entity), seen, before, version, sources)


class Delete(_Writing):
    """Takes an entity away, with everything derived from it; quiet when there is none, or one of another variant."""

    def __init__(self, catalog: Catalog, key: bytes, if_version: int | None = None, model: type = object) -> None:
        super().__init__(catalog, key, if_version)
        self._model = model

    def links(self, seen: Root) -> Iterable[bytes]:
        return _stale_sources(self._catalog, self.key, seen)

    def decide(self, seen: Root, version: int, sources: CommittedRows) -> Decision:
        before = self._seen(seen)
        if seen.body is None or not isinstance(before.entity, self._model):
            return NO_CHANGE
        entity_type = self._catalog.any_type_of(self.key)
        whole = self._catalog.type_of(before.entity).with_all_copies(before, SourceCache(self._catalog, sources))
        record = entity_type.tombstone_record(whole)
        self.written.version, self.written.created = version, False
        return Decision(
            Root(version, None, emitted_record.encode_record(record)),
            record_diff(self.key, before.record, record, {}),
            entity_type.fans_out(before, record),
            [holds_on(self.key)] if self._catalog.may_be_held(self.key) else [],
        )


class FollowSource(_Writing):
    """Gives a carrier the new values of a source that it refers to.

    A leaf copy (no view of the carrier depends on it, and nobody copies it on) keeps the carrier's version, since the
    carrier itself did not change; a dependent one is a full re-commit. A view that the row has not told anything yet is
    left to the backfill: its re-emission may be refused, and a task has nobody to refuse it to.
    """

    def __init__(self, catalog: Catalog, source: bytes, key: bytes) -> None:
        super().__init__(catalog, key, None)
        self._source = source

    def hints(self) -> Iterable[bytes]:
        return (self._source,)

    def links(self, seen: Root) -> Iterable[bytes]:
        return _stale_sources(self._catalog, self.key, seen)

    def decide(self, seen: Root, version: int, sources: CommittedRows) -> Decision:
        before = self._seen(seen)
        if before.entity is None:
            return NO_CHANGE
        entity_type = self._catalog.type_of(before.entity)
        refs = entity_type.refs(before.entity)
        if self._source not in _flat(refs):
            return NO_CHANGE
        missing = entity_type.missing_views(before.record)
        inputs = FillInputs(before, SourceCache(self._catalog, sources), (self._source,), missing)
        settled = entity_type.fill(self.key, before.entity, refs, inputs)
        recommit = decision(self._catalog, entity_type, self.key, settled, seen, before, version)
        root = recommit.root
        if root is not None and root.emitted == seen.emitted and not recommit.fans_out:
            if root.body == seen.body:
                return NO_CHANGE
            return Decision(msgspec.structs.replace(root, version=seen.version))
        return recommit


class Reemit(_Writing):
    """Lets a commit row tell its views what is declared now, with the values its sources have now.

    What backfill does to each row that lacks something, deleted ones too (rule 17). The entity's own fields stay; a row
    that was written under an older layout is written under the current one. A deleted source is not asked: what its
    carriers may keep of it reaches those that held it by its task, and nobody else.

    Arguments:
        sources: commit rows that it will probably need, known from an earlier look.
    """

    def __init__(self, catalog: Catalog, key: bytes, sources: Iterable[bytes] = ()) -> None:
        super().__init__(catalog, key, None)
        self._sources = sources
        self._looked: tuple[Root, EntityState, Refs] | None = None

    def hints(self) -> Iterable[bytes]:
        return self._sources

    def _read(self, seen: Root) -> tuple[EntityState, Refs]:
        """The state and its references, read once for both `links` and `decide`."""
        if self._looked is None or self._looked[0] is not seen:
            before = self._catalog.state(self.key, seen)
            refs = {} if before.entity is None else self._catalog.type_of(before.entity).refs(before.entity)
            self._looked = seen, before, refs
        return self._looked[1:]

    def links(self, seen: Root) -> Iterable[bytes]:
        return _flat(self._read(seen)[1])

    def decide(self, seen: Root, version: int, sources: CommittedRows) -> Decision:
        before, refs = self._read(seen)
        if before.entity is None:
            return self._of_deleted(seen, before, version)
        entity_type = self._catalog.type_of(before.entity)
        known = SourceCache(self._catalog, sources)
        readable = [key for key in _flat(refs) if known[key].entity is not None or not known[key].existed]
        settled = entity_type.fill(self.key, before.entity, refs, FillInputs(before, known, readable))
        found = decision(self._catalog, entity_type, self.key, settled, seen, before, version)
        assert found.root is not None
        same = found.root.emitted == seen.emitted and found.root.body == seen.body
        return NO_CHANGE if same else found

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
        )


def _stale_sources(catalog: Catalog, key: bytes, seen: Root) -> list[bytes]:
    """Sources whose values a row lacks that code which did not know them wrote."""
    if seen.body is None or not catalog.may_lack(key, seen.body):
        return []
    before = catalog.state(key, seen)
    entity_type = catalog.type_of(before.entity)
    return entity_type.stale_sources(before, entity_type.refs(before.entity))


def _flat(refs: Refs) -> list[bytes]:
    return [key for keys in refs.values() for key in keys]


def follower(catalog: Catalog) -> Callable[[bytes, bytes], Change]:
    """What lets carriers follow: (source key, carrier key) to the change."""
    return lambda source, entity_type: FollowSource(catalog, source, entity_type)


def stamped(entity_type: EntityType, entity: Any, before: Any, clock: int) -> Any:
    """The entity with its created and updated stamps; the one of its first save stays.

    They are what the clock says, not the version: after a write under a clock that was ahead, versions stay ahead.
    """
    if not (entity_type.created or entity_type.updated):
        return entity
    now = instant_of(clock)
    stamps = dict.fromkeys(entity_type.updated, now)
    for name in entity_type.created:
        if hasattr(before, name):
            stamps[name] = getattr(before, name)
        elif getattr(entity, name) == CREATED:
            stamps[name] = now
    return msgspec.structs.replace(entity, **stamps)
