"""Calls that no exception of a signal handler can interrupt: each runs in a thread of its own.

Python runs signal handlers in the main thread, between any two bytecodes: a lock taken there may never be released.
The caller only waits; when it is interrupted, the call still runs to its end. For opening and closing, which are rare:
a thread costs about 0.1 ms. See docs/decisions/0028-writer-thread.md.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from _thread import start_new_thread
from collections.abc import Callable
from typing import Any, Final, TypeVar

from oneread.errors import OutcomeUnknown, Unavailable

T = TypeVar("T")

LOOK_SECONDS: Final = 0.5
"""A thread that waits for another checks this often that the other is alive, and receives its own exceptions."""

_PAUSE_SECONDS: Final = 0.0001


def run_uninterrupted(work: Callable[[], T]) -> T:
    """Runs `work` in a new thread and returns its result, or raises what it raised."""
    call = _Call(work)
    try:
        start_new_thread(call.start, ())  # one step: Thread.start, interrupted, can leave locks of `threading` taken
    except RuntimeError as failure:
        raise refused(failure) from failure
    while not call.ended.acquire(timeout=LOOK_SECONDS):
        if os.getpid() != call.process:
            raise OutcomeUnknown("the process forked during this call; repeat it")
    result: T = call.outcome()
    return result


def join(thread: threading.Thread, alive: threading.Lock) -> None:
    """Waits until `thread`, which holds `alive` while it runs, has ended.

    Thread.join, called in a thread of this module, would register a dummy thread with `threading` for ever.
    """
    with alive:
        pass
    while thread.is_alive():  # it is leaving its last function
        time.sleep(_PAUSE_SECONDS)


def refused(failure: RuntimeError) -> Unavailable:
    """The error for a thread that the system did not start."""
    return Unavailable("the system refused to start more threads; raise the limit", error=str(failure))


class Completion:
    """What a function returned or raised in another thread, for the thread that waits for it."""

    __slots__ = ("failure", "result")

    def __init__(self) -> None:
        self.result: Any = None
        self.failure: BaseException | None = None

    def run(self, work: Callable[[], Any]) -> None:
        """Calls `work` and keeps how it ended."""
        try:
            self.result = work()
        except BaseException as failure:  # noqa: BLE001 - `outcome` raises it again
            self.failure = failure

    def outcome(self) -> Any:
        """Returns the result, or raises the failure."""
        if self.failure is None:
            return self.result
        try:
            raise self.failure
        finally:
            self.failure = None  # its traceback holds this frame: without this a cycle would stay


class _Call(Completion):
    """A function that a thread of its own runs."""

    __slots__ = ("_work", "ended", "process")

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__()
        self.process = os.getpid()
        self.ended = threading.Lock()
        self._work = work
        self.ended.acquire()

    def start(self) -> None:
        trace = threading.gettrace()
        if trace is not None:  # as `threading` does, for debuggers and coverage
            sys.settrace(trace)
        self.run(self._work)
        self.ended.release()
