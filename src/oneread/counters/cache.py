"""Values of counters that a process remembers, so that most reads ask nothing of the store.

The process's own adds are not added to them: a value is what one scan of the store found, so that of a counter which is
only added to is never above what was committed. A value is replaced by a reader that saw it before its own scan, or
that found no less: so no reader that began earlier puts an older value over a newer one. See rule N6 of the commit
protocol.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Final, NamedTuple

from oneread.counters.rows import Sums
from oneread.plans.performer import elapsed

MOST: Final = 10_000
"""Counters that a process remembers; the one filled longest ago is forgotten first."""


class Remembered(NamedTuple):
    """What a scan of a counter's rows found, and when it began, by the process's own clock."""

    sums: Sums
    rows: int
    since: float

    def covers(self, other: Remembered) -> bool:
        """Whether nothing was added or taken that the other scan found and this one did not."""
        return self.sums.raised >= other.sums.raised and self.sums.lowered >= other.sums.lowered


class _Memory:
    """What a process remembers of the counters of one open database, for many threads at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _OPEN.add(self)

    def after_fork(self) -> None:
        """In the child of a fork: a thread of the parent may have held the lock."""
        self._lock = threading.Lock()


class CounterCache(_Memory):
    """Values of counters by name."""

    def __init__(self, clock: Callable[[], float] = elapsed, most: int = MOST) -> None:
        super().__init__()
        self.clock = clock
        self._most = most
        self._found: dict[bytes, Remembered] = {}

    def get(self, name: bytes) -> Remembered | None:
        return self._found.get(name)

    def age(self, found: Remembered) -> float:
        """Seconds since the scan began: the value was the counter's at a moment no longer ago."""
        return max(0.0, self.clock() - found.since)

    def replace(self, name: bytes, seen: Remembered | None, found: Remembered) -> bool:
        """Remembers what a scan found, unless another value came meanwhile that has what the scan did not find."""
        with self._lock:
            current = self._found.get(name)
            if current is not seen and (current is None or not found.covers(current)):
                return False
            self._found.pop(name, None)
            self._found[name] = found
            if len(self._found) > self._most:
                del self._found[next(iter(self._found))]
            return True

    def forget(self, name: bytes) -> None:
        """Forgets the value of a counter that was deleted; a reader that began before may still put it back."""
        with self._lock:
            self._found.pop(name, None)


class GreatestSeen(_Memory):
    """The greatest value of each cache-first counter that this process has shown.

    A value that was seen is one that was counted, so showing it again is right, and so is storing it.
    """

    def __init__(self, most: int = MOST) -> None:
        super().__init__()
        self._most = most
        self._seen: dict[str, int] = {}

    def get(self, name: str) -> int:
        """The greatest value that was shown; 0 for a counter that was not, or was forgotten."""
        return self._seen.get(name, 0)

    def forget(self, name: str) -> None:
        """Forgets the value of a counter that was deleted."""
        with self._lock:
            self._seen.pop(name, None)

    def show(self, name: str, value: int) -> int:
        """The value to show for one that was found: the greater one of it and what was shown before."""
        with self._lock:
            value = max(value, self._seen.pop(name, 0))
            self._seen[name] = value
            if len(self._seen) > self._most:
                del self._seen[next(iter(self._seen))]
            return value


_OPEN: weakref.WeakSet[_Memory] = weakref.WeakSet()


def _after_fork() -> None:
    for memory in list(_OPEN):
        memory.after_fork()


os.register_at_fork(after_in_child=_after_fork)
