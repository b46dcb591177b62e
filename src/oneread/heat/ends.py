"""Whether the rows of a declaration grow at one end of its keys: where a row is put that was not there before."""

from __future__ import annotations

from typing import Final

RECENT: Final = 64
"""Rows that count once however often they are put: a commit puts its root row several times, beside others."""


class GrowingEnd:
    """The least and greatest key that one process has put under a prefix, and what it put since the last `reset`."""

    __slots__ = ("_greatest", "_least", "_recent", "outside", "rows")

    def __init__(self, key: bytes) -> None:
        self._least = self._greatest = key
        self._recent: dict[bytes, None] = {}
        self.reset()

    def reset(self) -> None:
        """Counts from zero again; which keys were put stays known."""
        self.rows = self.outside = 0

    def add(self, key: bytes) -> None:
        """Counts a row that was put, unless it is one of the last."""
        if key in self._recent:
            return
        if len(self._recent) == RECENT:
            del self._recent[next(iter(self._recent))]
        self._recent[key] = None
        self.rows += 1
        if key > self._greatest:
            self._greatest = key
            self.outside += 1
        elif key < self._least:
            self._least = key
            self.outside += 1
