"""The writer: a thread that runs transactions; those that wait at the same time share one commit.

Callers only queue a job and wait for its end, because a signal handler may raise between any two bytecodes of the main
thread, and only the thread that took LMDB's write lock can end the transaction. No handler runs in this thread, so it
leaves nothing half-done, and whatever a job raises is the job's own. See docs/decisions/0028-writer-thread.md.
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
"""The most jobs of one commit."""

_GRACE: Final = 60.0
"""Seconds after its deadline that a started job may take before its outcome counts as unknown."""

_SETTLE: Final = 0.5
"""Seconds an interrupted caller waits for its job, so that a read right after the exception sees its effect."""

_PATIENCE: Final = 0.25
"""Which part of what the last commit took a group waits for those that it ended."""

_PAUSE: Final = 0.00005
"""Seconds between two looks whether they have come."""

_LEAST_WAIT: Final = 0.001
"""The least seconds between two checks of the writer's thread by a caller."""


class CommitGroup(Protocol):
    """One LMDB transaction that runs several jobs; each raises alone, and a failure of the store fails all of them."""

    def run(self, job: WriterJob) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...


class Kind(Enum):
    """How a job is run."""

    SHARED = "in a group, with other jobs, in one commit"
    ALONE = "a function, while no job of any process runs"
    LAST = "a function, after all jobs; the thread ends with it"


class WriterJob(Completion):
    """A transaction that a caller waits for; `work` is a function unless the job is shared.

    It is not started after `timeout` seconds.
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
        self.abandoned = False  # its caller was interrupted: it is stopped where possible
        self._claim = threading.Lock()
        self._ended = threading.Lock()
        self._ended.acquire()

    def claim(self) -> bool:
        """Returns True once: to the first thread that starts or withdraws the job."""
        return self._claim.acquire(blocking=False)

    def is_claimable(self) -> bool:
        """Whether it may still be started."""
        return not self._claim.locked()

    def finish(self) -> None:
        """Ends it, once, and wakes its caller."""
        if not self.finished:
            self.finished = True
            self._ended.release()

    def fail(self, failure: BaseException) -> None:
        """Ends it with this failure, unless it has one already or has ended."""
        if not self.finished:
            self.failure = self.failure or failure
            self.finish()

    def seconds_to_wait(self, limit: float) -> float:
        """How long its caller sleeps before it looks at the thread, for one that waits until `limit`."""
        return min(max(limit - time.monotonic(), _LEAST_WAIT), LOOK_SECONDS)

    def wait(self, seconds: float) -> bool:
        """Waits for its end; returns whether it has ended."""
        return self.finished or self._ended.acquire(timeout=seconds)

    def withdraw(self) -> bool:
        """Takes it back if it was not started; returns whether it did."""
        if not self.claim():
            return False
        self.finished = True
        return True

    def abandon(self) -> None:
        """Withdraws or stops it for an interrupted caller, which waits a moment for its end."""
        self.abandoned = True
        if not self.withdraw():
            self.wait(_SETTLE)


class Writer:
    """Queues jobs and runs them in groups, in a thread that lives from the first job to `close`.

    `begin` starts the LMDB transaction of a group, while the turn is held. `gathers` says that a commit takes so long
    that a group waits for those that may share it.
    """

    def __init__(self, begin: Callable[[], CommitGroup], turn: Turn, *, gathers: bool) -> None:
        self._begin = begin
        self._turn = turn
        self._gathers = gathers
        self._expected = 0  # how many jobs the next group has, if all whose commit has ended come again
        self._gathered = 0.0  # when it does not wait for them any more
        self._process = os.getpid()
        self._queue: SimpleQueue[WriterJob] = SimpleQueue()
        self._kept: WriterJob | None = None  # taken from the queue, but not part of the current group
        self._at: WriterJob | None = None  # for which the thread waits for the turn; None while it waits for jobs
        self._taken: list[WriterJob] = []  # claimed by the thread, and not all finished yet
        self._stored: list[WriterJob] = []  # of these, those that are committed and whose callers were not woken yet
        self._alive = threading.Lock()  # held while there is a thread
        self._thread: threading.Thread | None = None
        self._closed = False

    def transaction(self, work: Any, timeout: float) -> Any:
        """Runs `work` in a group; returns its result, or raises its failure."""
        return self._perform(WriterJob(work, timeout))

    def alone(self, work: Callable[[], Any], timeout: float) -> Any:
        """Runs a function while no job of any process runs."""
        return self._perform(WriterJob(work, timeout, Kind.ALONE))

    def is_idle(self) -> bool:
        """Whether no job runs or waits."""
        return self._at is None and self._queue.empty()

    def close(self, release: Callable[[], None], timeout: float) -> None:
        """Waits until every queued job has ended, calls `release`, and ends the thread; later jobs fail.

        Raises:
            Unavailable: a job has not ended in time; nothing was closed.
        """
        self._perform(WriterJob(release, timeout, Kind.LAST))
        if self._thread is not None:
            join(self._thread, self._alive)

    def _perform(self, job: WriterJob) -> Any:
        try:
            if not self._alive.locked() and not self._closed:
                run_uninterrupted(self._start)
            # The put wakes the thread, which cannot run before this one waits: nothing more than needed in between.
            seconds = job.seconds_to_wait(job.deadline)
            self._queue.put(job)
            if self._closed or not job.wait(seconds):
                self._wait(job)
        except BaseException:  # this thread was interrupted, or the job is too late
            job.abandon()
            raise
        return job.outcome()

    def _wait(self, job: WriterJob) -> None:
        """Waits for a job's end until its deadline, and longer if it was started by then."""
        if self._closed and job.withdraw():  # the thread looked at its queue for the last time before this job came
            raise _closed()
        limit = job.deadline
        while not job.wait(job.seconds_to_wait(limit)):
            if os.getpid() != self._process:  # a signal handler forked
                raise OutcomeUnknown("the process forked while this write waited; read before writing again")
            alive = self._alive.locked()
            if time.monotonic() < limit:
                if not alive:
                    self._replace_thread(job)
            elif alive and (self._at is None or self._at is job):
                continue  # the thread has not seen the job yet, or waits for the turn with it: it decides
            elif job.withdraw():
                raise _too_late()
            elif limit > job.deadline:
                raise OutcomeUnknown("the commit did not end in time; read before writing again", seconds=_GRACE)
            else:
                limit = job.deadline + _GRACE

    def _replace_thread(self, job: WriterJob) -> None:
        """Starts another thread after one was killed, perhaps with this job taken from the queue.

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
                if job.is_claimable():
                    self._lead(job)
                    self._wake()
        finally:
            self._wake()
            _fail(self._taken, OutcomeUnknown("the writer's thread was ended; read before writing again"))
            self._taken = []
            self._alive.release()

    def _lead(self, first: WriterJob) -> None:
        """Runs a job, and those that may share its commit."""
        if first.kind is Kind.LAST:
            self._end(first)
            return
        try:
            if first.kind is Kind.SHARED:
                self._gather(first)
            if not self._turn.take(first.deadline, first.is_claimable):
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

    def _expect(self, ended: list[WriterJob], begun: float) -> None:
        """Notes after a commit who may share the next one, and how long that is worth waiting for."""
        if self._gathers:
            now = time.monotonic()
            self._expected = len(ended) + self._queue.qsize()
            self._gathered = now + (now - begun) * _PATIENCE

    def _gather(self, first: WriterJob) -> None:
        """Waits a moment for those that the last commit ended: who writes again shares the next one."""
        limit = min(self._gathered, first.deadline)
        while self._queue.qsize() + 1 < self._expected and time.monotonic() + _PAUSE < limit:
            time.sleep(_PAUSE)

    def _refuse(self, job: WriterJob, failure: OnereadError) -> None:
        if job.claim():
            job.fail(failure)

    def _group(self, first: WriterJob) -> list[WriterJob]:
        """Claims the first job and the queued jobs that may share its commit."""
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

    def _end(self, last: WriterJob) -> None:
        """Runs the last job and refuses all later ones."""
        if not last.claim():
            return
        self._closed = True  # from here on callers take their jobs back themselves
        _call(last)
        while not self._queue.empty():
            self._refuse(self._queue.get(), _closed())

    def _run(self, jobs: list[WriterJob]) -> None:
        """Commits a group; when the store fails it, commits each job by itself."""
        try:
            self._commit(jobs)
        except OnereadError as failure:
            if len(jobs) == 1 or isinstance(failure, OutcomeUnknown):
                _fail(jobs, failure)
            else:
                self._run_one_by_one(jobs)

    def _run_one_by_one(self, jobs: list[WriterJob]) -> None:
        for job in jobs:
            try:
                self._commit([job])
            except OnereadError as failure:
                _fail([job], failure)
            self._wake()

    def _wake(self) -> None:
        """Ends the committed jobs: after a group the last step, so that their callers find the interpreter free."""
        stored, self._stored = self._stored, []
        for job in stored:
            job.finish()

    def _commit(self, jobs: list[WriterJob]) -> None:
        group: CommitGroup | None = None
        committing = False
        try:
            group = self._begin()
            for job in jobs:
                job.result = job.failure = None
                group.run(job)
            committing = True
            begun = time.monotonic()
            group.commit()
        except BaseException as failure:
            if group is not None:
                group.abort()
            if isinstance(failure, OnereadError):
                raise
            if committing:  # out of memory, for instance; a job's own exception never gets here
                raise OutcomeUnknown("the commit was interrupted; read before writing again") from failure
            raise Unavailable("the transaction was interrupted; nothing was written") from failure
        self._stored = [*self._stored, *jobs]
        self._expect(jobs, begun)


_RUNNING: Final = WriterJob(None, 0)
"""Marks in `_at` that the thread runs a group."""


def _call(job: WriterJob) -> None:
    """Runs a job that is a function."""
    job.run(partial(job.context.run, job.work))
    job.finish()


def _fail(jobs: Iterable[WriterJob], failure: OnereadError) -> None:
    """Ends each job with its own copy of a failure: threads that raise one object would share its traceback."""
    for job in jobs:
        own = type(failure)(failure.message, **failure.facts)
        own.__cause__ = failure.__cause__
        job.fail(own)


def _too_late() -> Unavailable:
    return Unavailable("the transaction's turn to write did not come in time; nothing was written; try again")


def _closed() -> Closed:
    return Closed("the store was closed during this call")
