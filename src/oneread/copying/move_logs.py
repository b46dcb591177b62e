"""What has changed in the store that takes the writes of a move, for the one that follows: two logs, one form.

Where transactions span rows, that is a log of numbered entries. Where one row is changed at a time, it is a mark of
each row that is about to change: one is over when its row has the number that was announced, or a later one. Then the
change was made, or cannot be made any more, however late its request is; so the state that is read after that has it,
and the mark is removed up to the number that was seen. See docs/decisions/0148-one-row-stores-are-moved.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

from oneread.counters.rows import SETTINGS, SHARDS
from oneread.counters.settings import read_settings_row
from oneread.counters.shard_counters import try_swap
from oneread.counters.shard_rows import ShardChange, read_shard_row, settings_request
from oneread.database._sync.database import Database
from oneread.plans.counted import CountedStore
from oneread.plans.effects import Now, Snapshot, Together
from oneread.plans.performer import elapsed
from oneread.plans.plan import Plan
from oneread.plans.scans import scan_all
from oneread.store.keys import VIEW_BYTES
from oneread.store.requests import Found, Mutate, Read, Scan
from oneread.store.rows import VALUE, WRITES, Row, RowMutation, RowRange
from oneread.transactions.intents import MARKER, decode_version, read_root
from oneread.transactions.journal_commits import RowCommitter
from oneread.transactions.lost_answers import surely
from oneread.transactions.move_gate import MARKS, logged_in, put_marks
from oneread.transactions.move_positions import entry_number, position_of_marks
from oneread.transactions.moves import (
    LOG_ENTRIES,
    MOVE_LOG,
    LoggedChanges,
    add_to_log,
    counters_in,
    logged_changes,
    logged_counter,
    roots_in,
)

S = TypeVar("S")

PATIENCE: Final = 1.0
"""Seconds that a change which was announced is waited for; then it is ended, and its program makes it again."""

_PAGE: Final = 500


class ChangesToFollow(Protocol):
    """The log of one store."""

    def moment(self, read: Callable[[], Plan[S]]) -> Plan[S]:
        """Reads one moment of the store; what changes it meanwhile is logged behind that where it has no snapshots."""
        ...

    def read_all(self, plans: Sequence[Plan[S]]) -> Plan[list[S]]:
        """What plans read in such a moment, at the same time where that is faster."""
        ...

    def next(self, limit: int, *, ends: bool) -> Plan[LoggedChanges]:
        """About so many of the oldest changes that can be followed now; with `ends` also those that are under way."""
        ...

    def remove(self, logged: LoggedChanges, again: Sequence[bytes]) -> Plan[None]:
        """Removes what is followed; what the target refused, root rows as a log has them, comes again."""
        ...

    def add(self, logged: Sequence[bytes]) -> Plan[None]:
        """Adds root rows, as a log has them."""
        ...

    def settle(self, rows: Sequence[Found]) -> Plan[Sequence[Found]]:
        """Root rows as they are when nothing that is not logged can change them any more."""
        ...

    def settle_counters(self) -> Plan[None]:
        """Returns when nothing that is not logged can change a counter any more."""
        ...

    def add_increments(self) -> Plan[None]:
        """Adds the counters that increments may have changed, which were sent before the move and are done since."""
        ...

    def waiting(self) -> Plan[tuple[int, int]]:
        """How many changes wait, and when the oldest was logged; (0, 0) for none."""
        ...

    def forget(self, limit: int) -> Plan[None]:
        """Removes all of it, so many a request."""
        ...

    def end_unaware(self, changed: float) -> Plan[None]:
        """Returns when all programs know how the row of the move was changed then, by the clock that is never set.

        What they sent before is logged, or ended.
        """
        ...

    def admit(self, follower: str) -> None:
        """Lets changes that this process makes to the store through as those of a follower."""
        ...


def log_of(store: Database) -> ChangesToFollow:
    """The log of a store."""
    committer = store.operations.committer
    return MarkLog(committer) if isinstance(committer, RowCommitter) else EntryLog(store)


class EntryLog:
    """That of a store whose transactions span rows."""

    def __init__(self, store: Database) -> None:
        self._committer = store.operations.committer

    def moment(self, read: Callable[[], Plan[S]]) -> Plan[S]:
        return Snapshot(read).__iter__()

    def read_all(self, plans: Sequence[Plan[S]]) -> Plan[list[S]]:
        """One after the other: a snapshot is of one thread."""
        found: list[S] = []
        for each in plans:
            found += [(yield from each)]
        return found

    def next(self, limit: int, *, ends: bool) -> Plan[LoggedChanges]:  # noqa: ARG002 - nothing is under way
        return logged_changes((yield from Scan("system", LOG_ENTRIES, limit)), limit)

    def remove(self, logged: LoggedChanges, again: Sequence[bytes]) -> Plan[None]:
        return self._committer.together(partial(_remove, entries=logged.entries, again=again))

    def add(self, logged: Sequence[bytes]) -> Plan[None]:
        return self._committer.together(partial(add_to_log, keys=logged))

    def settle(self, rows: Sequence[Found]) -> Plan[Sequence[Found]]:
        """As they are: the log began in a transaction."""
        yield from ()
        return rows

    def settle_counters(self) -> Plan[None]:
        """Nothing, likewise."""
        yield from ()

    def add_increments(self) -> Plan[None]:
        """Nothing, likewise."""
        yield from ()

    def waiting(self) -> Plan[tuple[int, int]]:
        first = yield from Scan("system", LOG_ENTRIES, 1)
        if not first:
            return 0, 0
        last = yield from Scan("system", LOG_ENTRIES, 1, reverse=True)
        return entry_number(last[0][0]) - entry_number(first[0][0]) + 1, logged_changes(first, 1).oldest

    def forget(self, limit: int) -> Plan[None]:
        while (yield from self._committer.sweep("system", RowRange.under(MOVE_LOG), limit)):
            pass

    def end_unaware(self, changed: float) -> Plan[None]:  # noqa: ARG002 - each transaction reads the row
        """At once."""
        yield from ()

    def admit(self, follower: str) -> None:
        """Nothing: the thread that follows says so, by FOLLOWER."""


class MarkLog:
    """That of a store that changes one row at a time."""

    def __init__(self, committer: RowCommitter) -> None:
        self._journal = committer.journal
        self._recovery = committer.recovery
        self._group = committer.views.recorded.group
        self._since: dict[bytes, float] = {}  # marks that are not over, and when they were first seen so

    def moment(self, read: Callable[[], Plan[S]]) -> Plan[S]:
        return read()

    def read_all(self, plans: Sequence[Plan[S]]) -> Plan[list[S]]:
        return Together(plans).__iter__()

    def forget(self, limit: int) -> Plan[None]:
        while found := (yield from Scan("system", MARKS, limit)):
            yield from Mutate("system", [RowMutation(key, deletes={MARKER: _stamp(row)}) for key, row in found])

    def end_unaware(self, changed: float) -> Plan[None]:
        return self._recovery.end_unaware(changed)

    def admit(self, follower: str) -> None:
        self._journal.gate.follower = follower

    def next(self, limit: int, *, ends: bool) -> Plan[LoggedChanges]:
        """A scan, and a read of the rows in it; some requests for each that has to be ended."""
        over, oldest, within = dict[bytes, int](), 0, MARKS
        while len(over) < limit:
            found = yield from Scan("system", within, min(limit, _PAGE))
            for key, number in (yield from self._over(found, ends=ends)).items():
                over[key] = number
            oldest = min([oldest or _stamp(row) for _key, row in found], default=oldest)
            if len(found) < min(limit, _PAGE):
                break
            within = within.behind(found[-1][0])
        logged = [logged_in(key) for key in over]
        return LoggedChanges([*over], roots_in(logged), counters_in(logged), oldest, over)

    def remove(self, logged: LoggedChanges, again: Sequence[bytes]) -> Plan[None]:
        """One request. What was refused keeps its mark."""
        gone = [
            RowMutation(key, deletes={MARKER: logged.stamps[key]})
            for key in logged.entries
            if logged_in(key) not in again
        ]
        if gone:
            yield from surely(Mutate("system", gone))

    def add(self, logged: Sequence[bytes]) -> Plan[None]:
        """A read of the rows, and one request for the marks: as of changes that are under way."""
        now = yield from Now()
        groups = [self._group(each) for each in roots_in(logged)]
        rows = yield from Read("roots", groups, "dm")
        for each, group, row in zip(logged, groups, rows, strict=True):
            yield from surely(put_marks([each], max(now, read_root(group, row).version + 1)))

    def settle(self, rows: Sequence[Found]) -> Plan[Sequence[Found]]:
        """Ends what was sent before the move began: a fence of each row that commits compare, then a read of all."""
        keys = [key for key, _row in rows]
        own = [(key, read_root(key, row).version) for key, row in rows if self._group(key) == key]
        if own:
            yield from Together([self._end_root(key, version + 1) for key, version in own])
        found = (yield from Read("roots", keys, "dm")) if keys else []
        return [(key, row) for key, row in zip(keys, found, strict=True) if row is not None]

    def settle_counters(self) -> Plan[None]:
        """Ends what was sent before the move began: a change of the number of each row."""

        def end(found: list[Found]) -> Plan[None]:
            yield from Together([_end_counter(key, (_number_of(row) or 0) + 1) for key, row in found])

        for each in (SETTINGS, SHARDS):
            yield from scan_all("counts", RowRange.under(each), end, _PAGE)

    def add_increments(self) -> Plan[None]:
        """Marks of approximate counters, at the numbers that their settings have: these are over."""

        def mark(found: list[Found]) -> Plan[None]:
            rows = [(read_settings_row(key[VIEW_BYTES:], row), key) for key, row in found]
            marks = [
                surely(put_marks([logged_counter(key)], row.writes))
                for row, key in rows
                if row.writes is not None and row.settings is not None and row.settings.approximate
            ]
            if marks:
                yield from Together(marks)

        yield from scan_all("counts", RowRange.under(SETTINGS), mark, _PAGE)

    def waiting(self) -> Plan[tuple[int, int]]:
        stamps = (yield from position_of_marks()).values()
        return len(stamps), min(stamps, default=0)

    # What is over.

    def _over(self, marks: Sequence[Found], *, ends: bool) -> Plan[dict[bytes, int]]:
        """Those of these marks that are over, with the numbers that their rows have."""
        roots = {key: self._group(each) for key, _row in marks for each in roots_in([logged_in(key)])}
        counters = {key: each for key, _row in marks for each in counters_in([logged_in(key)])}
        numbers: dict[bytes, int | None] = {}
        groups = list(dict.fromkeys(roots.values()))
        if groups:
            rows = yield from Read("roots", groups, "dm")
            seen = {key: read_root(key, row) for key, row in zip(groups, rows, strict=True)}
            numbers.update(
                {key: seen[group].version if seen[group].intents is None else None for key, group in roots.items()}
            )
        if counters:
            found = yield from Read("counts", [*counters.values()], "dm")
            numbers.update({key: _number_of(row) for key, row in zip(counters, found, strict=True)})
        over: dict[bytes, int] = {}
        for key, mark in marks:
            number, stamp = numbers[key], _stamp(mark)
            if number is None or number < stamp:
                if not ends and self._is_young(key):
                    continue
                number = yield from (
                    self._end_root(roots[key], stamp) if key in roots else _end_counter(counters[key], stamp)
                )
            self._since.pop(key, None)
            over[key] = number
        return over

    def _is_young(self, key: bytes) -> bool:
        now = elapsed()
        return now - self._since.setdefault(key, now) < PATIENCE

    def _end_root(self, group: bytes, stamp: int) -> Plan[int]:
        """Ends attempts to commit a row at a version up to one; returns the version that it has then."""
        seen = yield from self._journal.finished(group)
        while seen.version < stamp:
            yield from self._journal.fence(seen, stamp)
            seen = yield from self._journal.finished(group)
        return seen.version


def _end_counter(key: bytes, stamp: int) -> Plan[int]:
    """Ends changes of a row of a counter up to a number; returns the number that it has then.

    Rows of cache-first counters have none: what is stored of these late is known already.
    """
    while True:
        (row,) = yield from surely(Read("counts", [key], "dm"))
        now = max(stamp, (yield from Now()))
        if key.startswith(SHARDS):
            shard = read_shard_row(key, row)
            number, change = shard.writes, ShardChange(shard, now).request()
        elif key.startswith(SETTINGS):
            settings = read_settings_row(key[VIEW_BYTES:], row)
            number, change = settings.writes, settings_request(settings, settings, now)[0]
        else:
            return stamp
        if number is not None and number >= stamp:
            return number
        yield from try_swap(change)


def _number_of(row: Row | None) -> int | None:
    """The number of changes of a row of a counter, or the stamp of its value."""
    if row is None:
        return None
    if WRITES in row:
        return decode_version(row[WRITES].value)
    return row[VALUE].stamp if VALUE in row else None


def _stamp(mark: Row) -> int:
    return mark[MARKER].stamp


def _remove(store: CountedStore, entries: Sequence[bytes], again: Sequence[bytes]) -> None:
    """Removes entries of the log, and puts what was refused at its end."""
    if again:
        add_to_log(store, again)
    store.replace("system", dict.fromkeys(entries))
