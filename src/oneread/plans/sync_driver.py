"""The synchronous driver: answers a plan's requests in the caller's thread, and independent ones at the same time.

See "Plans" of the architecture page.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from oneread.plans.effects import Atomically, Now, Random, Reserve, Separately, Sleep, Snapshot, Together
from oneread.plans.parallel import ThreadPool
from oneread.plans.performer import Performer
from oneread.plans.plan import Plan, drive
from oneread.plans.trace import Trace
from oneread.store.cache import CACHE_REQUESTS
from oneread.store.engine import Engine
from oneread.store.requests import CHANGES, REQUESTS

T = TypeVar("T")

_SEVERAL = 2


class SyncDriver(Performer):
    """Drives plans against one engine; may be used by many threads at once."""

    def __init__(self, engine: Engine, *given: Any, **options: Any) -> None:
        super().__init__(engine, *given, **options)
        threads = engine.capabilities.in_flight
        self._pool = ThreadPool(threads) if threads > 1 else None

    def run(self, plan: Plan[T], trace: Trace) -> T:
        """Drives `plan` to its end and returns its result; every request made is counted in `trace`."""
        return drive(self.told(plan), lambda asked: self._perform(asked, trace))

    def gather(self, functions: Sequence[Callable[[], Any]]) -> list[Any]:
        """The results of functions that run plans of this driver, at the same time where the engine answers so."""
        if self._pool is None:
            return [function() for function in functions]
        return self._pool.run_all([partial(copy_context().run, function) for function in functions])

    def close(self) -> None:
        """Closes the engine and the cache; closing twice does nothing."""
        if self._pool is not None:
            self._pool.close()
        self.engine.close()
        if self.cache is not None:
            self.cache.close()

    def _together(self, effect: Together[T], trace: Trace) -> list[T]:
        """Runs plans at the same time where the engine answers so, else one after the other."""
        branches = [trace.branch() for _plan in effect.plans]
        runs = [partial(self.run, *each) for each in zip(effect.plans, branches, strict=True)]
        try:
            return [run() for run in runs] if self._pool is None or len(runs) < _SEVERAL else self._pool.run_all(runs)
        finally:
            trace.join(branches)

    def _perform(self, asked: Any, trace: Trace) -> Any:
        if type(asked) in REQUESTS:
            self.admit(asked, trace)
            answer = self.engine.answer(asked)
            trace.note(asked, answer)
            if type(asked) in CHANGES:
                self.hot.note(asked, answer)
            return answer
        return _EFFECTS[type(asked)](self, asked, trace)


_EFFECTS: dict[type[Any], Callable[[SyncDriver, Any, Trace], Any]] = {
    Sleep: lambda driver, effect, trace: time.sleep(min(effect.seconds, driver.time_left(trace))),
    Reserve: lambda _driver, effect, trace: trace.reserve(effect.requests, effect.rows),
    Together: SyncDriver._together,  # noqa: SLF001 - the driver's own table
    Snapshot: lambda driver, effect, trace: driver.look(effect, trace, threading.Event()),
    Atomically: SyncDriver.transact,
    Separately: SyncDriver.separately,
    Now: lambda driver, _effect, _trace: driver.now(),
    Random: lambda driver, _effect, _trace: driver.chance(),
    **dict.fromkeys(CACHE_REQUESTS, lambda driver, request, _trace: driver.answer_cached(request)),
}
