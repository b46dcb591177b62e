"""Running jobs: a few at a time, each in a thread, or awaited on an event loop.

One thread takes jobs, renews their leases while they run, and stores what became of them, whichever face the database
has; handlers never run in it. A handler that raises, whatever it is, fails its job and nothing else. See
docs/decisions/0155-jobs-in-the-commit.md.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from importlib import import_module
from inspect import isawaitable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

import msgspec

from oneread.errors import OnereadError, SchemaMismatch, UsageError
from oneread.jobs.declared import JobForm
from oneread.jobs.handlers import JobHandler, JobHandlers, JobRun
from oneread.jobs.queue import JobQueue, JobReader, TakenJob
from oneread.jobs.queued import JobPlans
from oneread.plans.effects import Now, Random
from oneread.plans.performer import elapsed
from oneread.plans.plan import Plan
from oneread.store.woken_thread import WokenThread
from oneread.transactions.leases import LeaseHolder
from oneread.transactions.outbox import text_of

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from oneread.jobs.loops import JobLoop

T = TypeVar("T")

AT_ONCE: Final = 8
"""Jobs that one worker runs at a time unless it is said otherwise."""
MOST_AT_ONCE: Final = 1_000
POLL_SECONDS: Final = 1.0
"""How long a worker that is not woken waits between two looks for due jobs."""
STOP_SECONDS: Final = 10.0
"""How long a worker that is stopped waits for the jobs that it runs."""
_RENEWALS: Final = 3
"""How often a lease is renewed in its length."""
_PAUSE: Final = 1.0

_log = logging.getLogger(__name__)


class RunPlan(Protocol):
    """Runs a plan of the worker."""

    def __call__(self, plan: Plan[T], /) -> T: ...


class JobsDone(msgspec.Struct, frozen=True):
    """What a worker has done.

    Arguments:
        done: jobs that ran to their end.
        failed: runs that raised, and are tried again.
        set_aside: jobs whose last try raised.
    """

    done: int = 0
    failed: int = 0
    set_aside: int = 0


class _Ended(NamedTuple):
    """A run that has ended; `error` is what it raised."""

    key: bytes
    error: BaseException | None


class JobRunner:
    """Runs the jobs of one store for one worker, not for several threads at once.

    Coroutines run on `loop`, or on one of its own where there is none.
    """

    def __init__(
        self,
        plans: JobPlans,
        run: RunPlan,
        handlers: JobHandlers,
        at_once: int = AT_ONCE,
        loop: AbstractEventLoop | None = None,
    ) -> None:
        if not isinstance(handlers, JobHandlers):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may be untyped
            raise UsageError("jobs are run by JobHandlers()", given=handlers)
        if type(at_once) is not int or not 1 <= at_once <= MOST_AT_ONCE:
            raise UsageError("at_once: expected a whole number from 1 to 1,000", at_once=at_once)
        unknown = sorted(handlers.by_kind.keys() - plans.forms.keys())
        if unknown:
            raise UsageError("these classes of jobs have handlers, and are not in the schema", jobs=unknown)
        self.done = JobsDone()
        self.leases = LeaseHolder()
        self.note: Callable[[str, str], None] = _note_nothing
        """Is given the kind of a job and what became of it."""
        self._handlers = handlers
        self._at_once = at_once
        self._loops = _Loops(loop)
        self._run = run
        self._forms = plans.forms
        self._queue: JobQueue = plans.queue
        self._reader: JobReader = plans.queue.reader(self.leases)
        self._running: dict[bytes, TakenJob] = {}
        self._unsaved: list[_Ended] = []
        self._ended: SimpleQueue[_Ended | None] = SimpleQueue()
        self._renewed = elapsed()

    def wake(self) -> None:
        """Lets the thread that runs jobs look for others."""
        self._ended.put(None)

    def work_off(self, is_over: Callable[[], bool]) -> None:
        """Runs due jobs until none is left, or it is over; then waits for those that run, some seconds at most."""
        while not is_over():
            has_more = self._take_some()
            if not (self._running or has_more):
                return
            self._wait(self._pause if self._running else 0.0)
        until = elapsed() + STOP_SECONDS
        while self._running and elapsed() < until:
            self._wait(self._pause)

    @property
    def _pause(self) -> float:
        """How long it waits at most while jobs run: they are renewed in time."""
        return min(POLL_SECONDS, self.leases.seconds / _RENEWALS)

    def close(self) -> None:
        """Ends the loop of its own; jobs that still run are left to their leases."""
        self._loops.close()

    def _take_some(self) -> bool:
        free = self._at_once - len(self._running)
        kinds = self._handlers.by_kind.keys() & self._forms.keys()
        if not free or not kinds:
            return False
        taken, has_more = self._run(self._reader.take(kinds, free, self._running))
        for each in taken:
            self._begin(each)
        return has_more

    def _begin(self, taken: TakenJob) -> None:
        self._running[taken.key] = taken
        handler, form = self._handlers.by_kind[taken.stored.kind], self._forms[taken.stored.kind]
        work = _Work(taken, handler, form, self._loops.submit, self._ended.put)
        threading.Thread(target=work.call, name="oneread-job", daemon=True).start()

    def _wait(self, seconds: float) -> None:
        """Waits for a run to end, or to be woken, and stores what became of runs; renews leases in time."""
        try:
            while (ended := self._ended.get(timeout=seconds) if seconds else self._ended.get_nowait()) is not None:
                self._unsaved.append(ended)
                seconds = 0.0
        except Empty:
            pass
        if self._unsaved:
            self._save()
        if self._running and elapsed() - self._renewed >= self.leases.seconds / _RENEWALS:
            self._renew()

    def _renew(self) -> None:
        began, held = elapsed(), list(self._running.values())
        for before, after in zip(held, self._run(self._queue.renew(held, self.leases)), strict=True):
            if after is not None:
                self._running[before.key] = after
        self._renewed = began

    def _save(self) -> None:
        """Stores what became of runs; after an error of the store it is stored the next time."""
        ended = [each for each in self._unsaved if each.error is None]
        if ended:
            self._run(self._queue.finish([self._running[each.key] for each in ended]))
            for each in ended:
                self._end(each, "done")
        for each in [each for each in self._unsaved if each.error is not None]:
            self._end(each, self._fail(each.key, each.error))

    def _end(self, ended: _Ended, outcome: str) -> None:
        taken = self._running.pop(ended.key)
        self._unsaved.remove(ended)
        self.leases.forget(ended.key)
        if outcome:
            self.done = msgspec.structs.replace(self.done, **{outcome: getattr(self.done, outcome) + 1})
            self.note(taken.stored.kind, outcome)

    def _fail(self, key: bytes, error: BaseException | None) -> str:
        """Stores a job whose run raised for its next try, or sets it aside; what became of it, empty for nothing."""
        assert error is not None, "it failed"
        taken = self._running[key]
        handler = self._handlers.by_kind[taken.stored.kind]
        tries = taken.stored.tries + 1
        failed = msgspec.structs.replace(taken.stored, tries=tries, error=type(error).__name__, message=text_of(error))
        pause = handler.pause(tries, self._run(Random().__iter__()))
        due = None if pause is None else self._run(Now().__iter__()) + pause
        if not self._run(self._queue.try_again(taken, self.leases, failed, due)):
            return ""
        _warn(taken, error, is_last=due is None)
        return "set_aside" if due is None else "failed"


class _Work:
    """One run of a job in a thread, or on a loop."""

    def __init__(
        self,
        taken: TakenJob,
        handler: JobHandler,
        form: JobForm[Any],
        submit: Callable[[Coroutine[Any, Any, None]], object],
        end: Callable[[_Ended], None],
    ) -> None:
        self._taken = taken
        self._handler = handler
        self._form = form
        self._submit = submit
        self._end = end

    def call(self) -> None:
        """Calls the handler. Whatever it raises is an error of this job: KeyboardInterrupt and SystemExit as well."""
        stored, error = self._taken.stored, None
        try:
            job = self._form.decode(stored.body)
            made = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=stored.made)
            returned = self._handler.run(job, JobRun(str(self._taken.token), stored.tries + 1, made))
            if isawaitable(returned):
                self._submit(self._finish(returned))
                return
        except BaseException as raised:  # noqa: BLE001 - it is stored with the job
            error = raised
        self._end(_Ended(self._taken.key, error))

    async def _finish(self, returned: Awaitable[object]) -> None:
        error = None
        try:
            await returned
        except BaseException as raised:  # noqa: BLE001 - it is stored with the job; on the loop it would end others
            error = raised
        self._end(_Ended(self._taken.key, error))


class _Loops:
    """The loop of coroutines, made when it is first needed."""

    def __init__(self, given: AbstractEventLoop | None) -> None:
        self._given = given
        self._loop: JobLoop | None = None
        self._making = threading.Lock()

    def submit(self, work: Coroutine[Any, Any, None]) -> None:
        with self._making:
            if self._loop is None:
                make: type[JobLoop] = import_module("oneread.jobs.loops").JobLoop
                self._loop = make(self._given)
        self._loop.submit(work)

    def close(self) -> None:
        if self._loop is not None:
            self._loop.close()


class JobWorker(WokenThread):
    """Runs jobs in the background until it is stopped."""

    thread_name = "oneread-jobs"

    def __init__(self, runner: JobRunner) -> None:
        super().__init__()
        self.runner = runner

    def wake(self) -> None:
        self.runner.wake()
        super().wake()

    def stop(self) -> None:
        self._stopping.set()
        self.runner.wake()
        super().stop()

    def _work(self) -> None:
        while not self._stopping.is_set():
            self._forget_wakes()
            try:
                self.runner.work_off(self._stopping.is_set)
            except SchemaMismatch as error:  # a move may be taken back
                _log.warning("this worker runs no jobs meanwhile: %s", error)
                self._stopping.wait(_PAUSE)
            except Exception:  # noqa: BLE001 - the worker continues whatever the store raises
                _log.exception("jobs could not be taken or stored; the worker tries again")
                self._stopping.wait(_PAUSE)
            self._sleep(POLL_SECONDS)
        self.runner.close()


def _note_nothing(_kind: str, _outcome: str) -> None:
    """Without telemetry."""


def _warn(taken: TakenJob, error: BaseException, *, is_last: bool) -> None:
    what = "is set aside" if is_last else "is tried again later"
    given = (taken.stored.kind, taken.token, what)
    if isinstance(error, OnereadError):
        _log.warning("the job %s %s failed and %s: %s", *given, error)
    else:
        _log.warning("the job %s %s failed and %s", *given, exc_info=error)
