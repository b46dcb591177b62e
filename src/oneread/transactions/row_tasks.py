"""The tasks of a store that changes one row at a time: each change of a source leaves its own, and the newest is done.

A worker takes a lease on a task by compare-and-set, and moves its cursor in it once the holders of a page have
followed. See rules 13-16 and L1-L3 of the commit protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from oneread.errors import StaleCopies
from oneread.plans.effects import Now, Sleep
from oneread.plans.plan import Plan
from oneread.store.requests import ABSENT, CheckAndMutate, Mutate, Read, Scan
from oneread.store.rows import UNDECODABLE, VALUE, Cell, Row, RowMutation, RowRange, later
from oneread.transactions import outbox
from oneread.transactions.intents import read_pending
from oneread.transactions.leases import LEASE, Lease, LeaseHolder
from oneread.transactions.other_feeds import AskStanding, OtherFeeds, unknown_standing
from oneread.transactions.outbox import group_root
from oneread.transactions.refusals import PartRefused, tell_apart
from oneread.transactions.row_commits import RowCommitter
from oneread.transactions.tasks import Draining, TaskStepResult
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


class TaskLease(Lease, frozen=True, array_like=True):
    """The lease of a task, with the last back-reference that is done."""

    cursor: bytes = b""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(TaskLease).decode


def _never_alone() -> Plan[bool]:
    """Of a worker that knows no schema."""
    yield from ()
    return False


class RowTaskRunner:
    """Does the tasks of one open database. `batches` counts what was done.

    `standing` asks for feeds of other programs, `writes_alone` whether tasks of other programs' groups may be ended.
    """

    def __init__(
        self,
        committer: RowCommitter,
        leases: LeaseHolder | None = None,
        standing: AskStanding = unknown_standing,
        writes_alone: AskAlone = _never_alone,
        sizes: PageSizes = SIZES,
    ) -> None:
        self.leases = LeaseHolder() if leases is None else leases
        self._writes_alone = writes_alone
        self.batches = 0
        self._sizes = sizes
        self._committer = committer
        self._looked = -LOOK_SECONDS
        self._retried: float | None = None
        self._failing: set[bytes] = set()  # tasks that the store failed in this turn of all tasks
        self._other_feeds = OtherFeeds(committer.views.feeds.prefixes, standing)

    def step(self, batch: int, draining: Draining | None = None) -> Plan[TaskStepResult]:
        """One batch of the first task that no other worker has; now and then, recovers what other programs left."""
        if (yield from self._apply_waiting(draining)):
            return TaskStepResult.DONE
        yield from self._committer.journal.renew_lease()
        looks = yield from self._look(draining)
        held = self._waits(draining)  # before the tasks are read: what it is about may end with one
        while True:
            result = yield from self._next(batch, looks=looks)
            if result is TaskStepResult.DONE:
                return self._done(draining)
            if not self._failing:
                break
            self._failing.clear()  # every other one had its turn
        if self._may_retry(draining) and (yield from self._retry_changed()):
            return self._done(draining)
        return TaskStepResult.HELD if held or result is TaskStepResult.HELD else TaskStepResult.IDLE

    def _next(self, batch: int, *, looks: bool) -> Plan[TaskStepResult]:
        """One batch of the first task that no other worker has and that has not failed in this turn."""
        within, held = outbox.TASKS, False
        while found := (yield from Scan("system", within, 1, families="dm")):
            key, row = found[0]
            newest = yield from self._newest(key)
            place = key if newest is None else newest[0]
            within = within.behind(place)
            if newest is None:
                yield from self._drop(key, row)
            elif place in self._failing or (yield from self._other_feeds.is_newer(place)):
                continue
            else:
                self._failing.add(place)  # which it is if this raises
                done = yield from self._advance(newest, batch)
                self._failing.discard(place)
                if done:
                    return TaskStepResult.DONE
                held = True
        result = TaskStepResult.IDLE
        if looks or self._committer.totals.shows_groups:
            result = yield from self._committer.totals.next_group(self.leases, self._writes_alone, self._failing)
        return result or (TaskStepResult.HELD if held else result)

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
        self.batches += 1
        if draining is not None:
            draining.appliers = None
        return TaskStepResult.DONE

    def _waits(self, draining: Draining | None) -> bool:
        """Whether commits are under way that a drain waits for; without one, whether there are any."""
        appliers = self._committer.completion.appliers
        if draining is None:
            return bool(self._committer.recovery.waiting_markers or appliers)
        return bool(draining.markers or not appliers.isdisjoint(draining.appliers or ()))

    def _newest(self, key: bytes) -> Plan[tuple[bytes, Row] | None]:
        """The newest task of the source of a task; the older ones are removed."""
        rows = yield from Scan("system", RowRange.under(outbox.unversioned(key)), outbox.BATCH, families="dm")
        tasks = [(place, row) for place, row in rows if VALUE in row]
        older = [RowMutation(place, deletes=_stamps(row)) for place, row in tasks[:-1]]
        if older:
            yield from Mutate("system", older)
        return tasks[-1] if tasks else None

    def _drop(self, key: bytes, row: Row) -> Plan[None]:
        """Removes a lease without a task, once it is over (rule L3)."""
        held = _held(row)
        if held is None or held.until <= (yield from Now()):
            yield from Mutate("system", [RowMutation(key, deletes={VALUE: outbox.version_of(key), **_stamps(row)})])

    def _advance(self, task: tuple[bytes, Row], batch: int) -> Plan[bool]:
        """One batch of a task, or none where another worker takes it at the same time; False when one has it."""
        key, row = task
        held, now = _held(row), (yield from Now())
        if not self.leases.may_take(key, held, now):
            return False
        cursor = b"" if held is None else held.cursor
        mine = _with_cursor(self.leases.renew(key, held, now), cursor)
        if not (yield from _swap(key, row.get(LEASE), mine, now)):
            return True
        source = outbox.unversioned(outbox.source_of(key))
        try:
            last = yield from tell_apart(partial(self._follow, row, cursor, batch))
        except PartRefused as refused:
            yield from self._committer.copies.set_aside(source, b"", refused.error)
            last = None
        stamp = _stamp(row.get(LEASE), now)
        cell = Cell(_encode(mine), stamp)
        if last is not None:
            moved = _with_cursor(self.leases.renew(key, mine, now), last)
            yield from _swap(key, cell, moved, now)
        else:
            self.leases.forget(key)
            gone = RowMutation(key, deletes={VALUE: row[VALUE].stamp, LEASE: stamp})
            yield from CheckAndMutate("system", LEASE, cell.value, gone)
        return True

    def _follow(self, task: Row, cursor: bytes, batch: int) -> Plan[bytes | None]:
        """Lets the next holders of a source, or entries of a feed's row, follow; the last one, None at the end."""
        copies, source = self._committer.copies, outbox.read_task(task).source
        if outbox.kind_of(source) == outbox.FEED:
            if (yield from self._other_feeds.is_over(outbox.task_key(source))):
                return None
            return (yield from self._give(outbox.feed_row(source), cursor, batch))
        within = outbox.holders_of(source)
        for size in (batch, *(self._sizes.batches * batch for _ in range(self._sizes.pages - 1))):
            rest = within.behind(cursor) if cursor >= within.start else within
            found = yield from Scan("views", rest, size)
            has_all, is_plain = len(found) < size, len(copies.leaves_of(source, found)) == len(found)
            if not is_plain and len(found) > batch:  # a commit for each holder: those of a batch are enough
                found, has_all = found[:batch], False
            yield from copies.follow_page(source, found)
            if has_all:
                return None
            cursor = found[-1][0]
            if not is_plain:
                break
        return cursor

    def _give(self, row: bytes, cursor: bytes, batch: int) -> Plan[bytes | None]:
        """Makes several pages of a row's entries right under one lease."""
        given: bytes | None = cursor
        for _ in range(self._sizes.pages):
            if given is not None:
                given = yield from self._committer.views.feeds.follow(row, given, self._sizes.batches * batch)
        return given

    def finish_waiting(self) -> Plan[None]:
        """Finishes what is in the journal, and does tasks until none is left; waits for those of other workers."""
        yield from self._committer.recovery.recover(patience=0.0)
        draining = Draining(frozenset())
        while (result := (yield from self.step(outbox.BATCH, draining))) is not TaskStepResult.IDLE:
            if result is TaskStepResult.HELD:
                yield from Sleep(LOOK_SECONDS)

    def retry(self) -> Plan[int]:
        """Retries everything that is set aside; returns how much that was."""
        within: RowRange | None = outbox.SET_ASIDE
        tried = 0
        while within is not None:
            entries, within = yield from outbox.some_aside(within)
            for _key, shown in entries:
                if shown is not None:
                    yield from self._committer.retry_aside(shown.source, shown.holder)
            tried += len(entries)
        return tried

    def _may_retry(self, draining: Draining | None) -> bool:
        """Whether it is time to look at what is set aside: at the end of a drain, and now and then."""
        now = self._committer.journal.clock()
        if self._retried is None:
            self._retried = now
        if draining is None and now - self._retried < RETRY_SECONDS:
            return False
        self._retried = now
        return True

    def _retry_changed(self) -> Plan[bool]:
        """Retries the first entries whose source or holder has changed since; False when there is none."""
        within: RowRange | None = outbox.SET_ASIDE
        while within is not None:
            entries, within = yield from outbox.some_aside(within)
            changed = yield from outbox.changed(entries)
            for _key, shown in changed:
                assert shown is not None, "an unreadable one has not changed"
                yield from self._committer.retry_aside(shown.source, shown.holder)
            if changed:
                return True
        return False

    def have_ended(self, tasks: Sequence[bytes]) -> Plan[bool]:
        """Whether these tasks are done.

        Raises:
            StaleCopies: the tasks have ended, and holders are set aside.
        """
        if not (yield from self._committer.completion.has_applied(tasks)):
            return False
        for task in tasks:
            if read_pending(task) is not None:
                continue
            if outbox.is_group_task(task):
                if outbox.waiting_cells((yield from Read("system", [task]))[0]):
                    return False
                source = group_root(outbox.group_of_task(task))
            else:
                # A newer task of the same source takes the place of an older one: copies are right when none is left.
                if (yield from Scan("system", RowRange.under(outbox.unversioned(task)), 1)):
                    return False
                source = outbox.unversioned(outbox.source_of(task))
            found = yield from Scan("system", outbox.aside_of(source), 1)
            entries = [outbox.read_aside(row).shown for row in found]
            for each in entries:
                if each is not None:
                    raise StaleCopies(
                        "copies could not be updated from their source; their holders are set aside: db.set_aside()",
                        holders=[self._committer.journal.name_of(each.holder or each.source)],
                        reason=f"{each.error}: {each.message}",
                    )
        return True

    def include(self, tasks: Sequence[bytes]) -> Plan[None]:
        """One request for each commit, and what applying it needs."""
        return self._committer.completion.include(tasks)

    def free(self) -> Plan[None]:
        """Applies what was acknowledged; leases end by themselves."""
        yield from self._committer.completion.apply_waiting()


def _held(row: Row) -> TaskLease | None:
    """The lease of a task; None for none, and for one that cannot be read, which the next worker replaces."""
    cell = row.get(LEASE)
    try:
        return None if cell is None else _decode(cell.value)
    except UNDECODABLE:
        return None


def _with_cursor(lease: Lease, cursor: bytes) -> TaskLease:
    return TaskLease(lease.owner, lease.until, lease.count, cursor)


def _stamps(row: Row) -> dict[bytes, int]:
    return {column: cell.stamp for column, cell in row.items()}


def _stamp(lease: Cell | None, now: int) -> int:
    return later(None if lease is None else {LEASE: lease}, now)


def _swap(key: bytes, lease: Cell | None, wanted: TaskLease, now: int) -> Plan[bool]:
    """Takes or moves the lease of a task."""
    expected = ABSENT if lease is None else lease.value
    mutation = RowMutation(key, {LEASE: Cell(_encode(wanted), _stamp(lease, now))})
    return (yield from CheckAndMutate("system", LEASE, expected, mutation))
