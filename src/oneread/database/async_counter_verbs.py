"""The verbs of counters, on the asynchronous face.

The synchronous face is generated from this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from oneread.counters.batch import SECONDS as BATCH_SECONDS
from oneread.counters.batch import SIZE as BATCH_SIZE
from oneread.counters.batch import AsyncCounterBatch
from oneread.counters.cache_first import CacheCounterEntry
from oneread.counters.committer import Once
from oneread.counters.counters import CounterEntry
from oneread.counters.rows import WindowSize
from oneread.counters.wanted import Add, check_batch
from oneread.database.async_cache_counters import AsyncCacheCounter
from oneread.database.async_counters import AsyncCounter
from oneread.database.operations import Operations
from oneread.plans.plan import Plan
from oneread.plans.trace import Observer, Trace

if TYPE_CHECKING:
    from oneread.plans.async_driver import AsyncDriver
    from oneread.plans.sync_driver import SyncDriver

R = TypeVar("R")


class AsyncCounterVerbs:
    """The verbs `counter`, `counters`, `cache_counter`, `cache_counters` and `counter_batch` of an open store."""

    operations: Operations
    _driver: AsyncDriver
    _worker_driver: SyncDriver
    _observers: tuple[Observer, ...]

    if TYPE_CHECKING:

        async def run(self, plan: Plan[R]) -> R: ...

    def counter(
        self,
        name: str,
        *,
        shards: int | None = None,
        keep: Mapping[WindowSize, int] | None = None,
        approximate: bool = False,
    ) -> AsyncCounter:
        """A named counter, made by its first add: `await db.counter("votes:42").add(1)`. No request.

        Its value is spread over rows, the shards, and a read adds them up. Counters belong to the store, not to an
        entity; names are made up as needed.

        Arguments:
            name: text, of 200 bytes at most.
            shards: rows that adds are spread over, 1 to 256, when this add makes the counter; 20 unless the schema's
                `CounterRules` say otherwise. `configure` changes it later.
            keep: how many windows to keep of each size: `{"minute": 60, "hour": 48, "day": 60}`, at most 1,000 of each.
                Adds count in the current window of each size as well. Sizes that the counter has not kept so far are
                kept from the next add on; what it keeps already is changed by `configure` alone.
            approximate: adds are increments of the store where it changes one row at a time: one request, however many
                programs add, but an add whose answer is lost may be counted or not. For page views. Such a counter only
                grows, takes no tokens and has no windows, and no entity shows it. Every program says so for a counter,
                or none. On other stores it is exact.

        Raises:
            InvalidKey: the name is not text, empty or too long.
            InvalidValue: a number is out of bounds.
            UsageError: `keep` was given for an approximate counter, or entities show it.

        Examples:
            ```python
            votes = db.counter("votes:42")
            await votes.add(-1)
            print(await votes.read())
            ```
        """
        plans = self.operations.counters
        declared = plans.declared(shards, keep, approximate=approximate, name=name)
        return AsyncCounter(self, plans, name, declared, None if self._observers else self._driver)

    async def counters(
        self, prefix: str = "", *, limit: int | None = None, after: str | None = None
    ) -> list[CounterEntry]:
        """All counters in the order of their names, and how each is kept. A request for each 1,000, a row each.

        Arguments:
            prefix: what the names begin with.
            limit: counters to return; all unless given.
            after: the last name of the list before.

        Raises:
            InvalidQuery: the limit is out of bounds.
            InvalidKey: `prefix` or `after` is not the text of a name.

        Examples:
            ```python
            names = [each.name for each in await db.counters("votes:")]
            ```
        """
        return await self.run(self.operations.counters.entries(prefix, limit, after))

    def cache_counter(
        self, name: str, *, chance_to_write: float | None = None, shards: int | None = None
    ) -> AsyncCacheCounter:
        """A counter that is fast, and may lose its last adds: `await db.cache_counter("views:7").add()`. No request.

        Its value is in the cache that `connect_async(..., cache=)` names. An add is one operation of the cache, and now
        and then stores the value. When the cache is lost, adds since then are: (1 - p) / p on average, and no more than
        ln(1000) / p in 999 of 1,000 losses, where p is the chance. It only grows, belongs to the store, and has nothing
        in common with a `counter` of the same name. For what must not be lost, use `counter`; to number entities, a
        sequence.

        Arguments:
            name: text, of 200 bytes at most.
            chance_to_write: of each add to be stored, from a millionth to 1; 0.1 unless given: 9 adds are lost on
                average, and 65 at most in 999 of 1,000 losses. Programs may differ in it; the least one counts.
            shards: rows that values are stored in, 1 to 256; 20 unless the schema's `CounterRules` say otherwise.

        Raises:
            InvalidKey: the name is not text, empty or too long.
            InvalidValue: a number is out of bounds.

        Examples:
            ```python
            views = db.cache_counter("views:7", chance_to_write=0.05)
            await views.add()
            print(await views.read())
            ```
        """
        plans = self.operations.cache_counters
        return AsyncCacheCounter(self, plans, name, plans.declared(chance_to_write, shards))

    async def cache_counters(
        self, prefix: str = "", *, limit: int | None = None, after: str | None = None
    ) -> list[CacheCounterEntry]:
        """All cache-first counters of which a value was stored, in the order of their names.

        A request for each 1,000, a row each.

        Arguments:
            prefix: what the names begin with.
            limit: counters to return; all unless given.
            after: the last name of the list before.

        Raises:
            InvalidQuery: the limit is out of bounds.
            InvalidKey: `prefix` or `after` is not the text of a name.

        Examples:
            ```python
            names = [each.name for each in await db.cache_counters("views:")]
            ```
        """
        return await self.run(self.operations.cache_counters.entries(prefix, limit, after))

    def counter_batch(
        self,
        *,
        shards: int | None = None,
        keep: Mapping[WindowSize, int] | None = None,
        seconds: float = BATCH_SECONDS,
        size: int = BATCH_SIZE,
    ) -> AsyncCounterBatch:
        """Adds up in the process: `async with db.counter_batch() as batch: batch.add("views:42")`.

        For what happens too often for a commit each. `batch.add` takes about a microsecond and never waits for the
        store; a thread flushes, and so does leaving the block. A flush costs one transaction for every 1,000 counters
        that it adds to. A process that is killed loses what it has not flushed: the adds of the last `seconds`, no more
        than about `size` of them, and those of a flush that was running. What is flushed is counted once, whatever
        answers are lost.

        Arguments:
            shards: as for `counter`, for counters that are new.
            keep: as for `counter`; an add counts in the window in which it is flushed.
            seconds: how long an add waits at most before a flush begins; 0.01 to 3,600.
            size: adds that wait when a flush begins at once.

        Raises:
            InvalidValue: a number is out of bounds.

        Examples:
            ```python
            async with db.counter_batch(seconds=0.5) as batch:
                for page in (7, 7, 9):
                    batch.add(f"views:{page}")
            ```
        """
        check_batch(seconds, size)
        plans = self.operations.counters

        def commit(adds: Sequence[Add], once: Once) -> None:
            self._worker_driver.run(plans.committer.add(adds, once), Trace(self._observers))

        once_for, run = plans.rules.once_for, self._driver.in_thread  # async only
        return AsyncCounterBatch(commit, plans.declared(shards, keep), once_for, seconds, size, run)  # async only
        # sync only: return CounterBatch(commit, plans.declared(shards, keep), plans.rules.once_for, seconds, size)
