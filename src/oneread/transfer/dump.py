"""Dumps: every entity of a store as JSON lines, in an order in which they can be loaded again.

Derived rows are not dumped, since loading makes them. See docs/formats/dumps.md.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from oneread.derivations import emitted_record
from oneread.derivations.catalog import Catalog, stored_name
from oneread.derivations.copies import Source
from oneread.derivations.emitted_record import HIDDEN, LAST_VALUES
from oneread.derivations.entity_type import EntityState, EntityType, FillInputs
from oneread.derivations.pending_tasks import sources_with_pending_tasks
from oneread.models.registry import EntityKind
from oneread.plans.effects import Snapshot
from oneread.plans.plan import Plan
from oneread.plans.progress import Progress, Reporter
from oneread.plans.scans import scan_all
from oneread.store.requests import Found, Read
from oneread.store.rows import RowRange
from oneread.transactions.root import NO_ROOT, Root, parse_root
from oneread.transfer.forms import ColumnForm, document_text

FORMAT: Final = 1
BATCH: Final = 500
_REMEMBERED: Final = 20_000
"""Sources that are remembered while their carriers are dumped."""

Write = Callable[[bytes], object]
_encode = msgspec.json.Encoder().encode


class Head(msgspec.Struct, frozen=True):
    """The first line.

    Arguments:
        oneread: the format of the dump.
        schema: digest of the declared models.
        models: the models that are in it, by stored name, in the order of the lines.
    """

    oneread: int
    schema: str
    models: tuple[str, ...]


class End(msgspec.Struct, frozen=True):
    """The last line: without it the dump is torn.

    Arguments:
        end: lines between the first and this one.
        entities: how many, by the stored name of their class.
        deleted: tombstones.
        digest: of all lines before this one (BLAKE2b, 16 bytes).
    """

    end: int
    entities: dict[str, int]
    deleted: int
    digest: str


def schema_digest(catalog: Catalog) -> str:
    """What tells two sets of models apart: names, fields and their order."""
    models = sorted((stored_name(cls), catalog.entity_types[cls].layout.fields) for cls in catalog.models)
    told = [[name, [[each.name, each.kind, str(each.concrete)] for each in fields]] for name, fields in models]
    return hashlib.blake2b(_encode(told), digest_size=16).hexdigest()


def ordered(catalog: Catalog) -> list[EntityKind]:
    """All kinds, each behind those that it refers to, where there is no circle."""
    targets: dict[bytes, set[bytes]] = {kind.prefix: set() for kind in catalog.kinds.values()}
    for entity_type in catalog.entity_types.values():
        targets[entity_type.kind.prefix] |= {each.kind.prefix for each in entity_type.references}
    kinds = {kind.prefix: kind for kind in catalog.kinds.values()}
    found: list[EntityKind] = []
    left = sorted(kinds, key=lambda prefix: stored_name(kinds[prefix].cls))
    while left:
        ready = [prefix for prefix in left if not (targets[prefix] - {prefix}) & set(left)]
        taken = ready or left[:1]
        found.extend(kinds[prefix] for prefix in taken)
        left = [prefix for prefix in left if prefix not in taken]
    return found


def forward(kinds: Sequence[EntityKind], entity_type: EntityType) -> frozenset[str]:
    """The references of a class whose targets may stand behind it in a dump."""
    places = {kind.prefix: place for place, kind in enumerate(kinds)}
    own = places[entity_type.kind.prefix]
    return frozenset(each.name for each in entity_type.references if places.get(each.kind.prefix, own) >= own)


class Dump:
    """One dump on its way.

    Arguments:
        catalog: the schema compiled for the store.
        models: whose entities are dumped; none for all.
        write: takes each line.
        progress: told after every batch.
    """

    def __init__(self, catalog: Catalog, models: Sequence[type], write: Write, progress: Reporter) -> None:
        wanted = {catalog.kinds[model].prefix for model in models} or {each.prefix for each in catalog.kinds.values()}
        self._catalog = catalog
        self._order = ordered(catalog)
        self.kinds = [kind for kind in self._order if kind.prefix in wanted]
        self._forms = {cls: ColumnForm(entity_type) for cls, entity_type in catalog.entity_types.items()}
        self._names = {cls: _encode(stored_name(cls)) for cls in catalog.models}
        self._forward = {cls: forward(self._order, entity_type) for cls, entity_type in catalog.entity_types.items()}
        self._write = write
        self._progress = progress
        self._digest = hashlib.blake2b(digest_size=16)
        self._entities: dict[str, int] = {}
        self._deleted = self._lines = 0
        self._roots: dict[bytes, Root] = {}
        self._untold: set[bytes] = set()

    def whole(self) -> Plan[End]:
        """Writes all lines from one moment of the store; costs its rows, and those of the sources, in batches."""
        return Snapshot(self.lines).__iter__()

    def lines(self) -> Plan[End]:
        """Writes all lines; what is changed meanwhile is there as it was before or as it is after."""
        names = tuple(stored_name(cls) for kind in self.kinds for cls in self._classes(kind))
        self._line(_encode(Head(FORMAT, schema_digest(self._catalog), names)))
        self._lines = 0
        self._untold = yield from sources_with_pending_tasks()
        for kind in self.kinds:
            yield from scan_all("roots", RowRange.under(kind.prefix), partial(self._batch, kind), BATCH)
        end = End(self._lines, self._entities, self._deleted, self._digest.hexdigest())
        self._line(_encode(end))
        return end

    def _classes(self, kind: EntityKind) -> list[type]:
        return [cls for cls in self._catalog.models if self._catalog.kinds[cls] is kind]

    def _line(self, text: bytes) -> None:
        line = text + b"\n"
        self._digest.update(line)
        self._write(line)
        self._lines += 1

    def _batch(self, kind: EntityKind, rows: list[Found]) -> Plan[None]:
        found = [(key, parse_root(row)) for key, row in rows]
        states = [(key, root, self._catalog.state(key, root)) for key, root in found]
        yield from self._load_sources(states)
        for key, root, state in states:
            self._line(
                self._tombstone(kind, key, root, state)
                if state.entity is None
                else self._entity(key, root.version, state)
            )
        self._progress(Progress(f"dumping {stored_name(kind.cls)}", self._lines))

    def _load_sources(self, states: Iterable[tuple[bytes, Root, EntityState]]) -> Plan[None]:
        """Reads the sources of a batch that are not remembered."""
        if len(self._roots) > _REMEMBERED:
            self._roots.clear()
        wanted: dict[bytes, None] = {}
        for _key, _root, state in states:
            if state.entity is not None:
                for keys in self._catalog.type_of(state.entity).refs(state.entity).values():
                    wanted.update(dict.fromkeys(keys))
        missing = [key for key in wanted if key not in self._roots]
        if missing:
            rows = yield from Read("roots", missing, "dm")
            self._roots.update(
                {key: NO_ROOT if row is None else parse_root(row) for key, row in zip(missing, rows, strict=True)}
            )

    def __getitem__(self, key: bytes) -> Source:
        """A source, for an entity that is settled anew."""
        return self._catalog.source(key, self._roots[key])

    def _entity(self, key: bytes, version: int, state: EntityState) -> bytes:
        entity, entity_type = state.entity, self._catalog.type_of(state.entity)
        refs = entity_type.refs(entity)
        late = self._forward[entity_type.cls]
        held = [
            name
            for name, keys in refs.items()
            if keys and (name in late or any(self._roots[each].body is None for each in keys))
        ]
        used = state.record.get(HIDDEN)
        told = self._untold.intersection(each for keys in refs.values() for each in keys) if self._untold else ()
        if told:  # a source has changed, and its task has not got here yet
            settled = entity_type.fill(key, entity, refs, FillInputs(state, self, told))
            entity, used = settled.entity, settled.emission.record.get(HIDDEN)
        form = self._forms[entity_type.cls]
        parts = [b'{"model":', self._names[entity_type.cls], b',"version":%d' % version]
        text = form.written(entity)
        if text is not None:
            parts += [b',"entity":', text]
        if held or text is None:
            parts += [b',"document":', _encode(document_text(entity_type.layout, entity))]
        if held:
            parts += [b',"held":', _encode(held)]
            if used:
                parts += [b',"used":', _encode(_packed({HIDDEN: used}))]
        name = stored_name(entity_type.cls)
        self._entities[name] = self._entities.get(name, 0) + 1
        return b"".join([*parts, b"}"])

    def _tombstone(self, kind: EntityKind, key: bytes, root: Root, state: EntityState) -> bytes:
        last = state.record.get(LAST_VALUES)
        self._deleted += 1
        return b"".join(
            [
                b'{"model":',
                _encode(stored_name(kind.cls)),
                b',"version":%d,"deleted":' % root.version,
                _encode(kind.parts_of(key)),
                b',"last":' + _encode(_packed({LAST_VALUES: last})) if last else b"",
                b"}",
            ]
        )


def _packed(record: dict[bytes, Any]) -> str:
    return b64encode(emitted_record.encode_record(record)).decode()
