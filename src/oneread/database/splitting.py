"""Where to split the tables of a cluster, so that each range has about as much of the rows that a store has now.

Every row is read once, by requests of a thousand rows. A few thousand places between rows are kept, about equally far
apart: when there are twice as many, every other one is dropped. So a range is off by the distance of two places at
most, and memory does not grow with the store.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final, Literal, TypeAlias

import msgspec

from oneread.database.survey import PrefixNames
from oneread.derivations.catalog import Catalog
from oneread.derivations.schema_rows import stored_schema
from oneread.errors import UsageError
from oneread.heat.cells import cells_of
from oneread.heat.rows import MINUTE, read_heat
from oneread.plans.effects import Now, Sleep
from oneread.plans.plan import Plan
from oneread.plans.progress import Progress, Reporter
from oneread.plans.scans import scan_all
from oneread.store.keys import spread_parts
from oneread.store.requests import Found
from oneread.store.rows import RowRange, Table
from oneread.transactions.intents import JOURNAL, MARKER_BUCKETS
from oneread.transactions.prefixes import prefix_of

BATCH: Final = 1_000
"""Rows of a request."""
PLACES: Final = 4_096
"""That are kept of a table, at most."""
MOST_PARTS: Final = 1_000

HEAT_MINUTES: Final = 24 * 60
"""Of what was recorded, by which tables are split."""

SplitBy: TypeAlias = Literal["rows", "bytes", "heat"]
HeatByKey: TypeAlias = Mapping[bytes, int]
"""Requests of one table, by the first key of the range of keys that they were counted for."""

_NO_HEAT: Final[HeatByKey] = {}

SplitKey: TypeAlias = bytes
"""What a range begins with: the first bytes of the keys of rows."""


class SplitRange(msgspec.Struct, frozen=True):
    """One range of a table, up to where the next one begins.

    Arguments:
        start: the split key that it begins with, in hexadecimal; empty for the first range.
        of: the model or view, or the kind of row of `system`, of its first row.
        rows: in it now.
        bytes: of their keys and values.
        requests: by heat, those that programs recorded within the last day.
    """

    start: str
    of: str
    rows: int
    bytes: int
    requests: int = 0


class TableSplits(msgspec.Struct, frozen=True):
    """Where to split one table.

    Arguments:
        table: its name.
        rows: in it now.
        bytes: of their keys and values.
        ranges: in the order of keys.
    """

    table: Table
    rows: int
    bytes: int
    ranges: tuple[SplitRange, ...]

    @property
    def keys(self) -> tuple[SplitKey, ...]:
        """The split keys: what each range but the first begins with."""
        return tuple(bytes.fromhex(each.start) for each in self.ranges[1:])


class _Cut(msgspec.Struct, frozen=True):
    """A key that is above one row and not above the next, and what is below it."""

    key: bytes
    rows: int
    size: int


class _Sample:
    """Places of one table, about equally far apart."""

    def __init__(self, by: SplitBy) -> None:
        self._by_rows = by != "bytes"
        self.rows = self.bytes = 0
        self.places: list[_Cut] = [_Cut(b"", 0, 0)]
        self.prefixes: dict[bytes, _Cut] = {}
        """Where the rows of each model, view or kind of row begin."""
        self._distance = self._next = 1
        self._last = b""

    @property
    def weight(self) -> int:
        return self.rows if self._by_rows else self.bytes

    def weight_of(self, place: _Cut) -> int:
        return place.rows if self._by_rows else place.size

    def add(self, table: Table, found: Iterable[Found]) -> None:
        """Takes in further rows, in the order of keys."""
        last = self._last
        for key, row in found:
            prefix = prefix_of(table, key)
            if prefix not in self.prefixes:
                self.prefixes[prefix] = _Cut(prefix, self.rows, self.bytes)
            if self.weight >= self._next:
                self.places.append(_Cut(between(last, key, len(prefix)), self.rows, self.bytes))
                self._next = self.weight + self._distance
                if len(self.places) > 2 * PLACES:
                    del self.places[1::2]
                    self._distance = 1 + self.weight // PLACES
            self.rows += 1
            self.bytes += len(key) + sum([len(column) + len(cell.value) for column, cell in row.items()])
            last = key
        self._last = last

    def below(self, keys: Sequence[bytes]) -> list[_Cut]:
        """What is below each of these keys: places, or where models and views that have no rows would be."""
        places = sorted([*self.places, *self.prefixes.values()], key=lambda place: place.key)
        places.append(_Cut(b"", self.rows, self.bytes))
        starts = [place.key for place in places[:-1]]
        return [places[bisect_left(starts, key)] for key in keys]

    def cut(self, parts: int) -> list[bytes]:
        """The keys that part the rows into about equal parts."""
        found: dict[bytes, None] = {}
        weights = [self.weight_of(each) for each in self.places]
        for part in range(1, parts):
            at = bisect_left(weights, part * self.weight / parts)
            if at < len(self.places):
                found[self.places[at].key] = None
        return [key for key in found if key]


def between(before: bytes, key: bytes, least: int) -> bytes:
    """The shortest key of `least` bytes that is above one and not above the next: it shows little of what is stored."""
    same = next((place for place, (one, two) in enumerate(zip(before, key, strict=False)) if one != two), len(before))
    return key[: max(least, same + 1)]


def propose_splits(
    catalog: Catalog, parts: int, by: SplitBy, pace: float | None, progress: Reporter
) -> Plan[tuple[TableSplits, ...]]:
    """Where to split each table into so many ranges. Reads every row once; `pace` is rows a second at most.

    Raises:
        UsageError: a number of parts out of bounds; or by heat, of which none was recorded.
    """
    if type(parts) is not int or not 2 <= parts <= MOST_PARTS:  # noqa: PLR2004 - said in the message
        raise UsageError("expected a number of ranges from 2 to 1,000", parts=parts)
    names = PrefixNames((yield from stored_schema()))
    tables: tuple[Table, ...] = ("roots", "views", "counts")
    heat = (yield from _heat_of_last_day()) if by == "heat" else {}
    found = [_of_system(names, parts)]
    for table in tables:
        sample = _Sample(by)
        yield from _read(table, sample, pace, progress)
        cuts = sample.cut(parts) if by != "heat" else cut_by_heat(heat.get(table, {}), parts)
        keys = {*cuts, *_of_empty(catalog, table, sample, parts)}
        found.append(_splits(table, sample, sorted(keys), names, heat.get(table, {})))
    return (*found[1:], found[0])


def _heat_of_last_day() -> Plan[Mapping[Table, HeatByKey]]:
    """What programs have recorded of each table. Raises UsageError where that is nothing."""
    now = (yield from Now()) // MINUTE
    found: dict[Table, dict[bytes, int]] = {}
    for span in (yield from read_heat(now - HEAT_MINUTES, now + 1)):
        for key, amounts in cells_of(span.sums):
            of_table = found.setdefault(key.table, {})
            of_table[key.first] = of_table.get(key.first, 0) + amounts.requests
    if not found:
        raise UsageError(
            "no program has recorded heat within the last day; open programs with connect(url, schema, heat=1.0), "
            "or split by rows or bytes"
        )
    return found


def cut_by_heat(heat: HeatByKey, parts: int) -> list[bytes]:
    """The first keys that part the requests into about equal parts, each key as it was counted."""
    firsts = sorted(heat)
    below = [0, *accumulate([heat[first] for first in firsts])]
    places = [bisect_left(below, part * below[-1] / parts) for part in range(1, parts)]
    return [firsts[place] for place in dict.fromkeys(places) if 0 < place < len(firsts)]


def _read(table: Table, sample: _Sample, pace: float | None, progress: Reporter) -> Plan[None]:
    begun = yield from Now()

    def take(found: list[Found]) -> Plan[None]:
        sample.add(table, found)
        progress(Progress(f"reading {table}", sample.rows, None))
        if pace is not None:
            now = yield from Now()
            ahead = sample.rows / pace - (now - begun) / 1000
            if ahead > 0:
                yield from Sleep(ahead)

    yield from scan_all(table, RowRange(b"", b""), take, BATCH)


def _of_empty(catalog: Catalog, table: Table, sample: _Sample, parts: int) -> Iterable[bytes]:
    """The splits of models and indexes that are spread and have no rows yet: theirs come to all ranges alike."""
    spread: dict[bytes, int] = {}
    if table == "roots":
        spread = {kind.prefix: kind.spread for kind in catalog.kinds.values()}
    elif table == "views":
        spread = {view.prefix: view.key.spread for view in catalog.views.values() if view.table == table}
    for prefix, ranges in spread.items():
        if ranges > 1 and prefix not in sample.prefixes:
            every, count = spread_parts(ranges), min(ranges, parts)
            yield from (prefix + every[number * ranges // count] for number in range(count))


def _of_system(names: PrefixNames, parts: int) -> TableSplits:
    """The splits of the markers of commits, which every commit puts: their ranges are there before any marker is."""
    count = min(parts, MARKER_BUCKETS)
    keys = [JOURNAL.start + bytes([number * MARKER_BUCKETS // count]) for number in range(count)]
    return _splits("system", _Sample("rows"), keys, names)


def _splits(
    table: Table, sample: _Sample, keys: Sequence[bytes], names: PrefixNames, heat: HeatByKey = _NO_HEAT
) -> TableSplits:
    places = sample.below((b"", *keys))
    requests = [0] * (len(keys) + 1)
    for first, amount in heat.items():
        requests[bisect_right(keys, first)] += amount
    ends = [*places[1:], _Cut(b"", sample.rows, sample.bytes)]
    ranges = tuple(
        SplitRange(
            key.hex(),
            names.of(table, prefix_of(table, key))[0] if key else "",
            end.rows - place.rows,
            end.size - place.size,
            asked,
        )
        for key, place, end, asked in zip((b"", *keys), places, ends, requests, strict=True)
    )
    return TableSplits(table, sample.rows, sample.bytes, ranges)
