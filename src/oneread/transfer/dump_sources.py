"""The sources of what is dumped, as holders have them once the tasks in the outbox are done.

A task brings the values of a source to its holders; where others copy these values from a holder, a task of its own
brings them on. A dump waits for none of them, so it fills holders as those tasks will.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from oneread.derivations.catalog import Catalog
from oneread.derivations.copies import Reference, Refs, Source, keys_of
from oneread.derivations.emitted_record import COPIED
from oneread.derivations.entity_state import EntityState, FillInputs
from oneread.derivations.entity_type import EntityType, FilledEntity
from oneread.derivations.pending_tasks import sources_with_pending_tasks
from oneread.errors import Corrupt
from oneread.plans.plan import Plan
from oneread.store.requests import Read
from oneread.transactions.intents import root_row
from oneread.transactions.root import Root, parse_root

_CACHED: Final = 20_000
"""Sources that are cached while their holders are dumped."""


class DumpSources:
    """Sources by key, for entities whose copies are filled again."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._passing = {cls for cls, entity_type in catalog.entity_types.items() if _passes_on(entity_type)}
        self._roots: dict[bytes, Root] = {}
        self._pending: set[bytes] = set()
        self._followed: dict[bytes, Source] = {}
        """Sources that copy from one with a task: they change with it."""

    @property
    def has_pending(self) -> bool:
        """Whether the holders of some source have not followed yet."""
        return bool(self._pending)

    def begin(self) -> Plan[None]:
        """Reads which sources have changed and whose holders have not followed yet; forgets what was read before."""
        self._forget()
        self._pending = yield from sources_with_pending_tasks()

    def load(self, states: Iterable[EntityState]) -> Plan[None]:
        """Reads the sources of these entities that are not cached. One request; where tasks wait, one a hop."""
        if len(self._roots) > _CACHED:
            self._forget()
        looked: dict[bytes, tuple[EntityState, Refs]] = {}
        wanted = dict.fromkeys([key for each in states if each.entity is not None for key in keys_of(self._refs(each))])
        while missing := [key for key in wanted if key not in self._roots]:
            rows = yield from Read("roots", missing, "dm")
            self._roots.update({key: parse_root(root_row(row)) for key, row in zip(missing, rows, strict=True)})
            found = self._passing_states(missing) if self._pending and self._passing else {}
            looked |= found
            wanted = dict.fromkeys([key for _state, refs in found.values() for key in keys_of(refs)])
        self._follow(looked)

    def __getitem__(self, key: bytes) -> Source:
        return self._followed.get(key) or self._catalog.source(key, self._roots[key])

    def is_missing(self, reference: Reference, key: bytes) -> bool:
        """Whether a source is not there, or is of another variant than the reference names."""
        body = self._roots[key].body
        return body is None or not reference.accepts(self._catalog.layouts_at(key).class_of(body))

    def state(self, key: bytes, root: Root) -> EntityState:
        try:
            return self._catalog.state(key, root)
        except Corrupt as error:
            self._catalog.name_damaged(error, "roots", key)
            raise

    def filled(self, key: bytes, state: EntityState, refs: Refs) -> FilledEntity | None:
        """An entity with the copies that tasks will give it; None where they change none of its sources."""
        entity_type = self._catalog.type_of(state.entity)
        changed = [
            each
            for each in keys_of(refs)
            if (each in self._pending or each in self._followed) and not self._never_had(entity_type, state, refs, each)
        ]
        return entity_type.fill(key, state.entity, refs, FillInputs(state, self, changed)) if changed else None

    def _never_had(self, entity_type: EntityType, state: EntityState, refs: Refs, source: bytes) -> bool:
        """Whether the task leaves a holder alone, as it was made behind the delete of the source."""
        through = [name for name, keys in refs.items() if source in keys]
        return self[source].entity is None and entity_type.never_had(state.entity, through)

    def _follow(self, looked: dict[bytes, tuple[EntityState, Refs]]) -> None:
        """Fills sources until none changes: as often as there are hops, since no path of a declaration is a circle."""
        has_changed = bool(looked)
        while has_changed:
            has_changed = False
            for key, (state, refs) in looked.items():
                filled = self.filled(key, state, refs)
                if filled is None or filled.emission.record[COPIED] == state.record.get(COPIED):
                    continue
                record = filled.emission.record
                used = self._catalog.type_of(filled.entity).hidden.used_in(record)
                self._followed[key] = Source(filled.entity, used, existed=True)
                after = replace(
                    state, entity=filled.entity, used=used, record=record, unfilled=frozenset(), body=filled.body
                )
                looked[key] = after, refs
                has_changed = True

    def _passing_states(self, keys: Iterable[bytes]) -> dict[bytes, tuple[EntityState, Refs]]:
        """The living ones of these sources that pass on what they copy, and what they refer to."""
        living = [(key, root) for key in keys if (root := self._roots[key]).body is not None]
        states = [(key, self.state(key, root)) for key, root in living]
        return {key: (state, self._refs(state)) for key, state in states if type(state.entity) in self._passing}

    def _refs(self, state: EntityState) -> Refs:
        return self._catalog.type_of(state.entity).refs(state.entity)

    def _forget(self) -> None:
        self._roots.clear()
        self._followed.clear()


def _passes_on(entity_type: EntityType) -> bool:
    """Whether others copy from an entity what it copies itself."""
    routes = () if entity_type.copied is None else entity_type.copied.types
    names = tuple(f"{each.name}." for each in entity_type.references)
    return any(route.startswith(names) for route in routes)
