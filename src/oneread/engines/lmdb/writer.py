"""The writer: transactions that wait at the same time share one commit.

Knows jobs, their order and their outcome. Must not know rows; how a group is begun is given. Whoever finds nobody
writing leads: it waits for the process's turn, runs its own job and all that queued meanwhile in one LMDB transaction,
and hands the lead to the first who came later. So a lone writer pays no thread hop and no pause, and nobody leads for
ever (flat combining: Hendler and others, SPAA 2010). The law is docs/decisions/0011-writer-lock-and-group-commit.md.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Final, Protocol

from oneread.engines.lmdb.turn import Turn
from oneread.errors import OnereadError, OutcomeUnknown, Unavailable

_GROUP: Final = 256
"""Most jobs of one commit."""

_GRACE: Final = 60.0
"""Seconds a job that somebody else runs may take after its own deadline before its outcome is called unknown."""


class Group(Protocol):
    """One LMDB transaction that runs several jobs; each raises alone, and a failure of the store fails all of them."""

    def run(self, job: Job) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...


class Job:
    """A transaction somebody waits for.

    Arguments:
        work: what the group runs, whatever that means to the group.
        deadline: monotonic seconds after which it is not started any more.
    """

    __slots__ = ("deadline", "failure", "finished", "gone", "result", "wake", "work")

    def __init__(self, work: Any, deadline: float) -> None:
        self.work = work
        self.deadline = deadline
        self.result: Any = None
        self.failure: BaseException | None = None
        self.finished = False
        self.gone = False  # nobody waits for it any more, so it cannot lead
        self.wake: threading.Lock | None = None  # held until the job is finished or is to lead; None for the leader's

    def finish(self) -> None:
        self.finished = True
        if self.wake is not None:
            self.wake.release()

    def outcome(self) -> Any:
        if self.failure is None:
            return self.result
        try:
            raise self.failure
        finally:
            self.failure = None  # its traceback holds this frame: no cycle is left behind


class Writer:
    """Queues jobs and runs them in groups.

    Arguments:
        begin: starts the LMDB transaction of a group.
        turn: the lock among processes.
    """

    def __init__(self, begin: Callable[[], Group], turn: Turn) -> None:
        self._begin = begin
        self._turn = turn
        self._lead = threading.Lock()
        self._waiting: deque[Job] = deque()

    def transaction(self, work: Any, timeout: float) -> Any:
        """Runs `work` in a group and answers its result, or raises what it raised."""
        job = Job(work, time.monotonic() + timeout)
        if self._lead.acquire(blocking=False) or self._queue(job):
            self._serve(job)
        return job.outcome()

    @contextlib.contextmanager
    def alone(self, timeout: float) -> Generator[None]:
        """A time in which no job of any process runs."""
        deadline = time.monotonic() + timeout
        if not self._lead.acquire(timeout=max(timeout, 0)):
            raise _too_late()
        try:
            if not self._turn.take(deadline):
                raise _too_late()
            try:
                yield
            finally:
                self._turn.give_back()
        finally:
            self._hand_over()

    def wait(self, timeout: float) -> None:
        """Waits until what this process is writing has ended."""
        if not self._lead.acquire(timeout=max(timeout, 0)):
            raise _too_late()
        self._hand_over()

    def _queue(self, job: Job) -> bool:
        """Waits in the queue. Answers whether this thread is to lead now; if not, the job is finished."""
        wake = job.wake = threading.Lock()
        wake.acquire()
        self._waiting.append(job)
        if self._lead.acquire(blocking=False):  # the leader left before it saw this job
            self._hand_over()
        try:
            woken = wake.acquire(timeout=max(job.deadline - time.monotonic(), 0))
        except BaseException:  # an interrupt of this thread: a lead that came meanwhile must not be lost with it
            if not self._withdrawn(job) and wake.acquire(timeout=_GRACE) and not job.finished:
                self._hand_over()
            raise
        if not woken:
            if self._withdrawn(job):
                raise _too_late()
            if not wake.acquire(timeout=_GRACE):
                job.gone = True
                raise OutcomeUnknown("the commit did not end in time; read before writing again", seconds=_GRACE)
        job.wake = None
        return not job.finished

    def _withdrawn(self, job: Job) -> bool:
        """Takes a job out of the queue, if nobody has started it."""
        try:
            self._waiting.remove(job)
        except ValueError:
            return False
        return True

    def _serve(self, own: Job) -> None:
        """Leads one group, `own` first. The lead is held on entry and handed over at the end."""
        try:
            if not self._turn.take(own.deadline):
                own.failure = _too_late()
                return
            try:
                self._run([own, *self._next(_GROUP - 1)] if self._waiting else [own])
            finally:
                self._turn.give_back()
        finally:
            self._hand_over()

    def _next(self, most: int) -> list[Job]:
        waiting = self._waiting
        jobs: list[Job] = []
        while waiting and len(jobs) < most:
            try:
                jobs.append(waiting.popleft())
            except IndexError:  # its thread has just given up
                break
        return jobs

    def _hand_over(self) -> None:
        waiting = self._waiting
        while True:
            if not waiting:
                self._lead.release()
                # A job queued just before the release saw the lead taken and waits: nobody else will look.
                if waiting and self._lead.acquire(blocking=False):
                    continue
                return
            for first in self._next(1):
                if not first.gone:
                    assert first.wake is not None
                    first.wake.release()
                    return

    def _run(self, jobs: list[Job]) -> None:
        """Commits a group; when the store fails the group, each job gets its own chance."""
        try:
            try:
                self._commit(jobs)
            except OnereadError as failure:
                if len(jobs) == 1 or isinstance(failure, OutcomeUnknown):
                    _fail(jobs, failure)
                else:
                    self._run_one_by_one(jobs)
        except BaseException:  # an interrupt of this thread, which leads for others too
            rest = [job for job in jobs[1:] if not job.finished]
            self._waiting.extendleft(reversed(rest))
            raise

    def _run_one_by_one(self, jobs: list[Job]) -> None:
        for job in jobs:
            try:
                self._commit([job])
            except OnereadError as failure:
                _fail([job], failure)

    def _commit(self, jobs: list[Job]) -> None:
        group = self._begin()
        committing = False
        try:
            for job in jobs:
                job.result = job.failure = None
                group.run(job)
            committing = True
            group.commit()
            for job in jobs:
                job.finish()
        except OnereadError:
            group.abort()
            raise
        except BaseException as interrupt:
            group.abort()
            if committing:
                unknown = OutcomeUnknown("the commit was interrupted; read before writing again")
                unknown.__cause__ = interrupt
                _fail([job for job in jobs[1:] if not job.finished], unknown)
            raise


def _fail(jobs: list[Job], failure: OnereadError) -> None:
    """Ends jobs with a failure each: threads that raise one and the same object would share its traceback."""
    for job in jobs:
        if job.failure is None:
            job.failure = type(failure)(failure.message, **failure.facts)
            job.failure.__cause__ = failure.__cause__
        job.finish()


def _too_late() -> Unavailable:
    return Unavailable("the transaction's turn to write did not come in time; nothing was written")
