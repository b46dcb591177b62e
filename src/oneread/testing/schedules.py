"""Schedules: which process of a simulation goes on next, and what becomes of its request.

Uniform schedules are weak where a process must stand still at one place for long, so there are two more: one that parks
a process at its k-th request until all others are done, and one by priorities that change at a few moments (Burckhardt
and others, "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", ASPLOS 2010). See "The simulator" of
the commit protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from random import Random
from typing import Final, Literal, Protocol


class Fate(Enum):
    """What becomes of one request."""

    RUN = "run"
    DELAY = "delay"
    """Others go first."""
    LOSE = "lose"
    """It is done, and its answer is lost."""
    FAIL = "fail"
    """It is not done."""
    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    PAUSE = "pause"
    """Its process stands still for up to some seconds."""
    SKEW = "skew"
    """The clock of its process jumps by seconds, forward or back."""
    JUMP = "jump"
    """The clock of its process jumps by hours or years, forward or back."""
    AGAIN = "again"
    """A transaction that shared a failing commit: it is run, undone, and run again."""


HARMLESS: Final[Mapping[Fate, int]] = {Fate.RUN: 100}

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
    """Decides what becomes of requests."""

    def outside(self, process: str) -> Fate:
        """Of a request, or of a whole transaction."""
        ...

    def inside(self, process: str) -> Fate:
        """Of a request inside a transaction, and of its commit: RUN, FAIL or CRASH_BEFORE, which both undo it."""
        ...


class ByChance:
    """Draws fates by weight.

    Arguments:
        chance: the seeded source.
        weights: of the fates of requests and transactions.
        inside: how likely a request inside a transaction fails or crashes.
    """

    def __init__(self, chance: Random, weights: Mapping[Fate, int] = USUAL, inside: float = 0.01) -> None:
        self._chance = chance
        self._fates = list(weights)
        self._weights = list(weights.values())
        self._inside = inside

    def outside(self, process: str) -> Fate:  # noqa: ARG002 - part of the contract
        return self._chance.choices(self._fates, self._weights)[0]

    def inside(self, process: str) -> Fate:  # noqa: ARG002 - part of the contract
        if self._chance.random() >= self._inside:
            return Fate.RUN
        return self._chance.choice((Fate.FAIL, Fate.CRASH_BEFORE))


class AtPoint:
    """Lets one thing happen at one point of one process, and nothing else: for sweeps over all points.

    Points are counted from 0, requests inside transactions included; `points` says of each that was met whether it was
    a request of its own (or a whole transaction), or one inside a transaction.

    Arguments:
        process: whose points are counted.
        point: where it happens; -1 for nowhere, to count.
        fate: what happens; inside a transaction only RUN, FAIL and CRASH_BEFORE can, others are left out.
    """

    def __init__(self, process: str, point: int, fate: Fate) -> None:
        self._process = process
        self._point = point
        self._fate = fate
        self.points: list[Literal["outside", "inside"]] = []

    def outside(self, process: str) -> Fate:
        return self._at(process, "outside", self._fate)

    def inside(self, process: str) -> Fate:
        return self._at(process, "inside", self._fate if self._fate in (Fate.FAIL, Fate.CRASH_BEFORE) else Fate.RUN)

    def _at(self, process: str, place: Literal["outside", "inside"], fate: Fate) -> Fate:
        if process != self._process:
            return Fate.RUN
        self.points.append(place)
        return fate if len(self.points) - 1 == self._point else Fate.RUN


class Policy(Protocol):
    """Decides who goes on."""

    def choose(self, ready: Sequence[tuple[str, int]], step: int) -> int:
        """The place of the chosen one among those that can go on: names with the requests they have made so far."""
        ...


class Uniform:
    """Everybody alike."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def choose(self, ready: Sequence[tuple[str, int]], step: int) -> int:  # noqa: ARG002 - part of the contract
        return self._chance.randrange(len(ready))


class Parking:
    """One process stands at its k-th request until nobody else can go on; the rest is uniform."""

    def __init__(self, chance: Random, process: str, request: int) -> None:
        self._chance = chance
        self._process = process
        self._request = request

    def choose(self, ready: Sequence[tuple[str, int]], step: int) -> int:  # noqa: ARG002 - part of the contract
        others = [place for place, (name, made) in enumerate(ready) if name != self._process or made < self._request]
        return self._chance.choice(others or range(len(ready)))


class Priorities:
    """The process of the highest priority goes on; at a few steps the one that is on goes behind all others."""

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


def drawn(chance: Random, processes: Sequence[str]) -> Policy:
    """One of the policies, with its settings."""
    kind = chance.randrange(3)
    if kind == 0 or not processes:
        return Uniform(chance)
    if kind == 1:
        return Parking(chance, chance.choice(processes), chance.randrange(25))
    return Priorities(chance)
