"""P3b: a save that survives a power failure once it returns, with one writer, eight threads, eight processes.

All promise the same: raw LMDB syncs data and meta page before a save returns, and PostgreSQL its log.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from benchmarks.benchmark import Benchmark
from benchmarks.context import Context
from benchmarks.measure import Round, Series, interleaved
from benchmarks.peers.group_commit import GroupCommit
from benchmarks.peers.postgres import Postgres, postgres
from benchmarks.rows import SHOWN, Goal, Row, Subject
from benchmarks.workloads.ours import purchase
from benchmarks.workloads.stores import Stores, filled_durable
from benchmarks.workloads.writers import Place, Processes, as_it_is, threads_round

RAW = Goal(0.8, ">=")


def durable(context: Context) -> Sequence[Row]:
    sizes, writers = context.sizes, context.sizes.writers
    folder = context.folder("durable")
    stores = filled_durable(context.shop, sizes.durable, folder, "group")
    with ExitStack() as stack:
        stack.callback(stores.close)
        dsn = stack.enter_context(postgres())
        loader = Postgres(dsn)
        loader.stock(stores.shop)
        loader.load(stores.shop.lines[: stores.size])
        loader.settle()
        loader.close()
        subject = Subject("P3b", stores.shop.data, stores.size)
        rows = [
            *_rows(subject, "1 writer", _threads(context, stores, dsn, 1, stack)),
            *_rows(subject, f"{writers} threads", _threads(context, stores, dsn, writers, stack)),
        ]
        places = {
            "oneread": Place("oneread", str(folder / "ours")),
            "floor": Place("floor", str(folder / "floor")),
            "postgres": Place("postgres", dsn),
        }
        started = {name: stack.enter_context(Processes(place, writers)) for name, place in places.items()}
        each = max(1, sizes.saves // writers // 2)
        lines = stores.take(each * writers * (sizes.rounds + 1))
        contenders = {name: processes.round(iter(lines), each) for name, processes in started.items()}
        rows += _rows(subject, f"{writers} processes", interleaved(contenders, rounds=sizes.rounds))
    return rows


def _threads(context: Context, stores: Stores, dsn: str, writers: int, stack: ExitStack) -> dict[str, Series]:
    sizes = context.sizes
    each = max(1, sizes.saves // 2 // writers)
    lines = stores.take(each * writers * (sizes.rounds + 1))
    floor = stores.floor.save if writers == 1 else GroupCommit(stores.floor).save
    connections = [Postgres(dsn, durable=True) for _ in range(writers)]
    for connection in connections:
        stack.callback(connection.close)
    contenders: dict[str, Round] = {
        "oneread": threads_round([stores.db.save] * writers, iter(lines), each, purchase),
        "floor": threads_round([floor] * writers, iter(lines), each, as_it_is),
        "postgres": threads_round([connection.save for connection in connections], iter(lines), each, as_it_is),
    }
    return interleaved(contenders, rounds=sizes.rounds)


def _rows(subject: Subject, writers: str, series: dict[str, Series]) -> list[Row]:
    name, mine, unit = f"durable save, {writers}", series["oneread"], "saves/s"
    return [
        subject.rate(name, mine, series["floor"], peer="raw LMDB, group commit", goal=RAW, unit=unit),
        subject.rate(name, mine, series["postgres"], peer="PostgreSQL, synchronous_commit=on", goal=SHOWN, unit=unit),
    ]


BENCHMARKS = (
    Benchmark(
        "P3b",
        "the same save, on disk when it returns: 1 writer, 8 threads, 8 processes, against raw LMDB and PostgreSQL",
        f"{RAW} of raw LMDB",
        durable,
    ),
)
