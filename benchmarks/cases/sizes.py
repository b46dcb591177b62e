"""P13: what the data of P4 take: as loaded, and as `backup --compact` copies them, beside the peers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.benchmark import Benchmark
from benchmarks.context import FULL, Context
from benchmarks.measure import Ratio
from benchmarks.rows import SHOWN, Goal, Row, Subject

MEGABYTE = 1_000_000
LOADED = Goal(540, "<=", "figure", " MB", starred=500)
PACKED = Goal(320, "<=", "figure", " MB")
AS_LOADED, REPACKED = (f"store {how}, {FULL.lines:,} lines" for how in ("as loaded", "repacked"))


def sizes(context: Context) -> Sequence[Row]:
    """Sizes of all of the lines of a full run: of fewer, as much more as there are lines missing."""
    stores, found = context.stores, context.bytes
    subject = Subject("P13", stores.shop.data, stores.size)
    scale = FULL.lines / stores.size / MEGABYTE
    joined, one_table = "PostgreSQL, joined, with indexes", "PostgreSQL, one table, sums, with indexes"
    servers = {joined: found.joined, one_table: found.postgres, "Redis, in memory": found.redis}
    loaded = {"floor": found.floor, "SQLite": found.sqlite, **servers}
    packed = {"SQLite, VACUUM": found.sqlite_packed}
    return [
        *_rows(subject, AS_LOADED, found.oneread, loaded, LOADED, scale),
        *_rows(subject, REPACKED, found.oneread_packed, packed, PACKED, scale),
    ]


def _rows(subject: Subject, name: str, mine: int, peers: Mapping[str, int], goal: Goal, scale: float) -> list[Row]:
    """The goal's row, and one for each peer: how many times our bytes it takes."""
    return [
        subject.alone(name, mine * scale, unit="MB", goal=goal),
        *(
            subject.row(name, "MB", mine * scale, peer, theirs * scale, Ratio(*[theirs / mine] * 3), SHOWN, rounds=1)
            for peer, theirs in peers.items()
        ),
    ]


BENCHMARKS = (
    Benchmark(
        "P13",
        "size of the data of P4, as loaded and repacked, beside hand-written LMDB, SQLite, PostgreSQL and Redis",
        f"{LOADED} as loaded, {PACKED} repacked",
        sizes,
    ),
)
