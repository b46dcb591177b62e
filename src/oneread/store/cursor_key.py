"""What an engine offers that keeps a random key for cursors beside the rows, so that cursors outlive the process.

An engine need not have this: the caller looks first whether it is `HoldsCursorKey`. See
docs/decisions/0034-cursors-are-encrypted.md.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class HoldsCursorKey(Protocol):
    """An engine with a key for cursors."""

    def cursor_key(self) -> bytes:
        """32 random bytes: the same for every process that has the store open, for as long as the store exists."""
        ...
