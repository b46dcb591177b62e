"""Dumps: every entity and counter of a store as JSON lines, in an order in which they can be loaded.

Derived rows are not dumped, because loading derives them. An entity that has expired and is not swept is dumped like
others: it is stored, and others may refer to it. See docs/formats/dumps.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import msgspec

from oneread.counters.dumping import (
    CacheCounterLine,
    CounterLine,
    TokensLine,
    dump_counters,
    dump_tokens,
    has_counters,
)
from oneread.counters.kept_tokens import KeptTokens
from oneread.counters.rows import TOKEN_BYTES
from oneread.derivations.catalog import Catalog
from oneread.derivations.emitted_record import HIDDEN, LAST_VALUES
from oneread.derivations.entity_state import EntityState
from oneread.derivations.entity_type import EntityType
from oneread.derivations.schema_rows import stored_schema
from oneread.models.model import stored_name
from oneread.models.registry import EntityKind
from oneread.plans.arguments import check_function
from oneread.plans.effects import Snapshot
from oneread.plans.plan import Plan
from oneread.plans.progress import Progress, Reporter
from oneread.plans.scans import scan_all
from oneread.store.engine import Engine
from oneread.store.requests import Found
from oneread.store.rows import Row, RowRange
from oneread.transactions.copy_cells import CopyCells
from oneread.transactions.intents import root_row
from oneread.transactions.root import Root, parse_root
from oneread.transactions.sequences import last_number, sequences_of
from oneread.transfer.dump_sources import DumpSources
from oneread.transfer.forms import HIDDEN_COPIES, LAST, ColumnForm, document_text, pack_values

FORMAT: Final = 3
"""Of dumps with counters or with models whose entities are numbered; earlier releases refuse them."""
_PLAIN: Final = 1
"""Of other dumps, which earlier releases read."""
BATCH: Final = 500

R = TypeVar("R")

WriteLine: TypeAlias = Callable[[bytes], object]
_encode = msgspec.json.Encoder().encode


class Head(msgspec.Struct, frozen=True):
    """The first line."""

    oneread: int
    """The format of the dump."""
    schema: str
    """The digest of the declared models."""
    models: tuple[str, ...]
    """The models in it, by stored name, in the order of the lines."""


class End(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last line: a dump without it is incomplete.

    Arguments:
        end: lines between the first and this one.
        entities: their number by the stored name of their class.
        deleted: the number of tombstones.
        digest: BLAKE2b, 16 bytes, of all lines before this one.
        counters: the number of counters, of both kinds.
        tokens: the number of tokens of adds that count once.
    """

    end: int
    entities: dict[str, int]
    deleted: int
    digest: str
    counters: int = 0
    tokens: int = 0


def in_snapshot(engine: Engine, write_lines: Callable[[], Plan[R]]) -> Plan[R]:
    """Writes all lines from one snapshot where the engine has them."""
    return Snapshot(write_lines).__iter__() if engine.capabilities.snapshot else write_lines()


def schema_digest(catalog: Catalog) -> str:
    """A digest of the models: names, fields and their order."""
    models = sorted((stored_name(cls), catalog.entity_types[cls].layout.fields) for cls in catalog.models)
    described = [[name, [[each.name, each.kind, str(each.concrete)] for each in fields]] for name, fields in models]
    return hashlib.blake2b(_encode(described), digest_size=16).hexdigest()


def dump_order(catalog: Catalog) -> list[EntityKind]:
    """All kinds, each after those that it refers to, except where references form a cycle, and children after roots."""
    targets: dict[bytes, set[bytes]] = {kind.prefix: set() for kind in catalog.kinds.values()}
    for entity_type in catalog.entity_types.values():
        targets[entity_type.kind.prefix] |= {each.kind.prefix for each in entity_type.references}
    kinds = {kind.prefix: kind for kind in catalog.kinds.values()}
    found: list[EntityKind] = []
    remaining = sorted(kinds, key=lambda prefix: stored_name(kinds[prefix].cls))
    while remaining:
        blocked = set(remaining)
        ready = [prefix for prefix in remaining if not (targets[prefix] - {prefix}) & blocked]
        taken = ready or [prefix for prefix in remaining if not _is_before_root(kinds[prefix], catalog, blocked)][:1]
        found.extend(kinds[prefix] for prefix in taken)
        remaining = [prefix for prefix in remaining if prefix not in taken]
    return found


def _is_before_root(kind: EntityKind, catalog: Catalog, remaining: Collection[bytes]) -> bool:
    """Whether the root of these children is still to come."""
    return kind.child_of is not None and catalog.kinds[kind.child_of].prefix in remaining


def forward_references(kinds: Sequence[EntityKind], entity_type: EntityType) -> frozenset[str]:
    """The references of a class whose targets may come after it in a dump."""
    places = {kind.prefix: place for place, kind in enumerate(kinds)}
    own = places[entity_type.kind.prefix]
    return frozenset(each.name for each in entity_type.references if places.get(each.kind.prefix, own) >= own)


class DumpParts(Protocol):
    """What differs by the kind of store that is dumped."""

    @property
    def cells(self) -> CopyCells: ...
    @property
    def tokens(self) -> KeptTokens: ...


class Dump:
    """One dump: of the given models, or of all where none is given."""

    _has_counters = True
    """Whether counters are in a dump of all models."""

    def __init__(
        self, catalog: Catalog, parts: DumpParts, models: Sequence[type], write: WriteLine, progress: Reporter
    ) -> None:
        check_function("write", write)
        check_function("progress", progress)
        wanted = {catalog.kinds[model].prefix for model in models} or {each.prefix for each in catalog.kinds.values()}
        self._catalog = catalog
        self._lay = parts.cells.lay
        self._tokens = parts.tokens
        self._order = dump_order(catalog)
        self.kinds = [kind for kind in self._order if kind.prefix in wanted]
        self._forms = {cls: ColumnForm(entity_type) for cls, entity_type in catalog.entity_types.items()}
        self._names = {cls: _encode(stored_name(cls)) for cls in catalog.models}
        self._forward = {
            cls: forward_references(self._order, entity_type) for cls, entity_type in catalog.entity_types.items()
        }
        self._write = write
        self._progress = progress
        self._digest = hashlib.blake2b(digest_size=16)
        self._entities: dict[str, int] = {}
        self._deleted = self._lines = self._counters = self._token_count = 0
        self._is_whole = not models and self._has_counters
        self._sources = DumpSources(catalog)
        self._deleting = False

    def write_lines(self) -> Plan[End]:
        """Writes all lines; an entity that changes meanwhile is written in its old or its new state.

        Raises:
            SchemaMismatch: a newer program has added fields, which this dump would lack.
        """
        self._catalog.refuse_older((yield from stored_schema()))
        names = tuple(stored_name(cls) for kind in self.kinds for cls in self._classes(kind))
        counted = self._is_whole and (yield from has_counters())
        numbered = any(each.numbered for each in self._catalog.entity_types.values())
        form = FORMAT if counted or numbered else _PLAIN
        self._line(_encode(Head(form, schema_digest(self._catalog), names)))
        self._lines = 0
        yield from self.begin()
        for kind in self.kinds:
            yield from scan_all("roots", RowRange.under(kind.prefix), partial(self._batch, kind), BATCH)
        if counted:
            yield from dump_counters(self._counter)
            yield from dump_tokens(self._tokens, self._token_line)
        end = End(
            self._lines, self._entities, self._deleted, self._digest.hexdigest(), self._counters, self._token_count
        )
        self._line(_encode(end))
        return end

    def begin(self) -> Plan[None]:
        """Reads which sources have changed and whose holders have not followed yet; forgets what was read before."""
        yield from self._sources.begin()
        # The load deletes entities that wait to be deleted with a source; others refer to them.
        self._deleting = self._sources.has_pending and any(each.going for each in self._catalog.entity_types.values())

    def _counter(self, line: CounterLine | CacheCounterLine) -> None:
        self._line(_encode(line))
        self._counters += 1

    def _token_line(self, line: TokensLine) -> None:
        self._line(_encode(line))
        self._token_count += len(line.kept) // TOKEN_BYTES

    def _classes(self, kind: EntityKind) -> list[type]:
        return [cls for cls in self._catalog.models if self._catalog.kinds[cls] is kind]

    def _line(self, text: bytes) -> None:
        line = text + b"\n"
        self._digest.update(line)
        self._write(line)
        self._lines += 1

    def _batch(self, kind: EntityKind, rows: list[Found]) -> Plan[None]:
        for _key, line in (yield from self.lines_of(kind, rows)):
            self._line(line)
        self._progress(Progress(f"dumping {stored_name(kind.cls)}", self._lines))

    def lines_of(self, kind: EntityKind, rows: Sequence[Found]) -> Plan[list[tuple[bytes, bytes]]]:
        """The lines of root rows, each with the row's key, without the line feed; rows that are none are left out."""
        lines: list[tuple[bytes, bytes]] = []
        laid = [(key, root_row(self._lay(key, row))) for key, row in rows]
        found = [(key, row, parse_root(row)) for key, row in laid if row is not None]
        states = [(key, root, self._sources.state(key, root)) for key, _row, root in found]
        yield from self._sources.load([state for _key, _root, state in states])
        for (key, root, state), (_key, row, _root) in zip(states, found, strict=True):
            is_deleted = state.entity is None
            parts = self._tombstone(kind, key, root, state) if is_deleted else self._entity(key, root.own, state)
            numbers = self._numbers(key, row)
            if numbers:
                parts += [b',"numbers":', _encode(numbers)]
            lines.append((key, b"".join([*parts, b"}"])))
        return lines

    def _numbers(self, key: bytes, row: Row) -> dict[str, int]:
        """The last number that an entity has given to its children of each model, by stored name."""
        catalog = self._catalog
        return {
            stored_name(catalog.kinds_by_prefix[each.kind].cls): last_number(row, each, catalog.name_of)
            for each in sequences_of(key, row)
            if each.kind in catalog.kinds_by_prefix
        }

    def _entity(self, key: bytes, version: int, state: EntityState) -> list[bytes]:
        """The line of an entity in pieces, without its end."""
        entity, entity_type = state.entity, self._catalog.type_of(state.entity)
        refs = entity_type.refs(entity)
        late, is_missing = self._forward[entity_type.cls], self._sources.is_missing
        references = {each.name: each for each in entity_type.references}
        held = [
            name
            for name, keys in refs.items()
            if keys and (name in late or self._deleting or any(is_missing(references[name], each) for each in keys))
        ]
        used = state.record.get(HIDDEN)
        filled = self._sources.filled(key, state, refs)
        if filled is not None:
            entity, used = filled.entity, filled.emission.record.get(HIDDEN)
        entity, used = self._given(entity_type, entity, used)
        form = self._forms[entity_type.cls]
        parts = [b'{"model":', self._names[entity_type.cls], b',"version":%d' % version]
        text = form.encode(entity)
        if text is not None:
            parts += [b',"entity":', text]
        if held or text is None:
            parts += [b',"document":', _encode(document_text(entity_type.layout, entity))]
        if held:
            parts += [b',"held":', _encode(held)]
            if used:
                parts += [b',"used":', _encode(pack_values(HIDDEN_COPIES, used))]
        name = stored_name(entity_type.cls)
        self._entities[name] = self._entities.get(name, 0) + 1
        return parts

    def _given(self, entity_type: EntityType, entity: Any, used: Any) -> tuple[Any, Any]:  # noqa: ARG002 - of others
        """An entity and its hidden copies, as the record has them, as they are dumped."""
        return entity, used

    def _given_tombstone(self, kind: EntityKind, key: bytes, last: Any) -> tuple[tuple[Any, ...], Any]:
        """The key of a deleted entity, and its last values, as they are dumped."""
        return kind.parts_of(key), last

    def _tombstone(self, kind: EntityKind, key: bytes, root: Root, state: EntityState) -> list[bytes]:
        key_parts, last = self._given_tombstone(kind, key, state.record.get(LAST_VALUES))
        self._deleted += 1
        parts = [b'{"model":', _encode(stored_name(kind.cls)), b',"version":%d' % root.version]
        parts += [b',"deleted":', _encode(key_parts)]
        if last:
            parts += [b',"last":', _encode(pack_values(LAST, last))]
        return parts
