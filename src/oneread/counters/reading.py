"""Reads of counters: exact, remembered, by windows, and lists of counters.

See docs/explanation/counters.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from oneread.counters.cache import CounterCache, Remembered
from oneread.counters.rows import (
    MOST_SHARDS,
    SETTINGS,
    CounterSettings,
    Sums,
    name_of,
    settings_of,
    shards_of,
    sums_of,
)
from oneread.counters.wanted import check_name, check_prefix
from oneread.plans.plan import Plan
from oneread.plans.scans import check_ascending, scan_up_to
from oneread.store.requests import Read, Scan
from oneread.store.rows import RowRange

_LIMIT: Final = MOST_SHARDS + 1

LISTED: Final = 1000
"""Counters of one request of a list."""


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


def list_counters(within: RowRange, limit: int | None) -> Plan[Sequence[tuple[str, CounterSettings]]]:
    """Names and settings of counters of a range of settings, in the order of names. A request for each `LISTED`."""
    rows = yield from scan_up_to("counts", within, limit, LISTED)
    return [(name_of(key), settings) for key, row in rows if (settings := settings_of(row)) is not None]


def names_of(settings: bytes, prefix: object, after: object) -> RowRange:
    """The settings of counters of one kind whose names begin with a text, those behind a name. Raises InvalidKey."""
    start = check_prefix(prefix)
    within = RowRange.under(settings + start[:-1])
    return within if after is None else within.behind(settings + check_name(after))
