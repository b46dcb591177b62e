"""Threads that read the dark side, for the synchronous face: as many as a launch may have under way, and no more.

Callers only put into a queue, one step of C, so that no exception of a signal handler leaves a lock behind. Threads are
woken now and then, not by each call, and then read all that waits: each time that they are, the application's threads
wait for the interpreter, which takes longer than a read. A thread
that does not come back from a user's function keeps its place: when all are so, dark reads are dropped. They are
daemons, so that no such function keeps the process.
"""

from __future__ import annotations

import heapq
import logging
import threading
from collections import deque
from collections.abc import Callable
from contextvars import Context
from itertools import count
from queue import SimpleQueue
from time import perf_counter, thread_time
from typing import Final, Protocol

from oneread.launches.account import DarkAccount

_END_SECONDS: Final = 1.0
"""How long `end` waits for threads that are in a user's function."""

_TOGETHER: Final = 25
"""Reads that one thread makes when it is woken, before another one is."""

_log = logging.getLogger(__name__)


class DarkWork(Protocol):
    """One look at the dark side."""

    @property
    def context(self) -> Context:
        """That of the call, in which it runs."""
        ...

    @property
    def waiting(self) -> int:
        """How many may wait at a time."""
        ...

    @property
    def in_flight(self) -> int:
        """How many may run at a time."""
        ...

    @property
    def left(self) -> float:
        """Seconds that it may take."""
        ...


class DarkThreads:
    """The threads of one process; they are started by the thread that keeps launches."""

    def __init__(self, account: DarkAccount) -> None:
        self._account = account
        self._waiting: deque[tuple[DarkWork, Callable[[], object]]] = deque()
        self._woken: SimpleQueue[None] = SimpleQueue()
        self._later: list[tuple[float, int, DarkWork, Callable[[], object]]] = []
        self._numbers = count()
        self._lock = threading.Lock()  # of `_later`, which no caller touches
        self._threads: dict[threading.Thread, float] = {}
        self._wanted = 0
        self._ended = False

    def offer(self, work: DarkWork, run: Callable[[], object]) -> bool:
        """Runs it soon; False where so many wait or are stuck that it is dropped."""
        if self._ended or not self._account.is_open or len(self._waiting) >= work.waiting or self.is_stuck:
            return False
        self._wanted = max(self._wanted, work.in_flight)
        self._waiting.append((work, run))
        return True

    def offer_later(self, work: DarkWork, run: Callable[[], object], seconds: float) -> bool:
        """Runs it after so many seconds; False where so many wait that it is dropped."""
        with self._lock:
            if self._ended or len(self._later) >= work.waiting:
                return False
            heapq.heappush(self._later, (perf_counter() + seconds, next(self._numbers), work, run))
        return True

    @property
    def is_stuck(self) -> bool:
        """Whether every thread is in a function that has taken longer than it may."""
        threads = list(self._threads.values())
        return bool(threads) and len(threads) >= self._wanted and max(threads) < perf_counter()

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits, now or for later."""
        return not (self._later or self._waiting)

    def tick(self) -> None:
        """Starts threads that are wanted, and wakes as many as there is work for."""
        while len(self._threads) < self._wanted and not self._ended:
            thread = threading.Thread(target=self._run, name="oneread-launch-dark", daemon=True)
            self._threads[thread] = float("inf")
            thread.start()
        with self._lock:
            while self._later and self._later[0][0] <= perf_counter():
                _due, _number, work, run = heapq.heappop(self._later)
                self._waiting.append((work, run))
        if self._waiting:
            wanted = min(self._wanted, 1 + len(self._waiting) // _TOGETHER)
            for _thread in range(wanted - self._woken.qsize()):  # fewer where threads are busy, and were not woken yet
                self._woken.put(None)

    def end(self) -> None:
        """Ends the threads; those that are in a user's function are waited for a second, all together."""
        self._ended = True
        threads = list(self._threads)  # the keeper may be starting one, which ends at once
        for _thread in threads:
            self._woken.put(None)
        until = perf_counter() + _END_SECONDS
        for thread in threads:
            if thread.ident is not None:
                thread.join(max(0.0, until - perf_counter()))

    def _run(self) -> None:
        thread = threading.current_thread()
        while not self._ended:
            try:
                work, run = self._waiting.popleft()
            except IndexError:
                self._woken.get()
                continue
            self._threads[thread] = perf_counter() + work.left
            began = thread_time()
            try:
                work.context.run(run)
            except Exception:  # noqa: BLE001 - of the library itself; the thread continues
                _log.exception("a dark read failed")
            finally:
                self._account.charge(thread_time() - began)
                self._threads[thread] = float("inf")
