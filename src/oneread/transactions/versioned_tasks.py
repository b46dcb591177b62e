"""The tasks of a store that changes one row at a time: each change of a source leaves its own, and the newest is done.

A worker takes a lease on a task by compare-and-set, and moves its cursor in it once the holders of a page have
followed. See rules 13-16 and L1-L3 of the commit protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from oneread.plans.effects import Now, Sleep
from oneread.plans.plan import Plan
from oneread.store.requests import ABSENT, CheckAndMutate, Found, Mutate, Read, Scan
from oneread.store.rows import VALUE, Cell, Row, RowMutation, RowRange, later
from oneread.transactions import outbox
from oneread.transactions.intents import read_pending
from oneread.transactions.journal_commits import RowCommitter
from oneread.transactions.leases import LEASE, Lease, LeaseHolder, TaskLease, encode_lease, task_lease_in
from oneread.transactions.other_feeds import AskStanding, OtherFeeds, unknown_standing
from oneread.transactions.outbox import AsideEntry, Task, group_root
from oneread.transactions.refusals import PartRefused, tell_apart
from oneread.transactions.tasks import Draining, FoundTask, OutboxRunner, TaskStepResult
from oneread.transactions.total_follower import AskAlone

LOOK_SECONDS: Final = 1.0
"""How long a worker waits between two looks at the journal."""

RETRY_SECONDS: Final = 60.0
"""How long between two looks at what is set aside."""


class PageSizes(NamedTuple):
    """How many pages are done under one lease, of entries and of holders that get cells, and how many batches each is.

    A page takes three requests whatever its size; one of entries takes two reads, and a write for each 250.
    """

    pages: int = 3
    batches: int = 5


SIZES: Final = PageSizes()


def _never_alone() -> Plan[bool]:
    """Of a worker that knows no schema."""
    yield from ()
    return False


class RowTaskRunner(OutboxRunner):
    """Does the tasks row by row.

    `standing` asks for feeds of other programs, `writes_alone` whether tasks of other programs' groups may be ended.
    """

    retry_seconds = RETRY_SECONDS

    def __init__(
        self,
        committer: RowCommitter,
        leases: LeaseHolder | None = None,
        standing: AskStanding = unknown_standing,
        writes_alone: AskAlone = _never_alone,
        sizes: PageSizes = SIZES,
    ) -> None:
        journal = committer.journal

        def clock() -> float:
            return journal.clock()

        super().__init__(journal.name_of, OtherFeeds(committer.views.feeds.prefixes, standing), leases, clock)
        self._writes_alone = writes_alone
        self._sizes = sizes
        self._committer = committer
        self._looked = -LOOK_SECONDS
        self._looks = False
        self._failing: set[bytes] = set()  # tasks of groups that the store failed in this turn

    def _begin(self, draining: Draining | None) -> Plan[TaskStepResult]:
        """Applies what was acknowledged; now and then, recovers what other programs left."""
        if (yield from self._apply_waiting(draining)):
            return TaskStepResult.DONE
        yield from self._committer.journal.renew_lease()
        self._looks = yield from self._look(draining)
        return TaskStepResult.HELD if self._waits(draining) else TaskStepResult.IDLE

    def _apply_waiting(self, draining: Draining | None) -> Plan[bool]:
        """Applies what was acknowledged; whether that was a batch of its own, which a drain has once."""
        applied = yield from self._committer.completion.apply_waiting()
        if draining is None:
            return bool(applied)
        if draining.appliers is not None:
            return False
        draining.appliers = self._committer.completion.appliers
        return bool(applied)

    def _look(self, draining: Draining | None) -> Plan[bool]:
        """Looks at the journal and recovers what was left in it, now and then, and while a drain waits for a commit."""
        now = self._committer.journal.clock()
        is_first = draining is not None and draining.markers is None
        wait = draining.wait if draining is not None and draining.markers else LOOK_SECONDS
        looks = is_first or now - self._looked >= wait
        if looks:
            yield from self._committer.recovery.recover()
            self._looked = now
            if draining is not None:
                markers = self._committer.recovery.waiting_markers
                markers = markers if draining.markers is None else draining.markers & markers
                draining.markers = yield from self._committer.recovery.of_commits(markers)
                draining.wait = min(LOOK_SECONDS, 1.5 * draining.wait)
        return looks

    def _done(self, draining: Draining | None) -> TaskStepResult:
        """What a batch answers; what it has committed may be applied by another call."""
        if draining is not None:
            draining.appliers = None
        return super()._done(draining)

    def _waits(self, draining: Draining | None) -> bool:
        """Whether commits are under way that a drain waits for; without one, whether there are any."""
        appliers = self._committer.completion.appliers
        if draining is None:
            return bool(self._committer.recovery.waiting_markers or appliers)
        return bool(draining.markers or not appliers.isdisjoint(draining.appliers or ()))

    def _do_other(self) -> Plan[TaskStepResult]:
        """The first task of a group that no other worker has and that has not failed in this turn."""
        totals = self._committer.totals
        if not (self._looks or totals.shows_groups):
            return TaskStepResult.IDLE
        result = yield from totals.next_group(self.leases, self._writes_alone, self._failing)
        if not result and self._failing:  # every other one had its turn
            self._failing.clear()
            result = yield from totals.next_group(self.leases, self._writes_alone, self._failing)
        return result

    def _newest(self, key: bytes, row: Row) -> Plan[FoundTask | None]:
        """The newest task of the source of a task, which stands for the older ones."""
        rows = yield from Scan("system", RowRange.under(outbox.unversioned(key)), outbox.BATCH, families="dm")
        tasks = [each for each in rows if VALUE in each[1]]
        if not tasks:
            yield from self._drop(key, row)
            return None
        return FoundTask(*tasks[-1], tasks[:-1])

    def _drop(self, key: bytes, row: Row) -> Plan[None]:
        """Removes a lease without a task, once it is over (rule L3)."""
        held = task_lease_in(row)
        if held is None or held.until <= (yield from Now()):
            yield from Mutate("system", [RowMutation(key, deletes={VALUE: outbox.version_of(key), **_stamps(row)})])

    def _advance(self, task: FoundTask, batch: int, now: int) -> Plan[None]:
        """One batch, or none where another worker takes the task at the same time."""
        key, row, older = task
        held = task_lease_in(row)
        left_out = _left_out_by_all(row, older)
        is_wider = len(left_out) < len(outbox.selections_left_out(row))
        before = None if is_wider else held  # an older task has holders that this one has passed over
        lease = self.leases.renew(key, held, now)
        mine = _with_cursor(lease, b"" if before is None else before.cursor, 0 if before is None else before.done)
        if not (yield from _swap(key, row.get(LEASE), mine, now)):
            return
        if is_wider:
            row = row | {VALUE: _wider(row, left_out)}
            yield from Mutate("system", [RowMutation(key, {VALUE: row[VALUE]})])
        if older:
            yield from Mutate("system", [RowMutation(place, deletes=_stamps(each)) for place, each in older])
        source = outbox.unversioned(outbox.source_of(key))
        try:
            moved = yield from tell_apart(partial(self._follow, row, mine, batch))
        except PartRefused as refused:
            yield from self._committer.copies.set_aside(source, b"", refused.error)
            moved = None
        cell = Cell(encode_lease(mine), _stamp(row.get(LEASE), now))
        if moved is not None:
            yield from _swap(key, cell, _with_cursor(self._next_lease(key, mine, now), *moved), now)
        else:
            self.leases.forget(key)
            gone = RowMutation(key, deletes={VALUE: row[VALUE].stamp, LEASE: cell.stamp})
            yield from CheckAndMutate("system", LEASE, cell.value, gone)

    def _follow(self, row: Row, lease: TaskLease, batch: int) -> Plan[tuple[bytes, int] | None]:
        """Lets the next holders of a source, or entries of a feed's row, follow.

        Returns the last one, and how many there were until it; None at the end.
        """
        copies, task = self._committer.copies, outbox.read_task(row)
        source, cursor, done = task.source, lease.cursor, lease.done
        if outbox.kind_of(source) == outbox.FEED:
            if (yield from self._other_feeds.is_over(outbox.task_key(source))):
                return None
            return (yield from self._give(outbox.feed_row(source), cursor, done, batch))
        for size in (batch, *(self._sizes.batches * batch for _ in range(self._sizes.pages - 1))):
            found = yield from outbox.scan_holders(source, task.unchanged, cursor, size)
            has_all, is_plain = len(found) < size, len(copies.leaves_of(source, found)) == len(found)
            if not is_plain and len(found) > batch:  # a commit for each holder: those of a batch are enough
                found, has_all = found[:batch], False
            yield from copies.follow_page(source, found)
            if has_all:
                return None
            cursor, done = found[-1][0], done + len(found)
            if not is_plain:
                break
        return cursor, done

    def _give(self, row: bytes, cursor: bytes, done: int, batch: int) -> Plan[tuple[bytes, int] | None]:
        """Makes several pages of a row's entries right under one lease."""
        size = self._sizes.batches * batch
        for _ in range(self._sizes.pages):
            given = yield from self._committer.views.feeds.follow(row, cursor, size)
            if given is None:
                return None
            cursor, done = given, done + size
        return cursor, done

    def finish_waiting(self) -> Plan[None]:
        """Finishes what is in the journal, and does tasks until none is left; waits for those of other workers."""
        yield from self._committer.recovery.recover(patience=0.0)
        draining = Draining(frozenset())
        while (result := (yield from self.step(outbox.BATCH, draining))) is not TaskStepResult.IDLE:
            if result is TaskStepResult.HELD:
                yield from Sleep(LOOK_SECONDS)

    def _retry(self, entries: Sequence[AsideEntry]) -> Plan[None]:
        """One after the other."""
        for _key, shown in entries:
            assert shown is not None, "an unreadable one is not tried"
            yield from self._committer.retry_aside(shown.source, shown.holder)

    def _wait(self, tasks: Sequence[bytes]) -> Plan[bool]:
        if not (yield from self._committer.completion.has_applied(tasks)):
            return True
        for task in tasks:
            if read_pending(task) is not None:
                continue
            if outbox.is_group_task(task):
                if outbox.waiting_cells((yield from Read("system", [task]))[0]):
                    return True
            # A newer task of the same source takes the place of an older one: copies are right when none is left.
            elif (yield from Scan("system", RowRange.under(outbox.unversioned(task)), 1)):
                return True
        return False

    def _source_of(self, task: bytes) -> bytes:
        if read_pending(task) is not None:
            return b""
        if outbox.is_group_task(task):
            return group_root(outbox.group_of_task(task))
        return outbox.unversioned(outbox.source_of(task))

    def include(self, tasks: Sequence[bytes]) -> Plan[None]:
        """One request for each commit, and what applying it needs."""
        return self._committer.completion.include(tasks)

    def free(self) -> Plan[None]:
        """Applies what was acknowledged; a read and a compare-and-set for each task that this worker has begun."""
        yield from self._committer.completion.apply_waiting()
        for key in self._held():
            (row,) = yield from Read("system", [key], "dm")
            held = None if row is None else task_lease_in(row)
            freed = self.leases.freed(key, held)
            if row is not None and held is not None and freed is not None:
                yield from _swap(key, row[LEASE], _with_cursor(freed, held.cursor, held.done), (yield from Now()))


def _left_out_by_all(row: Row, older: Sequence[Found]) -> set[bytes]:
    """The selections that a task and all older ones of its source leave out."""
    left_out = set(outbox.selections_left_out(row))
    return left_out.intersection(*[outbox.selections_left_out(each) for _key, each in older])


def _wider(row: Row, left_out: set[bytes]) -> Cell:
    """A task that takes the place of older ones, which leave out less: newer than what its commit may still put."""
    task = Task(outbox.read_task(row).source, unchanged=tuple(sorted(left_out)))
    return Cell(outbox.encode_task(task), row[VALUE].stamp + 1)


def _with_cursor(lease: Lease, cursor: bytes, done: int) -> TaskLease:
    return TaskLease(lease.owner, lease.until, lease.count, cursor, done)


def _stamps(row: Row) -> dict[bytes, int]:
    return {column: cell.stamp for column, cell in row.items()}


def _stamp(lease: Cell | None, now: int) -> int:
    return later(None if lease is None else {LEASE: lease}, now)


def _swap(key: bytes, lease: Cell | None, wanted: TaskLease, now: int) -> Plan[bool]:
    """Takes or moves the lease of a task."""
    expected = ABSENT if lease is None else lease.value
    mutation = RowMutation(key, {LEASE: Cell(encode_lease(wanted), _stamp(lease, now))})
    return (yield from CheckAndMutate("system", LEASE, expected, mutation))
