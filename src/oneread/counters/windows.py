"""Windows of counters: which ones an add counts in, which are kept, and what a reader is shown, on every store.

A counter keeps so many windows of a size up to its newest one, or up to the clock's if that is earlier. Where they are
is the store's: rows of their own, or columns of the shards.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from oneread.counters.reading import read_settings
from oneread.counters.rows import (
    MOST_SHARDS,
    NOTHING,
    SECONDS,
    WINDOWS,
    CounterSettings,
    Sums,
    Window,
    WindowSize,
    kept,
    shards_of,
    start_of,
    sums_of,
    sums_of_amounts,
    window_size_of,
    window_start,
)
from oneread.counters.wanted import Add
from oneread.errors import InvalidQuery
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.plans.scans import fetch_data, scan_all
from oneread.store.requests import Found, Scan
from oneread.store.rows import Row, RowRange

WINDOW: Final = b"m:n:"
"""What the column of a window begins with, in a shard on a store that changes one row at a time."""
BATCH: Final = 500
"""Windows of one request of `read_all_windows`."""


def windows_of_add(wanted: Add, settings: CounterSettings, now: int) -> list[tuple[WindowSize, int]]:
    """The windows that an add counts in unless they have expired, by their sizes and starts."""
    moment = now if wanted.at is None else wanted.at
    return [(size, window_start(size, moment)) for size in settings.windows]


def first_kept(newest: int, many: int, size: WindowSize, now: int) -> int:
    """When the first of the windows begins that are kept, of which the newest began at `newest`.

    One that is ahead of the clock makes none expire that the clock keeps.
    """
    return _first_of(min(newest, window_start(size, now)), many, size)


def _first_of(last: int, many: int, size: WindowSize) -> int:
    """When the first of so many windows begins, up to one."""
    return max(0, last - (many - 1) * SECONDS[size])


class WindowReads(Protocol):
    """Where the windows of counters are."""

    def windows_between(self, name: bytes, size: WindowSize, start: int, stop: int) -> Plan[dict[int, Sums]]:
        """What the windows hold that began at `start` or later, and before `stop`, by their starts."""
        ...

    def newest_window(self, name: bytes, size: WindowSize) -> Plan[int | None]:
        """When the newest window of a size began that has an add; None without one."""
        ...


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
    now = yield from Now()
    final = window_start(size, now) if until is None else window_start(size, until - 1)
    first, stop = _first_of(final, last, size), final + SECONDS[size]
    found = yield from reads.windows_between(name, size, first, stop)
    if until is not None:  # after the scan: so that what was removed before it is left out
        newest = yield from reads.newest_window(name, size)
        first = max(first, 0 if newest is None else first_kept(newest, many, size, now))
    return [Window(start, found.get(start, NOTHING)) for start in range(first, stop, SECONDS[size])]


def read_all_windows(name: bytes, settings: CounterSettings) -> Plan[dict[tuple[WindowSize, int], Sums]]:
    """The windows that a counter keeps, by size and start, wherever they are; none that has expired.

    A scan of the shards, and one for each `BATCH` of windows that are rows of their own.
    """
    rows: list[Found] = []
    yield from scan_all("counts", RowRange.under(WINDOWS + name), rows.extend, BATCH, fetch_data)
    found: dict[tuple[WindowSize, int], Sums] = {
        (window_size_of(key), start_of(key)): sums_of(row) for key, row in rows
    }
    found |= windows_of_rows((yield from Scan("counts", shards_of(name), MOST_SHARDS + 1, families="dm")))
    now, first = (yield from Now()), dict.fromkeys(SECONDS, 0)
    for size, many in settings.windows.items():
        newest = max([start for each, start in found if each == size], default=0)
        first[size] = first_kept(newest, many, size, now)
    return {
        (size, start): found[size, start]
        for size, start in sorted(found)
        if size in settings.windows and start >= first[size]
    }


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
