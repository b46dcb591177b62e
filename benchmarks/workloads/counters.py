"""Adds to counters: ours and the peers' as one kind of side, what each was asked to add, and processes that die.

Every side checks its answers: what it holds after the rounds is what was added, so that no figure is of lost adds.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any, Final, Literal, NamedTuple

from benchmarks.peers.counters import SHARDS, Counters, Durability, PostgresCounters, RawCounters, RedisCounters
from benchmarks.workloads.writers import FRESH, Prepare, Save
from oneread import Database, Key, Model, Schema, connect

Kind = Literal["oneread", "raw", "postgres", "postgres shards", "redis"]
HOT: Final = "votes:42"
PAUSE_SECONDS: Final = 0.002
FEWEST: Final = 20
"""Adds of a process before it may be killed: it has begun."""


class Poll(Model[int]):
    """Counters belong to a store, and a store to a schema with a model."""

    number: Key[int]


POLLS: Final = Schema(Poll)


class Add(NamedTuple):
    """One add of one, with a token when it is counted once."""

    name: str
    token: str | None


class OurCounters:
    """oneread's side, as a program has it: `db.counter(name).add()`."""

    def __init__(self, path: Path, durability: Durability = "none") -> None:
        self.db: Database = connect(f"lmdb://{path}?durability={durability}", POLLS)

    def add(self, name: str) -> None:
        self.db.counter(name).add()

    def add_once(self, name: str, token: str) -> None:
        self.db.counter(name).add(once=token)

    def read(self, name: str) -> int:
        return self.db.counter(name).read()

    def close(self) -> None:
        self.db.close()


@dataclass(frozen=True)
class CounterPlace:
    """Where a side is, for processes that open it: a folder, a DSN or a URL."""

    kind: Kind
    where: str
    durability: Durability = "none"

    def counters(self) -> Counters:
        return OPENED[self.kind](self)

    def open(self, stack: ExitStack) -> tuple[Save, Prepare]:
        counters = self.counters()
        stack.callback(counters.close)

        def add(wanted: Add) -> None:
            if wanted.token is None:
                counters.add(wanted.name)
            else:
                counters.add_once(wanted.name, wanted.token)

        return add, lambda wanted: wanted


OPENED: Final[dict[Kind, Callable[[CounterPlace], Counters]]] = {
    "oneread": lambda place: OurCounters(Path(place.where), place.durability),
    "raw": lambda place: RawCounters(Path(place.where), place.durability),
    "postgres": lambda place: PostgresCounters(place.where, place.durability),
    "postgres shards": lambda place: PostgresCounters(place.where, place.durability, SHARDS),
    "redis": lambda place: RedisCounters(place.where),
}


class Adds(Iterator[Add]):
    """What one side is asked to add, and so what it holds at the end.

    Arguments:
        names: one for each add.
        once: each add has a token of its own.
    """

    def __init__(self, names: Iterable[str], *, once: bool = False) -> None:
        self._names = iter(names)
        self._once = once
        self.asked: Counter[str] = Counter()
        self.last: Add | None = None

    def __next__(self) -> Add:
        name = next(self._names)
        self.asked[name] += 1
        self.last = Add(name, f"request {self.asked.total()}" if self._once else None)
        return self.last

    def check(self, place: CounterPlace) -> None:
        """Raises AssertionError unless a side holds what it was asked to add, also after the last token comes again."""
        counters = place.counters()
        try:
            if self._once and self.last is not None and self.last.token is not None:
                counters.add_once(self.last.name, self.last.token)
            held = {name: counters.read(name) for name in self.asked}
        finally:
            counters.close()
        assert held == self.asked, f"{place.kind} drifted: it holds {held}, and was asked to add {self.asked}"


def skewed(many: int, seed: int = 5) -> Iterator[str]:
    """Names of counters for ever, drawn with a fixed seed: number k comes in proportion to 1 / k (Zipf)."""
    draw = random.Random(seed)
    bounds = list(accumulate(1 / (place + 1) for place in range(many)))
    while True:
        yield f"views:{bisect_left(bounds, draw.random() * bounds[-1])}"


class Watched(NamedTuple):
    """What a reader with a memory saw while others added."""

    reads: int
    greatest: int


class CachedReader:
    """A thread that reads a counter from memory, and checks that it never falls nor exceeds what is stored."""

    def __init__(self, db: Database, name: str) -> None:
        self._counter = db.counter(name)
        self._stopped = Event()
        self._reads = self._last = 0
        self._failed: str | None = None
        self._thread = Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> Watched:
        self._stopped.set()
        self._thread.join()
        assert self._failed is None, self._failed
        return Watched(self._reads, self._last)

    def _run(self) -> None:
        while not self._stopped.is_set() and self._failed is None:
            cached, exact = self._counter.read(max_age=0.05), self._counter.read()
            if not self._last <= cached <= exact:
                self._failed = f"a remembered value was wrong: {self._last}, then {cached}, while {exact} was stored"
            self._last = cached
            self._reads += 1
            sleep(PAUSE_SECONDS)


class KilledAdders:
    """Processes that add with tokens and are killed; whoever continues repeats the last tokens, counted or not."""

    def __init__(self, path: Path, processes: int, tokens: int, seed: int = 7) -> None:
        self._path = path
        self._draw = random.Random(seed)
        self._left = [(number * tokens, (number + 1) * tokens) for number in range(processes)]
        self.kills = 0

    def run(self, kills: int) -> None:
        """Runs all adds to their end, through so many kills."""
        while self._left:
            started = [(_Adder(self._path, start, stop), stop) for start, stop in self._left]
            self._left = []
            for adder, stop in started:
                if self.kills < kills:
                    adder.kill_after(self._draw.randrange(FEWEST, 3 * FEWEST), self._draw.random() * PAUSE_SECONDS)
                    self.kills += 1
                reached = adder.ended()
                if reached < stop:
                    self._left.append((reached, stop))


class _Adder:
    """A process that adds with the tokens of a range, in order."""

    def __init__(self, path: Path, start: int, stop: int) -> None:
        self._start = start
        self._counted = FRESH.Value("q", start, lock=False)
        self._process = _started(_add_range, path, start, stop, self._counted)

    def kill_after(self, adds: int, seconds: float) -> None:
        while self._counted.value < self._start + adds and self._process.is_alive():
            sleep(PAUSE_SECONDS)
        sleep(seconds)
        self._process.kill()

    def ended(self) -> int:
        """Waits for the end; answers from which token on to continue, some of which were counted before."""
        self._process.join()
        if self._process.exitcode == 0:
            return self._counted.value
        return max(self._start, self._counted.value - 3)


def _add_range(path: Path, start: int, stop: int, counted: Any) -> None:
    counters = OurCounters(path)
    for token in range(start, stop):
        counters.add_once(HOT, f"request {token}")
        counted.value = token + 1
    counters.close()


class Loss(NamedTuple):
    """What a killed batch had not stored: how many adds, and the age of the oldest, in seconds."""

    adds: int
    seconds: float


def kill_a_batch(path: Path, seconds: float, alive: float) -> Loss:
    """Kills a process that adds in batches, `alive` seconds after its first adds; answers what was lost.

    Raises:
        AssertionError: more is stored than was added, or less than was flushed.
    """
    with connect(f"lmdb://{path}?durability=none", POLLS) as db:
        before = db.counter(HOT).read()
        added, flushed = FRESH.Value("q", 0, lock=False), FRESH.Value("q", 0, lock=False)
        process = _started(_batch, path, seconds, added, flushed)
        while not added.value:
            assert process.is_alive(), "the process that adds in batches has ended"
            sleep(PAUSE_SECONDS)
        begun, seen = monotonic(), [(monotonic(), 0)]
        while monotonic() < begun + alive:
            seen.append((monotonic(), added.value))
            sleep(PAUSE_SECONDS)
        process.kill()
        killed = monotonic()
        process.join()
        stored = db.counter(HOT).read() - before
    assert flushed.value <= stored <= added.value + 1, f"{flushed.value} flushed, {stored} stored, {added.value} added"
    first = next((at for at, count in seen if count > stored), killed)
    return Loss(max(0, added.value - stored), killed - first)


def _batch(path: Path, seconds: float, added: Any, flushed: Any) -> None:
    counters = OurCounters(path)
    with counters.db.counter_batch(seconds=seconds) as first:
        first.add(HOT)
    flushed.value = added.value = 1
    with counters.db.counter_batch(seconds=seconds, size=1 << 40) as batch:
        while True:
            batch.add(HOT)
            added.value += 1


def _started(target: Callable[..., None], *arguments: object) -> ForkServerProcess:
    process = FRESH.Process(target=target, args=arguments, daemon=True)
    process.start()
    return process
