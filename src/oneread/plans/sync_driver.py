"""The synchronous driver: answers a plan's requests one after the other, in the caller's thread.

See "Plans" of the architecture page.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from oneread.plans.effects import Atomically, Now, Random, Sleep, Snapshot, Together
from oneread.plans.performer import Performer, drive
from oneread.plans.plan import Plan
from oneread.plans.trace import Trace
from oneread.store.requests import REQUESTS

T = TypeVar("T")


class SyncDriver(Performer):
    """Drives plans against one engine; may be used by many threads at once."""

    def run(self, plan: Plan[T], trace: Trace) -> T:
        """Drives `plan` to its end and returns its result; every request made is counted in `trace`."""
        return drive(plan, lambda asked: self._perform(asked, trace))

    def close(self) -> None:
        """Closes the engine; closing twice does nothing."""
        self.engine.close()

    def _perform(self, asked: Any, trace: Trace) -> Any:
        if type(asked) in REQUESTS:
            answer = self.engine.answer(asked)
            trace.note(asked, answer)
            return answer
        return _EFFECTS[type(asked)](self, asked, trace)

    def _sleep(self, effect: Sleep, _trace: Trace) -> None:
        time.sleep(effect.seconds)

    def _together(self, effect: Together[T], trace: Trace) -> list[T]:
        return [self.run(plan, trace) for plan in effect.plans]

    def _atomically(self, effect: Atomically[T], trace: Trace) -> T:
        return self.transact(effect, trace)

    def _snapshot(self, effect: Snapshot[T], trace: Trace) -> T:
        return self.look(effect, trace, threading.Event())

    def _now(self, _effect: Now, _trace: Trace) -> int:
        return self.now()

    def _random(self, _effect: Random, _trace: Trace) -> float:
        return self.chance()


_EFFECTS: dict[type[Any], Callable[[SyncDriver, Any, Trace], Any]] = {
    Sleep: SyncDriver._sleep,  # noqa: SLF001 - the driver's own table
    Together: SyncDriver._together,  # noqa: SLF001 - the driver's own table
    Snapshot: SyncDriver._snapshot,  # noqa: SLF001 - the driver's own table
    Atomically: SyncDriver._atomically,  # noqa: SLF001 - the driver's own table
    Now: SyncDriver._now,  # noqa: SLF001 - the driver's own table
    Random: SyncDriver._random,  # noqa: SLF001 - the driver's own table
}
