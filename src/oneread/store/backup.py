"""What an engine offers that can copy its whole store while it is in use.

An engine need not have this: whoever asks looks first whether it is `Copyable`. See "The store contract" of the
architecture page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable


@runtime_checkable
class Copyable(Protocol):
    """An engine that can copy its store."""

    def copy_to(self, target: str, progress: Callable[[int], object]) -> int:
        """Copies one moment of the whole store, every tenant's tables included, to a place that is not there yet.

        Writers go on meanwhile. The copy is there when it is whole and on disk, or not at all. `progress` is told the
        bytes written so far, from time to time and by another thread. Returns the bytes of the copy.
        """
        ...
