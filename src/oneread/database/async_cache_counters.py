"""The asynchronous face of cache-first counters.

The synchronous face is generated from this module. See docs/explanation/cache-first-counters.md.
"""

from __future__ import annotations

from typing import NoReturn

from oneread.counters.cache_committer import CacheFirstRules
from oneread.counters.cache_first import CacheFirstPlans, CacheLoss, CacheReading, GreatestShard, expected_loss
from oneread.counters.wanted import check_name
from oneread.database.async_counters import AsyncPlanRunner
from oneread.errors import UsageError


class AsyncCacheCounter:
    """A counter whose value is in a cache: `await db.cache_counter("views:7").add()`.

    The handle holds nothing of the store or the cache and costs nothing to make. See `AsyncDatabase.cache_counter`.
    """

    def __init__(self, database: AsyncPlanRunner, plans: CacheFirstPlans, name: str, rules: CacheFirstRules) -> None:
        check_name(name)
        self._database = database
        self._plans = plans
        self._rules = rules
        self.name = name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {self._rules.chance:g} of its adds are stored>"

    def __index__(self) -> NoReturn:
        """Raises UsageError: such a counter does not number anything."""
        raise UsageError(
            "a cache-first counter gives a number twice when its cache is lost; number entities with a sequence: "
            "number: Key[int] = GENERATED, in the child of an entity group",
            counter=self.name,
        )

    def __next__(self) -> NoReturn:
        """Raises UsageError: such a counter does not number anything."""
        self.__index__()

    @property
    def loss(self) -> CacheLoss:
        """What the loss of the cache may lose, when all programs add with this chance. No request.

        Examples:
            ```python
            assert db.cache_counter("views:7", chance_to_write=0.5).loss.mean == 1.0
            ```
        """
        return expected_loss(self._rules.chance)

    async def add(self, amount: int = 1, /) -> None:
        """Counts in the cache, and with the declared chance stores the value.

        One operation of the cache, and nothing of the store. With the chance: one transaction, of a read, a scan of the
        shards, and a write unless as great a value is stored. When the cache has lost the counter: two operations and a
        scan more, and the value is stored.

        It returns no number, because after a loss the same number would come again: number entities with a sequence.

        Arguments:
            amount: a whole number from 1 to 2**32: such a counter only grows.

        Raises:
            InvalidValue: the amount is out of bounds.
            UsageError: the database was opened without a cache.
            Unavailable: the cache did not answer; nothing was counted.
            OutcomeUnknown: it may be counted or not: the answer of the cache did not come; or it was counted, and could
                not be stored. Adding again may count twice.
            LimitExceeded: the cache is full and may not evict, or holds a number that no program counted.
            Corrupt: the cache holds something else than a number, or a row of the store is damaged.

        Examples:
            ```python
            await db.cache_counter("views:7").add()
            ```
        """
        await self._database.run(self._plans.add(self.name, amount, self._rules))

    async def read(self) -> int:
        """The counter's value: never more than was counted, never less than this process has shown; 0 before any add.

        For the moment in which another process stores more it may be less than what is stored. One operation of the
        cache, nothing of the store; when the cache has lost the counter: two more, and two scans of the shards.

        Raises:
            UsageError: the database was opened without a cache.
            Unavailable: the cache did not answer; `stored` needs none.
            LimitExceeded: as for `add`.
            Corrupt: as for `add`.

        Examples:
            ```python
            print(await db.cache_counter("views:7").read())
            ```
        """
        return await self._database.run(self._plans.read(self.name))

    async def look(self) -> CacheReading:
        """Like `read`, with what is stored: what a loss of the cache would lose now. One request more, a row a shard.

        Examples:
            ```python
            seen = await db.cache_counter("views:7").look()
            assert seen.value >= seen.stored
            ```
        """
        return await self._database.run(self._plans.look(self.name))

    async def stored(self) -> int:
        """The greatest value that is stored; it never falls, and needs no cache. One request, a row for each shard."""
        return await self._database.run(self._plans.stored(self.name))

    async def shards(self) -> list[GreatestShard]:
        """The rows that hold values, the greatest of which counts. One request, a row each."""
        return await self._database.run(self._plans.shards(self.name))

    async def delete(self) -> None:
        """Removes the counter from the store, and sets it to 0 in the cache; does nothing for one that is not there.

        For a counter that no program adds to any more, such as that of a page that was deleted. An add that runs
        meanwhile may bring it back, and so does a process that has shown it and adds again: it continues from what it
        has shown. One or two operations of the cache, and one transaction: a read, a scan of the shards, and a write.

        Raises:
            UsageError: the database was opened without a cache.
            Unavailable: the cache or the store did not answer, or others add to the counter. Delete it again.
            OutcomeUnknown: it may be deleted or not. Delete it again.
            Corrupt: the cache holds something else than a number.

        Examples:
            ```python
            await db.cache_counter("views:7").delete()
            ```
        """
        await self._database.run(self._plans.delete(self.name))
