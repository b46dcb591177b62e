"""The writer: a thread that runs transactions; those that wait at the same time share one commit.

Callers only queue a job and wait for its end, because a signal handler may raise between any two bytecodes of the main
thread, and what LMDB's write lock protects can only be ended by the thread that took it. In this thread no handler
runs, so it leaves nothing half-done, and what a job raises is the job's own. See docs/decisions/0028-writer-thread.md.
"""

from __future__ import annotations

import contextvars
import os
import threading
import time
from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, Protocol

from oneread.engines.lmdb.turn import Turn
from oneread.errors import Closed, OnereadError, OutcomeUnknown, Unavailable
from oneread.store.uninterrupted import LOOK_SECONDS, Completion, join, refused, run_uninterrupted

_GROUP: Final = 256
"""Most jobs of one commit."""

_GRACE: Final = 60.0
"""Seconds a job that was started may take after its own deadline before its outcome is called unknown."""

_SETTLE: Final = 0.5
"""Seconds an interrupted caller waits for its job, so that a read right after the exception sees how it ended."""

_PATIENCE: Final = 0.001
"""Least seconds between two looks of a caller at the writer's thread."""


class CommitGroup(Protocol):
    """One LMDB transaction that runs several jobs; each raises alone, and a failure of the store fails all of them."""

    def run(self, job: Job) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...


class Kind(Enum):
    """How a job is run."""

    SHARED = "in a group, with other jobs, in one commit"
    ALONE = "a function, while no job of any process runs"
    LAST = "a function, after all jobs; the thread ends with it"


class Job(Completion):
    """A transaction that a caller waits for.

    Arguments:
        work: what the group runs, whatever that means to the group; a function when the job is not shared.
        timeout: seconds after which it is not started any more.
        kind: how it is run.
    """

    __slots__ = (
        "_claim",
        "_ended",
        "abandoned",
        "context",
        "deadline",
        "finished",
        "kind",
        "work",
    )

    def __init__(self, work: Any, timeout: float, kind: Kind = Kind.SHARED) -> None:
        super().__init__()
        self.work = work
        self.deadline = time.monotonic() + timeout
        self.kind = kind
        self.context = contextvars.copy_context()
        self.finished = False
        self.abandoned = False  # its caller has gone away: it is stopped where that is possible
        self._claim = threading.Lock()
        self._ended = threading.Lock()
        self._ended.acquire()

    def claim(self) -> bool:
        """True once: for the thread that is first to start the job, or to withdraw it."""
        return self._claim.acquire(blocking=False)

    def wanted(self) -> bool:
        """Whether it may still be started."""
        return not self._claim.locked()

    def finish(self) -> None:
        """Ends it, once; its caller is woken."""
        if not self.finished:
            self.finished = True
            self._ended.release()

    def fail(self, failure: BaseException) -> None:
        """Ends it with a failure, unless it has one of its own or has ended."""
        if not self.finished:
            self.failure = self.failure or failure
            self.finish()

    def wait(self, seconds: float) -> bool:
        """Waits for its end; answers whether it came."""
        return self.finished or self._ended.acquire(timeout=seconds)

    def withdraw(self) -> bool:
        """Takes it back, if it has not been started."""
        if not self.claim():
            return False
        self.finished = True
        return True

    def abandon(self) -> None:
        """Withdraws or stops it because its caller goes away, which waits a moment to see it end."""
        self.abandoned = True
        if not self.withdraw():
            self.wait(_SETTLE)


class Writer:
    """Queues jobs and runs them in groups, in a thread that lives from the first job to `close`.

    Arguments:
        begin: starts the LMDB transaction of a group. The turn is held: a check before each group belongs there.
        turn: the lock among processes.
    """

    def __init__(self, begin: Callable[[], CommitGroup], turn: Turn) -> None:
        self._begin = begin
        self._turn = turn
        self._process = os.getpid()
        self._queue: SimpleQueue[Job] = SimpleQueue()
        self._kept: Job | None = None  # taken from the queue, and not of the group that was taken
        self._at: Job | None = None  # what the thread waits for the turn with; None while it waits for jobs
        self._taken: list[Job] = []  # claimed by the thread, and not all finished yet
        self._alive = threading.Lock()  # held while there is a thread
        self._thread: threading.Thread | None = None
        self._closed = False

    def transaction(self, work: Any, timeout: float) -> Any:
        """Runs `work` in a group and answers its result, or raises what it raised."""
        return self._perform(Job(work, timeout))

    def alone(self, work: Callable[[], Any], timeout: float) -> Any:
        """Runs a function while no job of any process runs."""
        return self._perform(Job(work, timeout, Kind.ALONE))

    def close(self, release: Callable[[], None], timeout: float) -> None:
        """Waits until what was queued has ended, calls `release`, and ends the thread; jobs that come later fail.

        Raises:
            Unavailable: a job has not ended in time; nothing was closed.
        """
        self._perform(Job(release, timeout, Kind.LAST))
        if self._thread is not None:
            join(self._thread, self._alive)

    def _perform(self, job: Job) -> Any:
        try:
            if not self._alive.locked() and not self._closed:
                run_uninterrupted(self._start)
            self._queue.put(job)
            self._wait(job)
        except BaseException:  # an interrupt of this thread, or the job's time is over
            job.abandon()
            raise
        return job.outcome()

    def _wait(self, job: Job) -> None:
        """Waits for a job's end, at most until its deadline, and longer for one that was started by then."""
        if self._closed and job.withdraw():  # the thread looked at its queue for the last time before this job came
            raise _closed()
        patience = job.deadline
        while not job.wait(min(max(patience - time.monotonic(), _PATIENCE), LOOK_SECONDS)):
            if os.getpid() != self._process:  # a signal handler forked
                raise OutcomeUnknown("the process forked while this write waited; read before writing again")
            alive = self._alive.locked()
            if time.monotonic() < patience:
                if not alive:
                    self._replace_thread(job)
            elif alive and (self._at is None or self._at is job):
                continue  # it has not seen the job yet, or asks for the turn with it, and will decide
            elif job.withdraw():
                raise _too_late()
            elif patience > job.deadline:
                raise OutcomeUnknown("the commit did not end in time; read before writing again", seconds=_GRACE)
            else:
                patience = job.deadline + _GRACE

    def _replace_thread(self, job: Job) -> None:
        """Starts another thread after one was ended from outside, maybe with the job in its hands.

        A job that is queued twice is run once, because it is claimed once.
        """
        if not self._closed:
            run_uninterrupted(self._start)
            self._queue.put(job)

    def _start(self) -> None:
        if not self._alive.acquire(blocking=False):
            return
        self._thread = threading.Thread(target=self._serve, name="oneread-writer", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as failure:
            self._alive.release()
            raise refused(failure) from failure

    def _serve(self) -> None:
        """The thread: runs one group after the other."""
        try:
            while not self._closed:
                self._at = None
                self._at = job = self._kept or self._queue.get()
                self._kept = None
                if job.wanted():
                    self._lead(job)
        finally:
            _fail(self._taken, OutcomeUnknown("the writer's thread was ended; read before writing again"))
            self._taken = []
            self._alive.release()

    def _lead(self, first: Job) -> None:
        """Runs a job, and those that may share its commit."""
        if first.kind is Kind.LAST:
            self._end(first)
            return
        try:
            if not self._turn.take(first.deadline, first.wanted):
                self._refuse(first, _too_late())
                return
            try:
                if first.kind is Kind.SHARED:
                    if jobs := self._group(first):
                        self._run(jobs)
                elif first.claim():
                    _call(first)
            finally:
                self._turn.give_back()
        except OSError as failure:
            refusal = Unavailable("the operating system refused the lock of the writers", error=str(failure))
            refusal.__cause__ = failure
            self._refuse(first, refusal)

    def _refuse(self, job: Job, failure: OnereadError) -> None:
        if job.claim():
            job.fail(failure)

    def _group(self, first: Job) -> list[Job]:
        """The first job and what is queued by now and may share a commit with it, as far as it is still wanted."""
        self._taken = jobs = [first] if first.claim() else []
        self._at = _RUNNING
        waiting = self._queue
        while len(jobs) < _GROUP and not waiting.empty():
            job = waiting.get()
            if job.kind is not Kind.SHARED:
                self._kept = job
                break
            if job.claim():
                jobs.append(job)
        return jobs

    def _end(self, last: Job) -> None:
        """Runs the last job and refuses all that come after it."""
        if not last.claim():
            return
        self._closed = True  # from here on callers take their jobs back themselves
        _call(last)
        while not self._queue.empty():
            self._refuse(self._queue.get(), _closed())

    def _run(self, jobs: list[Job]) -> None:
        """Commits a group; when the store fails the group, each job gets its own chance."""
        try:
            self._commit(jobs)
        except OnereadError as failure:
            if len(jobs) == 1 or isinstance(failure, OutcomeUnknown):
                _fail(jobs, failure)
            else:
                self._run_one_by_one(jobs)

    def _run_one_by_one(self, jobs: list[Job]) -> None:
        for job in jobs:
            try:
                self._commit([job])
            except OnereadError as failure:
                _fail([job], failure)

    def _commit(self, jobs: list[Job]) -> None:
        group: CommitGroup | None = None
        committing = False
        try:
            group = self._begin()
            for job in jobs:
                job.result = job.failure = None
                group.run(job)
            committing = True
            group.commit()
        except BaseException as failure:
            if group is not None:
                group.abort()
            if isinstance(failure, OnereadError):
                raise
            if committing:  # out of memory, for instance; what a job raises is the job's own failure, not this
                raise OutcomeUnknown("the commit was interrupted; read before writing again") from failure
            raise Unavailable("the transaction was interrupted; nothing was written") from failure
        for job in jobs:
            job.finish()


_RUNNING: Final = Job(None, 0)
"""Stands in for the job at which the thread is while it runs a group."""


def _call(job: Job) -> None:
    """Runs a job that is a function."""
    job.run(partial(job.context.run, job.work))
    job.finish()


def _fail(jobs: Iterable[Job], failure: OnereadError) -> None:
    """Ends jobs with a failure each: threads that raise one and the same object would share its traceback."""
    for job in jobs:
        own = type(failure)(failure.message, **failure.facts)
        own.__cause__ = failure.__cause__
        job.fail(own)


def _too_late() -> Unavailable:
    return Unavailable("the transaction's turn to write did not come in time; nothing was written")


def _closed() -> Closed:
    return Closed("the store was closed during this call")
