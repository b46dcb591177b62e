"""The turn to write: a lock among processes that, unlike LMDB's own, can be waited for with a deadline.

The kernel releases the lock when its holder dies, however it dies. A waiter polls, with short and growing pauses. The
lock is an open file's, so each of those that take it in a process opens the file again. Only the writer's thread closes
them, when they are not used any more, so that a file number is never used after another file got it. See
docs/decisions/0011-writer-lock-and-group-commit.md.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from oneread.engines.lmdb.files import open_lock

_YIELDS: Final = 4
_FIRST_SECONDS: Final = 0.00002
_LONGEST_SECONDS: Final = 0.001
_CLOSED: Final = -1


class Turn:
    """The lock file of one store, opened by one process."""

    def __init__(self, path: str) -> None:
        # Closed in a fork's child and on exec: an open copy elsewhere would keep the lock when its holder dies.
        self._file = open_lock(Path(path))

    @property
    def file(self) -> int:
        """Its number, for the call of oneread-native that takes and gives back the lock itself."""
        return self._file

    def take(self, deadline: float, wanted: Callable[[], bool]) -> bool:
        """Waits for the turn until `deadline` (monotonic seconds), while `wanted`; returns whether it was taken."""
        return self._try() or self._wait(deadline, wanted)

    def give_back(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Closes the file, once: its number may be another file's by the next call."""
        file, self._file = self._file, _CLOSED
        if file != _CLOSED:
            os.close(file)

    def _wait(self, deadline: float, wanted: Callable[[], bool]) -> bool:
        for _ in range(_YIELDS):  # an unsynced commit takes a few microseconds
            os.sched_yield()
            if self._try():
                return True
        pause = _FIRST_SECONDS
        while (remaining := deadline - time.monotonic()) > 0 and wanted():
            time.sleep(min(pause, remaining))
            if self._try():
                return True
            pause = min(pause * 1.5, _LONGEST_SECONDS)
        return False

    def _try(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
