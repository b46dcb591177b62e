"""The axis of keys: ranges of each declaration that have about equally many rows, by a pass over them.

Until there is one, heat is drawn over the keys that were requested, which says nothing of how many rows a range has.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from oneread.heat.cells import HeatPlace, place_of
from oneread.heat.counts import RANGES
from oneread.plans.effects import Now, Sleep
from oneread.plans.plan import Plan
from oneread.plans.progress import Progress, Reporter
from oneread.plans.scans import scan_all
from oneread.store.requests import Found, Mutate
from oneread.store.rows import TABLES, UNDECODABLE, VALUE, Cell, RowMutation, RowRange, Table
from oneread.transactions.prefixes import parts_by
from oneread.transactions.system_rows import AXES

BATCH: Final = 1_000
"""Rows of a request."""
PLACES: Final = 512
"""AxisPlaces that are kept of a declaration, at most twice as many."""
MEASURE: Final = "measure"
"""What an axis is by that was made on purpose."""


class HeatAxis(msgspec.Struct, frozen=True):
    """The first keys of ranges, in their order, and how many rows each had `at` some time, in milliseconds.

    `by` is the verb that read the rows; `measure` where that was done to count them.
    """

    at: int
    firsts: list[bytes]
    rows: list[int]
    by: str = MEASURE


_decode = msgspec.msgpack.Decoder(HeatAxis).decode
_encode = msgspec.msgpack.Encoder().encode


class AxisPlaces:
    """Keys of one declaration, about equally many rows apart: when there are too many, every other one is dropped."""

    def __init__(self) -> None:
        self.rows = 0
        self.found: list[tuple[int, bytes]] = []
        self._distance = 1

    def add(self, rows: Sequence[Found]) -> None:
        """Takes in further rows, in the order of keys."""
        begun = self.rows
        due = range(-begun % self._distance, len(rows), self._distance)
        self.found += [(begun + at, rows[at][0]) for at in due]
        while len(self.found) > 2 * PLACES:
            del self.found[1::2]
            self._distance *= 2
        self.rows += len(rows)

    def axis(self, now: int, by: str) -> HeatAxis:
        """About as many rows in each range."""
        starts = [rows for rows, _key in self.found]
        wanted = sorted({bisect_left(starts, part * self.rows / RANGES) for part in range(RANGES)})
        ranges = [self.found[place] for place in wanted if place < len(self.found)]
        ends = [rows for rows, _key in ranges[1:]] + [self.rows]
        rows = [end - start for end, (start, _key) in zip(ends, ranges, strict=True)]
        return HeatAxis(now, [key for _rows, key in ranges], rows, by)


def measure_axes(pace: float | None, progress: Reporter) -> Plan[int]:
    """Counts the rows of each declaration by ranges of its keys, and stores that; returns how many rows there are.

    Reads every row once, 1,000 a request; `pace` is rows a second at most. One put for each declaration.
    """
    begun = yield from Now()
    places: dict[HeatPlace, AxisPlaces] = {}
    tables: tuple[Table, ...] = tuple(each for each in TABLES if each != "system")
    for table in tables:
        yield from scan_all(table, RowRange(b"", b""), _counting(table, places, (begun, pace), progress), BATCH)
    yield from store_axes(places, MEASURE)
    return sum([each.rows for each in places.values()])


def store_axes(places: Mapping[HeatPlace, AxisPlaces], by: str) -> Plan[None]:
    """Stores an axis of each declaration whose rows were counted: one put for all of them."""
    now = yield from Now()
    puts = [
        RowMutation(_key(place), {VALUE: Cell(_encode(counted.axis(now, by)), now)})
        for place, counted in places.items()
    ]
    if puts:
        yield from Mutate("system", puts)


def count_rows(places: dict[HeatPlace, AxisPlaces], table: Table, found: list[Found]) -> None:
    """Counts further rows of a table, in the order of keys."""
    for place, rows in parts_by(found, partial(place_of, table)):
        counted = places.get(place)
        if counted is None:
            counted = places[place] = AxisPlaces()
        counted.add(rows)


def _counting(
    table: Table, places: dict[HeatPlace, AxisPlaces], paced: tuple[int, float | None], progress: Reporter
) -> Callable[[list[Found]], Plan[None]]:
    begun, pace = paced

    def take(found: list[Found]) -> Plan[None]:
        count_rows(places, table, found)
        rows = sum([each.rows for each in places.values()])
        progress(Progress(f"reading {table}", rows, None))
        if pace is not None:
            ahead = rows / pace - ((yield from Now()) - begun) / 1000
            if ahead > 0:
                yield from Sleep(ahead)

    return take


def _key(place: HeatPlace) -> bytes:
    return AXES.start + place.table.encode() + b":" + place.prefix


def read_axes() -> Plan[Mapping[HeatPlace, HeatAxis]]:
    """The axes that were measured, by declaration. One scan."""
    found: dict[HeatPlace, HeatAxis] = {}
    tables: dict[bytes, Table] = {each.encode(): each for each in TABLES}

    def take(rows: Sequence[Found]) -> Plan[None]:
        for key, row in rows:
            name, _colon, prefix = key[len(AXES.start) :].partition(b":")
            try:
                axis = _decode(row[VALUE].value)
            except (*UNDECODABLE, KeyError):
                continue
            if name in tables:
                found[HeatPlace(tables[name], prefix)] = axis
        yield from ()

    yield from scan_all("system", AXES, take, BATCH)
    return found
