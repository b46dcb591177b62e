"""Pauses garbage collection while a batch is decided.

See docs/decisions/0025-bulk-batches-and-checkpoints.md.
"""

from __future__ import annotations

import gc
import os
from types import TracebackType
from typing import Final, Self

_active: Final[set[int]] = set()
"""The blocks in which the collector is paused, by `id`."""


class PausedCollector:
    """Disables the collector while the block runs; a collector that the application disabled stays disabled.

    Without a lock, which an interrupt might leave taken: where two threads meet, the collector works sooner. An
    interrupt may leave a block at any line of these, so the last reference to it ends the pause as well.
    """

    def __enter__(self) -> Self:
        if _active or gc.isenabled():
            _active.add(id(self))
            gc.disable()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if id(self) in _active:
            if len(_active) == 1:
                gc.enable()
            _active.discard(id(self))
            if not _active:  # two may end at once
                gc.enable()

    def __del__(self) -> None:
        self.__exit__(None, None, None)


def _after_fork() -> None:
    """In the child of a fork: the blocks of the parent's other threads are not left there."""
    if _active:
        _active.clear()
        gc.enable()


os.register_at_fork(after_in_child=_after_fork)
