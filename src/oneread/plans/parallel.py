"""Threads in which the synchronous driver makes independent requests at the same time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from oneread.store.uninterrupted import Completion

T = TypeVar("T")


class ThreadPool:
    """Runs functions at the same time, as far as there are threads; started when it is first used."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="oneread-requests")

    def run_all(self, functions: Sequence[Callable[[], T]]) -> list[T]:
        """The results of all functions, in their order; raises the first of their errors when all have ended.

        The caller runs those that no thread has begun. So a function may call this in turn, and a pool whose threads
        are busy, or that was closed, is never waited for.
        """
        if self._process != os.getpid():  # the parent's threads are not here
            self._start()
        calls = [_PoolCall(function) for function in functions]
        for call in calls[1:]:
            with suppress(RuntimeError):  # it was closed meanwhile, or no thread can be started: the call may be queued
                self._executor.submit(call.take)
        for call in calls[:1]:
            call.take()
        for call in reversed(calls):
            call.finish()
        return [call.outcome() for call in calls]

    def close(self) -> None:
        """Ends the threads once they have nothing to do."""
        self._executor.shutdown(wait=False)


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
        """Runs it, unless another thread has taken it."""
        if self._taken.acquire(blocking=False):
            try:
                self.run(self._work)
            finally:
                self._ended.release()

    def finish(self) -> None:
        """Runs it if no thread has taken it, and waits until it has ended."""
        self.take()
        with self._ended:
            pass
