"""P1, P1b, P2: a purchase with what it shows of others, and a customer's newest ten."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from benchmarks.benchmark import Benchmark
from benchmarks.context import Context
from benchmarks.measure import Round, Series, each, interleaved
from benchmarks.peers.orm import Orm
from benchmarks.rows import SHOWN, Goal, Row, Subject, with_core
from benchmarks.workloads.shop_schema import Purchase, PurchasesOfBuyer
from examples.shop.source import Line

GET_OVER_FLOOR = with_core(Goal(1), without=Goal(1.5))
GET_OVER_SQLITE = with_core(Goal(2.5, ">="), without=Goal(1.3, ">="))
GET_OVER_JOIN = Goal(20, ">=")
GET_OVER_ORM = Goal(60, ">=")
PAGE_OVER_FLOOR = with_core(Goal(1), without=Goal(2.5, starred=2))
PAGE_OVER_SQLITE = with_core(Goal(2, ">="), without=Goal(None, ">=", starred=1))
PAGE_OVER_JOIN = with_core(Goal(15, ">="), without=Goal(None, ">=", starred=8))
GET, PAGE = "get with 2 copies", "page of 10 newest"
JOINED, ORM, ONE_TABLE = "PostgreSQL, joined", "PostgreSQL, SQLAlchemy ORM", "PostgreSQL, one table"
SQLITE, REDIS = "SQLite, one table", "Redis"
SERVERS = (JOINED, ORM, ONE_TABLE, REDIS)
SLOW_SHARE = 10
"""What takes a hundred times as long is asked a tenth as often."""
Reads = Mapping[str, Callable[..., object]]


def sampled(lines: Sequence[Line], count: int) -> list[Line]:
    """Lines that name a customer, drawn with a fixed seed."""
    draw = random.Random(541_909)
    named = [line for line in lines if line.customer is not None]
    return draw.choices(named, k=count)


def gets(lines: Sequence[Line]) -> list[tuple[str, int]]:
    return [(line.invoice, line.line) for line in lines]


def get_in_process(context: Context) -> Sequence[Row]:
    stores, peers = context.stores, context.peers
    series = _taken(context, _our_gets(context), {"floor": stores.floor.get, SQLITE: peers.sqlite.get}, _keys(context))
    subject, mine = Subject("P1", stores.shop.data, stores.size), series["oneread"]
    return [
        subject.slower(GET, mine, series["floor"], peer="floor", goal=GET_OVER_FLOOR),
        subject.faster(GET, mine, series[SQLITE], peer=SQLITE, goal=GET_OVER_SQLITE),
    ]


def get_from_servers(context: Context) -> Sequence[Row]:
    stores, peers, orm = context.stores, context.peers, Orm(context.postgres)
    reads: Reads = {
        "floor": stores.floor.get,
        JOINED: peers.postgres.get,
        ORM: orm.get,
        ONE_TABLE: peers.postgres.get_from_one_table,
        REDIS: peers.redis.get,
    }
    series = _taken(context, _our_gets(context), reads, _keys(context))
    orm.close()
    subject, mine = Subject("P1b", stores.shop.data, stores.size), series["oneread"]
    goals = {JOINED: GET_OVER_JOIN, ORM: GET_OVER_ORM}
    return [
        *(subject.faster(GET, mine, series[peer], peer=peer, goal=goals.get(peer, SHOWN)) for peer in SERVERS),
        subject.faster("the floor's get", series["floor"], series[JOINED], peer=JOINED, goal=SHOWN),
    ]


def page(context: Context) -> Sequence[Row]:
    stores, peers, orm = context.stores, context.peers, Orm(context.postgres)

    def newest_ten(buyer: int) -> object:
        return stores.db.page(PurchasesOfBuyer, buyer, limit=10).rows

    buyers = [(line.customer,) for line in _sampled(context)]
    reads: Reads = {
        "floor": stores.floor.page,
        SQLITE: peers.sqlite.page,
        JOINED: peers.postgres.page,
        ORM: orm.page,
        ONE_TABLE: peers.postgres.page_from_one_table,
        REDIS: peers.redis.page,
    }
    series = _taken(context, each(newest_ten, buyers), reads, buyers)
    orm.close()
    subject, mine = Subject("P2", stores.shop.data, stores.size), series["oneread"]
    goals = {SQLITE: PAGE_OVER_SQLITE, JOINED: PAGE_OVER_JOIN}
    return [
        subject.slower(PAGE, mine, series["floor"], peer="floor", goal=PAGE_OVER_FLOOR),
        *(
            subject.faster(PAGE, mine, series[peer], peer=peer, goal=goals.get(peer, SHOWN))
            for peer in (SQLITE, *SERVERS)
        ),
        subject.faster("the floor's page", series["floor"], series[JOINED], peer=JOINED, goal=SHOWN),
    ]


def _taken(
    context: Context, ours: Round, reads: Reads, arguments: Sequence[tuple[object, ...]]
) -> Mapping[str, Series]:
    """What one read takes, of ours and of each peer; servers are asked less often."""
    few = arguments[: max(1, len(arguments) // SLOW_SHARE)]
    contenders = {"oneread": ours}
    contenders |= {peer: each(read, few if peer in SERVERS else arguments) for peer, read in reads.items()}
    return interleaved(contenders, rounds=context.sizes.rounds)


def _sampled(context: Context) -> Sequence[Line]:
    return sampled(context.stores.shop.lines[: context.stores.size], context.sizes.reads)


def _keys(context: Context) -> list[tuple[str, int]]:
    return gets(_sampled(context))


def _our_gets(context: Context) -> Round:
    return each(context.stores.db.get, [(Purchase, *key) for key in _keys(context)])


BENCHMARKS = (
    Benchmark(
        "P1",
        "get of a purchase with its two copies, against hand-written LMDB and one table of SQLite",
        f"{GET_OVER_FLOOR} of the floor, {GET_OVER_SQLITE} as fast as SQLite",
        get_in_process,
        has_core=True,
    ),
    Benchmark(
        "P1b",
        "the same, against PostgreSQL - joined, through an ORM, from one table - and Redis",
        f"{GET_OVER_JOIN} as fast as the join, {GET_OVER_ORM} as the ORM",
        get_from_servers,
        has_core=True,
    ),
    Benchmark(
        "P2",
        "page of a customer's 10 newest purchases, against hand-written LMDB, SQLite, PostgreSQL and Redis",
        f"{PAGE_OVER_FLOOR} of the floor, {PAGE_OVER_SQLITE} as fast as SQLite, {PAGE_OVER_JOIN} as PostgreSQL's join",
        page,
        has_core=True,
    ),
)
