"""The tasks that wait in the outbox and the holders that are set aside, with the names of their entities.

See "Tasks" of the commit protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from oneread.counters.rows import MARKED, marked_since, name_of
from oneread.derivations.catalog import Catalog
from oneread.errors import Corrupt, UsageError
from oneread.models.model import stored_name
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.plans.scans import fetch_data, scan_all, scan_first, scan_up_to
from oneread.store.keys import view_part
from oneread.store.requests import Found, Scan
from oneread.store.rows import VALUE, Row, RowRange
from oneread.transactions import outbox
from oneread.transactions.leases import lease_in, task_lease_in
from oneread.transactions.outbox import group_root

BATCH: Final = 500
"""Tasks of one scan."""
MOST_TASKS: Final = 100_000
"""Tasks of entities, of groups, and of counters, that are counted at most."""
COUNTER: Final = "counter"
"""The kind of task that a counter has between an add and the copy of its value to the entities that show it."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class WaitingTask(msgspec.Struct, frozen=True):
    """One fan-out that is not done yet: `done` holders have the new values of `source` so far.

    Arguments:
        source: the entity that changed: `Customer(7)`; `counter 'views:7'` for a counter that entities show.
        done: holders that have its new values so far.
        readable: whether its row can be read; `verify` reports one that cannot.
        age: seconds since the source changed last.
        worker: who has begun it and has a lease on it, as process id and a random part; empty for none.
    """

    source: str
    done: int
    readable: bool = True
    age: float = 0.0
    worker: str = ""


class TaskLag(msgspec.Struct, frozen=True):
    """How far the tasks of one kind are behind.

    Arguments:
        waiting: how many tasks are in the outbox, begun or not.
        begun: how many of these a worker has a lease on.
        oldest: seconds since the oldest change that they still copy, 0 for none. A source that changes again starts
            its task again, so this is counted from its last change.
    """

    waiting: int = 0
    begun: int = 0
    oldest: float = 0.0


class Lags(NamedTuple):
    """How far tasks are behind: those of each kind, and those of each feed, by its stored name."""

    kinds: dict[str, TaskLag]
    feeds: dict[str, TaskLag]
    are_all: bool = True
    """Whether every task was counted, and not the first `MOST_TASKS` only."""


class PendingTasks:
    """The tasks of one store. `group_tasks` are the ranges of `system` in which groups have tasks: none, or one."""

    def __init__(self, catalog: Catalog, group_tasks: Sequence[RowRange] = ()) -> None:
        self._catalog = catalog
        self._group_tasks = group_tasks
        self._shows_counters = bool(catalog.counters)
        self._kinds = (
            *outbox.KINDS,
            *[outbox.TOTAL for _within in group_tasks],
            *([COUNTER] if self._shows_counters else []),
        )

    def waiting(self, limit: int) -> Plan[list[WaitingTask]]:
        """The first tasks. One request and at most `limit` rows; where groups have tasks, some more.

        Where entities show counters, one for those that are to be copied.
        """
        catalog, now = self._catalog, (yield from Now())
        rows = yield from Scan("system", outbox.TASKS, limit, families="dm")
        tasks = [_waiting(catalog, key, row, now) for key, row in rows]
        for within in self._group_tasks:
            tasks += yield from self._waiting_groups(within, limit - len(tasks), now)
        if self._shows_counters and len(tasks) < limit:
            marked = yield from Scan("counts", MARKED, limit - len(tasks))
            tasks += [_waiting_counter(key, row, now) for key, row in marked]
        return tasks[:limit]

    def _waiting_groups(self, within: RowRange, limit: int, now: int) -> Plan[list[WaitingTask]]:
        """The first tasks of groups, and maybe some more."""
        tasks: list[WaitingTask] = []
        while len(tasks) < limit:  # rows whose tasks are done keep their leases
            groups = yield from Scan("system", within, outbox.BATCH, families="dm")
            tasks += [_waiting_group(self._catalog, key, row, now) for key, row in groups if outbox.waiting_cells(row)]
            if len(groups) < outbox.BATCH:
                break
            within = within.behind(groups[-1][0])
        return tasks

    def lags(self, most: int = MOST_TASKS) -> Plan[Lags]:
        """How far the tasks of each kind and of each feed are behind; a request for each `BATCH` of `most`.

        Where groups have tasks, these are of the feeds of groups as well. Where entities show counters, those that were
        added to since they were copied count as tasks.
        """
        now = yield from Now()
        feeds, of_groups = _feeds_by_part(self._catalog), _feeds_by_aggregate(self._catalog)
        found = Lags(dict.fromkeys(self._kinds, TaskLag()), dict.fromkeys(feeds.values(), TaskLag()))

        def add(rows: list[Found]) -> None:
            for key, row in rows:
                source = outbox.source_of(key)
                _add_to(found.kinds, outbox.kind_of(source), row, now)
                feed = feeds.get(outbox.view_of(source))
                if feed is not None:
                    _add_to(found.feeds, feed, row, now)

        def add_groups(rows: list[Found]) -> None:
            for key, row in rows:
                if outbox.waiting_cells(row):  # leases of groups stay
                    _add_to(found.kinds, outbox.TOTAL, row, now)
                    for feed in of_groups.get(view_part(outbox.group_of_task(key)), ()):
                        _add_to(found.feeds, feed, row, now)

        are_all = yield from scan_first("system", outbox.TASKS, add, min(BATCH, most), most)
        for within in self._group_tasks:
            are_all &= yield from scan_first("system", within, add_groups, min(BATCH, most), most)
        if self._shows_counters:
            are_all &= yield from _add_counters(found.kinds, now, most)
        return found._replace(are_all=are_all)

    def oldest_of_feed(self, parts: frozenset[bytes], groups: bytes | None = None) -> Plan[float]:
        """How old the oldest of the first `BATCH` tasks is that is of a feed with these parts. One request.

        Where groups have tasks and the feed is of those of an aggregate, with its prefix, another one for the first
        `BATCH` tasks of groups: those of its own leave tasks of the feed when they are done, and so are looked for
        before these.
        """
        now = yield from Now()
        waiting: list[Found] = []
        for within in () if groups is None else self._group_tasks:
            waiting += yield from Scan("system", within, BATCH)
        rows = yield from Scan("system", outbox.TASKS, BATCH)
        found = [row for key, row in rows if outbox.view_of(outbox.source_of(key)) in parts]
        found += [row for key, row in waiting if view_part(outbox.group_of_task(key)) == groups]
        return max([_age(row, now) for row in found], default=0.0)


def _add_counters(found: dict[str, TaskLag], now: int, most: int) -> Plan[bool]:
    """Counts the counters that are to be copied to their entities; whether all were."""
    rows = yield from scan_up_to("counts", MARKED, most, BATCH)
    ages = [_marked_for(row, now) or 0.0 for _key, row in rows]
    found[COUNTER] = TaskLag(len(rows), 0, max(ages, default=0.0))
    return len(rows) < most


def _add_to(found: dict[str, TaskLag], name: str, row: Row, now: int) -> None:
    lag = found[name]
    begun = lag.begun + bool(_worker(row, now))
    found[name] = TaskLag(lag.waiting + 1, begun, max(lag.oldest, _age(row, now)))


def _waiting_group(catalog: Catalog, key: bytes, row: Row, now: int) -> WaitingTask:
    try:
        source = catalog.name_of(group_root(outbox.group_of_task(key)))
    except Corrupt:
        return WaitingTask(key.hex(), 0, readable=False)
    return WaitingTask(source, 0, age=_age(row, now), worker=_worker(row, now))


def _waiting_counter(key: bytes, row: Row, now: int) -> WaitingTask:
    age = _marked_for(row, now)
    return WaitingTask(f"counter {name_of(key)!r}", 0, readable=age is not None, age=age or 0.0)


def _marked_for(row: Row, now: int) -> float | None:
    """Seconds since a counter that is shown was added to; None for a mark that cannot be read."""
    try:
        return max(0, now - marked_since(row)) / 1000
    except Corrupt:
        return None


def _feeds_by_part(catalog: Catalog) -> dict[bytes, str]:
    """By the prefix of the items and memberships of each feed, its stored name."""
    views = catalog.views
    return {views[part].prefix: stored_name(cls) for cls, view in views.items() for part in view.parts}


def _feeds_by_aggregate(catalog: Catalog) -> dict[bytes, list[str]]:
    """By the prefix of an aggregate, the stored names of the feeds of its groups."""
    found: dict[bytes, list[str]] = {}
    for cls, view in catalog.views.items():
        if view.parts and view.groups is not None:
            found.setdefault(view.groups.prefix, []).append(stored_name(cls))
    return found


def count_waiting(lag: Mapping[str, TaskLag]) -> int:
    """How many tasks there are of all kinds."""
    return sum([each.waiting for each in lag.values()])


def oldest_of(lag: Mapping[str, TaskLag]) -> float:
    """The age of the oldest task of all kinds, in seconds."""
    return max([each.oldest for each in lag.values()], default=0.0)


class SetAsideHolder(msgspec.Struct, frozen=True):
    """A holder of copies that could not follow their source.

    Arguments:
        source: the entity that changed: `Customer(7)`.
        holder: the entity whose copies are stale; empty when no holder of the source could be updated.
        error: the class of the last error.
        message: of the last error.
        tries: how often it was tried.
        since: when it was set aside, by the clock of the program that did it.
        changed: whether the source or the holder has changed since the last try, so that the next drain tries again.
    """

    source: str
    holder: str
    error: str
    message: str
    tries: int
    since: datetime
    changed: bool = False


def set_aside_holders(catalog: Catalog, limit: int | None) -> Plan[list[SetAsideHolder]]:
    """The first holders that are set aside; None is all. Two requests for each `outbox.BATCH` of them.

    Raises:
        UsageError: `limit` is not a whole number, or less than 1.
    """
    if limit is not None and (type(limit) is not int or limit < 1):
        raise UsageError("limit: expected a whole number of holders, 1 or more, or None for all", limit=limit)
    found: list[SetAsideHolder] = []
    within = outbox.SET_ASIDE
    while limit is None or len(found) < limit:
        size = outbox.BATCH if limit is None else min(outbox.BATCH, limit - len(found))
        rows = yield from Scan("system", within, size)
        entries = [outbox.read_aside(row) for row in rows]
        changed = {key for key, _shown in (yield from outbox.changed(entries))}
        found.extend([_holder(catalog, entry, changed=entry.key in changed) for entry in entries])
        if len(rows) < size:
            break
        within = within.behind(rows[-1][0])
    return found


def count_set_aside() -> Plan[int]:
    """How many holders are set aside; a request for each `BATCH` of them."""
    sizes: list[int] = []
    yield from _over(outbox.SET_ASIDE, lambda rows: sizes.append(len(rows)))
    return sum(sizes)


def sources_with_pending_tasks() -> Plan[set[bytes]]:
    """The keys of all sources with a task; a request for each `BATCH` of them.

    Raises:
        Corrupt: a task is unreadable.
    """
    found: set[bytes] = set()
    yield from _over(outbox.TASKS, lambda rows: found.update(outbox.read_task(row).source for _key, row in rows))
    return found


def _over(within: RowRange, take: Callable[[list[Found]], None]) -> Plan[None]:
    """Gives every row of a range of `system` to `take`, in batches."""
    return scan_all("system", within, take, BATCH, fetch_data)


def _waiting(catalog: Catalog, key: bytes, row: Row, now: int) -> WaitingTask:
    try:
        task = outbox.read_task(row)
        lease = task_lease_in(row)
        done = task.done if lease is None else max(task.done, lease.done)
        return WaitingTask(catalog.name_of(task.source), done, age=_age(row, now), worker=_worker(row, now))
    except Corrupt:
        return WaitingTask(key.hex(), 0, readable=False)


def _age(row: Row, now: int) -> float:
    """Seconds since a task was added; 0 under a version ahead of the clock, and for a row without a task."""
    cell = row.get(VALUE)
    stamps = [*outbox.waiting_cells(row).values(), *(() if cell is None else (cell.stamp,))]
    return max(0, now - min(stamps)) / 1000 if stamps else 0.0


def _worker(row: Row, now: int) -> str:
    """Who has a lease on a task that has not ended."""
    lease = lease_in(row)
    return "" if lease is None or lease.until <= now else lease.owner


def _holder(catalog: Catalog, entry: outbox.AsideEntry, *, changed: bool) -> SetAsideHolder:
    shown = entry.shown
    if shown is None:
        return SetAsideHolder(entry.key.hex(), "", "Corrupt", "this entry is unreadable", 0, _EPOCH)
    return SetAsideHolder(
        _name(catalog, shown.source),
        _name(catalog, shown.holder),
        shown.error,
        shown.message,
        shown.tries,
        _EPOCH + timedelta(milliseconds=shown.since),
        changed,
    )


def _name(catalog: Catalog, key: bytes) -> str:
    try:
        return catalog.name_of(key) if key else ""
    except (Corrupt, ValueError, IndexError):
        return key.hex()
