"""The worker: a thread of the process that does the tasks of the outbox.

It sleeps until a commit of this process leaves a task. When the database is opened and every few seconds it looks for
tasks of processes that died and for changes of the schema by newer programs, and tries the chores; where a look costs
requests to a server, one program's worker does that for all (`Recoverer`). Callers wake, start and stop it without a
lock that a signal handler's exception could leave locked, as that of an Event: a queue's `put` is one step of C.
See "Workers" of the decisions page and docs/decisions/0056-leases.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from oneread.database.operations import Operations
from oneread.errors import Closed, SchemaMismatch, StoreMoved
from oneread.plans.performer import elapsed
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Observer, Trace
from oneread.store.woken_thread import WokenThread
from oneread.transactions.outbox import BATCH

PAUSE_SECONDS: Final = 1.0
"""Pause after a batch that failed."""

RECOVERY_SECONDS: Final = 5.0
"""Pause of a worker that is not woken; then it reads the fence row, and looks for tasks if that is its part."""

_log = logging.getLogger(__name__)


class Worker(WokenThread):
    """Does tasks, chores and copies while the program runs; stopped, it leaves the other tasks in the outbox."""

    thread_name = "oneread-worker"

    def __init__(self, operations: Operations, driver: SyncDriver, observers: tuple[Observer, ...] = ()) -> None:
        super().__init__()
        self._operations = operations
        self._driver = driver
        self._observers = observers
        self._overtaken = False
        self._looked = -RECOVERY_SECONDS
        self._recorded = 0
        self._recorded_at = 0.0
        self.watched: Callable[[str], Observer] | None = None
        """Makes an observer of the requests that the worker makes for what it does."""

    def _work(self) -> None:
        woken = True
        while not self._stopping.is_set():
            self._forget_wakes()
            pause = min(RECOVERY_SECONDS, self._operations.sweeper.pause)
            try:
                # Whom a commit wakes need not ask again what other programs left.
                looks = not (woken and elapsed() - self._looked < RECOVERY_SECONDS) and self._look()
                if looks or woken:
                    pause = min(pause, self._operations.copies.pause)
                    self._work_off()
                self._record(at_once=True)
            except Closed:
                return
            except SchemaMismatch as error:
                self._note_overtaken(error)
            except Exception as failure:  # noqa: BLE001 - the worker continues whatever a batch raises
                if self._operations.meter is not None:
                    self._operations.meter.note_failure(failure)
                _log.exception("a batch of a task failed; it is retried after the other tasks")
                self._operations.parts.recoverer.stand_back()
                self._stopping.wait(PAUSE_SECONDS)
                self._wanted.put(None)
            woken = self._sleep(pause)

    def _trace(self, work: str) -> Trace:
        return Trace(self._observers if self.watched is None else (*self._observers, self.watched(work)))

    def _look(self) -> bool:
        looks = self._driver.run(self._operations.look(), self._trace("look"))
        self._looked = elapsed()
        return looks

    def _work_off(self) -> None:
        try:
            while not self._stopping.is_set() and self._step():
                pass
            self._overtaken = False
        except SchemaMismatch as error:
            self._note_overtaken(error)
        while not self._stopping.is_set() and self._do_chores():
            pass
        while not (self._stopping.is_set() or self._overtaken) and self._copy():
            pass

    def _note_overtaken(self, error: SchemaMismatch) -> None:
        """This program may write again when a change of the schema or a move is taken back: each look tries again."""
        if not self._overtaken:
            what = "this store is moved" if isinstance(error, StoreMoved) else "a newer program has upgraded this store"
            _log.warning("%s; the worker of this program does no tasks meanwhile", what)
        self._overtaken = True

    def _do_chores(self) -> bool:
        return self._driver.run(self._operations.chores.step(), self._trace("sweep"))

    def _step(self) -> bool:
        self._record()
        return bool(self._driver.run(self._operations.outbox.step(BATCH), self._trace("follow")))

    def _copy(self) -> bool:
        return self._driver.run(self._operations.copies.step(), self._trace("copy"))

    def _record(self, *, at_once: bool = False) -> None:
        """Records what was done and what waits, under telemetry; not more often than a worker looks for tasks."""
        meter = self._operations.meter
        if meter is None or not (at_once or elapsed() - self._recorded_at >= RECOVERY_SECONDS):
            return
        lags = self._driver.run(self._operations.lag(), self._trace("record"))
        for kind, lag in lags.items():
            meter.note_tasks(kind, lag.waiting, lag.oldest)
        meter.note_behind(self._driver.run(self._operations.behind(lags), self._trace("record")))
        done = self._operations.outbox.batches
        meter.note_batches(done - self._recorded)
        self._recorded, self._recorded_at = done, elapsed()
