"""The cyclic garbage collector rests while a batch is decided.

A batch makes hundreds of thousands of objects that all live until it is committed and form no cycles; looking at them
again and again took a fifth of the time of a bulk load. See docs/decisions/0025-bulk-batches-and-checkpoints.md.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Generator

_lock = threading.Lock()
_resting = 0


@contextlib.contextmanager
def resting() -> Generator[None]:
    """Lets the collector rest while the block runs; where it rests already for another reason it is left alone."""
    with _lock:
        ours = _begin()
    try:
        yield
    finally:
        with _lock:
            _end(ours=ours)


def _begin() -> bool:
    global _resting  # noqa: PLW0603 - there is one collector
    ours = _resting > 0 or gc.isenabled()
    if ours:
        gc.disable()
        _resting += 1
    return ours


def _end(*, ours: bool) -> None:
    global _resting  # noqa: PLW0603 - there is one collector
    if ours:
        _resting -= 1
        if not _resting:
            gc.enable()
