"""Launches of one store as plans: their states, counts and differences. See "Launches" of docs/formats/rows.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from oneread.errors import Conflict, InvalidQuery, UsageError
from oneread.launches.differences import KINDS, DifferenceKind, LaunchDifference
from oneread.launches.reports import LaunchReport, report_of
from oneread.launches.rows import (
    HOUR,
    MINUTE,
    all_differences,
    difference_key,
    encode_counts,
    hours_between,
    launch_named,
    minutes_between,
    read_difference,
    read_hour,
    read_minute,
    state_key,
    sum_of,
)
from oneread.launches.state import (
    NEW_STATE,
    LaunchChange,
    LaunchState,
    LaunchWanted,
    change_state,
    check_launch_name,
    check_remark,
    decode_state,
    encode_state,
    finish_state,
    note_change,
    take_back,
)
from oneread.launches.tallies import LaunchTally
from oneread.plans.counted import CountedStore
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.plans.scans import scan_up_to
from oneread.store.requests import Read
from oneread.store.rows import VALUE, Cell, Row, RowRange
from oneread.transactions.commit import SystemCommitter, swap_alone
from oneread.transactions.system_rows import LAUNCHES, Swap

BATCH: Final = 500
"""Rows of one scan."""
_MOST_LISTED: Final = 10_000
_KNOWN: Final = 20
_SECONDS: Final = 60
"""Of a minute."""

NextState = Callable[[LaunchState, LaunchChange], LaunchState]


class StoredLaunches:
    """The launches of one store."""

    def __init__(self, system: SystemCommitter) -> None:
        self.system = system

    def states(self, names: Sequence[str]) -> Plan[list[LaunchState | None]]:
        """The states of launches; None for one that no program has called yet. One request, a row each."""
        rows = yield from Read("system", [state_key(name) for name in names])
        return [None if row is None else _state_in(name, row) for name, row in zip(names, rows, strict=True)]

    def add(self, name: str) -> Plan[LaunchState]:
        """Makes the row of a launch that has none, and returns the state that is there then."""
        try:
            yield from self._swap(name, None, NEW_STATE)
        except Conflict:
            pass
        else:
            return NEW_STATE
        return (yield from self._state(name))[0]

    def set(self, name: str, wanted: LaunchWanted, by: str, *, is_known: bool = False) -> Plan[LaunchState]:
        """Changes percentages and options: a read and a swap. One that is known need not have been called before."""
        return self._change(
            name, lambda state, change: change_state(name, state, wanted, change), by, is_known=is_known
        )

    def back(self, name: str, why: str, by: str, *, guarded: bool = False) -> Plan[LaunchState]:
        """Sets reads to 0: a read and a swap."""
        return self._change(name, lambda state, change: take_back(state, change, guarded=guarded), by, why)

    def finish(self, name: str, by: str) -> Plan[LaunchState]:
        """Ends a launch whose new side answers all: a read and a swap."""
        return self._change(name, partial(finish_state, name), by)

    def note(self, name: str, what: str, by: str) -> Plan[LaunchState]:
        """Adds a change to the history of a launch that is stored elsewhere: a read and a swap."""
        return self._change(name, partial(note_change, what=what), by, is_known=True)

    def _change(
        self, name: str, following: NextState, by: str, why: str = "", *, is_known: bool = False
    ) -> Plan[LaunchState]:
        state, seen = yield from self._state(name, is_known=is_known)
        remarks = check_remark("by", by), "", check_remark("why", why)
        change = LaunchChange((yield from Now()), *remarks)
        wanted = following(state, change)
        if wanted is not state:
            yield from self._swap(name, seen, wanted)
        return wanted

    def _state(self, name: str, *, is_known: bool = False) -> Plan[tuple[LaunchState, bytes | None]]:
        """The state of a launch and its encoded form; of a known one that has none, the first and None."""
        (row,) = yield from Read("system", [state_key(check_launch_name(name))])
        if row is None and is_known:
            return NEW_STATE, None
        if row is None:
            known = [launch_named(key) for key, _row in (yield from scan_up_to("system", LAUNCHES, _KNOWN, _KNOWN))]
            raise UsageError("no such launch", launch=name, known=known)
        return _state_in(name, row), row[VALUE].value

    def _swap(self, name: str, seen: bytes | None, wanted: LaunchState) -> Plan[None]:
        lost = partial(Conflict, "another program changed this launch; look again", launch=name)
        yield from swap_alone(self.system, Swap(state_key(name), seen, encode_state(wanted), lost))

    def report(self, name: str, since: datetime | None, *, is_known: bool = False) -> Plan[LaunchReport]:
        """The state of a launch, and the counts of all processes: two scans for each 500 rows, and one request."""
        if since is not None and (type(since) is not datetime or since.tzinfo is None):
            raise InvalidQuery("since: expected an instant with a timezone", since=since)
        state, _seen = yield from self._state(name, is_known=is_known)
        return (yield from self._report(name, state, since))

    def reports(self) -> Plan[list[LaunchReport]]:
        """The reports of all launches, by name: a scan, and for each what a report costs."""
        found: list[LaunchReport] = []
        for key, row in (yield from scan_up_to("system", LAUNCHES, None, BATCH)):
            name = launch_named(key)
            found.append((yield from self._report(name, _state_in(name, row), None)))
        return found

    def _report(self, name: str, state: LaunchState, since: datetime | None) -> Plan[LaunchReport]:
        first = 0 if since is None else max(0, int(since.timestamp()) // _SECONDS)
        stop = (yield from Now()) // MINUTE + 2 * HOUR  # the clock of another process may be ahead
        # Hours first: minutes that are folded between the two scans are missing then, and counted twice otherwise.
        hours = yield from scan_up_to("system", hours_between(name, first // HOUR, stop // HOUR + 1), None, BATCH)
        minutes = yield from scan_up_to("system", minutes_between(name, first, stop), None, BATCH)
        read = [read_hour(key, row[VALUE].value) for key, row in hours]
        folded = {key for each in read for key in each.folded}
        tallies = [each.tally for each in read]
        tallies += [read_minute(key, row) for key, row in minutes if key not in folded]
        return report_of(name, state, sum_of(tallies))

    def counted(self, name: str, state: LaunchState, within: timedelta) -> Plan[LaunchTally]:
        """What all processes have counted in the last while: in whole minutes, since the launch was changed.

        One scan, of the newest 500 rows; none before a minute is over.
        """
        now = (yield from Now()) // MINUTE
        changed = state.changes[-1].at // MINUTE if state.changes else 0
        first = max(now - within // timedelta(minutes=1), changed + 1)
        if first > now:
            return LaunchTally()
        rows = yield from scan_up_to("system", minutes_between(name, first, now + 1), BATCH, BATCH)
        return sum_of([read_minute(key, row) for key, row in rows])

    def differences(self, name: str, kind: DifferenceKind | None, limit: int) -> Plan[list[LaunchDifference]]:
        """Stored differences, the newest first. One scan for each 500."""
        if type(limit) is not int or not 1 <= limit <= _MOST_LISTED:
            raise InvalidQuery("the limit is a whole number of differences, 1 to 10,000", limit=limit)
        if kind is not None and kind not in KINDS:
            raise InvalidQuery("there is no such kind of difference", kind=kind, known=KINDS)
        yield from self._state(name)
        most = limit if kind is None else None
        found = yield from scan_up_to("system", all_differences(name), most, min(BATCH, limit))
        read = [read_difference(key, row) for key, row in found]
        return [each for each in read if kind in (None, each.kind)][:limit]

    def put_counts(self, key: bytes, tally: LaunchTally) -> Plan[None]:
        """Writes what a process has counted in a minute. A transaction."""
        yield from self._put(key, encode_counts(tally))

    def put_difference(self, key: bytes | None, difference: LaunchDifference) -> Plan[bytes]:
        """Writes a difference, under the key that it had before or a new one; returns the key. A transaction."""
        key = difference_key(difference) if key is None else key
        yield from self._put(key, encode_counts(difference))
        return key

    def _put(self, key: bytes, value: bytes) -> Plan[None]:
        def put(store: CountedStore) -> None:
            store.replace("system", {key: {VALUE: Cell(value, store.now())}})

        yield from self.system.together(put)

    def remove(self, within: RowRange) -> Plan[bool]:
        """Removes the first 500 rows of a range; whether there were so many. A transaction."""
        return (yield from self.system.sweep("system", within, BATCH)) == BATCH


def _state_in(name: str, row: Row) -> LaunchState:
    return decode_state(name, row[VALUE].value)
