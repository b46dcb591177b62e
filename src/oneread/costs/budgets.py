"""Budgets: how many requests, rows and bytes one piece of code, or one web request, may cost.

See docs/decisions/0023-budgets.md.
"""

from __future__ import annotations

from contextvars import Token
from types import TracebackType
from typing import Any

from oneread.errors import UsageError
from oneread.plans.allowance import CURRENT, Allowance, leave
from oneread.plans.trace import Cost


class SpentBudget:
    """What a budget's block has cost so far: in this thread or task, and in those that it started."""

    __slots__ = ("_allowance",)

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance

    @property
    def requests(self) -> int:
        """Requests made."""
        return self._allowance.requests

    @property
    def rows(self) -> int:
        """Rows asked for by key, returned by scans, and written."""
        return self._allowance.rows

    @property
    def bytes(self) -> int:
        """Bytes of keys and values read and written."""
        return self._allowance.bytes

    @property
    def rounds(self) -> int:
        """Requests that waited for the answer of another one, of one operation after the other."""
        return self._allowance.rounds

    @property
    def cost(self) -> Cost:
        """All of these."""
        return Cost(self.requests, self.rows, self.bytes, 0, self.rounds)

    def renew(self) -> None:
        """Counts from zero again, as for the next message of a socket; a budget around this one keeps its count."""
        self._allowance.renew()

    def __repr__(self) -> str:
        return f"Spent(requests={self.requests}, rows={self.rows}, bytes={self.bytes})"


class budget:  # noqa: N801 - reads as the statement it is: with budget(requests=3)
    """Limits what its block may cost: `with budget(requests=3, rows=50) as spent: ...`.

    Counts every read and write of the thread or task, by both faces, of every database; tasks started inside count as
    well, threads when they run in a copy of the context, as `asyncio.to_thread` and web frameworks do. A budget inside
    another spends both. Without limits it only counts.

    A read beyond the budget is not sent to the store. A write beyond it is refused as a whole, before it is committed.
    What a worker does later is not counted.

    Arguments:
        requests: requests to a store, at most.
        rows: rows read and written, at most.
        bytes: bytes of keys and values, at most.

    Raises:
        BudgetExceeded: from the call that exceeds it; `resource`, `budget` and `needed` say by how much.
        UsageError: a limit is not a whole number of 0 or more; or the block ends in another task than it began in.
    """

    __slots__ = ("_allowance", "_limits", "_token")

    def __init__(
        self,
        *,
        requests: int | None = None,
        rows: int | None = None,
        bytes: int | None = None,  # noqa: A002 - the name that costs have everywhere
    ) -> None:
        self._allowance: Allowance | None = None
        for name, limit in (("requests", requests), ("rows", rows), ("bytes", bytes)):
            if limit is not None and (type(limit) is not int or limit < 0):
                raise UsageError("expected a whole number, 0 or more, or None for no limit", **{name: limit})
        self._limits = (requests, rows, bytes)
        self._token: Token[Any] | None = None

    def __enter__(self) -> SpentBudget:
        if self._token is not None:
            raise UsageError("this budget is in use; create another one")
        self._allowance = Allowance(self._limits, outer=CURRENT.get())
        spent = SpentBudget(self._allowance)
        try:
            self._token = CURRENT.set(self._allowance)
            return spent
        except BaseException:  # interrupted: the block does not begin
            self.__del__()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._token is not None
        try:
            CURRENT.reset(self._token)
        except ValueError:
            raise UsageError("a budget must end in the task or thread in which it began") from error
        finally:
            self._token = None

    def __del__(self) -> None:
        """An interrupt may leave the block before any line of `__exit__`: then the last reference ends it."""
        allowance = getattr(self, "_allowance", None)  # an interrupted `__init__` has not set it
        if allowance is not None:
            leave(allowance)
            self._token = None
