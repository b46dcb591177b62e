"""Pauses garbage collection while a batch is decided or compared.

See docs/decisions/0025-bulk-batches-and-checkpoints.md.
"""

from __future__ import annotations

import gc
import os
import threading
from types import TracebackType
from typing import Self

_lock = threading.RLock()
_active: set[int] = set()
"""The blocks in which the collector is paused, by `id`."""


class PausedCollector:
    """Disables the collector while the block runs; a collector that the application disabled stays disabled.

    An interrupt may leave a block at any line of these, so the last reference to it ends the pause as well.
    """

    def __enter__(self) -> Self:
        with _lock:
            if _active or gc.isenabled():
                _active.add(id(self))
                gc.disable()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with _lock:
            if _active == {id(self)}:
                gc.enable()
            _active.discard(id(self))

    def __del__(self) -> None:
        self.__exit__(None, None, None)


def _after_fork() -> None:
    """In the child of a fork: the blocks of the parent's other threads are not left there."""
    global _lock  # noqa: PLW0603 - there is one collector
    _lock = threading.RLock()
    if _active:
        _active.clear()
        gc.enable()


os.register_at_fork(after_in_child=_after_fork)
