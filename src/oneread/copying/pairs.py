"""Two stores that are copied or compared: each entity of one with that of the other, as lines of a dump."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from oneread.counters.rows import ALL
from oneread.database._sync.database import Database
from oneread.models.model import stored_name
from oneread.models.registry import EntityKind
from oneread.plans.plan import Plan
from oneread.plans.progress import no_progress
from oneread.plans.scans import scan_all
from oneread.store.requests import Found, Read, Scan
from oneread.store.rows import RowRange
from oneread.transfer.dump import Dump
from oneread.transfer.load import DumpLine

ROWS: Final = 500
"""Rows that are compared at a time."""

_line = msgspec.json.Decoder(DumpLine).decode


class Stores(NamedTuple):
    """Both stores, open; and what does not go along."""

    source: Database
    target: Database
    left: tuple[str, ...]


def is_empty(store: Database) -> bool:
    """Whether a store has neither entities, tombstones nor counters. Two requests at most."""
    everything = RowRange(b"", b"")
    return not (store.run(Scan("roots", everything, 1).__iter__()) or store.run(Scan("counts", ALL, 1).__iter__()))


class Pair(NamedTuple):
    """The line of an entity of the source, and that of the target, None where it has none; `key` is the source's."""

    key: bytes
    name: str
    line: bytes
    found: bytes | None

    @property
    def differs(self) -> bool:
        return self.found is None or (self.line != self.found and _shown(self.line) != _shown(self.found))


def _shown(text: bytes) -> tuple[object, ...]:
    """What is the same in both stores: not hidden copies, which are for views, nor the version of what was deleted."""
    line = _line(text)
    version = 0 if line.deleted else line.version
    return line.model, version, bytes(line.entity), line.document, line.held, bytes(line.deleted), line.numbers


class Pairs:
    """Each root row of the source, with that of the target."""

    def __init__(self, stores: Stores) -> None:
        self._source, self._target, _left = stores
        self._dumps = [
            Dump(each.operations.catalog, each.operations.parts, (), _no_line, no_progress)
            for each in (self._source, self._target)
        ]
        self._kinds = {stored_name(kind.cls): kind for kind in self._target.operations.catalog.kinds.values()}
        self.count = 0

    def walk(self, take: Callable[[Pair], None]) -> None:
        """Gives all pairs to `take`, in the order of the source."""
        self._target.run(self._dumps[1].begin())
        self._source.run(self._walk(take))

    def look(self, keys: Sequence[bytes]) -> list[Pair]:
        """The pairs of these root rows of the source as they are now; none for one that it has no more."""
        found: list[Pair] = []
        self._target.run(self._dumps[1].begin())
        self._source.run(self._look(keys, found.append))
        return found

    def _look(self, keys: Sequence[bytes], take: Callable[[Pair], None]) -> Plan[None]:
        yield from self._dumps[0].begin()
        for kind in self._dumps[0].kinds:
            wanted = [key for key in keys if key.startswith(kind.prefix)]
            for start in range(0, len(wanted), ROWS):
                several = wanted[start : start + ROWS]
                rows = yield from Read("roots", several, "dm")
                stored = [(key, row) for key, row in zip(several, rows, strict=True) if row is not None]
                yield from self._batch(kind, take, stored)

    def _walk(self, take: Callable[[Pair], None]) -> Plan[None]:
        yield from self._dumps[0].begin()
        for kind in self._dumps[0].kinds:
            yield from scan_all("roots", RowRange.under(kind.prefix), partial(self._batch, kind, take), ROWS)

    def _batch(self, kind: EntityKind, take: Callable[[Pair], None], rows: list[Found]) -> Plan[None]:
        lines = yield from self._dumps[0].lines_of(kind, rows)
        other = self._kinds[stored_name(kind.cls)]
        keys: list[bytes] = [other.key(kind.parts_of(key)) for key, _text in lines]
        found = dict(self._target.run(self._lines_at(other, keys))) if keys else {}
        self.count += len(lines)
        name_of = self._source.operations.catalog.name_of
        for (key, line), at in zip(lines, keys, strict=True):
            take(Pair(key, name_of(key), line, found.get(at)))

    def _lines_at(self, kind: EntityKind, keys: list[bytes]) -> Plan[list[tuple[bytes, bytes]]]:
        rows = yield from Read("roots", keys, "dm")
        stored = [(key, row) for key, row in zip(keys, rows, strict=True) if row is not None]
        return (yield from self._dumps[1].lines_of(kind, stored))


def _no_line(_text: bytes) -> None:
    """Nothing: the lines are given to others."""
