"""P3: a save with every view that survives the process being killed; P4: all lines at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from benchmarks.benchmark import Benchmark
from benchmarks.context import Context
from benchmarks.measure import Round, fresh, interleaved
from benchmarks.peers.postgres import Postgres
from benchmarks.rows import SHOWN, Goal, Row, Subject
from benchmarks.workloads.alone import loaded_alone
from benchmarks.workloads.ours import purchase
from benchmarks.workloads.stores import CHUNKS
from benchmarks.workloads.writers import as_it_is
from examples.shop.source import Line

SAVE_OVER_FLOOR = Goal(3)
SAVE_OVER_POSTGRES = Goal(1, ">")
LOAD_RATE = Goal(10_000, ">=", "figure", " lines/s")
LOAD_OVER_FLOOR = Goal(4)
LOAD_MEMORY = Goal(150, "<", "figure", " MiB")


def saver(lines: Iterator[Line], count: int, save: Callable[..., object], prepare: Callable[[Line], object]) -> Round:
    """A round that saves the next `count` lines, each prepared before the clock runs."""
    return fresh(save, lambda: [(prepare(next(lines)),) for _ in range(count)])


def save(context: Context) -> Sequence[Row]:
    stores, sizes = context.stores, context.sizes
    lines = stores.take(sizes.saves * (sizes.rounds + 1))
    others = stores.take(sizes.saves * (sizes.rounds + 1))
    postgres = Postgres(context.postgres)
    series = interleaved(
        {
            "oneread": saver(iter(lines), sizes.saves, stores.db.save, purchase),
            "floor": saver(iter(lines), sizes.saves, stores.floor.save, as_it_is),
            "postgres": saver(iter(lines), sizes.saves, postgres.save, as_it_is),
            "steps": saver(iter(others), sizes.saves, postgres.save_step_by_step, as_it_is),
        },
        rounds=sizes.rounds,
    )
    postgres.close()
    subject = Subject("P3", stores.shop.data, stores.size)
    mine = series["oneread"]
    peer = "PostgreSQL, synchronous_commit=off"
    return [
        subject.slower("save, 9 rows", mine, series["floor"], peer="floor", goal=SAVE_OVER_FLOOR),
        subject.faster("save, one statement", mine, series["postgres"], peer=peer, goal=SAVE_OVER_POSTGRES),
        subject.faster("save, three statements", mine, series["steps"], peer=peer, goal=SHOWN),
        subject.faster("the floor's save, one statement", series["floor"], series["postgres"], peer=peer, goal=SHOWN),
    ]


def load(context: Context) -> Sequence[Row]:
    stores = context.stores
    series = stores.loading
    mine = series["oneread"]
    alone = loaded_alone(context.folder("alone"), context.data, stores.size)
    subject = Subject("P4", stores.shop.data, stores.size)
    rate, unit = stores.size / (sum(mine.seconds) / CHUNKS * stores.size), "lines/s"
    return [
        subject.alone("bulk load", rate, unit=unit, goal=LOAD_RATE, rounds=CHUNKS),
        subject.slower("bulk load, a line", mine, series["floor"], peer="floor", goal=LOAD_OVER_FLOOR),
        subject.slower("bulk load, a line, COPY", mine, series["postgres"], peer="PostgreSQL, COPY + SQL", goal=SHOWN),
        subject.alone("growth of private memory while loading", alone.growth, unit="MiB", goal=LOAD_MEMORY),
    ]


BENCHMARKS = (
    Benchmark(
        "P3",
        "save of a purchase with every view, safe from a killed process, against hand-written LMDB and PostgreSQL",
        f"{SAVE_OVER_FLOOR}, faster than PostgreSQL",
        save,
    ),
    Benchmark(
        "P4",
        "bulk load of all lines with every view, against hand-written LMDB and COPY",
        f"{LOAD_RATE}, {LOAD_OVER_FLOOR}, {LOAD_MEMORY}",
        load,
    ),
)
