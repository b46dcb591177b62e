"""Folds counts of launches to hours, ends what is not kept any more, and trims stored differences.

Each step may be repeated and interrupted: the row of an hour names the minutes that are in it, until they are removed,
so that none counts twice. See docs/decisions/0142-dark-launch-of-functions.md.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from oneread.errors import Conflict
from oneread.launches.plans import BATCH, StoredLaunches
from oneread.launches.rows import (
    HOUR,
    MINUTE,
    HourTally,
    all_differences,
    differences_before,
    encode_counts,
    hour_key,
    hours_between,
    launch_named,
    minute_of,
    minutes_between,
    read_hour,
    read_minute,
    sum_of,
)
from oneread.launches.state import LaunchState, decode_state
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.plans.scans import scan_up_to
from oneread.store.requests import Read, Scan
from oneread.store.rows import VALUE, RowRange
from oneread.transactions.commit import swap_alone
from oneread.transactions.system_rows import LAUNCHES, Swap

LAUNCH_SWEEP_SECONDS: Final = 3_600.0
"""Between two sweeps of a worker, and before the first one."""
_DAY: Final = 24 * HOUR
"""Minutes after which a minute is folded."""
_KEPT: Final = 30 * 24
"""Hours after which counts end."""
_MILLISECOND: Final = timedelta(milliseconds=1)


class LaunchSweep:
    """One sweep of all launches of a store. Several at a time do no harm."""

    def __init__(self, launches: StoredLaunches) -> None:
        self._launches = launches
        self._start = LAUNCHES.start

    def step(self) -> Plan[bool]:
        """Does one batch; False when nothing is left to do. One request where there is no launch.

        Else four for each launch, and for each hour that is folded three transactions and a scan.
        """
        while True:
            rows = yield from Scan("system", RowRange(self._start, LAUNCHES.stop), 1)
            if not rows:
                return False
            ((key, row),) = rows
            name = launch_named(key)
            if (yield from self._sweep(name, decode_state(name, row[VALUE].value))):
                return True
            self._start = key + b"\x00"

    def _sweep(self, name: str, state: LaunchState) -> Plan[bool]:
        minute = (yield from Now()) // MINUTE
        old = yield from Scan("system", minutes_between(name, 0, minute - _DAY), 1)
        if old:
            return (yield from self._fold(name, minute_of(name, old[0][0]) // HOUR))
        ended = hours_between(name, 0, minute // HOUR - _KEPT)
        if (yield from Scan("system", ended, 1)) and (yield from self._launches.remove(ended)):
            return True
        return (yield from trim_differences(self._launches, name, state))

    def _fold(self, name: str, hour: int) -> Plan[bool]:
        """Adds the minutes of an hour to its row and removes them; False where another sweep does so."""
        key = hour_key(name, hour)
        (row,) = yield from Read("system", [key])
        seen = None if row is None else row[VALUE].value
        before = read_hour(key, seen)
        within = minutes_between(name, hour * HOUR, (hour + 1) * HOUR)
        minutes = yield from scan_up_to("system", within, None, BATCH)
        fresh = [read_minute(each, row) for each, row in minutes if each not in before.folded]
        names = tuple(each for each, _row in minutes)
        total = HourTally(sum_of([before.tally, *fresh]), names)
        try:
            yield from self._swap(key, seen, encode_counts(total))
            while (yield from self._launches.remove(within)):
                pass
            yield from self._swap(key, encode_counts(total), encode_counts(HourTally(total.tally)))
        except Conflict:
            return False
        return True

    def _swap(self, key: bytes, seen: bytes | None, wanted: bytes) -> Plan[None]:
        lost = Conflict("another program folds the counts of this launch", key=key)
        yield from swap_alone(self._launches.system, Swap(key, seen, wanted, lambda: lost))


def trim_differences(launches: StoredLaunches, name: str, state: LaunchState) -> Plan[bool]:
    """Removes differences that are too old or too many; whether there may be more of them.

    One scan of one row, and one of the newest for each 500 that are kept.
    """
    until = (yield from Now()) - state.options.kept // _MILLISECOND
    old = differences_before(name, until)
    if (yield from Scan("system", old, 1)):
        return (yield from launches.remove(old))
    within = all_differences(name)
    kept = yield from scan_up_to("system", within, state.options.keep + 1, BATCH)
    if len(kept) <= state.options.keep:
        return False
    return (yield from launches.remove(RowRange(kept[-1][0], within.stop)))
