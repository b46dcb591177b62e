"""Allowances: how much this context may still request of a store, and what it has spent.

`costs.budgets` sets them; a trace and the fast path charge them. See docs/decisions/0023-budgets.md.
"""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import Final, TypeAlias

from oneread.errors import BudgetExceeded

Amount: TypeAlias = "tuple[int, int, int]"
"""Requests, rows and bytes."""

NOTHING: Final[Amount] = (0, 0, 0)


class Allowance:
    """Counts requests, rows and bytes against their limits; several threads and tasks may share one.

    What is spent here is spent of the `outer` allowance too. What is under way, and not counted yet, is kept apart: it
    leaves less for what is asked for meanwhile.
    """

    __slots__ = ("_lock", "_under_way", "bytes", "limits", "outer", "overlapped", "requests", "rows")

    def __init__(self, limits: tuple[int | None, int | None, int | None], outer: Allowance | None = None) -> None:
        self.limits = limits
        self.outer = outer
        self.requests = 0
        self.rows = 0
        self.bytes = 0
        self.overlapped = 0
        self._under_way = NOTHING
        self._lock = threading.Lock()

    def charge(self, requests: int, rows: int, size: int, begun: Amount = NOTHING) -> None:
        """Counts what was read, which was `begun`, and raises BudgetExceeded when that exceeds a limit."""
        self.count(requests, rows, size, begun)
        self.check(0, 0, 0)

    def begin(self, requests: int, rows: int, size: int) -> None:
        """Notes that so much is under way; BudgetExceeded if that would exceed a limit, here or in an outer one."""
        with self._lock:
            begun = self._under_way
            self._check(requests + begun[0], rows + begun[1], size + begun[2])
            self._under_way = (requests + begun[0], rows + begun[1], size + begun[2])
        if self.outer is not None:
            try:
                self.outer.begin(requests, rows, size)
            except BudgetExceeded:
                with self._lock:
                    begun = self._under_way
                    self._under_way = (begun[0] - requests, begun[1] - rows, begun[2] - size)
                raise

    def end(self, begun: Amount) -> None:
        """What was under way is not any more, and was not counted: it failed."""
        self.count(0, 0, 0, begun)

    def renew(self) -> None:
        """Forgets what was spent here; outer allowances keep it."""
        with self._lock:
            self.requests = self.rows = self.bytes = self.overlapped = 0

    def count(self, requests: int, rows: int, size: int, begun: Amount = NOTHING) -> None:
        """Counts what was spent, of which so much was begun, here and in the outer allowances."""
        with self._lock:
            self.requests += requests
            self.rows += rows
            self.bytes += size
            if begun is not NOTHING:
                before = self._under_way
                self._under_way = (before[0] - begun[0], before[1] - begun[1], before[2] - begun[2])
        if self.outer is not None:
            self.outer.count(requests, rows, size, begun)

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
        self._check(requests, rows, size)
        if self.outer is not None:
            self.outer.check(requests, rows, size)

    def _check(self, requests: int, rows: int, size: int) -> None:
        spent = (self.requests + requests, self.rows + rows, self.bytes + size)
        for what, limit, here in zip(("requests", "rows", "bytes"), self.limits, spent, strict=True):
            if limit is not None and here > limit:
                raise BudgetExceeded("the operation exceeds its budget", resource=what, budget=limit, needed=here)


CURRENT: Final[ContextVar[Allowance | None]] = ContextVar("oneread_allowance", default=None)
"""The innermost allowance of this thread or task."""


def leave(allowance: Allowance) -> None:
    """Makes the outer allowance the innermost one, where that is still this one."""
    if CURRENT.get() is allowance:
        CURRENT.set(allowance.outer)
