"""Restoring: entities and tombstones as they stood in another store, versions and stamps included.

An entity is committed at the version it had, unless this store has seen a later one. What it shows of sources that are
not there is taken from what it held: those sources were deleted, or come later. See
docs/decisions/0026-dumps-hold-entities.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from oneread.derivations import emitted_record
from oneread.derivations.catalog import Catalog
from oneread.derivations.changes import ChangeResult, Save, SourceCache
from oneread.derivations.emitted_record import LAST_VALUES, record_diff
from oneread.derivations.entity_type import EntityState
from oneread.transactions.commit import NO_CHANGE, CommittedRows, Decision
from oneread.transactions.root import Root


class RestoreEntity(Save):
    """Lets an entity stand as it stood.

    Arguments:
        version: it had; 0 when that is not known.
        held: the entity with its copies, when some of its sources may be missing.
        names: the fields whose sources may be missing.
        used: its hidden copies, by name.
    """

    def __init__(
        self,
        catalog: Catalog,
        entity: Any,
        version: int = 0,
        held: Any = None,
        names: tuple[str, ...] = (),
        used: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(catalog, entity)
        self._version = version
        self._held = held
        self._names = names
        self._used = used or {}

    def decide(self, seen: Root, version: int, sources: CommittedRows) -> Decision:
        before = self._seen(seen)
        if self._names:
            before = self._as_held(before, sources)
        kept = self._version if seen.version < self._version <= version else version
        return self._settle(self._entity_type, self._entity, self._refs, seen, before, kept, sources)

    def _as_held(self, before: EntityState, sources: CommittedRows) -> EntityState:
        """The state before, as if it already showed what is held of sources that are not there."""
        rows = SourceCache(self._catalog, sources)
        known = {each.name: getattr(before.entity, each.name, None) for each in self._entity_type.references}
        for name in self._names:
            if any(rows[key].entity is None for key in self._refs.get(name, ())):
                known[name] = getattr(self._held, name, None)
        return before._replace(entity=SimpleNamespace(**known), used={**before.used, **self._used})


class RestoreTombstone:
    """Lets the tombstone of a deleted entity stand, where there is nothing yet.

    Arguments:
        key: its commit row.
        version: of the delete.
        last: what it told last, by route.
    """

    def __init__(self, catalog: Catalog, key: bytes, version: int, last: Mapping[str, Any]) -> None:
        self._catalog = catalog
        self.key = key
        self._version = version
        self._last = last
        self.written = ChangeResult()

    def hints(self) -> tuple[bytes, ...]:
        return ()

    def links(self, seen: Root) -> tuple[bytes, ...]:  # noqa: ARG002 - part of the contract
        return ()

    def followed(self, root: Root) -> None:
        """Who is not there follows nobody."""

    def decide(self, seen: Root, version: int, sources: CommittedRows) -> Decision:  # noqa: ARG002 - part of the contract
        if seen.version:
            self.written.version = seen.version
            return NO_CHANGE
        record = self._catalog.any_type_of(self.key).empty_record()
        if self._last:
            record[LAST_VALUES] = dict(self._last)
        kept = min(self._version, version) if self._version > 0 else version
        self.written.version = kept
        return Decision(Root(kept, None, emitted_record.encode_record(record)), record_diff(self.key, {}, record, {}))
