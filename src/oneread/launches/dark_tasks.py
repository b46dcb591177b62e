"""Tasks that read the dark side, for the asynchronous face: of the loop that called, so many at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final

from oneread.launches.account import DarkAccount, Metered
from oneread.launches.dark_threads import DarkWork

_END_SECONDS: Final = 1.0
"""How long `end` waits for tasks that do not end when they are cancelled."""


class DarkTasks:
    """The tasks of one database."""

    def __init__(self, account: DarkAccount) -> None:
        self._account = account
        self._running: set[asyncio.Task[Any]] = set()
        self._ready: deque[tuple[DarkWork, Callable[[], Coroutine[Any, Any, Any]]]] = deque()
        self._later: set[asyncio.TimerHandle] = set()
        self._ended = False

    def offer(self, work: DarkWork, run: Callable[[], Coroutine[Any, Any, Any]]) -> bool:
        """Runs it soon; False where so many wait that it is dropped."""
        if self._ended or not self._account.is_open or len(self._ready) >= work.waiting:
            return False
        self._begin(work, run)
        return True

    def offer_later(self, work: DarkWork, run: Callable[[], Coroutine[Any, Any, Any]], seconds: float) -> bool:
        """Runs it after so many seconds; False where so many wait that it is dropped."""
        if self._ended or len(self._later) >= work.waiting:
            return False

        def begin() -> None:
            self._later.discard(timer)
            self._begin(work, run)

        timer = asyncio.get_running_loop().call_later(seconds, begin)
        self._later.add(timer)
        return True

    @property
    def is_stuck(self) -> bool:
        """Whether every place is taken by a task that did not end when its time was over."""
        return False

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits, now or for later."""
        return not (self._ready or self._later or self._running)

    def tick(self) -> None:
        """Nothing: the loop starts tasks."""

    async def end(self) -> None:
        """Cancels all tasks, and waits a second for them."""
        self._ended = True
        for timer in self._later:
            timer.cancel()
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=_END_SECONDS)

    def _begin(self, work: DarkWork, run: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        if len(self._running) >= work.in_flight:
            self._ready.append((work, run))
            return

        async def metered() -> None:
            await Metered(run(), self._account)

        task = asyncio.get_running_loop().create_task(metered(), context=work.context)
        self._running.add(task)
        task.add_done_callback(self._next)

    def _next(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if self._ready and not self._ended:
            self._begin(*self._ready.popleft())
