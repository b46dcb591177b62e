"""The worker: a thread of the process that does the tasks of the outbox.

Knows operations and a synchronous driver. Must not know verbs. It sleeps until a commit of this process leaves a task,
and looks when the database is opened and every few seconds, for those that another process left behind when it died,
and for what newer programs made of the schema.
The law is "Workers" of the decisions page.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Final

from oneread.database.operations import Operations
from oneread.errors import Closed, SchemaMismatch
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Observer, Trace
from oneread.transactions.outbox import BATCH

PAUSE_SECONDS: Final = 1.0
"""Between two attempts after the store refused one."""

RECOVERY_SECONDS: Final = 5.0
"""Between two looks of a worker that nobody woke: a read of the fence row and two scans."""

_log = logging.getLogger(__name__)


class Worker:
    """At most one thread, started when there is something to do and again after a fork."""

    def __init__(self, operations: Operations, driver: SyncDriver, observers: tuple[Observer, ...] = ()) -> None:
        self._operations = operations
        self._driver = driver
        self._observers = observers
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self._overtaken = False

    def wake(self) -> None:
        """There may be tasks."""
        self._wanted.set()
        with self._lock:
            alive = self._thread is not None and self._thread.is_alive() and self._process == os.getpid()
            if not alive and not self._stopping.is_set():
                self._process = os.getpid()
                self._thread = threading.Thread(target=self._run, name="oneread-worker", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Ends after the batch under way; what is left stays in the outbox."""
        self._stopping.set()
        self._wanted.set()
        with self._lock:
            thread = self._thread
        if thread is not None and self._process == os.getpid() and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wanted.clear()
            try:
                self._driver.run(self._operations.refreshed(), Trace(self._observers))
                while not (self._stopping.is_set() or self._overtaken) and self._step():
                    pass
            except Closed:
                return
            except SchemaMismatch:
                _log.warning("a newer program has taken the store over; this one's worker leaves the tasks to it")
                self._overtaken = True
            except Exception:  # noqa: BLE001 - the worker goes on, whatever one batch raises
                _log.exception(
                    "a batch of the outbox could not be done; another task goes first, then it is tried again"
                )
                self._stopping.wait(PAUSE_SECONDS)
                self._wanted.set()
            self._wanted.wait(RECOVERY_SECONDS)

    def _step(self) -> bool:
        return self._driver.run(self._operations.drain_step(BATCH), Trace(self._observers))
