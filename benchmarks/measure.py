"""Measuring: contenders take turns in one run, and only the ratios between them count.

Machines are small, shared and noisy: what slows one contender down slows its neighbour in the same round down as well,
so a ratio is taken round by round, and the median of the rounds is the figure.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import floor, log10
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import TypeVar

W = TypeVar("W")

Round = Callable[[], float]
"""One round of a contender: does its work, and returns the seconds that one unit of it took."""


@dataclass(frozen=True)
class Ratio:
    """A ratio of two series: the median over the rounds, and the least and the greatest of them."""

    median: float
    least: float
    greatest: float

    @property
    def spread(self) -> str:
        return f"{number(self.least)}-{number(self.greatest)}"


@dataclass(frozen=True)
class Series:
    """What every round of one contender took, in seconds for one unit of work."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.seconds)

    @property
    def rate(self) -> float:
        """Units of work in one second."""
        return 1 / self.median

    def over(self, other: Series) -> Ratio:
        """How many times the other's time this took, round by round."""
        ratios = [mine / theirs for mine, theirs in zip(self.seconds, other.seconds, strict=True)]
        return Ratio(median(ratios), min(ratios), max(ratios))


def each(operation: Callable[..., object], arguments: Sequence[tuple[object, ...]]) -> Round:
    """A round that calls `operation` with each of the arguments, one after the other."""

    def run() -> float:
        started = perf_counter()
        for given in arguments:
            operation(*given)
        return (perf_counter() - started) / len(arguments)

    return run


def fresh(operation: Callable[..., object], more: Callable[[], Sequence[tuple[object, ...]]]) -> Round:
    """A round like `each`, with new arguments each time; preparing them is not counted."""

    def run() -> float:
        return each(operation, more())()

    return run


class Meter:
    """Rounds whose time in the processor is kept too, all threads of this process together.

    What other programs do meanwhile hardly changes it; what a server does for a contender is not in it.
    """

    def __init__(self) -> None:
        self._spent: dict[str, list[float]] = defaultdict(list)

    def round(
        self, name: str, work: Callable[[W], object], more: Callable[[], W], units: Callable[[W], float]
    ) -> Round:
        """A round that does the next piece of work; preparing it is not counted, nor is counting its units."""

        def run() -> float:
            piece = more()
            started, begun = perf_counter(), process_time()
            work(piece)
            taken, spent = perf_counter() - started, process_time() - begun
            self._spent[name].append(spent / units(piece))
            return taken / units(piece)

        return run

    def processor(self, name: str, rounds: int) -> Series:
        """Seconds of the processor for one unit, in each of the last so many rounds."""
        return Series(tuple(self._spent[name][-rounds:]))


def interleaved(contenders: Mapping[str, Round], *, rounds: int, warm_up: int = 1) -> dict[str, Series]:
    """Runs the contenders in turns, A B C A B C ..., and returns the series of each.

    Garbage is collected before each round and never during one, for every contender alike; what was there before the
    first is left out of it.

    Arguments:
        contenders: by name.
        rounds: how many count.
        warm_up: how many come before, uncounted.
    """
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    gc.collect()
    gc.freeze()
    try:
        for turn in range(-warm_up, rounds):
            for name, run in contenders.items():
                with uncollected():
                    seconds = run()
                if turn >= 0:
                    taken[name].append(seconds)
    finally:
        gc.unfreeze()
    return {name: Series(tuple(seconds)) for name, seconds in taken.items()}


@contextmanager
def uncollected() -> Generator[None]:
    """Collects garbage, then leaves it alone inside the block."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def private_memory() -> float:
    """The process's own memory in MiB: what is neither mapped from a file nor shared (RssAnon)."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))


def number(value: float) -> str:
    """A number as a person wants to read it: two or three digits that count, thousands apart."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if 0 < abs(value) < 0.1:
        return f"{value:.{1 - floor(log10(abs(value)))}f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
