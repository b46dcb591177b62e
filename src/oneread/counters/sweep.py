"""Removes tokens that need not be kept any more, a generation at a time.

A token is of the generation that is current when it is counted. The sweeper makes the next generation current once the
current one has been seen for long enough, and forgets a generation when it has seen it closed for as long: by its own
clock that is never set, so that no clock that is wrong forgets a token early (rule N4 of the commit protocol). A
process that ends before only leaves tokens longer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from oneread.counters.committer import NativeCounters
from oneread.counters.rows import GENERATIONS_ROW, Generations, generations_of, tokens_before, tokens_of
from oneread.plans.performer import elapsed
from oneread.plans.plan import Plan
from oneread.store.requests import Read, Scan
from oneread.transactions.commit import SystemCommitter

BATCH: Final = 500
"""Tokens removed in one transaction."""
PAUSE_SECONDS: Final = 30.0
"""A sweeper looks no more often than this for generations to close."""


class TokenSweeper:
    """Sweeps the tokens of one store, a step at a time; for one thread."""

    name = "tokens"

    def __init__(self, system: SystemCommitter, counters: NativeCounters, clock: Callable[[], float] = elapsed) -> None:
        self._system = system
        self._counters = counters
        self._clock = clock
        self._opened: dict[int, float] = {}
        self._closed: dict[int, float] = {}
        self._next = clock() + PAUSE_SECONDS

    def step(self, batch: int = BATCH) -> Plan[bool]:
        """Does one step, when it is time; whether there is more to do at once.

        Costs nothing before `PAUSE_SECONDS` have passed since the last step; then one request, one row; a scan and a
        transaction more for each step that changes something.
        """
        if self._clock() < self._next:
            return False
        (row,) = yield from Read("counts", [GENERATIONS_ROW])
        found = generations_of(row)
        more = False if found is None else (yield from self._sweep(found, batch))
        if not more:
            self._next = self._clock() + PAUSE_SECONDS
        return more

    def _sweep(self, found: Generations, batch: int) -> Plan[bool]:
        now = self._clock()
        self._closed = {each: self._closed.get(each, now) for each in range(found.first, found.current)}
        self._opened = {found.current: self._opened.get(found.current, now)}
        if found.first < found.current and now - self._closed[found.first] >= found.once_for:
            wanted = Generations(found.first + 1, found.current, found.once_for)
            yield from self._counters.change_generations(found, wanted)
            return True
        if now - self._opened[found.current] >= found.once_for and (
            yield from Scan("counts", tokens_of(found.current), 1)
        ):
            wanted = Generations(found.first, found.current + 1, found.once_for)
            yield from self._counters.change_generations(found, wanted)
            return True
        # No add looks at these any more, whenever they were left.
        leftover = yield from Scan("counts", tokens_before(found.first), 1)
        if not leftover:
            return False
        return (yield from self._system.sweep("counts", tokens_before(found.first), batch)) == batch
