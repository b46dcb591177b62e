"""The synchronous driver: answers a plan's requests in the caller's thread, and independent ones at the same time.

Plans that run together need no threads for their first requests where the engine sends them ahead: all are sent before
the first answer is waited for. See "Plans" of the architecture page and docs/decisions/0113-sent-ahead.md.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from oneread.errors import Corrupt
from oneread.plans.arguments import Age, check_returned
from oneread.plans.effects import Atomically, Now, Random, Reserve, Separately, Sleep, Snapshot, Together
from oneread.plans.parallel import ThreadPool
from oneread.plans.performer import Performer
from oneread.plans.plan import Plan, drive
from oneread.plans.trace import Trace
from oneread.store.cache import CACHE_REQUESTS
from oneread.store.engine import Begun, Engine, SendsAhead
from oneread.store.requests import CHANGES, REQUESTS, Request
from oneread.store.uninterrupted import Completion

T = TypeVar("T")

_SEVERAL = 2


class SyncDriver(Performer):
    """Drives plans against one engine; may be used by many threads at once."""

    def __init__(self, engine: Engine, *given: Any, **options: Any) -> None:
        super().__init__(engine, *given, **options)
        self._in_flight = engine.capabilities.in_flight
        self._pool = ThreadPool(self._in_flight) if self._in_flight > 1 else None
        self._ahead = engine if isinstance(engine, SendsAhead) else None
        self.at_once = self.commits

    def run(self, plan: Plan[T], trace: Trace) -> T:
        """Drives `plan` to its end and returns its result; every request made is counted in `trace`."""
        try:
            return drive(self.following(plan), lambda asked: self._perform(asked, trace))
        except Corrupt as error:
            self.name_damaged(error)
            raise
        finally:
            trace.release()

    def read(self, plan: Plan[T], trace: Trace, max_age: Age, *, fresh: bool = False) -> T:
        """`run` of a plan that only reads, through the cache if the database has one for reads."""
        return self.run(self.cached(plan, max_age, fresh=fresh), trace)

    def gather(self, functions: Sequence[Callable[[], Any]]) -> list[Any]:
        """The results of functions that run plans of this driver, at the same time where the engine answers so."""
        if self._pool is None:
            results = [function() for function in functions]
        else:
            results = self._pool.run_all([partial(copy_context().run, function) for function in functions])
        for each in results:
            check_returned("together", each)
        return results

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
        parts = list(zip(effect.plans, branches, strict=True))
        try:
            if self._pool is None or len(parts) < _SEVERAL:
                return [self.run(*part) for part in parts]
            if self._ahead is None:
                return self._pool.run_all([partial(self.run, *part) for part in parts])
            return self._run_ahead(self._pool, [_Steps(self._in_steps(self._ahead, *part)) for part in parts])
        except Exception:
            raise
        except BaseException:  # the caller was interrupted: no plan that still runs makes another request
            for branch in branches:
                branch.deadline = float("-inf")
            raise
        finally:
            trace.join(branches)

    def _run_ahead(self, pool: ThreadPool, parts: Sequence[_Steps]) -> list[Any]:
        """The results of plans; what they request after their first requests is answered in threads."""
        try:
            for first in range(0, len(parts), self._in_flight):
                for sent in [part for part in parts[first : first + self._in_flight] if part.next()]:
                    sent.next()
        except BaseException:
            for part in parts:
                part.steps.close()
            raise
        pool.run_all([part.end for part in parts if not part.has_ended])
        return [part.outcome() for part in parts]

    def _in_steps(self, engine: SendsAhead, plan: Plan[T], trace: Trace) -> Generator[bool, None, T]:
        """Drives a plan: yields whether its first request is sent, and once more when the plan has the answer."""
        plan = self.following(plan)
        is_first = True
        try:
            asked = next(plan)
            while True:
                pauses = is_first and type(asked) not in _AT_ONCE
                try:
                    if pauses and type(asked) in REQUESTS:
                        answer = yield from self._perform_ahead(engine, asked, trace)
                    else:
                        if pauses:
                            yield False
                        answer = self._perform(asked, trace)
                except BaseException as failure:  # noqa: BLE001 - as in `drive`
                    asked = plan.throw(failure)
                else:
                    asked = plan.send(answer)
                if pauses:
                    is_first = False
                    yield False
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            trace.release()

    def _perform_ahead(self, engine: SendsAhead, asked: Request[Any], trace: Trace) -> Begun:
        self.admit(asked, trace)
        return self._noted(asked, (yield from engine.begin(asked)), trace)

    def _perform(self, asked: Any, trace: Trace) -> Any:
        if type(asked) in REQUESTS:
            self.admit(asked, trace)
            return self._noted(asked, self.engine.answer(asked), trace)
        return _EFFECTS[type(asked)](self, asked, trace)

    def _noted(self, asked: Request[Any], answer: Any, trace: Trace) -> Any:
        trace.note(asked, answer)
        if type(asked) in CHANGES:
            self.hot.note(asked, answer)
        return answer


class _Steps(Completion):
    """A plan that is driven in steps, each of which may be its last."""

    __slots__ = ("has_ended", "steps")

    def __init__(self, steps: Generator[bool, None, Any]) -> None:
        super().__init__()
        self.steps = steps
        self.has_ended = False

    def next(self) -> bool:
        """Makes the next step; whether a request is sent now."""
        try:
            return next(self.steps)
        except StopIteration as stop:
            self.result = stop.value
        except Exception as failure:  # noqa: BLE001 - `outcome` raises it again
            self.failure = failure
        self.has_ended = True
        return False

    def end(self) -> None:
        """Makes all steps that are left."""
        while not self.has_ended:
            self.next()


_AT_ONCE: frozenset[type[Any]] = frozenset({Now, Random, Reserve})
"""Effects that nothing is waited for."""

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
