"""P3b: a save that survives a power failure once it returns, with one writer, eight threads, eight processes.

All promise the same: raw LMDB syncs data and meta page before a save returns, SQLite and PostgreSQL their logs, Redis
its file of commands. Threads of one process share commits in ours, in raw LMDB and in SQLite; with PostgreSQL and Redis
each thread has a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.benchmark import Benchmark
from benchmarks.context import Context
from benchmarks.measure import Round, Series, interleaved
from benchmarks.peers.group_commit import GroupCommit
from benchmarks.peers.postgres import Postgres, postgres
from benchmarks.peers.promises import PROMISES, Peer, named
from benchmarks.peers.redis_shop import RedisShop, redis_shop
from benchmarks.peers.sqlite import Sqlite
from benchmarks.rows import SHOWN, Goal, Row, Subject, with_core
from benchmarks.workloads.ours import purchase
from benchmarks.workloads.stores import Peers, Stores, filled_durable
from benchmarks.workloads.writers import Kind, Place, Processes, as_it_is, threads_round
from examples.shop.source import Line

RAW: Mapping[str, Goal] = {
    "writer": with_core(Goal(0.9, ">="), without=Goal(0.8, ">=")),
    "threads": with_core(Goal(1, ">="), without=Goal(0.8, ">=")),
    "processes": with_core(Goal(1.5, ">=", starred=2.5), without=Goal(0.8, ">=")),
}
"""By who writes."""
PEERS: Sequence[Peer] = ("floor", "sqlite", "postgres", "redis")
Saves = Sequence[Callable[[Line], object]]


def durable_save(writers: str) -> str:
    """The name of the rows of so many writers."""
    return f"save, {PROMISES['group']}, {writers}"


def durable(context: Context) -> Sequence[Row]:
    sizes, writers = context.sizes, context.sizes.writers
    folder = context.folder("durable")
    with ExitStack() as stack:
        dsn, url = stack.enter_context(postgres()), stack.enter_context(redis_shop("group"))
        stores = _filled(context, folder, dsn, url)
        stack.callback(stores.close)
        subject = Subject("P3b", stores.shop.data, stores.size)
        where: dict[Kind, Path] = {"oneread": folder / "ours", "floor": folder / "floor", "sqlite": _sqlite(folder)}
        places: dict[str, Place] = {
            **{kind: Place(kind, str(path), "group") for kind, path in where.items()},
            "postgres": Place("postgres", dsn, "group"),
            "redis": Place("redis", url, "group"),
        }
        rows: list[Row] = []
        for number in (1, writers):
            with ExitStack() as opened:
                name = "1 writer" if number == 1 else f"{number} threads"
                rows += _rows(subject, name, _threads(context, stores, places, number, opened))
        started = {name: stack.enter_context(Processes(place, writers)) for name, place in places.items()}
        each = max(1, sizes.saves // writers // 2)
        lines = stores.take(each * writers * (sizes.rounds + 1))
        contenders = {name: processes.round(iter(lines), each) for name, processes in started.items()}
        rows += _rows(subject, f"{writers} processes", interleaved(contenders, rounds=sizes.rounds))
    return rows


def _sqlite(folder: Path) -> Path:
    return folder / "shop.sqlite"


def _filled(context: Context, folder: Path, dsn: str, url: str) -> Stores:
    peers = Peers(Sqlite(_sqlite(folder)), Postgres(dsn), RedisShop(url))
    try:
        return filled_durable(context.shop, context.sizes.durable, folder, "group", peers.by_name)
    finally:
        peers.close()


def _threads(
    context: Context, stores: Stores, places: dict[str, Place], writers: int, stack: ExitStack
) -> dict[str, Series]:
    """What a save takes when so many threads save, each through what its peer gives a thread."""
    sizes = context.sizes
    each = max(1, sizes.saves // 2 // writers)
    lines = stores.take(each * writers * (sizes.rounds + 1))
    sqlite = stack.enter_context(Sqlite(Path(places["sqlite"].where), "group"))
    alone = writers == 1
    saves: dict[str, Saves] = {
        "floor": [stores.floor.save if alone else GroupCommit(stores.floor.save_all).save] * writers,
        "sqlite": [sqlite.save if alone else GroupCommit(sqlite.save_all).save] * writers,
        "postgres": [places["postgres"].open(stack)[0] for _ in range(writers)],
        "redis": [places["redis"].open(stack)[0] for _ in range(writers)],
    }
    contenders: dict[str, Round] = {
        "oneread": threads_round([stores.db.save] * writers, iter(lines), each, purchase),
        **{peer: threads_round(save, iter(lines), each, as_it_is) for peer, save in saves.items()},
    }
    return interleaved(contenders, rounds=sizes.rounds)


def _rows(subject: Subject, writers: str, series: dict[str, Series]) -> list[Row]:
    name, mine = durable_save(writers), series["oneread"]
    goal = RAW[writers.rsplit(maxsplit=1)[-1]]
    return [
        subject.rate(
            name,
            mine,
            series[peer],
            peer=named(peer, "group"),
            goal=goal if peer == "floor" else SHOWN,
            unit="saves/s",
        )
        for peer in PEERS
    ]


BENCHMARKS = (
    Benchmark(
        "P3b",
        "the same save, on disk when it returns: 1 writer, 8 threads, 8 processes, against the same peers",
        f"{RAW['writer']}, {RAW['threads']}, {RAW['processes']} of raw LMDB's rate",
        durable,
        has_core=True,
    ),
)
