"""A thread of the library beside those of the program: at most one, started when it is first woken.

Callers only put into a queue, one step of C, so that no exception of a signal handler leaves a lock behind; what starts
and ends the thread runs in another thread. See docs/decisions/0028-writer-thread.md.
"""

from __future__ import annotations

import os
import threading
from queue import Empty, SimpleQueue
from typing import ClassVar

from oneread.store.uninterrupted import join, run_uninterrupted


class WokenThread:
    """At most one thread, started when it is first woken, and again after a fork; subclasses say what it does."""

    thread_name: ClassVar[str]

    def __init__(self) -> None:
        self._wanted: SimpleQueue[None] = SimpleQueue()
        self._alive = threading.Lock()  # held while there is a thread
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    def wake(self) -> None:
        """Wakes the thread, and starts it where there is none."""
        self._wanted.put(None)
        if not self._alive.locked() or self._process != os.getpid():
            run_uninterrupted(self._start)

    def stop(self) -> None:
        """Ends the thread after what it is at; it is not started again."""
        within = threading.current_thread()
        run_uninterrupted(lambda: self._stop(within))

    def _work(self) -> None:
        """What the thread does, until `_stopping` is set."""
        raise NotImplementedError

    def _renew(self) -> None:
        """Makes new what the child of a fork does not share with its parent, whose threads it does not have."""
        self._process, self._alive = os.getpid(), threading.Lock()

    def _start(self) -> None:
        if self._process != os.getpid():
            self._renew()
        if self._stopping.is_set() or not self._alive.acquire(blocking=False):
            return
        self._thread = threading.Thread(target=self._run, name=self.thread_name, daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self._alive.release()
            raise

    def _stop(self, within: threading.Thread) -> None:
        self._stopping.set()
        self._wanted.put(None)
        thread = self._thread
        if thread is not None and self._process == os.getpid() and thread is not within:
            join(thread, self._alive)

    def _run(self) -> None:
        try:
            self._work()
        finally:
            self._alive.release()

    def _sleep(self, seconds: float | None) -> bool:
        """Waits until it is woken or the time is over, None for no end; whether it was woken."""
        try:
            self._wanted.get(timeout=seconds)
        except Empty:
            return False
        return True

    def _forget_wakes(self) -> None:
        """Forgets that it was woken, before it looks what there is to do."""
        while not self._wanted.empty():
            self._wanted.get()
