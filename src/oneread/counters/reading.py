"""Reads of counters: exact, remembered, by windows, and lists of counters.

See docs/explanation/counters.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from oneread.counters.cache import CounterCache, Remembered
from oneread.counters.rows import (
    MOST_SHARDS,
    NOTHING,
    SECONDS,
    SETTINGS,
    CounterSettings,
    Sums,
    Window,
    WindowSize,
    kept,
    name_of,
    settings_of,
    shards_of,
    start_of,
    sums_of,
    sums_of_amounts,
    window_size_of,
    window_start,
    windows_of,
)
from oneread.counters.wanted import check_name, check_prefix
from oneread.errors import InvalidQuery
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.plans.scans import check_ascending, scan_up_to
from oneread.store.requests import Found, Read, Scan
from oneread.store.rows import Row, RowRange

_LIMIT: Final = MOST_SHARDS + 1

LISTED: Final = 1000
"""Counters of one request of a list."""
WINDOW: Final = b"m:n:"
"""What the column of a window begins with, in a shard on a store that changes one row at a time."""


class Reading(msgspec.Struct, frozen=True):
    """A counter as it was at one moment.

    Arguments:
        value: what was added less what was taken.
        raised: all that was added; it never falls.
        lowered: all that was taken, as a number that is 0 or more and never falls.
        age: seconds; the value was exactly the counter's at a moment no longer ago. 0.0 when it was read just now.
        rows: shards that hold it.
    """

    value: int
    raised: int
    lowered: int
    age: float
    rows: int

    @property
    def add_only(self) -> bool:
        """Whether nothing had been taken: then the counter has at least this value now, if nothing was since."""
        return not self.lowered


def read_shards(name: bytes) -> Plan[list[tuple[int, Sums]]]:
    """The shards of a counter that exist, by number. One request, a row each."""
    within = shards_of(name)
    rows = yield from Scan("counts", within, _LIMIT)
    check_ascending("counts", within, rows)
    return [(key[-1], sums_of(row)) for key, row in rows]


def read_sums(name: bytes) -> Plan[tuple[Sums, int]]:
    """The sums over all shards, and how many there are. One request, a row for each shard."""
    return added_up((yield from read_shards(name)))


def added_up(shards: Sequence[tuple[int, Sums]]) -> tuple[Sums, int]:
    """The sums over all shards, and how many there are."""
    raised = sum([sums.raised for _number, sums in shards])
    lowered = sum([sums.lowered for _number, sums in shards])
    return Sums(raised, lowered), len(shards)


def read_remembered(cache: CounterCache, name: bytes, max_age: float) -> Plan[Remembered]:
    """What the process remembers if it is not too old, as with 0 it always is; else what one request finds.

    That is remembered, also of an exact read: else the next remembered one would show less than it.
    """
    while True:
        seen = cache.get(name)
        if seen is not None and cache.age(seen) < max_age:
            return seen
        since = cache.clock()  # before the scan: so the age is never too small
        found = Remembered(*(yield from read_sums(name)), since)
        if cache.replace(name, seen, found):
            return found
        # Another reader was faster. Readers must not see its value after this one's: so look at it, too.


def reading(found: Remembered, age: float) -> Reading:
    sums = found.sums
    return Reading(sums.value, sums.raised, sums.lowered, age, found.rows)


def read_settings(name: bytes) -> Plan[CounterSettings | None]:
    """How a counter is kept; None for one without an add. One request, one row."""
    (row,) = yield from Read("counts", [SETTINGS + name])
    return settings_of(row)


def first_kept(newest: int, kept: int, size: WindowSize) -> int:
    """When the first of the windows begins that are kept, so many up to the newest."""
    return max(0, newest - (kept - 1) * SECONDS[size])


class WindowReads(Protocol):
    """Where the windows of counters are."""

    def windows_between(self, name: bytes, size: WindowSize, start: int, stop: int) -> Plan[dict[int, Sums]]:
        """What the windows hold that began at `start` or later, and before `stop`, by their starts."""
        ...

    def newest_window(self, name: bytes, size: WindowSize) -> Plan[int | None]:
        """When the newest window of a size began that has an add; None without one."""
        ...


def scan_windows(within: RowRange, most: int) -> Plan[dict[int, Sums]]:
    """What windows hold that are rows of their own, by their starts. One request."""
    rows = yield from Scan("counts", within, most + 1)
    check_ascending("counts", within, rows)
    return {start_of(key): sums_of(row) for key, row in rows}


def read_newest(name: bytes, size: WindowSize) -> Plan[int | None]:
    """When the newest window began that is a row of its own; None without one. One request, one row."""
    found = yield from Scan("counts", windows_of(name, size), 1, reverse=True)
    return start_of(found[0][0]) if found else None


class WantedWindows(NamedTuple):
    """The last windows of a size, so many or all that are kept; those that began before `until`, in milliseconds."""

    size: WindowSize
    last: int | None
    until: int | None


def read_windows(
    reads: WindowReads, name: bytes, wanted: WantedWindows, declared: CounterSettings
) -> Plan[list[Window]]:
    """The last windows of a size, oldest first; those without an add are 0.

    They end with the current one: two requests, the settings and the windows. Or with the last one that began before
    `until`: one request more, the newest window. Windows that have expired are left out by their own time, whether they
    were removed or not.

    Raises:
        InvalidQuery: the counter keeps no such windows.
    """
    size, last, until = wanted
    settings = kept((yield from read_settings(name)), declared)
    many = settings.windows.get(size)
    if many is None:
        raise InvalidQuery(
            'this counter keeps no windows of this size; declare them: db.counter(name, keep={"hour": 48})',
            size=size,
            keeps=settings.windows,
        )
    last = many if last is None else min(last, many)
    current = window_start(size, (yield from Now()))
    final = current if until is None else window_start(size, until - 1)
    first, stop = first_kept(final, last, size), final + SECONDS[size]
    found = yield from reads.windows_between(name, size, first, stop)
    if until is not None:  # after the scan: so that what was removed before it is left out
        newest = yield from reads.newest_window(name, size)
        first = max(first, 0 if newest is None else first_kept(min(newest, current), many, size))
    return [Window(start, found.get(start, NOTHING)) for start in range(first, stop, SECONDS[size])]


def list_counters(within: RowRange, limit: int | None) -> Plan[Sequence[tuple[str, CounterSettings]]]:
    """Names and settings of counters of a range of settings, in the order of names. A request for each `LISTED`."""
    rows = yield from scan_up_to("counts", within, limit, LISTED)
    return [(name_of(key), settings) for key, row in rows if (settings := settings_of(row)) is not None]


def names_of(settings: bytes, prefix: object, after: object) -> RowRange:
    """The settings of counters of one kind whose names begin with a text, those behind a name. Raises InvalidKey."""
    start = check_prefix(prefix)
    within = RowRange.under(settings + start[:-1])
    return within if after is None else within.behind(settings + check_name(after))


def windows_in(row: Row) -> dict[bytes, Sums]:
    """The windows in a shard on a store that changes one row at a time, by their columns."""
    return {column: sums_of_amounts(cell.value) for column, cell in row.items() if column.startswith(WINDOW)}


def windows_of_rows(rows: Iterable[Found]) -> dict[tuple[WindowSize, int], Sums]:
    """What the shards of a counter hold together, by the size and start of windows. Raises Corrupt."""
    found: dict[tuple[WindowSize, int], Sums] = {}
    for _key, row in rows:
        for column, sums in windows_in(row).items():
            window = window_size_of(column), start_of(column)
            raised, lowered = found.get(window, NOTHING)
            found[window] = Sums(raised + sums.raised, lowered + sums.lowered)
    return found
