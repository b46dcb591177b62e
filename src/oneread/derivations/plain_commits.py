"""Plain commits: an entity takes new values of its sources, or joins a view, and only rows of views follow from that.

Most holders of a rename and most rows of a backfill are plain, and a few steps are enough for each of them: only the
views are emitted that look at the new values, or that the record lacks, and the rest of the record is kept as it is.
`FollowSource` and `Reemit` have the meaning, and decide for every other entity; tests/properties/test_plain_commits.py
compares both. See docs/decisions/0093-plain-commits.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from oneread.derivations.catalog import Catalog
from oneread.derivations.copies import Reference, Refs, Source
from oneread.derivations.decisions import CommitAttempt
from oneread.derivations.emission_code import Emit
from oneread.derivations.emitted_record import (
    HELD,
    REFERENCES,
    ROWS,
    Record,
    decode_record,
    encode_record,
    first_writes,
    form_of,
    record_diff,
)
from oneread.derivations.entity_type import EntityType
from oneread.derivations.source_cache import SourceCache
from oneread.models.references import Copy
from oneread.store.keys import entity_part, kind_part
from oneread.store.limits import BODY_BYTES
from oneread.transactions.commit import NO_CHANGE, CommittedRows, Decision
from oneread.transactions.derived_writes import NO_DERIVED_WRITES
from oneread.transactions.root import Root

_OF_NO_VIEW: Final = (REFERENCES, HELD)
"""What the records of plain entities have besides contributions to views, in its order."""


class PlainTypes:
    """The entity types of a schema whose entities are plain."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.by_layout: Mapping[bytes, EntityType] = {
            each.kind.prefix + each.layout.prefix: each for each in catalog.entity_types.values() if each.is_plain
        }
        """By the prefix of their keys and the beginning of their documents."""

    def holders(self, source: bytes, rows: CommittedRows) -> PlainHolders | None:
        """Decides for the plain holders of a source as it is in these rows; None if none of them is plain."""
        found = SourceCache(self.catalog, rows)[source] if self.by_layout else None
        return None if found is None or found.entity is None else PlainHolders(self.by_layout, source, found)


class _Way(NamedTuple):
    """How entities of one type that refer to the source in the same fields take its values."""

    entity_type: EntityType
    references: dict[Reference, Source]
    """The references with a copy, and the source as each of them sees it."""
    copies: dict[str, Copy[Any]]
    """What the first entity got, by field, which was validated; empty before it."""
    emit: Emit
    """Of the views that look behind the references."""


class PlainHolders:
    """Decides for the plain holders of one source."""

    def __init__(self, types: Mapping[bytes, EntityType], key: bytes, source: Source) -> None:
        self._types = types
        self._key = key
        self._source = source
        self._ways: dict[tuple[type, tuple[str, ...]], _Way | None] = {}

    def decide(self, key: bytes, seen: Root, version: int) -> Decision | None:
        """What `FollowSource` decides about a root row; None where it must. Raises what it raises, or another error."""
        if seen.body is None:
            return None
        entity_type = self._types.get(kind_part(key) + seen.body[:2])
        if entity_type is None:
            return None
        entity = entity_type.layout.decode_known(seen.body)
        refs, record = entity_type.refs(entity), decode_record(seen.emitted)
        way = self._way(entity_type, refs)
        if (
            way is None
            or not entity_type.tokens.cover_views(record, alive=True)
            or not _knows(entity_type, record, refs)
        ):
            return None
        filled = _fill(way, entity)
        if filled is None:
            return None
        body, entity = filled
        emission = way.emit(entity, {}, entity_type.kind.parts(entity), entity_part(key), refs, 0)
        emitted, writes = seen.emitted, NO_DERIVED_WRITES
        before = {token: record[token] for token in emission.record}
        if before != emission.record:
            emitted = encode_record({**record, **emission.record})
            writes = record_diff(key, before, emission.record, emission.shown)
        elif body == seen.body:
            return NO_CHANGE
        return Decision(Root(version, body, emitted, seen.own), writes)

    def _way(self, entity_type: EntityType, refs: Refs) -> _Way | None:
        source = self._key
        through = tuple([name for name, keys in refs.items() if source in keys])
        place = entity_type.cls, through
        if place not in self._ways:
            self._ways[place] = self._find_way(entity_type, through)
        return self._ways[place]

    def _find_way(self, entity_type: EntityType, through: tuple[str, ...]) -> _Way | None:
        """How to take the source's values through these fields; None if the entities are not plain."""
        kept = entity_type.emitters.tokens_without(entity_type.seen_through(through)) if through else ()
        if not kept or any(form_of(token) != ROWS for token in entity_type.tokens.views - kept):
            return None
        copying = [each for each in entity_type.references if each.name in through and each.copy is not None]
        sources = {each: each.narrowed(self._source) for each in copying}
        if any(each.entity is None for each in sources.values()):
            return None
        return _Way(entity_type, sources, {}, entity_type.emitters.skipping(kept))


def _knows(entity_type: EntityType, record: Record, refs: Refs) -> bool:
    """Whether a record lists what the entity refers to."""
    if entity_type.tracked and record[REFERENCES] != entity_type.taken(refs):
        return False
    return not entity_type.holding or bool(record[HELD] == entity_type.held_sources(refs))


def _fill(way: _Way, entity: Any) -> tuple[bytes, Any] | None:
    """The document of an entity and the entity with the source's values; None for one that is unusual.

    The first one is validated as each is elsewhere. Of the others only the copies are new, which are then as valid.
    """
    layout, copies, new = way.entity_type.layout, way.copies, dict[str, Copy[Any]]()
    if copies:
        for name, copy in copies.items():
            old = getattr(entity, name)
            if type(old) is not type(copy):
                return None
            new[name] = replace(copy, ref=old.ref)
        entity = replace(entity, **new)
        body = layout.encode(entity)
    else:
        for reference, source in way.references.items():
            old = getattr(entity, reference.name)
            if type(old) is not reference.copy:
                return None
            new[reference.name] = reference.updated_copy(old, source)
        body, entity = layout.validated(replace(entity, **new))
        way.copies.update({name: getattr(entity, name) for name in new})
    return (body, entity) if body.startswith(layout.prefix) and len(body) <= BODY_BYTES else None


def reemission(
    entity_type: EntityType, key: bytes, attempt: CommitAttempt, refs: Refs, sources: SourceCache
) -> Decision | None:
    """What `Reemit` decides for an entity that lacks views, and has the values of its sources; None where it must."""
    before = attempt.before
    entity, record = before.entity, before.record
    kept = entity_type.emitters.recorded_tokens(record)
    lacking = entity_type.tokens.missing_views(record)
    if not (entity_type.is_plain and kept and lacking) or before.body is None:
        return None
    if len(kept) + len(lacking) != len(entity_type.tokens.views):  # a view of which the record has some tokens
        return None
    if lacking.union(record) != entity_type.tokens.empty or not _knows(entity_type, record, refs):
        return None
    if not _has_values(entity_type, before.body, entity, refs, sources):
        return None
    emit = entity_type.emitters.skipping(kept)
    emission = emit(entity, {}, entity_type.kind.parts(entity), entity_part(key), refs, sources.rows.now)
    whole = {**record, **emission.record}
    emitted = encode_record(
        {token: whole[token] for token in (*entity_type.emitters.order(), *_OF_NO_VIEW) if token in whole}
    )
    return Decision(Root(attempt.version, before.body, emitted, attempt.own), first_writes(key, emission))


def _has_values(entity_type: EntityType, body: bytes, entity: Any, refs: Refs, sources: SourceCache) -> bool:
    """Whether the document has, to the byte, the values that the sources of an entity have now."""
    new: dict[str, Copy[Any]] = {}
    for each in entity_type.references:
        for key in refs[each.name]:
            source = sources[key]
            if each.copy is None:
                continue
            source, old = each.narrowed(source), getattr(entity, each.name)
            if source.entity is None or type(old) is not each.copy:
                return False
            new[each.name] = each.fill(old.ref, source.entity, source.used)
    return len(body) <= BODY_BYTES and (not new or entity_type.layout.encode(replace(entity, **new)) == body)
