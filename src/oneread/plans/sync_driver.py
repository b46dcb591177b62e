"""The synchronous driver: answers a plan's requests one after the other, in the caller's thread.

See "Plans" of the architecture page.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from oneread.plans.effects import Atomically, Now, Random, Reserve, Separately, Sleep, Snapshot, Together
from oneread.plans.performer import Performer
from oneread.plans.plan import Plan, drive
from oneread.plans.trace import Trace
from oneread.store.cache import CACHE_REQUESTS
from oneread.store.requests import REQUESTS

T = TypeVar("T")


class SyncDriver(Performer):
    """Drives plans against one engine; may be used by many threads at once."""

    def run(self, plan: Plan[T], trace: Trace) -> T:
        """Drives `plan` to its end and returns its result; every request made is counted in `trace`."""
        return drive(plan, lambda asked: self._perform(asked, trace))

    def close(self) -> None:
        """Closes the engine and the cache; closing twice does nothing."""
        self.engine.close()
        if self.cache is not None:
            self.cache.close()

    def _perform(self, asked: Any, trace: Trace) -> Any:
        if type(asked) in REQUESTS:
            self.admit(asked, trace)
            answer = self.engine.answer(asked)
            trace.note(asked, answer)
            return answer
        return _EFFECTS[type(asked)](self, asked, trace)


_EFFECTS: dict[type[Any], Callable[[SyncDriver, Any, Trace], Any]] = {
    Sleep: lambda driver, effect, trace: time.sleep(min(effect.seconds, driver.time_left(trace))),
    Reserve: lambda _driver, effect, trace: trace.reserve(effect.requests, effect.rows),
    Together: lambda driver, effect, trace: [driver.run(plan, trace) for plan in effect.plans],
    Snapshot: lambda driver, effect, trace: driver.look(effect, trace, threading.Event()),
    Atomically: SyncDriver.transact,
    Separately: SyncDriver.separately,
    Now: lambda driver, _effect, _trace: driver.now(),
    Random: lambda driver, _effect, _trace: driver.chance(),
    **dict.fromkeys(CACHE_REQUESTS, lambda driver, request, _trace: driver.answer_cached(request)),
}
