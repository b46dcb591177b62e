"""What one process requests of which keys, counted in memory that does not grow.

A declaration of which fewer than 64 keys were seen is counted by key; of others, by ranges between keys that were seen,
or that a pass over its rows has found to be about equally far apart.
"""

from __future__ import annotations

import random
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappush, heappushpop
from typing import Any, Final, NamedTuple, TypeAlias

from oneread.heat.cells import (
    CELLS,
    SLOW_CALLS,
    Amounts,
    CellKey,
    Cells,
    EndCount,
    HeatDetails,
    HeatPlace,
    HeatSums,
    HotCount,
    HotOperation,
    PageCount,
    SlowCount,
    bounded,
    packed,
    place_of,
    scaled,
)
from oneread.heat.ends import GrowingEnd
from oneread.plans.hot_keys import SpaceSaving
from oneread.plans.trace import bytes_of
from oneread.store.engine import Column, FirstUnder, LocalReads
from oneread.store.requests import CheckAndMutate, Increment, Mutate, Read, Scan
from oneread.store.rows import Row, RowMutation, RowRange, Table

RANGES: Final = 64
"""Ranges of one declaration."""
SAMPLE: Final = 512
"""Keys of one declaration from which ranges are made."""
HOT_OF_ONE: Final = 64
"""Keys of one declaration that are counted one by one, of each operation."""
HOT_OF_ALL: Final = 512
_INCREMENTED: Final = 8
_WITH_ENDS: Final[tuple[Table, ...]] = ("roots", "views")
"""Tables in which rows are put behind each other by their keys."""

KeySize: TypeAlias = "tuple[bytes, int]"
"""A key, and the bytes that were read or written there."""
HotRows: TypeAlias = "tuple[HotOperation, HeatPlace]"
"""What is counted together: what is read most would leave no place for what is written most."""


class Touched(NamedTuple):
    """One answered request: the key that it begins at, and the rows that it read or wrote."""

    table: Table
    at: bytes
    writes: bool
    points: bool
    """Whether its keys were asked for, and not found by a scan."""
    lost: bool
    rows: list[KeySize]


class CallRecord(NamedTuple):
    """A call that has ended: `at` in milliseconds since 1970, the time that it took in seconds.

    `page` is how many rows a page with a condition has shown and passed over; None of other calls.
    """

    verb: str
    declared: str
    at: int
    seconds: float
    touched: list[Touched]
    page: tuple[int, int] | None = None


def touched_by(request: Any, answer: Any) -> Touched:
    """What a request has touched; its rows and bytes are those that a `Trace` counts."""
    kind = type(request)
    if kind is Read:
        sizes = [(key, 0 if row is None else bytes_of((row,))) for key, row in zip(request.keys, answer, strict=True)]
        return _touched(request.table, sizes, writes=False)
    if kind is Scan:
        sizes = [(key, len(key) + sum([len(cell.value) for cell in row.values()])) for key, row in answer]
        return Touched(request.table, request.range.start, False, False, False, sizes)
    if kind is Mutate:
        return _touched(request.table, [_size_of(each) for each in request.rows])
    if kind is CheckAndMutate:
        return _touched(request.table, [_size_of(request.mutation)], lost=answer is False)
    if kind is Increment:
        return _touched(request.table, [(request.key, len(request.key) + _INCREMENTED)])
    return _touched(request.table, [(key, len(key) + bytes_of((row,))) for key, row in request.rows.items()])


def _touched(table: Table, sizes: list[KeySize], *, writes: bool = True, lost: bool = False) -> Touched:
    return Touched(table, sizes[0][0] if sizes else b"", writes, True, lost, sizes)


def _size_of(mutation: RowMutation) -> KeySize:
    puts: Row = mutation.puts
    return mutation.key, len(mutation.key) + bytes_of((puts,))


def quantiles(keys: Sequence[bytes], parts: int) -> list[bytes]:
    """The first keys of about equal parts of sorted keys."""
    return sorted({keys[part * len(keys) // parts] for part in range(parts)}) if keys else []


class RecordingReads:
    """The reads of an engine of this process, each noted in the call that makes it: `get` and `page` stay fast."""

    def __init__(self, engine: LocalReads, note: Callable[[Touched], object]) -> None:
        self._engine = engine
        self._note = note

    def point(self, table: Table, key: bytes, column: bytes) -> tuple[bytes, int] | None:
        found = self._engine.point(table, key, column)
        self._note(Touched(table, key, False, True, False, [(key, 0 if found is None else len(found[0]))]))
        return found

    def column(self, table: Table, within: RowRange, limit: int, column: bytes, *, reverse: bool = False) -> Column:
        keys, values = found = self._engine.column(table, within, limit, column, reverse=reverse)
        sizes = [(key, len(key) + len(value)) for key, value in zip(keys, values, strict=True)]
        self._note(Touched(table, within.start, False, False, False, sizes))
        return found

    def together(
        self, table: Table, key: bytes, column: bytes, firsts: Sequence[FirstUnder]
    ) -> tuple[bytes | None, list[Column]]:
        value, found = self._engine.together(table, key, column, firsts)
        self._note(Touched(table, key, False, True, False, [(key, 0 if value is None else len(value))]))
        for (other, prefix, _most), (keys, values) in zip(firsts, found, strict=True):
            sizes = [(key, len(key) + len(first)) for key, first in zip(keys, values, strict=True)]
            self._note(Touched(other, prefix, False, False, False, sizes))
        return value, found


class HeatCounts:
    """What was recorded since the last `reset`; for one thread at a time."""

    def __init__(self, chance: random.Random | None = None, *, keys: bool = True) -> None:
        self._chance = random.Random() if chance is None else chance
        self._keys = keys
        self._axes: Mapping[HeatPlace, Sequence[bytes]] = {}
        self._bounds: dict[HeatPlace, list[bytes]] = {}
        self._seen: dict[HeatPlace, tuple[int, list[bytes]]] = {}
        self._ends: dict[HeatPlace, GrowingEnd] = {}
        self.reset()

    def reset(self) -> None:
        """Forgets what was counted; ranges follow the keys that were seen last."""
        for place, (_count, sample) in self._seen.items():
            self._learn_ranges(place, sample)
        self._seen = {}
        self._learned = frozenset(self._bounds)
        """The places whose ranges stay until the next reset; those of others follow what is seen."""
        self._cells: dict[CellKey, list[int]] = {}
        self._hot: dict[HotRows, SpaceSaving[bytes]] = {}
        for end in self._ends.values():
            end.reset()
        self._slow: list[tuple[float, CallRecord, int]] = []
        self._pages: dict[str, tuple[int, int, int]] = {}

    @property
    def cells(self) -> Cells:
        """What was counted."""
        return {key: Amounts(*sums) for key, sums in self._cells.items()}

    def forget(self) -> None:
        """Forgets all, ranges too."""
        self._seen, self._bounds, self._ends = {}, {}, {}
        self.reset()

    def learn(self, axes: Mapping[HeatPlace, Sequence[bytes]]) -> None:
        """From now on counts these declarations by ranges that begin at these keys."""
        self._axes = axes

    def take(self, call: CallRecord) -> None:
        """Counts one call; its time is divided evenly among its requests."""
        each = round(call.seconds * 1_000_000 / max(1, len(call.touched)))
        for touched in call.touched:
            self._take(touched, (call.verb, call.declared), each)
        if call.page is not None:
            pages, shown, skipped = self._pages.get(call.declared, (0, 0, 0))
            self._pages[call.declared] = pages + 1, shown + call.page[0], skipped + call.page[1]
        if len(self._cells) > CELLS:
            self._cells = {key: [*amounts] for key, amounts in bounded(self.cells, CELLS).items()}
        if call.touched and call.seconds:
            slow = (call.seconds, call, len(self._slow))
            if len(self._slow) < SLOW_CALLS:
                heappush(self._slow, slow)
            elif call.seconds > self._slow[0][0]:
                heappushpop(self._slow, slow)

    def _take(self, touched: Touched, cause: tuple[str, str], microseconds: int) -> None:
        table, at, writes, points, lost, rows = touched
        place = place_of(table, at)
        first, upper = self._range(place, at)
        sums = self._sums(CellKey(table, first, writes, *cause))
        sums[0] += 1
        sums[3] += microseconds
        sums[4] += lost
        last = at
        for key, size in rows:
            if key != last and (points or not first <= key < upper):
                place = place_of(table, key)
                first, upper = self._range(place, key)
                sums = self._sums(CellKey(table, first, writes, *cause))
            last = key
            sums[1] += 1
            sums[2] += size
            if points and self._keys:
                self._count_key(("write" if writes else "read", place), key)
            if writes and size > len(key) and table in _WITH_ENDS:  # a row that is removed has no value
                self._count_end(place, key)
        if lost and self._keys:
            self._count_key(("lost", place), last)

    def _sums(self, key: CellKey) -> list[int]:
        found = self._cells.get(key)
        if found is None:
            found = self._cells[key] = [0] * len(Amounts._fields)
        return found

    def _range(self, place: HeatPlace, key: bytes) -> tuple[bytes, bytes]:
        """The range that a key is in: its first key, and what is behind it as far as that is known."""
        bounds = self._axes.get(place)
        if bounds is None:
            self._sample(place, key)
            bounds = self._bounds.setdefault(place, [])
            if len(bounds) < RANGES:
                at = bisect_right(bounds, key)
                if not at or bounds[at - 1] != key:
                    insort(bounds, key)
                return key, key
        at = bisect_right(bounds, key)
        upper = bounds[at] if at < len(bounds) else RowRange.under(place.prefix).stop
        return (bounds[at - 1] if at else place.prefix), upper

    def _sample(self, place: HeatPlace, key: bytes) -> None:
        """Keeps a key with equal chances (J. Vitter, "Random Sampling with a Reservoir", TOMS 1985, algorithm R)."""
        count, sample = self._seen.get(place, (0, []))
        count += 1
        self._seen[place] = count, sample
        if count <= SAMPLE:
            sample.append(key)
        else:
            at = int(self._chance.random() * count)
            if at < SAMPLE:
                sample[at] = key
        if place not in self._learned and count >= SAMPLE and not count & (count - 1):
            self._learn_ranges(place, sample)

    def _learn_ranges(self, place: HeatPlace, sample: Sequence[bytes]) -> None:
        """From now on this place has the ranges of these keys, if they are enough; what was counted stays."""
        found = sorted(set(sample))
        if len(found) >= RANGES:
            self._bounds[place] = quantiles(found, RANGES)

    def _count_end(self, place: HeatPlace, key: bytes) -> None:
        end = self._ends.get(place)
        if end is None:
            end = self._ends[place] = GrowingEnd(key)
        end.add(key)

    def _count_key(self, rows: HotRows, key: bytes) -> None:
        counted = self._hot.get(rows)
        if counted is None:
            counted = self._hot[rows] = SpaceSaving(HOT_OF_ONE)
        if key not in counted and len(counted) < HOT_OF_ONE and sum(map(len, self._hot.values())) >= HOT_OF_ALL:
            max(self._hot.values(), key=len).drop_least()
        counted.add(key)

    def sums(self, factor: float, sampled: float, process: str) -> HeatSums:
        """What was counted, times a factor, as it is stored."""
        return packed(
            {key: scaled(amounts, factor) for key, amounts in self.cells.items()},
            HeatDetails(
                self._hottest(factor),
                [
                    SlowCount(
                        round(seconds * 1_000_000), call.at, process, call.verb, call.declared,
                        len(call.touched), sum([len(each.rows) for each in call.touched]),
                    )
                    for seconds, call, _number in self._slow
                ],
                self._grown(factor),
                [
                    PageCount(declared, *[round(each * factor) for each in counted])
                    for declared, counted in self._pages.items()
                ],
            ),
            sampled=sampled,
            processes=1,
        )  # fmt: skip

    def _hottest(self, factor: float) -> Iterable[HotCount]:
        for (operation, place), counted in self._hot.items():
            for key, most, surplus in counted.items():
                yield HotCount(place.table, key, round(most * factor), round(surplus * factor), operation)

    def _grown(self, factor: float) -> Iterable[EndCount]:
        for place, end in self._ends.items():
            if end.rows:
                yield EndCount(*place, round(end.rows * factor), round(end.outside * factor))
