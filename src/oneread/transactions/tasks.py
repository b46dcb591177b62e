"""Tasks: the work that commits leave in the outbox, done in batches and in turn.

Each kind of task does something for each row of a range of `views`. An error of one holder is stored with the holder
and never ends a task; only an error of the store ends a step. A worker has a lease on each task that it has begun,
which is renewed with each batch: so several workers share the tasks. The stores differ in how a batch is done, see
`task_batches` and `versioned_tasks`. See "Tasks" of the commit protocol,
docs/decisions/0030-holders-are-set-aside.md and docs/decisions/0056-leases.md.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from oneread.errors import StaleCopies
from oneread.plans.effects import Now
from oneread.plans.performer import elapsed
from oneread.plans.plan import Plan
from oneread.plans.scans import check_ascending
from oneread.store.requests import Found, Scan
from oneread.store.rows import Row, RowRange
from oneread.transactions import outbox
from oneread.transactions.leases import Lease, LeaseHolder, lease_in
from oneread.transactions.other_feeds import OtherFeeds
from oneread.transactions.outbox import AsideEntry, SetAside

MOST_HELD: Final = 4
"""Tasks that one worker keeps for itself; of others it does a batch in turn and leaves the rest to all."""

_END: Final = outbox.TASKS.stop
"""Stands for the last of all tasks, behind which no look is needed."""

_NAMED: Final = 20
"""Holders of one source that an error names at most."""


class TaskStepResult(enum.Enum):
    """What came of one step: true when something was done, so that another step may follow at once."""

    DONE = "done"
    HELD = "held"
    """Nothing; other workers have the tasks that are left."""
    IDLE = "idle"
    """Nothing; no task is left."""

    def __bool__(self) -> bool:
        return self is TaskStepResult.DONE


class Draining:
    """What one drain waits for, on a store that changes one row at a time: commits that were under way as it began.

    Otherwise it would wait for those that begin meanwhile, and not end while others write all the time.
    """

    def __init__(self, markers: frozenset[tuple[bytes, int]] | None = None) -> None:
        self.markers = markers
        """Those of commits, in the journal at its first look and still at its last; None before the first."""
        self.appliers: frozenset[object] | None = None
        """The calls that were applying commits when it had applied the rest itself; None until it has."""
        self.wait = 0.01
        """Seconds until it looks again while it waits: most commits that are under way end soon."""


class FoundTask(NamedTuple):
    """A task as it was read. `older` are the tasks of the same source that it takes the place of."""

    key: bytes
    row: Row
    older: Sequence[Found] = ()


class OutboxRunner:
    """The tasks of one open database. `batches` counts what was done, `leases` says what this worker has.

    `source` is that of the task of which a batch is being done, empty meanwhile.

    Each step is of another task, so that a large task does not delay small ones. The stores differ in how a batch is
    done, and in what else a worker does.
    """

    retry_seconds = 0.0
    """How long between two looks at what is set aside, 0 for one in each turn; at the end of a drain there is one."""

    def __init__(
        self,
        name_of: Callable[[bytes], object],
        other_feeds: OtherFeeds,
        leases: LeaseHolder | None = None,
        clock: Callable[[], float] = elapsed,
    ) -> None:
        self.leases = LeaseHolder() if leases is None else leases
        self.batches = 0
        self.source = b""
        self._name_of = name_of
        self._other_feeds = other_feeds
        self._clock = clock
        self._last = b""
        self._retried: float | None = None
        self._moved: set[bytes] = set()  # in this turn of all tasks

    def step(self, batch: int, draining: Draining | None = None) -> Plan[TaskStepResult]:
        """One batch of the next task in turn that no other worker has, or of what was set aside and has changed since.

        Raises:
            StoreError: the store failed. The next step begins with another task.
        """
        before = yield from self._begin(draining)
        if before is TaskStepResult.DONE:
            return before
        held = before is TaskStepResult.HELD
        for part in self._parts_of_turn(batch, draining):
            result = yield from part
            if result is TaskStepResult.DONE:
                return self._done(draining)
            held |= result is TaskStepResult.HELD
        return TaskStepResult.HELD if held else TaskStepResult.IDLE

    def _parts_of_turn(self, batch: int, draining: Draining | None) -> Iterator[Plan[TaskStepResult]]:
        """What a step looks for, one after the other: the tasks behind the last one, other work, and all tasks."""
        last = self._last
        if last != _END:
            yield self._do_task(outbox.TASKS.behind(last) if last else outbox.TASKS, batch)
        yield self._end_turn()
        if last:
            yield self._do_task(outbox.TASKS, batch)
        if draining is not None and self.retry_seconds:
            yield self._retry_changed()

    def _do_task(self, within: RowRange, batch: int) -> Plan[TaskStepResult]:
        """One batch of the first task that this worker may do; HELD where others have all that there are.

        One request and two rows to find it; a request more for each `outbox.BATCH` tasks of others.
        """
        now: int | None = None
        size, held = 2, False
        while True:
            rows, unreadable = yield from self._scan(within, size)
            has_all, done = len(rows) < size, b""
            for key, row in rows:
                if key <= done:
                    continue
                task = yield from self._newest(key, row)
                done = key if task is None else task.key
                if task is None or (yield from self._other_feeds.is_newer(done)):
                    continue
                now = (yield from Now()) if now is None else now
                if self.leases.may_take(done, lease_in(task.row), now):
                    # Set before the batch, so that a task that fails lets the others go first.
                    self._last = _END if has_all and done >= rows[-1][0] else done
                    self.source = outbox.source_of(done)
                    try:
                        yield from self._advance(task, batch, now)
                    finally:
                        self.source = b""
                    return TaskStepResult.DONE
                held = True
            if unreadable is not None:
                self._last = unreadable
                yield from self._advance(FoundTask(unreadable, {}), batch, 0)
                return TaskStepResult.DONE
            if has_all:
                return TaskStepResult.HELD if held else TaskStepResult.IDLE
            within, size = within.behind(max(done, rows[-1][0])), outbox.BATCH

    def _end_turn(self) -> Plan[TaskStepResult]:
        """What comes when every task had its turn: other work, and what was set aside and has changed."""
        self._last = b""
        self._forget_lost()
        result = yield from self._do_other()
        if result is not TaskStepResult.DONE and self._may_retry():
            result = (yield from self._retry_changed()) or result
        return result

    def _done(self, draining: Draining | None) -> TaskStepResult:  # noqa: ARG002 - for stores whose commits wait
        """What a batch answers."""
        self.batches += 1
        return TaskStepResult.DONE

    def _next_lease(self, key: bytes, lease: Lease | None, now: int) -> Lease:
        """The own lease of a task; one without an owner where this worker has enough, so that others find work."""
        self._moved.add(key)
        held = self._held()
        keeps = key in held or len(held) < MOST_HELD
        return self.leases.renew(key, lease, now) if keeps else self.leases.left(key, lease)

    def _held(self) -> list[bytes]:
        return [key for key in self.leases.held if key.startswith(outbox.TASKS.start)]

    def _forget_lost(self) -> None:
        """After a turn of all tasks: forgets those that were not met, which others have ended."""
        for key in self._held():
            if key not in self._moved:
                self.leases.forget(key)
        self._moved.clear()

    # What the stores do in their own ways.

    def _begin(self, draining: Draining | None) -> Plan[TaskStepResult]:  # noqa: ARG002 - for stores whose commits wait
        """What comes before the tasks: DONE in place of a batch, HELD while something is under way."""
        yield from ()
        return TaskStepResult.IDLE

    def _scan(self, within: RowRange, size: int) -> Plan[tuple[Sequence[Found], bytes | None]]:
        """The first tasks of a range; or none, and the key of one whose row cannot be read and is to be set aside."""
        rows = yield from Scan("system", within, size, families="dm")
        check_ascending("system", within, rows)
        return rows, None

    def _newest(self, key: bytes, row: Row) -> Plan[FoundTask | None]:
        """The task that stands for the source of a row of tasks; None for a row without a task."""
        yield from ()
        return FoundTask(key, row)

    def _advance(self, task: FoundTask, batch: int, now: int) -> Plan[None]:
        """One batch of a task that was found at the time `now`."""
        raise NotImplementedError

    def _do_other(self) -> Plan[TaskStepResult]:
        """What is done when every task of `outbox.TASKS` had its turn."""
        yield from ()
        return TaskStepResult.IDLE

    def _retry(self, entries: Sequence[AsideEntry]) -> Plan[None]:
        """Retries what is set aside."""
        raise NotImplementedError

    def _wait(self, tasks: Sequence[bytes]) -> Plan[bool]:
        """Whether one of these tasks is not done."""
        raise NotImplementedError

    def _source_of(self, task: bytes) -> bytes:
        """What the holders follow that a task has set aside; empty for a task that sets none aside."""
        return outbox.source_of(task)

    def finish_waiting(self) -> Plan[None]:
        """Does the tasks that are there now to their end."""
        raise NotImplementedError

    def include(self, tasks: Sequence[bytes]) -> Plan[None]:  # noqa: ARG002 - for stores whose commits wait
        """Applies the commits among these tasks that are not applied yet, whichever program made them."""
        yield from ()

    def free(self) -> Plan[None]:
        """Frees the tasks that this worker has begun: others continue with them at once."""
        raise NotImplementedError

    # What was set aside.

    def _may_retry(self) -> bool:
        """Whether it is time to look at what is set aside."""
        if not self.retry_seconds:
            return True
        now = self._clock()
        if self._retried is None:
            self._retried = now
        if now - self._retried < self.retry_seconds:
            return False
        self._retried = now
        return True

    def _retry_changed(self) -> Plan[TaskStepResult]:
        """Retries the first entries whose source or holder has changed since; IDLE when there is none."""
        within: RowRange | None = outbox.SET_ASIDE
        while within is not None:
            entries, within = yield from outbox.some_aside(within)
            changed = yield from outbox.changed(entries)
            if changed:
                yield from self._retry(changed)
                return TaskStepResult.DONE
        return TaskStepResult.IDLE

    def retry(self) -> Plan[int]:
        """Retries everything that is set aside; returns how much that was."""
        within: RowRange | None = outbox.SET_ASIDE
        done = 0
        while within is not None:
            entries, within = yield from outbox.some_aside(within)
            readable = [entry for entry in entries if entry.shown is not None]
            if readable:
                yield from self._retry(readable)
            done += len(readable)
        return done

    def have_ended(self, tasks: Sequence[bytes]) -> Plan[bool]:
        """Whether these tasks are done; False while some part will be tried again.

        Raises:
            StaleCopies: the tasks have ended, and holders are set aside.
        """
        if (yield from self._wait(tasks)):
            return False
        stuck: list[SetAside] = []
        for source in filter(None, dict.fromkeys(map(self._source_of, tasks))):
            entries = [outbox.read_aside(row) for row in (yield from Scan("system", outbox.aside_of(source), _NAMED))]
            if (yield from outbox.changed(entries)):
                return False
            stuck.extend([shown for _key, shown in entries if shown is not None])
        if stuck:
            raise StaleCopies(
                "copies could not be updated from their source; their holders are set aside: see db.set_aside()",
                holders=[self._name_of(each.holder or each.source) for each in stuck],
                reason=f"{stuck[0].error}: {stuck[0].message}",
            )
        return True
