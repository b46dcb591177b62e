"""Allowances: how much may still be asked of a store in this context, and what was.

A trace looks here when it is made, the direct paths of `get` and `page` at each read; who sets an allowance stands in
`costs.budgets`. See docs/decisions/0023-budgets.md.
"""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import Final

from oneread.errors import BudgetExceeded


class Allowance:
    """Counts what is spent and refuses what goes beyond; may be spent by several threads and tasks at once.

    Arguments:
        limits: the most requests, rows and bytes that may be spent; None for no limit.
        outer: the allowance around this one, which is spent as well.
    """

    __slots__ = ("_lock", "bytes", "limits", "outer", "requests", "rows")

    def __init__(self, limits: tuple[int | None, int | None, int | None], outer: Allowance | None = None) -> None:
        self.limits = limits
        self.outer = outer
        self.requests = 0
        self.rows = 0
        self.bytes = 0
        self._lock = threading.Lock()

    def charge(self, requests: int, rows: int, size: int) -> None:
        """Counts what was read, and raises BudgetExceeded before it is handed on if that was too much."""
        self.count(requests, rows, size)
        self.check(0, 0, 0)

    def count(self, requests: int, rows: int, size: int) -> None:
        """Counts what has happened, here and around."""
        with self._lock:
            self.requests += requests
            self.rows += rows
            self.bytes += size
        if self.outer is not None:
            self.outer.count(requests, rows, size)

    def check(self, requests: int, rows: int, size: int) -> None:
        """Raises BudgetExceeded if that much more would be too much, here or around."""
        spent = (self.requests + requests, self.rows + rows, self.bytes + size)
        for what, limit, here in zip(("requests", "rows", "bytes"), self.limits, spent, strict=True):
            if limit is not None and here > limit:
                raise BudgetExceeded("this goes beyond the budget", resource=what, budget=limit, needed=here)
        if self.outer is not None:
            self.outer.check(requests, rows, size)


CURRENT: Final[ContextVar[Allowance | None]] = ContextVar("oneread_allowance", default=None)
"""The innermost allowance of this thread or task."""
