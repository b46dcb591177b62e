"""Pauses garbage collection while a bulk batch is decided. See docs/decisions/0025-bulk-batches-and-checkpoints.md."""

from __future__ import annotations

import contextlib
import gc
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
