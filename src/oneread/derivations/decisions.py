"""What is decided about one root row: to store a filled entity there, or to delete the one that it has."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from oneread.derivations import emitted_record
from oneread.derivations.catalog import Catalog
from oneread.derivations.copies import Refs
from oneread.derivations.emitted_record import first_writes, record_diff
from oneread.derivations.entity_state import EntityState
from oneread.derivations.entity_type import EntityType, FilledEntity
from oneread.derivations.source_cache import SourceCache
from oneread.errors import LimitExceeded
from oneread.store.limits import BODY_BYTES
from oneread.transactions.commit import CommittedRows, Decision
from oneread.transactions.derived_writes import NO_DERIVED_WRITES
from oneread.transactions.outbox import holds_on
from oneread.transactions.root import Root


class CommitAttempt(msgspec.Struct, frozen=True, gc=False):
    """What a change is decided on: the root row, the state that it holds, and the versions of the row that follows."""

    seen: Root
    before: EntityState
    version: int
    own: int
    """The own version; that of the row before where the entity's own fields stay."""
    replaced: Any = None
    """An expired entity that counts as absent: its totals are those of its key."""


class LookedAt(NamedTuple):
    """A root row, what it holds, and what its entity refers to."""

    root: Root
    state: EntityState
    refs: Refs


def look_at(catalog: Catalog, key: bytes, root: Root) -> LookedAt:
    """Decodes a root row."""
    state = catalog.state(key, root)
    return LookedAt(root, state, {} if state.entity is None else catalog.type_of(state.entity).refs(state.entity))


def decision(
    catalog: Catalog, entity_type: EntityType, key: bytes, filled: FilledEntity, attempt: CommitAttempt
) -> Decision:
    """The decision to store a filled entity."""
    if len(filled.body) > BODY_BYTES:
        raise LimitExceeded(
            "the entity is too large", key=catalog.name_of(key), bytes=len(filled.body), limit=BODY_BYTES
        )
    seen, before = attempt.seen, attempt.before
    root = entity_type.root(attempt.version, attempt.own, filled, seen, before.record)
    record = filled.emission.record
    if root.emitted == seen.emitted:
        operations = NO_DERIVED_WRITES
    elif not before.record:
        operations = first_writes(key, filled.emission)
    else:
        operations = record_diff(key, before.record, record, filled.emission.shown)
    groups = entity_type.touched(before.record, record) if entity_type.shown else ()
    if entity_type.copied is None:
        return Decision(root, operations, groups=groups)
    fans_out, unchanged = entity_type.fans_out(before if seen.version else None, record), list[bytes]()
    if before.must_notify:
        fans_out = True
    elif fans_out:
        unchanged = entity_type.unchanged_selections(before, record)
    if fans_out:
        catalog.probes.check(entity_type.kind.cls, filled.entity, entity_type.hidden.used_in(record))
    return Decision(root, operations, fans_out, unchanged, groups=groups)


def deletion(
    catalog: Catalog, key: bytes, attempt: CommitAttempt, sources: CommittedRows, *, erases: bool = False
) -> Decision:
    """The decision to delete an entity; one that is erased leaves no last values, and no reference forbids it."""
    before = attempt.before
    entity_type = catalog.any_type_of(key)
    if erases:
        record = entity_type.erased_record(type(before.entity), {})
    else:
        whole = catalog.type_of(before.entity).with_all_copies(before, SourceCache(catalog, sources))
        record = entity_type.tombstone_record(whole)
    return Decision(
        Root(attempt.version, None, emitted_record.encode_record(record)),
        record_diff(key, before.record, record, {}),
        entity_type.fans_out(before, record),
        unreferenced=[holds_on(key)] if catalog.may_be_held(key) and not erases else [],
        groups=entity_type.touched(before.record, record),
    )


def is_same(found: Decision, seen: Root) -> bool:
    """Whether a decision writes what the row holds already."""
    assert found.root is not None
    return found.root.emitted == seen.emitted and found.root.body == seen.body
