"""What dark reads may take: bounds of each look, and one running account of all of them.

The account is a token bucket: it gains a twentieth of the time that passes, and loses the processor's time of each dark
read. So an application under load loses at most that share of its own time, however dear the other side is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextvars import ContextVar
from time import perf_counter
from typing import Any, Final

from oneread.errors import Unavailable
from oneread.plans.allowance import NOTHING, Allowance, Amount

SHARE: Final = 0.05
"""Of the time that passes."""
_MOST: Final = 0.25
"""Seconds that the account holds: what may be taken at once after a pause."""

IS_DARK: Final[ContextVar[bool]] = ContextVar("oneread_dark", default=False)
"""Whether this thread or task reads a dark side: launches that it calls compare nothing."""


class DarkAccount:
    """How much time dark reads still have."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._left = _MOST
        self._at = clock()

    @property
    def is_open(self) -> bool:
        """Whether there is time left for one more."""
        return self._left + (self._clock() - self._at) * SHARE > 0

    def charge(self, seconds: float) -> None:
        """Takes what a dark read took; it may become less than nothing."""
        with self._lock:
            now = self._clock()
            self._left = min(self._left + (now - self._at) * SHARE, _MOST) - seconds
            self._at = now


class TimedAllowance(Allowance):
    """An allowance that also ends in time: no request is begun after the deadline."""

    __slots__ = ("_deadline",)

    def __init__(self, requests: int | None, rows: int | None, deadline: float) -> None:
        super().__init__((requests, rows, None))
        self._deadline = deadline

    def begin(self, requests: int, rows: int, size: int) -> None:
        """As an allowance does. Raises Unavailable after the deadline."""
        self._check_time()
        super().begin(requests, rows, size)

    def check(self, requests: int, rows: int, size: int) -> None:
        """As an allowance does. Raises Unavailable after the deadline."""
        self._check_time()
        super().check(requests, rows, size)

    def charge(self, requests: int, rows: int, size: int, begun: Amount = NOTHING) -> None:
        """As an allowance does; what came too late is counted."""
        self.count(requests, rows, size, begun)
        super().check(0, 0, 0)

    def _check_time(self) -> None:
        if perf_counter() > self._deadline:
            raise Unavailable("a dark read has taken too long; nothing more is read for it")


class Metered:
    """An awaitable whose steps are charged to the account: not the time in which it waits."""

    __slots__ = ("_account", "_awaited")

    def __init__(self, awaited: Any, account: DarkAccount) -> None:
        self._awaited = awaited
        self._account = account

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._awaited.__await__()
        answer: Any = None
        failure: BaseException | None = None
        while True:
            began = perf_counter()
            try:
                asked = steps.send(answer) if failure is None else steps.throw(failure)
            except StopIteration as stop:
                return stop.value
            finally:
                self._account.charge(perf_counter() - began)
            answer, failure = None, None
            try:
                answer = yield asked
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:  # noqa: BLE001 - thrown into the awaitable, which raises it again
                failure = error
