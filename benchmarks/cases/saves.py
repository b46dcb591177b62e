"""P3: a save with every view that survives the process being killed; P4: all lines at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from benchmarks.benchmark import Benchmark
from benchmarks.context import Context
from benchmarks.measure import Round, fresh, interleaved
from benchmarks.peers.promises import PROMISES, Peer, named
from benchmarks.rows import SHOWN, Goal, Row, Subject, with_core
from benchmarks.workloads.alone import loaded_alone
from benchmarks.workloads.ours import purchase
from benchmarks.workloads.stores import CHUNKS
from benchmarks.workloads.writers import as_it_is
from examples.shop.source import Line

SAVE_OVER_FLOOR = with_core(Goal(0.9), without=Goal(1.4))
SAVE_OVER_SQLITE = with_core(Goal(1.2, ">=", starred=1.5), without=Goal(0.6, ">=", starred=0.8))
SAVE_OVER_POSTGRES = with_core(Goal(2, ">"), without=Goal(1, ">"))
LOAD_RATE = with_core(Goal(60_000, ">=", "figure", " lines/s"), without=Goal(25_000, ">=", "figure", " lines/s"))
LOAD_OVER_FLOOR = with_core(Goal(0.75), without=Goal(2.5))
LOAD_OVER_SQLITE = with_core(Goal(0.7, ">=", starred=1), without=SHOWN)
LOAD_MEMORY = Goal(150, "<", "figure", " MiB")
SAVE, LOAD = f"save, {PROMISES['none']}", f"bulk load, a line, {PROMISES['none']}"
FLOOR, SQLITE = named("floor", "none"), named("sqlite", "none")
STATEMENT = named("postgres", "none", "one statement")
STATEMENTS = named("postgres", "none", "three statements")
JOINED = named("postgres", "none", "joined, one INSERT")
REDIS = named("redis", "none", "one script")
LOADERS: Mapping[Peer, str] = {
    "sqlite": SQLITE,
    "postgres": named("postgres", "none", "COPY and SQL"),
    "redis": named("redis", "none", "pipelines"),
}


def saver(lines: Iterator[Line], count: int, save: Callable[..., object], prepare: Callable[[Line], object]) -> Round:
    """A round that saves the next `count` lines, each prepared before the clock runs."""
    return fresh(save, lambda: [(prepare(next(lines)),) for _ in range(count)])


def save(context: Context) -> Sequence[Row]:
    stores, peers, sizes = context.stores, context.peers, context.sizes
    lines = stores.take(sizes.saves * (sizes.rounds + 1))
    others = stores.take(sizes.saves * (sizes.rounds + 1))

    def turns(save_one: Callable[..., object], fresh_lines: Sequence[Line] = lines) -> Round:
        return saver(iter(fresh_lines), sizes.saves, save_one, as_it_is)

    series = interleaved(
        {
            "oneread": saver(iter(lines), sizes.saves, stores.db.save, purchase),
            "floor": turns(stores.floor.save),
            SQLITE: turns(peers.sqlite.save),
            STATEMENT: turns(peers.postgres.save),
            STATEMENTS: turns(peers.postgres.save_step_by_step, others),
            JOINED: turns(peers.postgres.save_normalised),
            REDIS: turns(peers.redis.save),
        },
        rounds=sizes.rounds,
    )
    subject = Subject("P3", stores.shop.data, stores.size)
    mine = series["oneread"]
    goals = {SQLITE: SAVE_OVER_SQLITE, STATEMENT: SAVE_OVER_POSTGRES}
    return [
        subject.slower(SAVE, mine, series["floor"], peer=FLOOR, goal=SAVE_OVER_FLOOR),
        *(
            subject.faster(SAVE, mine, series[peer], peer=peer, goal=goals.get(peer, SHOWN))
            for peer in (SQLITE, STATEMENT, STATEMENTS, REDIS)
        ),
        subject.faster(f"{SAVE}; copies and sums left to reads", mine, series[JOINED], peer=JOINED, goal=SHOWN),
        subject.faster("the floor's save", series["floor"], series[STATEMENT], peer=STATEMENT, goal=SHOWN),
    ]


def load(context: Context) -> Sequence[Row]:
    stores = context.stores
    series = stores.loading
    mine = series["oneread"]
    alone = loaded_alone(context.folder("alone"), context.data, stores.size)
    subject = Subject("P4", stores.shop.data, stores.size)
    rate, unit = stores.size / (sum(mine.seconds) / CHUNKS * stores.size), "lines/s"
    return [
        subject.alone("bulk load of every view", rate, unit=unit, goal=LOAD_RATE, rounds=CHUNKS),
        subject.slower(LOAD, mine, series["floor"], peer=FLOOR, goal=LOAD_OVER_FLOOR),
        *(
            subject.faster(LOAD, mine, series[peer], peer=name, goal=LOAD_OVER_SQLITE if peer == "sqlite" else SHOWN)
            for peer, name in LOADERS.items()
        ),
        subject.alone("growth of private memory while loading", alone.growth, unit="MiB", goal=LOAD_MEMORY),
    ]


BENCHMARKS = (
    Benchmark(
        "P3",
        "save of a purchase with every view, safe from a killed process, against LMDB, SQLite, PostgreSQL and Redis",
        f"{SAVE_OVER_FLOOR} of the floor, {SAVE_OVER_SQLITE} as fast as SQLite, {SAVE_OVER_POSTGRES} as PostgreSQL",
        save,
        has_core=True,
    ),
    Benchmark(
        "P4",
        "bulk load of all lines with every view, against LMDB, SQLite, COPY and Redis",
        f"{LOAD_RATE}, {LOAD_OVER_FLOOR} of the floor, memory {LOAD_MEMORY}",
        load,
        has_core=True,
    ),
)
