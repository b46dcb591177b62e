"""Two stores that are copied or compared: the entities that the second one lacks or may have otherwise.

Rows with the same bytes hold the same entity where both stores number its model and its fields alike. All others are
written as lines of a dump, which say what an entity is whatever the numbers, spread and copies of its store.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from oneread.counters.rows import ALL
from oneread.database._sync.database import Database
from oneread.derivations.catalog import Catalog
from oneread.launches.sides import BUCKETS, bucket_of, seed_of
from oneread.models.model import stored_name
from oneread.models.registry import EntityKind
from oneread.plans.plan import Plan
from oneread.plans.progress import no_progress
from oneread.plans.scans import check_ascending, fetch_rows
from oneread.store.keys import entity_part
from oneread.store.requests import Found, Read, Scan
from oneread.store.rows import EMITTED, VALUE, VERSION, Row, RowRange
from oneread.transactions.intents import root_row
from oneread.transfer.dump import Dump
from oneread.transfer.load import DumpLine

ROWS: Final = 500
"""Rows that are compared at a time."""
LAYOUT_BYTES: Final = 2
"""The beginning of a document, which says what its fields are."""

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


def position_at(kind: EntityKind, key: bytes) -> str:
    """Where a walk over all root rows is when this is the last one that it has read."""
    return f"{stored_name(kind.cls)} {b64encode(key).decode()}"


def ranges_behind(kinds: Sequence[EntityKind], position: str) -> Iterator[tuple[EntityKind, RowRange]]:
    """What is to be read behind a position; all for an empty one."""
    name, _space, last = position.partition(" ")
    is_behind = not name
    for kind in kinds:
        within = RowRange.under(kind.prefix)
        if is_behind:
            yield kind, within
        elif stored_name(kind.cls) == name:
            is_behind = True
            yield kind, within.behind(b64decode(last))


class Pairs:
    """The root rows of the source, each with that of the target; `count` says how many, `met` how many it has.

    With a share, only of so many of the entities: by a hash of their keys, the same ones in both stores.
    """

    def __init__(self, stores: Stores, share: float = 1.0) -> None:
        self._source, self._target, _left = stores
        both = self._source.operations, self._target.operations
        self._dumps = [Dump(each.catalog, each.parts, (), _no_line, no_progress) for each in both]
        self._lays = [each.parts.cells.lay for each in both]
        self._kinds = {stored_name(kind.cls): kind for kind in both[1].catalog.kinds.values()}
        self._alike = frozenset(_alike(both[0].catalog, both[1].catalog))
        self._buckets = round(share * BUCKETS)
        self.count = self.met = 0

    def walk(self, take: Callable[[Pair], None], position: str = "") -> Iterator[str]:
        """Gives the pairs to `take` that are not the same bytes, in the order of the source, from a position on.

        Yields the position behind each batch.
        """
        self._begin()
        for kind, within in ranges_behind(self._dumps[0].kinds, position):
            rest = within
            while True:
                rows, count, met = self._source.run(self._next(kind, rest, take))
                self.count += count
                self.met += met
                if rows:
                    rest = rest.behind(rows[-1][0])
                    yield position_at(kind, rows[-1][0])
                if len(rows) < ROWS:
                    break

    def look(self, keys: Sequence[bytes]) -> list[Pair]:
        """The pairs of these root rows as they are now; none for one that is the same, or is not there any more."""
        found: list[Pair] = []
        self._begin()
        self._source.run(self._look(keys, found.append))
        return found

    def _begin(self) -> None:
        self._target.run(self._dumps[1].begin())
        self._source.run(self._dumps[0].begin())

    def _look(self, keys: Sequence[bytes], take: Callable[[Pair], None]) -> Plan[None]:
        for kind in self._dumps[0].kinds:
            wanted = [key for key in keys if key.startswith(kind.prefix)]
            for start in range(0, len(wanted), ROWS):
                rows = yield from _rows_at(wanted[start : start + ROWS])
                yield from self._batch(kind, take, [*rows.items()])

    def _next(
        self, kind: EntityKind, within: RowRange, take: Callable[[Pair], None]
    ) -> Plan[tuple[list[Found], int, int]]:
        """One batch of the source: its rows, how many of them are compared, and how many of these the target has."""
        rows = yield from fetch_rows("roots", within, ROWS)
        check_ascending("roots", within, rows)
        return rows, *(yield from self._batch(kind, take, rows))

    def _batch(self, kind: EntityKind, take: Callable[[Pair], None], rows: list[Found]) -> Plan[tuple[int, int]]:
        other = self._kinds[stored_name(kind.cls)]
        if self._buckets < BUCKETS:
            seed = seed_of(stored_name(kind.cls))
            rows = [each for each in rows if bucket_of(entity_part(each[0]), seed) < self._buckets]
        mine = {key: root_row(self._lays[0](key, row)) for key, row in rows}
        places = {key: self._place(kind, other, key) for key, row in mine.items() if row is not None}
        theirs = self._target.run(_rows_at([*places.values()])) if places else {}
        suspects = [
            (key, row)
            for key, row in rows
            if key in places and not self._is_same(mine[key], places[key], theirs.get(places[key]))
        ]
        if not suspects:
            return len(places), len(theirs)
        lines = yield from self._dumps[0].lines_of(kind, suspects)
        there = [(places[key], theirs[places[key]]) for key, _row in suspects if places[key] in theirs]
        found = dict(self._target.run(self._dumps[1].lines_of(other, there)))
        name_of = self._source.operations.catalog.name_of
        for key, line in lines:
            take(Pair(key, name_of(key), line, found.get(places[key])))
        return len(places), len(theirs)

    def _place(self, kind: EntityKind, other: EntityKind, key: bytes) -> bytes:
        """The key in the target of a root row of the source."""
        is_alike = kind.prefix == other.prefix and kind.spread == other.spread
        return key if is_alike else other.key(kind.parts_of(key))

    def _is_same(self, mine: Row | None, place: bytes, found: Row | None) -> bool:
        """Whether two root rows have the same bytes, and these mean the same entity; False where that is not known."""
        other = None if found is None else root_row(self._lays[1](place, found))
        if mine is None or other is None or _held(mine) != _held(other):
            return False
        body = mine.get(VALUE)
        return body is None or (body == other[VALUE] and body.value[:LAYOUT_BYTES] in self._alike)


def _held(row: Row) -> list[tuple[bytes, bytes]]:
    """What a root row has besides its versions and what views need: the columns, and the values of all but the body."""
    return sorted(
        (column, b"" if column == VALUE else cell.value)
        for column, cell in row.items()
        if column not in (VERSION, EMITTED)
    )


def _rows_at(keys: list[bytes]) -> Plan[dict[bytes, Row]]:
    rows = yield from Read("roots", keys, "dm")
    return {key: row for key, row in zip(keys, rows, strict=True) if row is not None}


def _alike(source: Catalog, target: Catalog) -> Iterator[bytes]:
    """What documents begin with whose fields have the same numbers in both stores."""
    others = {stored_name(cls): target.entity_types[cls].layout for cls in target.models}
    for cls in source.models:
        layout = source.entity_types[cls].layout
        if others[stored_name(cls)].layout_id == layout.layout_id:
            yield layout.prefix
            yield layout.wide_prefix


def _no_line(_text: bytes) -> None:
    """Nothing: the lines are given to others."""
