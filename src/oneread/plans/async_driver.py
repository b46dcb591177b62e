"""The asynchronous driver: local reads and asynchronous engines on the loop, everything that may block in a thread.

A read of a local engine takes microseconds, a hop to a thread a hundred: so reads stay on the loop and commits leave
it. See "Plans" of the architecture page.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from oneread.errors import Closed, Corrupt
from oneread.plans.arguments import Age, check_awaitable
from oneread.plans.effects import Atomically, Now, Random, Reserve, Separately, Sleep, Snapshot, Together
from oneread.plans.performer import Performer
from oneread.plans.plan import Plan
from oneread.plans.trace import Trace
from oneread.store.cache import CACHE_REQUESTS
from oneread.store.engine import AsyncEngine, Engine
from oneread.store.requests import CHANGES, REQUESTS, Read, Request, Scan

T = TypeVar("T")

_THREADS = 8


class AsyncDriver(Performer):
    """Drives plans against one engine from one event loop.

    A cancelled caller stops waiting at once. A commit that has started continues in its thread, all or nothing.
    """

    def __init__(self, engine: Engine, **options: Any) -> None:
        super().__init__(engine, **options)
        self._async_engine = engine if isinstance(engine, AsyncEngine) else None
        self._closed = False
        self._ended = False
        threads = max(_THREADS, engine.capabilities.in_flight)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="oneread")
        # Threads of its own, so that no commit waits for a cache that does not answer.
        self._cache_threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="oneread-cache")

    async def run(self, plan: Plan[T], trace: Trace) -> T:
        """Drives `plan` to its end and returns its result; every request made is counted in `trace`."""
        plan = self.following(plan)
        try:
            asked = next(plan)
            while True:
                try:
                    answer = await self._perform(asked, trace)
                except BaseException as failure:  # noqa: BLE001 - cancellation included: the plan cleans up without yielding
                    asked = plan.throw(failure)
                else:
                    asked = plan.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result
        except Corrupt as error:
            self.name_damaged(error)
            raise
        finally:
            plan.close()
            trace.release()

    async def read(self, plan: Plan[T], trace: Trace, max_age: Age, *, fresh: bool = False) -> T:
        """`run` of a plan that only reads, through the cache if the database has one for reads."""
        return await self.run(self.cached(plan, max_age, fresh=fresh), trace)

    async def gather(self, functions: Sequence[Callable[[], Awaitable[Any]]]) -> list[Any]:
        """The results of functions that run plans of this driver at the same time; raises the first of their errors."""
        if self.engine.capabilities.local:
            return [await _awaited(function()) for function in functions]

        async def call(function: Callable[[], Awaitable[Any]]) -> Any:
            return await _awaited(function())

        tasks = [asyncio.ensure_future(call(each)) for each in functions]
        try:
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        finally:  # when the caller is cancelled, they end too
            for task in tasks:
                task.cancel()
        for each in ended:
            if isinstance(each, BaseException):
                raise each
        return ended

    async def aclose(self) -> None:
        """Waits for running commits, closes engine and cache and ends the threads; closing twice does nothing.

        A close that failed, or was cancelled, is done again by the next one.
        """
        if not self._ended:
            self._closed = True
            await asyncio.get_running_loop().run_in_executor(self._threads, self.engine.close)
            if self.cache is not None:
                self.cache.close()
            self._ended = True
            self._threads.shutdown(wait=True)
            self._cache_threads.shutdown(wait=True)

    def in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Runs a function that may block in one of the driver's threads."""
        self._check_open()
        return asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def end_in_thread(self, work: Callable[[], object]) -> None:
        """Runs what ends something in one of the driver's threads, also after a close that failed or was cancelled."""
        if not self._ended:
            await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the database was closed before this call")

    async def _perform(self, asked: Any, trace: Trace) -> Any:
        if type(asked) in REQUESTS:
            self.admit(asked, trace)
            answer = await self._answer(asked)
            trace.note(asked, answer)
            if type(asked) in CHANGES:
                self.hot.note(asked, answer)
            return answer
        if type(asked) is Now:
            return self.now()
        if type(asked) is Random:
            return self.chance()
        if type(asked) is Reserve:
            return trace.reserve(asked.requests, asked.rows)
        return await _EFFECTS[type(asked)](self, asked, trace)

    async def _answer(self, request: Request[Any]) -> Any:
        if self._async_engine is not None:
            self._check_open()
            return await self._async_engine.answer_async(request)
        if self.engine.capabilities.local and type(request) in (Read, Scan):
            return self.engine.answer(request)
        return await self.in_thread(lambda: self.engine.answer(request))

    async def _cached(self, request: Request[Any], _trace: Trace) -> Any:
        self._check_open()
        cache = self.open_cache()
        if cache.local:
            return cache.answer(request)
        return await asyncio.get_running_loop().run_in_executor(self._cache_threads, cache.answer, request)

    async def _sleep(self, effect: Sleep, trace: Trace) -> None:
        await asyncio.sleep(min(effect.seconds, self.time_left(trace)))

    async def _together(self, effect: Together[T], trace: Trace) -> list[T]:
        branches = [trace.branch() for _plan in effect.plans]
        tasks = [asyncio.ensure_future(self.run(*each)) for each in zip(effect.plans, branches, strict=True)]
        try:
            return list(await asyncio.gather(*tasks))
        finally:  # when one fails or the caller is cancelled, the others end too
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            trace.join(branches)

    async def _atomically(self, effect: Atomically[T], trace: Trace) -> T:
        return await self.in_thread(lambda: self.transact(effect, trace))

    async def _separately(self, effect: Separately[T], trace: Trace) -> T:
        if self.engine.capabilities.local:
            return self.separately(effect, trace)
        return await self.in_thread(lambda: self.separately(effect, trace))

    async def _snapshot(self, effect: Snapshot[T], trace: Trace) -> T:
        stop = threading.Event()
        try:
            return await self.in_thread(lambda: self.look(effect, trace, stop))
        finally:  # a cancelled caller needs no answer
            stop.set()


_EFFECTS: dict[type[Any], Callable[[AsyncDriver, Any, Trace], Awaitable[Any]]] = {
    Sleep: AsyncDriver._sleep,  # noqa: SLF001 - the driver's own table
    Together: AsyncDriver._together,  # noqa: SLF001 - the driver's own table
    Snapshot: AsyncDriver._snapshot,  # noqa: SLF001 - the driver's own table
    Atomically: AsyncDriver._atomically,  # noqa: SLF001 - the driver's own table
    Separately: AsyncDriver._separately,  # noqa: SLF001 - the driver's own table
    **dict.fromkeys(CACHE_REQUESTS, AsyncDriver._cached),  # noqa: SLF001 - the driver's own table
}


def _awaited(read: Awaitable[Any]) -> Awaitable[Any]:
    check_awaitable("together", read)
    return read
