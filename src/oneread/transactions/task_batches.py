"""Tasks on stores whose transactions span rows: each batch of one is a transaction, which renews its lease.

Each kind of task has a handler. See "Tasks" of the commit protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from oneread.errors import Corrupt, LimitExceeded, OnereadError
from oneread.plans.effects import Sleep
from oneread.plans.plan import Plan
from oneread.store.keys import holder_part
from oneread.store.requests import Found, Read, Scan
from oneread.store.rows import Row, RowRange
from oneread.transactions import outbox
from oneread.transactions.leases import ANY_LEASE, Lease, LeaseHolder, lease_in
from oneread.transactions.native import NativeCommitter, TaskStep
from oneread.transactions.other_feeds import AskStanding, OtherFeeds, unknown_standing
from oneread.transactions.outbox import AsideEntry, SetAside, Task
from oneread.transactions.refusals import ENDING
from oneread.transactions.root import NO_ROOT, Root
from oneread.transactions.system_rows import FENCE_ROW
from oneread.transactions.tasks import FoundTask, OutboxRunner
from oneread.transactions.unit_of_work import UnitOfWork


class TaskRows(NamedTuple):
    """The next rows of `views` that a task goes through, and whether there are more."""

    found: Sequence[Found]
    more: bool


_NO_ROWS: Final = TaskRows((), more=False)


class TaskHandler(Protocol):
    """Does the tasks of one kind: something for each row of a range of `views`, one after the other.

    `views` are the prefixes of the rows that it knows of those that tasks are about; empty for tasks of root rows.
    """

    @property
    def views(self) -> Collection[bytes]: ...

    def next_rows(self, step: TaskStep, task: Task, size: int) -> TaskRows:
        """The rows behind a task's cursor, about as many as `size`."""
        ...

    def check_source(self, unit: UnitOfWork, source: bytes, rows: TaskRows | None = None) -> bool:
        """Whether there is something to do for a source; raises Corrupt when no row can be done.

        May load what `do` needs for these rows.
        """
        ...

    def do(self, step: TaskStep, source: bytes, rows: TaskRows) -> None:
        """Does rows of a task on a unit of work; what it cannot do it sets aside."""
        ...

    def parts_of(self, source: bytes, rows: TaskRows) -> list[bytes]:
        """What these rows are about, each once: it is set aside when a step with one row cannot be written."""
        ...

    def retry(self, step: TaskStep, source: bytes, part: bytes) -> bool:
        """Does a part that was set aside; whether that is done."""
        ...


class FollowHandler:
    """The handler of the task that a changed source leaves: the holders of its copies follow it (rules 13 and 14)."""

    views: Collection[bytes] = ()

    def __init__(self, read_source: Callable[[bytes, Root], object]) -> None:
        self._read_source = read_source  # raises Corrupt for an unreadable one

    def next_rows(self, step: TaskStep, task: Task, size: int) -> TaskRows:
        """One scan, and at most one more for each selection that the task leaves out."""
        found: list[Found] = []
        for within in outbox.holders_behind(task.source, task.unchanged, task.cursor):
            if len(found) < size:
                found.extend(step.unit.scan("views", within, size - len(found)))
        return TaskRows(found, len(found) == size)

    def check_source(self, unit: UnitOfWork, source: bytes, rows: TaskRows | None = None) -> bool:
        holders = [] if rows is None else self.parts_of(source, rows)
        try:
            unit.load("roots", [source, *holders])
        except Corrupt:  # perhaps of a holder
            unit.load("roots", [source])
        found = unit.roots.root(source)
        self._read_source(source, found)
        return found is not NO_ROOT

    def do(self, step: TaskStep, source: bytes, rows: TaskRows) -> None:
        step.follow(source, self.parts_of(source, rows))

    def parts_of(self, source: bytes, rows: TaskRows) -> list[bytes]:
        """The holders; one may take several selections of one source."""
        start = len(outbox.holders_of(source).start)
        return list(dict.fromkeys([holder_part(key[start:]) for key, _row in rows.found]))

    def retry(self, step: TaskStep, source: bytes, part: bytes) -> bool:
        return not step.follow(source, [part])


class TaskRunner(OutboxRunner):
    """Does the tasks with a handler for each kind; `standing` asks for feeds of other programs."""

    def __init__(
        self,
        committer: NativeCommitter,
        handlers: Mapping[str, TaskHandler],
        leases: LeaseHolder | None = None,
        standing: AskStanding = unknown_standing,
    ) -> None:
        known = {each for one in handlers.values() for each in one.views}
        super().__init__(committer.name_of, OtherFeeds(known, standing), leases)
        self._committer = committer
        self._handlers = handlers

    def _handler(self, key: bytes) -> TaskHandler:
        return self._handlers[outbox.kind_of(outbox.source_of(key))]

    def _scan(self, within: RowRange, size: int) -> Plan[tuple[Sequence[Found], bytes | None]]:
        try:
            return (yield from super()._scan(within, size))
        except Corrupt as failure:
            key = failure.facts.get("key")
            if not isinstance(key, bytes):
                raise
            return (), key

    def _advance(self, task: FoundTask, batch: int, now: int) -> Plan[None]:  # noqa: ARG002 - a transaction has its own
        key, row = task.key, task.row
        if (yield from self._other_feeds.is_over(key)):
            yield from self._committer.step(lambda step: self._remove(step, key))
        else:
            yield from self._do_batch(key, batch, lease_in(row) if row else ANY_LEASE)

    def _do_batch(self, key: bytes, batch: int, seen: Lease | None) -> Plan[None]:
        """One batch of a task; of one part where it cannot be written in one transaction."""
        error = yield from _refusal(lambda: self.task_batch(key, batch, seen))
        if error is None:
            return
        if batch > 1:
            yield from self._do_batch(key, 1, seen)
        elif isinstance(error, LimitExceeded):  # of the store: a full map or disk
            raise error
        else:
            yield from self._committer.step(lambda step: self._skip(step, key, error, seen))

    def _remove(self, step: TaskStep, key: bytes) -> None:
        step.begin()
        step.unit.remove("system", key)

    def task_batch(self, key: bytes, batch: int, seen: Lease | None) -> Plan[None]:
        """One batch of a task, in one transaction; nothing when the task has another lease than was seen."""
        return self._committer.step(lambda step: self._batch(step, key, batch, seen))

    def _batch(self, step: TaskStep, key: bytes, batch: int, seen: Lease | None) -> None:
        unit, handler = step.unit, self._handler(key)
        try:
            unit.load("system", [key, FENCE_ROW])
            step.begin()
            row = unit.get("system", key)
            if row is None or not _has_lease(row, seen):
                self.leases.forget(key)
                return
            task = outbox.read_task(row)
            rows = handler.next_rows(step, task, batch)
            if rows.found:
                handler.check_source(unit, task.source, rows)
        except Corrupt as unreadable:
            step.begin()
            unit.remove("system", key)
            outbox.set_aside(unit, outbox.source_of(key), b"", unreadable, step.now)
            return
        handler.do(step, task.source, rows)
        if key not in unit.tasks:  # else the source changed again, and the task starts again
            self._move(step, key, task, rows if rows.more else _NO_ROWS)

    def _skip(self, step: TaskStep, key: bytes, error: Exception, seen: Lease | None) -> None:
        """Sets the next part of a task aside, with which the task could not be written."""
        step.begin()
        step.unit.load("system", [key])
        row = step.unit.get("system", key)
        if row is None or not _has_lease(row, seen):
            return
        task = outbox.read_task(row)
        rows = self._handler(key).next_rows(step, task, 1)
        for part in self._handler(key).parts_of(task.source, rows):
            outbox.set_aside(step.unit, task.source, part, error, step.now)
        self._move(step, key, task, rows)

    def _move(self, step: TaskStep, key: bytes, task: Task, rows: TaskRows) -> None:
        """Stores a task as it is behind these rows; without rows it is done."""
        if rows.found:
            moved = Task(task.source, rows.found[-1][0], task.done + len(rows.found), task.unchanged, task.again)
            lease = self._next_lease(key, lease_in(step.unit.get("system", key)), step.now)
            outbox.move_task(step.unit, key, moved, lease, step.now)
        else:
            self.leases.forget(key)
            step.unit.remove("system", key)

    def free(self) -> Plan[None]:
        """Frees the tasks that this worker has begun: others continue with them at once. One transaction, or none.

        Raises:
            SchemaMismatch: a newer program has upgraded the store; the leases end by themselves.
        """
        held = self._held()
        if held:
            yield from self._committer.step(lambda step: self._free(step, held))

    def _free(self, step: TaskStep, keys: Sequence[bytes]) -> None:
        unit = step.unit
        unit.load("system", [*keys, FENCE_ROW])
        step.begin()
        for key in keys:
            freed = self.leases.freed(key, lease_in(unit.get("system", key)))
            if freed is not None:
                outbox.put_lease(unit, key, freed, step.now)

    def finish_waiting(self) -> Plan[None]:
        """Does the tasks that are in the outbox now to their end, those added meanwhile not.

        Takes them from the workers that have them, which lose their leases.
        """
        within = outbox.TASKS
        while tasks := (yield from Scan("system", within, outbox.BATCH)):
            for key, row in tasks:
                done = _progress(row)
                while True:
                    yield from self.task_batch(key, outbox.BATCH, ANY_LEASE)
                    (after,) = yield from Read("system", [key])
                    if after is None or _progress(after) <= done:  # or started again, by a later change
                        break
                    done = _progress(after)
                    yield from Sleep(0.0)
            within = within.behind(tasks[-1][0])

    def _retry(self, entries: Sequence[AsideEntry]) -> Plan[None]:
        """Several in one transaction; when that cannot be written, each by itself."""
        error = yield from _refusal(lambda: self._committer.step(lambda step: self._retry_in(step, entries)))
        if error is None:
            return
        if len(entries) > 1:
            for entry in entries:
                yield from self._retry([entry])
        elif isinstance(error, LimitExceeded):
            raise error
        else:
            yield from self._committer.step(lambda step: self._count_failure(step, entries[0], error))

    def _retry_in(self, step: TaskStep, entries: Sequence[AsideEntry]) -> None:
        step.begin()
        step.unit.load("system", [key for key, _shown in entries])
        for key, shown in entries:
            row = step.unit.get("system", key)
            if shown is None or row is None or outbox.read_aside((key, row)).shown != shown:  # another worker has tried
                continue
            if not shown.holder:
                self._restart(step, key, shown)
            elif self._handlers[outbox.kind_of(shown.source)].retry(step, shown.source, shown.holder):
                step.unit.remove("system", key)

    def _restart(self, step: TaskStep, key: bytes, shown: SetAside) -> None:
        """Puts a whole task into the outbox again, unless its source is unreadable, or never was written."""
        try:
            has_work = shown.source and (
                self._handlers[outbox.kind_of(shown.source)].check_source(step.unit, shown.source)
            )
        except Corrupt as unreadable:
            outbox.set_aside(step.unit, shown.source, b"", unreadable, step.now)
            return
        if has_work:
            outbox.add_task(step.unit, shown.source, step.now, again=outbox.kind_of(shown.source) == outbox.FEED)
        step.unit.remove("system", key)

    def _count_failure(self, step: TaskStep, entry: AsideEntry, error: Exception) -> None:
        """Stores one more failed try with an entry."""
        step.begin()
        if entry.shown is not None:
            keys = [key for key in (entry.shown.source, entry.shown.holder) if key]
            try:
                step.unit.load("roots", keys)
            except Corrupt as unreadable:
                error = unreadable
            outbox.set_aside(step.unit, entry.shown.source, entry.shown.holder, error, step.now)

    def _wait(self, tasks: Sequence[bytes]) -> Plan[bool]:
        rows = yield from Read("system", list(tasks))
        return any(row is not None for row in rows)


def _refusal(step: Callable[[], Plan[None]]) -> Plan[OnereadError | None]:
    """Runs a step; returns the error for which a smaller step is worth a try."""
    try:
        yield from step()
    except ENDING:
        raise
    except OnereadError as error:
        return error
    return None


def _has_lease(row: Row, seen: Lease | None) -> bool:
    """Whether a task's row has the lease that was seen before the transaction: the compare of rule 16."""
    return seen is ANY_LEASE or lease_in(row) == seen


def _progress(row: Row) -> int:
    """How far a task is; -1 for an unreadable one, which its next batch sets aside."""
    try:
        return outbox.read_task(row).done
    except Corrupt:
        return -1
