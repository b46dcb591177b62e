"""Schedules: which process of a simulation is next, and the fate of its request.

Uniform schedules are weak where a process must wait at one place for long, so there are two more: one that parks
a process at its k-th request until all others are done, and one by priorities that change at a few moments (Burckhardt
and others, "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", ASPLOS 2010). See "The simulator" of
the commit protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from itertools import accumulate
from random import Random
from typing import Final, Protocol


class Fate(Enum):
    """The fate of one request."""

    RUN = "run"
    DELAY = "delay"
    """Other processes go first."""
    LOSE = "lose"
    """It is done, and its answer is lost."""
    FAIL = "fail"
    """It is not done."""
    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    PAUSE = "pause"
    """Its process pauses for up to some seconds."""
    SKEW = "skew"
    """The clock of its process jumps by seconds, forward or back."""
    JUMP = "jump"
    """The clock of its process jumps by hours or years, forward or back."""
    AGAIN = "again"
    """A transaction that shared a failing commit: it is run, rolled back, and run again."""


USUAL: Final[Mapping[Fate, int]] = {
    Fate.RUN: 100,
    Fate.DELAY: 30,
    Fate.LOSE: 5,
    Fate.FAIL: 4,
    Fate.CRASH_BEFORE: 3,
    Fate.CRASH_AFTER: 4,
    Fate.PAUSE: 5,
    Fate.SKEW: 4,
    Fate.JUMP: 2,
    Fate.AGAIN: 4,
}
"""How often each fate is met, as weights."""


class Fates(Protocol):
    """Decides the fates of requests."""

    def outside(self, process: str) -> Fate:
        """Of a request, or of a whole transaction."""
        ...

    def inside(self, process: str) -> Fate:
        """Of a request inside a transaction, and of its commit: RUN, or FAIL or CRASH_BEFORE, which roll it back."""
        ...


class ByChance:
    """Draws fates by weight; `inside` is the probability that a request inside a transaction fails or crashes."""

    def __init__(self, chance: Random, weights: Mapping[Fate, int] = USUAL, inside: float = 0.01) -> None:
        self._chance = chance
        self._fates = list(weights)
        self._cumulated = list(accumulate(weights.values()))
        self._inside = inside

    def outside(self, process: str) -> Fate:  # noqa: ARG002 - part of the contract
        return self._chance.choices(self._fates, cum_weights=self._cumulated)[0]

    def inside(self, process: str) -> Fate:  # noqa: ARG002 - part of the contract
        if self._chance.random() >= self._inside:
            return Fate.RUN
        return self._chance.choice((Fate.FAIL, Fate.CRASH_BEFORE))


class Policy(Protocol):
    """Decides which process is next."""

    def choose(self, ready: Sequence[tuple[str, int]], step: int) -> int:
        """The place of the next process among those that are ready, given as names with their requests so far."""
        ...


class Uniform:
    """Every process is equally likely."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def choose(self, ready: Sequence[tuple[str, int]], step: int) -> int:  # noqa: ARG002 - part of the contract
        return self._chance.randrange(len(ready))


class Parking:
    """One process waits at its k-th request until no other is ready; the rest is uniform."""

    def __init__(self, chance: Random, process: str, request: int) -> None:
        self._chance = chance
        self._process = process
        self._request = request

    def choose(self, ready: Sequence[tuple[str, int]], step: int) -> int:  # noqa: ARG002 - part of the contract
        others = [place for place, (name, made) in enumerate(ready) if name != self._process or made < self._request]
        return self._chance.choice(others or range(len(ready)))


class Priorities:
    """The process of the highest priority is next; at a few steps it gets the lowest priority."""

    def __init__(self, chance: Random, changes: int = 6, within: int = 150) -> None:
        self._chance = chance
        self._priority: dict[str, float] = {}
        self._changes = {chance.randrange(within) for _ in range(changes)}
        self._lowest = 0.0

    def choose(self, ready: Sequence[tuple[str, int]], step: int) -> int:
        for name, _made in ready:
            if name not in self._priority:
                self._priority[name] = self._chance.random()
        place = max(range(len(ready)), key=lambda each: self._priority[ready[each][0]])
        if step in self._changes:
            self._lowest -= 1
            self._priority[ready[place][0]] = self._lowest
        return place


def draw_policy(chance: Random, processes: Sequence[str]) -> Policy:
    """Draws a policy and its settings."""
    kind = chance.randrange(3)
    if kind == 0 or not processes:
        return Uniform(chance)
    if kind == 1:
        return Parking(chance, chance.choice(processes), chance.randrange(25))
    return Priorities(chance)
