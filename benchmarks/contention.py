"""Counters that several processes add to at the same time: how often an add is tried again.

The processes take turns at their requests, in the order of a clock that only this module moves: each request takes one
to three milliseconds, drawn with a fixed seed, and a pause as long as it says. So the numbers are the same every time.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from random import Random as Chance
from typing import Any, Final

from oneread.counters.committer import Once
from oneread.counters.rows import CounterSettings, name_key
from oneread.counters.shard_counters import ShardCounters
from oneread.counters.wanted import Add, check_token
from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.plans.effects import Now, Random, Sleep
from oneread.store.requests import CheckAndMutate

WRITERS: Final = 8
SHARDS: Final = 20
WARMING: Final = 50
ADDS: Final = 500
"""Adds of each writer, behind those of warming up: each waits for the one before."""

_NAME: Final = name_key("votes")
_BEGUN: Final = 1_700_000_000_000


class Contention:
    """Writers of one counter on one store that changes one row at a time, with tokens or without."""

    def __init__(self, *, once: bool) -> None:
        self._once = once
        self._chance = Chance("contention")
        self._engine = OneRowMemoryEngine()
        self._seconds = 0.0
        self._added = [0] * WRITERS

    def retries(self) -> float:
        """Retries for each add behind those of warming up: its compare-and-sets that others came before."""
        lost = 0
        plans = [self._adds(number) for number in range(WRITERS)]
        waiting: list[tuple[float, int, Any]] = [(0.0, number, None) for number in range(WRITERS)]
        while waiting:
            self._seconds, number, answer = heappop(waiting)
            try:
                asked = self._next_request(plans[number], answer)
            except StopIteration:
                continue
            if type(asked) is Sleep:
                answer, seconds = None, asked.seconds
            else:
                answer, seconds = self._engine.answer(asked), self._chance.uniform(0.001, 0.003)
            lost += type(asked) is CheckAndMutate and not answer and self._added[number] >= WARMING
            heappush(waiting, (self._seconds + seconds, number, answer))
        return lost / (WRITERS * ADDS)

    def _adds(self, number: int) -> Iterator[Any]:
        """What one process does."""
        counters = ShardCounters(lambda: self._seconds)
        add = Add(_NAME, 1, CounterSettings(1, SHARDS))
        for each in range(WARMING + ADDS):
            token = Once(_NAME, check_token(f"{number} {each}"), 3600.0) if self._once else None
            yield from counters.add([add], token)
            self._added[number] += 1

    def _next_request(self, plan: Iterator[Any], answer: Any) -> Any:
        steps: Any = plan
        while True:
            asked = steps.send(answer)
            if type(asked) is Now:
                answer = _BEGUN + int(self._seconds * 1000)
            elif type(asked) is Random:
                answer = self._chance.random()
            else:
                return asked
