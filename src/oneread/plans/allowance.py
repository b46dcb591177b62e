"""Allowances: how much this context may still request of a store, and what it has spent.

`costs.budgets` sets them; a trace and the fast path charge them. See docs/decisions/0023-budgets.md.
"""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import Final

from oneread.errors import BudgetExceeded


class Allowance:
    """Counts requests, rows and bytes against their limits; several threads and tasks may share one.

    What is spent here is spent of the `outer` allowance too.
    """

    __slots__ = ("_lock", "bytes", "limits", "outer", "overlapped", "requests", "rows")

    def __init__(self, limits: tuple[int | None, int | None, int | None], outer: Allowance | None = None) -> None:
        self.limits = limits
        self.outer = outer
        self.requests = 0
        self.rows = 0
        self.bytes = 0
        self.overlapped = 0
        self._lock = threading.Lock()

    def charge(self, requests: int, rows: int, size: int) -> None:
        """Counts what was read, and raises BudgetExceeded when that exceeds a limit."""
        self.count(requests, rows, size)
        self.check(0, 0, 0)

    def renew(self) -> None:
        """Forgets what was spent here; outer allowances keep it."""
        with self._lock:
            self.requests = self.rows = self.bytes = self.overlapped = 0

    def count(self, requests: int, rows: int, size: int) -> None:
        """Counts what was spent, here and in the outer allowances."""
        with self._lock:
            self.requests += requests
            self.rows += rows
            self.bytes += size
        if self.outer is not None:
            self.outer.count(requests, rows, size)

    def overlap(self, rounds: int) -> None:
        """Counts requests that took no round of their own, here and in the outer allowances."""
        with self._lock:
            self.overlapped += rounds
        if self.outer is not None:
            self.outer.overlap(rounds)

    @property
    def rounds(self) -> int:
        """Requests that waited for the answer of another one, of one operation after the other."""
        return self.requests - self.overlapped

    def check(self, requests: int, rows: int, size: int) -> None:
        """Raises BudgetExceeded if that much more would exceed a limit, here or in an outer allowance."""
        spent = (self.requests + requests, self.rows + rows, self.bytes + size)
        for what, limit, here in zip(("requests", "rows", "bytes"), self.limits, spent, strict=True):
            if limit is not None and here > limit:
                raise BudgetExceeded("the operation exceeds its budget", resource=what, budget=limit, needed=here)
        if self.outer is not None:
            self.outer.check(requests, rows, size)


CURRENT: Final[ContextVar[Allowance | None]] = ContextVar("oneread_allowance", default=None)
"""The innermost allowance of this thread or task."""
