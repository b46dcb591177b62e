"""P5: named counters beside increments by hand, PostgreSQL and Redis: adds, adds counted once, reads, batches, kills.

Durability in pairs. What a killed process cannot lose: raw LMDB without syncs, PostgreSQL's synchronous_commit=off,
Redis's log synced once a second; the last two lose less than the first at a power failure. What a power failure cannot
lose: raw LMDB that syncs data and meta page, synchronous_commit=on, appendfsync=always.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice, repeat
from time import perf_counter, process_time

from benchmarks.benchmark import Benchmark
from benchmarks.context import Context
from benchmarks.measure import Ratio, Series, each, interleaved
from benchmarks.peers.counters import (
    SHARDS,
    Counters,
    RawCounters,
    RedisCounters,
    postgres_counters,
    redis_counters,
)
from benchmarks.peers.promises import PROMISES, SETTINGS, Durability, named
from benchmarks.rows import SHOWN, Goal, Row, Subject, with_core
from benchmarks.workloads.counters import (
    HOT,
    Adds,
    CachedReader,
    CounterPlace,
    KilledAdders,
    Kind,
    OurCounters,
    kill_a_batch,
    skewed,
)
from benchmarks.workloads.writers import Processes

RAW: Mapping[Durability, Goal] = {
    "none": with_core(Goal(0.5, ">=", starred=1), without=Goal(0.6, ">=")),
    "group": with_core(Goal(0.9, ">="), without=Goal(0.8, ">=")),
}
BATCHED = Goal(1_000_000, ">=", "figure", " adds/s")
DRIFT = Goal(0, "<=", "figure", " adds")
LOST = Goal(1.5)
ONE_ROW: Sequence[Kind] = ("oneread", "raw", "postgres", "redis")
"""The sides that can count once; PostgreSQL with one row."""
MANY = 100
BATCH_SECONDS = 0.25
PIPELINE = 1_000
PIPELINED = f"Redis, pipelines of {PIPELINE:,}"
SYNCED_SHARE = 5
"""What waits for the disk is done a fifth as often."""
PEERS: Mapping[Durability, Mapping[Kind, str]] = {
    durability: {
        "raw": f"raw LMDB, {called['floor']}",
        "postgres": named("postgres", durability),
        "postgres shards": named("postgres", durability, f"{SHARDS} rows"),
        "redis": named("redis", durability),
    }
    for durability, called in SETTINGS.items()
}
SUBJECT = Subject("P5", "names of counters", 0)


def counters(context: Context) -> Sequence[Row]:
    rows: list[Row] = []
    for durability in RAW:
        with ExitStack() as stack:
            places = _places(context, durability, stack)
            with ExitStack() as opened:
                rows += _adds(context, durability, _Sides(context, durability, places, opened))
            if durability == "none":
                rows += _reads(context, places)
    return [*rows, *_batched(context), *_killed(context)]


def _places(context: Context, durability: Durability, stack: ExitStack) -> dict[Kind, CounterPlace]:
    folder, dsn = context.folder("counters"), stack.enter_context(postgres_counters())
    where: dict[Kind, str] = {
        "oneread": str(folder / "ours"),
        "raw": str(folder / "raw"),
        "postgres": dsn,
        "postgres shards": dsn,
        "redis": stack.enter_context(redis_counters(durability)),
    }
    return {kind: CounterPlace(kind, at, durability) for kind, at in where.items()}


def _adds(context: Context, durability: Durability, sides: _Sides) -> list[Row]:
    """One counter that every process adds to, without tokens and with; and many of very different popularity."""
    rows: list[Row] = []
    said, most = PROMISES[durability], context.sizes.writers
    hot = {kind: Adds(repeat(HOT)) for kind in sides.places}
    for processes in sorted({1, most // 2, most}):
        rows += _rows(f"add, {_said(processes)}, {said}", sides.measure(hot, processes), durability)
    once = {kind: Adds(repeat(f"{HOT}, once"), once=True) for kind in ONE_ROW}
    for processes in (1, most):
        rows += _rows(f"add counted once, {_said(processes)}, {said}", sides.measure(once, processes), durability)
    if durability == "none":
        several = {kind: Adds(skewed(MANY)) for kind in ONE_ROW}
        series = sides.measure(several, most // 2)
        rows += _rows(f"add to {MANY} counters (Zipf), {_said(most // 2)}, {said}", series, durability, goal=SHOWN)
        sides.check(several)
    sides.check(hot)
    sides.check(once)
    return rows


class _Sides:
    """Processes of every side, and the turns they take."""

    def __init__(
        self, context: Context, durability: Durability, places: Mapping[Kind, CounterPlace], stack: ExitStack
    ) -> None:
        sizes = context.sizes
        self.places = places
        self._adds = sizes.saves if durability == "none" else max(1, sizes.saves // SYNCED_SHARE)
        self._rounds = sizes.rounds
        self._processes = {kind: stack.enter_context(Processes(at, sizes.writers)) for kind, at in places.items()}

    def measure(self, asked: Mapping[Kind, Adds], processes: int) -> dict[Kind, Series]:
        """What an add takes each of these sides, when so many processes add at the same time."""
        count = max(1, self._adds // processes)
        turns = {kind: self._processes[kind].round(adds, count, processes) for kind, adds in asked.items()}
        return interleaved(turns, rounds=self._rounds)

    def check(self, asked: Mapping[Kind, Adds]) -> None:
        """Raises AssertionError unless every side holds what it was asked to add."""
        for kind, adds in asked.items():
            adds.check(self.places[kind])


def _said(processes: int) -> str:
    return "1 process" if processes == 1 else f"{processes} processes"


def _rows(name: str, series: Mapping[Kind, Series], durability: Durability, *, goal: Goal | None = None) -> list[Row]:
    mine, peers = series["oneread"], PEERS[durability]
    goals: dict[Kind, Goal] = {"raw": RAW[durability] if goal is None else goal}
    return [
        SUBJECT.rate(name, mine, theirs, peer=peers[kind], goal=goals.get(kind, SHOWN), unit="adds/s")
        for kind, theirs in series.items()
        if kind != "oneread"
    ]


def _reads(context: Context, places: Mapping[Kind, CounterPlace]) -> list[Row]:
    """The value of a counter with all of its shards, asked for by one process that has it open."""
    count, peers = context.sizes.reads, PEERS["none"]
    with ExitStack() as stack:
        opened = {kind: place.counters() for kind, place in places.items()}
        for side in opened.values():
            stack.callback(side.close)
        ours = opened["oneread"]
        assert isinstance(ours, OurCounters)
        values = {kind: side.read(HOT) for kind, side in opened.items()}
        held = ours.db.counter(HOT)
        sides: dict[str, tuple[Callable[..., object], int]] = {
            "exact": (ours.read, count),
            "cached": (lambda _name: held.read(max_age=60), count),
            "raw": (opened["raw"].read, count),
            **{kind: (opened[kind].read, max(1, count // 10)) for kind in peers if kind != "raw"},
        }
        series = interleaved(
            {name: each(read, [(HOT,)] * times) for name, (read, times) in sides.items()}, rounds=context.sizes.rounds
        )
        assert values == {kind: side.read(HOT) for kind, side in opened.items()}
    rows = [
        SUBJECT.faster(f"exact read, {SHARDS} shards", series["exact"], series[kind], peer=peer, goal=SHOWN)
        for kind, peer in peers.items()
    ]
    return [
        *rows,
        SUBJECT.faster(
            "read from memory, max_age=60", series["cached"], series["redis"], peer=peers["redis"], goal=SHOWN
        ),
    ]


def _batched(context: Context) -> list[Row]:
    """Adds to a hundred counters that are added up first; each round ends when all is stored."""
    sizes, folder = context.sizes, context.folder("batches")
    count = sizes.reads * 200
    names = list(islice(skewed(MANY), count))
    few = names[: max(1, count // 50)]
    asked = {name: Counter[str]() for name in ("oneread", "raw", "redis")}
    spent: list[float] = []
    with ExitStack() as stack:
        ours, raw = OurCounters(folder / "ours"), RawCounters(folder / "raw")
        redis = RedisCounters(stack.enter_context(redis_counters("none")))
        for side in (ours, raw, redis):
            stack.callback(side.close)

        def batched() -> float:
            asked["oneread"].update(names)
            started, begun = perf_counter(), process_time()
            with ours.db.counter_batch() as batch:
                add = batch.add
                for name in names:
                    add(name)
            spent.append((process_time() - begun) / count)
            return (perf_counter() - started) / count

        def by_hand() -> float:
            asked["raw"].update(names)
            started = perf_counter()
            amounts: dict[str, int] = {}
            for name in names:
                amounts[name] = amounts.get(name, 0) + 1
            raw.add_all(amounts)
            return (perf_counter() - started) / count

        def pipelined() -> float:
            asked["redis"].update(few)
            started = perf_counter()
            for start in range(0, len(few), PIPELINE):
                redis.add_each(few[start : start + PIPELINE])
            return (perf_counter() - started) / len(few)

        series = interleaved({"oneread": batched, "raw": by_hand, "redis": pipelined}, rounds=sizes.rounds)
        held: list[tuple[str, Counters]] = [("oneread", ours), ("raw", raw), ("redis", redis)]
        for kind, side in held:
            found = {name: side.read(name) for name in asked[kind]}
            assert found == asked[kind], f"{kind} drifted: it holds {found}, and was asked to add {asked[kind]}"
    return _batched_rows(series, Series(tuple(spent[-sizes.rounds :])))


def _batched_rows(series: Mapping[str, Series], in_processor: Series) -> list[Row]:
    mine, unit = series["oneread"], "adds/s"
    rounds, rates = len(mine.seconds), [1 / seconds for seconds in mine.seconds]
    return [
        SUBJECT.alone(
            f"batched add to {MANY} counters, stored at the end",
            mine.rate,
            unit=unit,
            goal=BATCHED,
            rounds=rounds,
            spread=Ratio(mine.rate, min(rates), max(rates)).spread,
        ),
        SUBJECT.alone(
            "batched adds in a second of the processor", in_processor.rate, unit=unit, goal=SHOWN, rounds=rounds
        ),
        SUBJECT.rate("batched add", mine, series["raw"], peer="a dict, one raw LMDB commit", goal=SHOWN, unit=unit),
        SUBJECT.rate("batched add", mine, series["redis"], peer=PIPELINED, goal=SHOWN, unit=unit),
    ]


def _killed(context: Context) -> list[Row]:
    """What is wrong after processes were killed while they added."""
    sizes, path = context.sizes, context.folder("killed") / "ours"
    processes, tokens = 4, max(100, sizes.saves * 5 // 2)
    ours = OurCounters(path)
    try:
        adders, reader = KilledAdders(path, processes, tokens), CachedReader(ours.db, HOT)
        reader.start()
        try:
            adders.run(kills=2 * sizes.rounds)
        finally:
            watched = reader.stop()
        drift = abs(ours.read(HOT) - processes * tokens)
        assert watched.greatest <= processes * tokens
    finally:
        ours.close()
    draw = random.Random(11)
    losses = [
        kill_a_batch(context.folder("lost") / "ours", BATCH_SECONDS, BATCH_SECONDS * (2 + draw.random()))
        for _ in range(sizes.rounds)
    ]
    lost = Series(tuple(loss.seconds for loss in losses))
    declared = Series((BATCH_SECONDS,) * sizes.rounds)
    ratio = lost.over(declared)
    worst = Ratio(ratio.greatest, ratio.least, ratio.greatest)
    most = max(losses, key=lambda loss: loss.adds)
    name = "age of the oldest add that a killed batch lost, at most"
    after = f"drift of {processes * tokens:,} adds counted once, after {adders.kills} kills"
    return [
        SUBJECT.alone(after, drift, unit="adds", goal=DRIFT),
        SUBJECT.row(name, "s", max(lost.seconds), "its `seconds`", BATCH_SECONDS, worst, LOST, rounds=sizes.rounds),
        SUBJECT.alone("adds that it lost, at most", most.adds, unit="adds", goal=SHOWN, rounds=sizes.rounds),
    ]


BENCHMARKS = (
    Benchmark(
        "P5",
        "adds to counters by 1, 4, 8 processes, once, in batches; reads; kills; against raw LMDB, PostgreSQL and Redis",
        f"{RAW['none']} of raw LMDB, {RAW['group']} durable; {BATCHED} batched; no drift",
        counters,
        has_core=True,
    ),
)
