"""The verbs of jobs, on the asynchronous face.

The synchronous face is generated from this module. See docs/how-to/do-work-after-a-commit.md.
"""

from __future__ import annotations

import asyncio  # async only
import threading
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from oneread.database.operations import Operations
from oneread.database.worker import Worker
from oneread.errors import UsageError
from oneread.jobs.declared import Job
from oneread.jobs.handlers import JobHandlers
from oneread.jobs.queued import QueuedJob
from oneread.jobs.running import AT_ONCE, JobRunner, JobsDone, JobWorker
from oneread.plans.plan import Plan
from oneread.plans.trace import Observer, Trace
from oneread.transactions.job_rows import token_of

if TYPE_CHECKING:
    from oneread.plans.async_driver import AsyncDriver
    from oneread.plans.sync_driver import SyncDriver

R = TypeVar("R")


class AsyncJobVerbs:
    """The verbs `enqueue`, `jobs`, `retry_jobs`, `drop_jobs`, `run_jobs` and `start_jobs` of an open store."""

    operations: Operations
    _driver: AsyncDriver
    _worker_driver: SyncDriver
    _observers: tuple[Observer, ...]
    _worker: Worker | None
    _job_worker: JobWorker | None

    if TYPE_CHECKING:

        async def run(self, plan: Plan[R]) -> R: ...

    async def enqueue(self, job: Job, *, delay: timedelta | None = None) -> str:
        """Enqueues a job that goes with no other change; returns its token.

        It is run at least once, by a program that has a handler for it: `run_jobs`, `start_jobs`, `oneread worker`. One
        that belongs to a change is enqueued by it: `db.save(order, enqueue=[...])`, or `tx.enqueue` in a transaction.

        Costs one transaction, of one row.

        Arguments:
            job: of a class of the schema.
            delay: how long it waits at least, up to 3,650 days.

        Raises:
            UsageError: the job's class is not in the schema, or the delay is out of bounds.
            InvalidValue: a field of the job does not fit its type.
            LimitExceeded: the job is too large.
            OutcomeUnknown: the answer of the store was lost; the job may be run.

        Examples:
            ```python
            await db.enqueue(SendMail(to="ada@example.org", number=7), delay=timedelta(hours=1))
            ```
        """
        rows = await self.run(self.operations.jobs.rows([job], delay))
        await self.run(self.operations.commit([], jobs=rows))
        self._wake_jobs(rows)
        return str(token_of(next(iter(rows))))

    async def jobs(self, limit: int = 100, *, set_aside: bool = False) -> list[QueuedJob]:
        """The jobs that wait or are being run, those that are due first; or those that are set aside, with the errors.

        Eight requests at the same time, of at most `limit` rows each; of those that are set aside one.

        Arguments:
            limit: the most to list, 1 to 10,000.
            set_aside: lists those that were tried too often.

        Raises:
            UsageError: the limit is out of bounds.

        Examples:
            ```python
            for each in await db.jobs(set_aside=True):
                print(each.token, each.kind, each.fields, each.error, each.message)
            ```
        """
        return await self.run(self.operations.jobs.listed(limit, set_aside=set_aside))

    async def retry_jobs(self, *tokens: str) -> int:
        """Lets jobs that are set aside be run again, all if no token is given; returns how many these were."""
        done: int = await self.run(self.operations.jobs.retry(tokens))
        self._wake_jobs(tokens)
        return done

    async def drop_jobs(self, *tokens: str) -> int:
        """Removes jobs that are set aside, which are never run then; returns how many of the tokens there were."""
        return await self.run(self.operations.jobs.drop(tokens))

    async def run_jobs(self, handlers: JobHandlers, *, at_once: int = AT_ONCE) -> JobsDone:
        """Runs all jobs that are due and that `handlers` has a function for, until none is left.

        For tests, and for programs that are started now and then. Jobs that other workers run are left to them.

        Arguments:
            handlers: the functions. Plain ones run in threads, at most `at_once` of them.
            at_once: jobs that run at a time, 1 to 1,000.

        Raises:
            UsageError: an argument is of a wrong type or out of bounds.
            StoreError: the store failed; jobs that were run may be run again.

        Examples:
            ```python
            done = await db.run_jobs(handlers)
            print(done.done, done.failed, done.set_aside)
            ```
        """
        runner = self._runner_of(handlers, at_once)
        is_over = threading.Event()
        work = partial(_work_off, runner, is_over)
        try:
            await self._driver.in_thread(work)  # async only
            # sync only: work()
        finally:
            is_over.set()
        return runner.done

    def start_jobs(self, handlers: JobHandlers, *, at_once: int = AT_ONCE) -> None:
        """Runs jobs in the background from now on, until the database is closed: in one thread, and one for each job.

        Closing waits some seconds for jobs that run. `oneread worker` does the same in a process of its own.

        Arguments:
            handlers: the functions. Async ones run on the program's event loop, or on one of the library in a
                synchronous program.
            at_once: jobs that run at a time, 1 to 1,000.

        Raises:
            UsageError: it was started before, or an argument is out of bounds.
        """
        if self._job_worker is not None:
            raise UsageError("this database runs jobs already")
        self._job_worker = JobWorker(self._runner_of(handlers, at_once))
        self._job_worker.wake()

    def _runner_of(self, handlers: JobHandlers, at_once: int) -> JobRunner:
        loop = asyncio.get_running_loop()  # async only
        # sync only: loop = None

        def run(plan: Plan[R]) -> R:
            watched = None if self._worker is None else self._worker.watched
            observers = self._observers if watched is None else (*self._observers, watched("jobs"))
            return self._worker_driver.run(plan, Trace(observers))

        runner = JobRunner(self.operations.jobs, run, handlers, at_once, loop)
        if self.operations.meter is not None:
            runner.note = self.operations.meter.note_job
        return runner

    def _wake_jobs(self, jobs: object) -> None:
        """Lets the thread that runs jobs, if there is one, look for those that a commit has left."""
        if jobs and self._job_worker is not None:
            self._job_worker.wake()


def _work_off(runner: JobRunner, is_over: threading.Event) -> None:
    try:
        runner.work_off(is_over.is_set)
    finally:
        runner.close()
