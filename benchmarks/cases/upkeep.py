"""P11: long work on a store in use: how fast everything derived is verified, in how much memory, and who waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter, sleep

from benchmarks.benchmark import Benchmark
from benchmarks.cases.building import BACKFILLED, built
from benchmarks.cases.rename import CALM_SECONDS
from benchmarks.context import Context
from benchmarks.measure import Round, Series, interleaved, private_memory
from benchmarks.rows import Goal, Row, Subject, with_core
from benchmarks.workloads.readers import SPAWN, ProcessReader
from examples.shop import loading
from examples.shop.schema import SHOP, Purchase
from oneread import Database, connect
from oneread.plans.plan import Plan
from oneread.plans.progress import Progress
from oneread.store.requests import Scan
from oneread.store.rows import TABLES, RowRange

VERIFIED = with_core(
    Goal(150_000, ">=", "figure", " entities/s", starred=250_000),
    without=Goal(25_000, ">=", "figure", " entities/s", starred=30_000),
)
READERS = Goal(1.5)
MEMORY = Goal(64, "<=", "figure", " MiB")
LONG = 3
"""Long work is not repeated more often than a median needs."""
VIEWS = 7
"""Two lists, four aggregates, and the rows of a greatest."""


def opened(path: Path) -> Database:
    """The example's store, with all of its views."""
    return connect(f"lmdb://{path}?durability=none", SHOP)


def upkeep(context: Context) -> Sequence[Row]:
    sizes = context.sizes
    folder = context.folder("upkeep") / "shop"
    what = loading.Source(context.data, sizes.lines, 7)
    with opened(folder) as db:
        loading.load(db, what)
        subject = Subject("P11", what.label, sizes.lines)
        rounds = min(sizes.rounds, LONG)
        rows = [
            _verified(db, subject, rounds),
            _read_meanwhile(db, folder, subject, rounds, sizes.reads),
            _memory(folder, subject),
        ]
    return [*rows, *built(folder, subject)]


def _verified(db: Database, subject: Subject, rounds: int) -> Row:
    series = interleaved({"verify": _each_entity(db), "scan": _each_row(db)}, rounds=rounds, warm_up=0)
    return subject.rate(
        f"verify of all entities and {VIEWS} views",
        series["verify"],
        series["scan"],
        peer="a bare scan of the same rows",
        goal=VERIFIED,
        unit="entities/s",
    )


def _each_entity(db: Database) -> Round:
    def run() -> float:
        started = perf_counter()
        found = db.verify()
        taken = perf_counter() - started
        if not found.clean:
            raise AssertionError(f"an undamaged store has faults: {found.faults[:3]}")
        return taken / found.entities

    return run


def _each_row(db: Database) -> Round:
    """Reads every row once, in the batches of a verification; seconds for one entity, as there."""

    def everything() -> Plan[int]:
        entities = 0
        for table in TABLES:
            start = b""
            while rows := (yield from Scan(table, RowRange(start, b""), 500, families="dm")):
                start = rows[-1][0] + b"\x00"
                entities += len(rows) if table == "roots" else 0
        return entities

    def run() -> float:
        started = perf_counter()
        entities = db.run(everything())
        return (perf_counter() - started) / entities

    return run


def _read_meanwhile(db: Database, folder: Path, subject: Subject, rounds: int, reads: int) -> Row:
    """What a get takes in another process while the store is verified, against the same get before."""
    keys = [(each.order, each.line) for each in db.page(Purchase, limit=min(reads, 1_000))]
    before: list[float] = []
    during: list[float] = []
    with ProcessReader(folder, keys, opened, Purchase) as reader:
        for _ in range(rounds):
            reader.start()
            sleep(CALM_SECONDS)
            before.append(reader.stop())
            reader.start()
            db.verify()
            during.append(reader.stop())
    busy, calm = Series(tuple(during)), Series(tuple(before))
    return subject.row(
        "get in another process while everything is verified",
        "us",
        busy.median * 1e6,
        "the same get before",
        calm.median * 1e6,
        busy.over(calm),
        READERS,
        rounds=rounds,
    )


def _memory(folder: Path, subject: Subject) -> Row:
    """What a process's own memory grows by, at the most, while it verifies."""
    here, there = SPAWN.Pipe(duplex=False)
    process = SPAWN.Process(target=_grown, args=(folder, there), daemon=True)
    process.start()
    grown: float = here.recv()
    process.join()
    return subject.alone("memory that a verification takes at its most", grown, unit="MiB", goal=MEMORY)


def _grown(folder: Path, to: Connection) -> None:
    with opened(folder) as db:
        before = most = private_memory()

        def look(_progress: Progress) -> None:
            nonlocal most
            most = max(most, private_memory())

        report: Callable[[Progress], None] = _every(200, look)
        db.verify(progress=report)
        to.send(most - before)


def _every(times: int, look: Callable[[Progress], None]) -> Callable[[Progress], None]:
    """Looks now and then, so that looking takes no time to speak of."""
    turn = 0

    def report(progress: Progress) -> None:
        nonlocal turn
        turn += 1
        if turn % times == 1:
            look(progress)

    return report


BENCHMARKS = (
    Benchmark(
        "P11",
        "verify of every view, live readers meanwhile, the memory it takes, and backfill of a view",
        f"{VERIFIED}; backfill {BACKFILLED}; reads {READERS}; memory {MEMORY}",
        upkeep,
        has_core=True,
    ),
)
