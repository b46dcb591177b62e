"""Pauses garbage collection while a bulk batch is decided. See docs/decisions/0025-bulk-batches-and-checkpoints.md."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from collections.abc import Generator

_lock = threading.Lock()
_paused = 0


@contextlib.contextmanager
def pause_collector() -> Generator[None]:
    """Disables the collector while the block runs; a collector that the application disabled stays disabled."""
    global _paused  # noqa: PLW0603 - there is one collector
    with _lock:
        ours = _paused > 0 or gc.isenabled()
        if ours:
            gc.disable()
            _paused += 1
    try:
        yield
    finally:
        with _lock:
            _paused -= ours
            if ours and not _paused:
                gc.enable()


def _after_fork() -> None:
    """In the child of a fork: the blocks of the parent's other threads are not left there."""
    global _lock, _paused  # noqa: PLW0603 - there is one collector
    _lock = threading.Lock()
    if _paused:
        _paused = 0
        gc.enable()


os.register_at_fork(after_in_child=_after_fork)
