"""Threads in which the synchronous driver makes independent requests at the same time.

An interrupt of the caller takes no lock along: a call is queued and a thread is started in one step each, which an
executor's `submit` does not do. See docs/decisions/0028-writer-thread.md.
"""

from __future__ import annotations

import os
import sys
import threading
from _thread import start_new_thread
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

from oneread.store.uninterrupted import Completion

T = TypeVar("T")


class ThreadPool:
    """Runs functions at the same time, as far as there are threads; each is started when none is idle."""

    def __init__(self, threads: int) -> None:
        self._most = threads
        self._closed = False
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._queue: SimpleQueue[_PoolCall | None] = SimpleQueue()
        self._alive: list[None] = []
        self._idle: list[None] = []

    def run_all(self, functions: Sequence[Callable[[], T]]) -> list[T]:
        """The results of all functions, in their order; raises the first of their errors when all have ended.

        The caller runs those that no thread has begun. So a function may call this in turn, and a pool whose threads
        are busy, or that was closed, is never waited for. A caller that is interrupted leaves at once, and what no
        thread has begun is not run.
        """
        if self._process != os.getpid():  # the parent's threads are not here
            self._start()
        calls = [_PoolCall(function) for function in functions]
        try:
            for call in calls[1:]:
                self._offer(call)
            for call in calls[:1]:
                call.take()
            for call in reversed(calls):
                call.finish()
        except BaseException:
            for call in calls:
                call.withdraw()
            raise
        return [call.outcome() for call in calls]

    def close(self) -> None:
        """Ends the threads once they have nothing to do."""
        self._closed = True
        self._queue.put(None)

    def __del__(self) -> None:
        self._queue.put(None)

    def _offer(self, call: _PoolCall) -> None:
        """Lets a thread take a call; nothing where the pool was closed, or the system starts no more threads."""
        if self._closed:
            return
        self._queue.put(call)
        if len(self._alive) < self._most and self._queue.qsize() > len(self._idle):
            with suppress(RuntimeError):
                start_new_thread(_serve, (self._queue, self._alive, self._idle, self._most))


def _serve(queue: SimpleQueue[_PoolCall | None], alive: list[None], idle: list[None], most: int) -> None:
    """A thread of a pool, which it does not refer to: a pool that was lost ends its threads."""
    trace = threading.gettrace()
    if trace is not None:  # as `threading` does, for debuggers and coverage
        sys.settrace(trace)
    alive.append(None)
    try:
        while len(alive) <= most:  # else several callers have started threads at one time
            idle.append(None)
            call = queue.get()
            idle.pop()
            if call is None:
                queue.put(None)  # for the others
                return
            call.take_in_thread()
            del call
    finally:
        alive.pop()


class _PoolCall(Completion):
    """A function that runs once, in the first thread that takes it."""

    __slots__ = ("_ended", "_taken", "_work")

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__()
        self._work = work
        self._taken = threading.Lock()
        self._ended = threading.Lock()
        self._ended.acquire()

    def take(self) -> None:
        """Runs it in the caller's thread, unless another one has taken it; an interrupt of the caller is raised."""
        self.take_in_thread()
        if self.failure is not None and not isinstance(self.failure, Exception):
            self.outcome()

    def take_in_thread(self) -> None:
        """Runs it, unless another thread has taken it."""
        if self._taken.acquire(blocking=False):
            try:
                self.run(self._work)
            finally:
                self._ended.release()

    def withdraw(self) -> None:
        """From here on no thread begins it."""
        self._taken.acquire(blocking=False)

    def finish(self) -> None:
        """Runs it if no thread has taken it, and waits until it has ended."""
        self.take()
        with self._ended:
            pass
