"""A lock that passes on when the call that took it has ended without releasing it.

An exception of a signal handler can end a call between taking a lock and the `try` that would release it, where no
cleanup runs: a waiting thread checks whether the holder's frame has ended. It does not look for it on the stack of the
holder's thread: that changes meanwhile, and a generator that has given a value leaves it with all of its callers. See
docs/decisions/0028-writer-thread.md.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from types import FrameType
from typing import Final

_FIRST_SECONDS: Final = 0.00002
_LONGEST_SECONDS: Final = 0.001


class Hold:
    """One time that a guard is held; the next one is set once, by whichever thread is first."""

    __slots__ = ("frame", "next", "process", "thread")

    def __init__(self, frame: FrameType | None) -> None:
        self.frame = frame  # None when given back
        self.thread = threading.get_ident()
        self.process = os.getpid()
        self.next: dict[None, Hold] = {}

    def is_held(self) -> bool:
        """Whether the call that took the guard is still running."""
        held = self.frame
        if held is None:
            return False
        if self.process == os.getpid():
            try:
                held.clear()
            except RuntimeError:  # Python clears a frame in one step, and none that is running
                return True
            return False
        # After a fork: the frames of the parent's other threads never end, but they are not there.
        at = sys._current_frames().get(self.thread)  # noqa: SLF001 - documented for debugging
        while at is not None and at is not held:
            at = at.f_back
        return at is not None

    def give_back(self) -> None:
        self.frame = None


class Guard:
    """Held by one call at a time."""

    def __init__(self) -> None:
        self._last = Hold(None)

    def take(self, timeout: float) -> Hold | None:
        """Takes it for the calling function, which releases the hold; None when others hold it too long."""
        hold = Hold(sys._getframe(1))  # noqa: SLF001 - the only way to know the caller's frame
        deadline = None
        pause = _FIRST_SECONDS
        while True:
            last = self._last
            while last.next:
                last = last.next[None]
            if not last.is_held():
                if last.next.setdefault(None, hold) is hold:  # one step: there is one first
                    self._last = hold
                    return hold
                continue
            now = time.monotonic()
            deadline = now + timeout if deadline is None else deadline
            if now >= deadline:
                return None
            time.sleep(min(pause, deadline - now))
            pause = min(pause * 1.5, _LONGEST_SECONDS)
