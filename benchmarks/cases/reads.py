"""P1, P1b, P2: a purchase with what it shows of others, and a customer's newest ten."""

from __future__ import annotations

import random
from collections.abc import Sequence

from benchmarks.benchmark import Benchmark
from benchmarks.context import Context
from benchmarks.measure import each, interleaved
from benchmarks.peers.orm import Orm
from benchmarks.peers.postgres import Postgres
from benchmarks.rows import SHOWN, Goal, Row, Subject
from benchmarks.workloads.shop_schema import Purchase, PurchasesOfBuyer
from examples.shop.source import Line

GET_OVER_FLOOR = Goal(1.6)
GET_OVER_PSYCOPG = Goal(20, ">=")
GET_OVER_ORM = Goal(60, ">=")
PAGE_OVER_FLOOR = Goal(2.5)
PAGE_OVER_POSTGRES = Goal(8, ">=")
SLOW_SHARE = 10
"""What takes a hundred times as long is asked a tenth as often."""


def sampled(lines: Sequence[Line], count: int) -> list[Line]:
    """Lines that name a customer, drawn with a fixed seed."""
    draw = random.Random(541_909)
    named = [line for line in lines if line.customer is not None]
    return draw.choices(named, k=count)


def gets(lines: Sequence[Line]) -> list[tuple[str, int]]:
    return [(line.invoice, line.line) for line in lines]


def get_over_floor(context: Context) -> Sequence[Row]:
    stores, sizes = context.stores, context.sizes
    keys = gets(sampled(stores.shop.lines[: stores.size], sizes.reads))
    series = interleaved(
        {
            "oneread": each(stores.db.get, [(Purchase, *key) for key in keys]),
            "floor": each(stores.floor.get, keys),
        },
        rounds=sizes.rounds,
    )
    subject = Subject("P1", stores.shop.data, stores.size)
    return [subject.slower("get with 2 copies", series["oneread"], series["floor"], peer="floor", goal=GET_OVER_FLOOR)]


def get_over_postgres(context: Context) -> Sequence[Row]:
    stores, sizes = context.stores, context.sizes
    keys = gets(sampled(stores.shop.lines[: stores.size], sizes.reads))
    few = keys[: max(1, sizes.reads // SLOW_SHARE)]
    psycopg, orm = Postgres(context.postgres), Orm(context.postgres)
    series = interleaved(
        {
            "oneread": each(stores.db.get, [(Purchase, *key) for key in keys]),
            "floor": each(stores.floor.get, keys),
            "psycopg": each(psycopg.get, few),
            "orm": each(orm.get, few),
        },
        rounds=sizes.rounds,
    )
    psycopg.close()
    orm.close()
    subject = Subject("P1b", stores.shop.data, stores.size)
    mine = series["oneread"]
    return [
        subject.faster("get, 3-table join", mine, series["psycopg"], peer="PostgreSQL, psycopg", goal=GET_OVER_PSYCOPG),
        subject.faster("get, joined load", mine, series["orm"], peer="PostgreSQL, SQLAlchemy ORM", goal=GET_OVER_ORM),
        subject.faster(
            "the floor's get, 3-table join", series["floor"], series["psycopg"], peer="PostgreSQL, psycopg", goal=SHOWN
        ),
    ]


def page(context: Context) -> Sequence[Row]:
    stores, sizes = context.stores, context.sizes
    buyers = [(line.customer,) for line in sampled(stores.shop.lines[: stores.size], sizes.reads)]
    few = buyers[: max(1, sizes.reads // SLOW_SHARE)]
    psycopg, orm = Postgres(context.postgres), Orm(context.postgres)

    def newest_ten(buyer: int) -> object:
        return stores.db.page(PurchasesOfBuyer, buyer, limit=10).rows

    series = interleaved(
        {
            "oneread": each(newest_ten, buyers),
            "floor": each(stores.floor.page, buyers),
            "psycopg": each(psycopg.page, few),
            "orm": each(orm.page, few),
        },
        rounds=sizes.rounds,
    )
    psycopg.close()
    orm.close()
    subject = Subject("P2", stores.shop.data, stores.size)
    mine = series["oneread"]
    return [
        subject.slower("page of 10 newest", mine, series["floor"], peer="floor", goal=PAGE_OVER_FLOOR),
        subject.faster(
            "page of 10 newest, join", mine, series["psycopg"], peer="PostgreSQL, psycopg", goal=PAGE_OVER_POSTGRES
        ),
        subject.faster(
            "page of 10 newest, joined load", mine, series["orm"], peer="PostgreSQL, SQLAlchemy ORM", goal=SHOWN
        ),
        subject.faster(
            "the floor's page, join", series["floor"], series["psycopg"], peer="PostgreSQL, psycopg", goal=SHOWN
        ),
    ]


BENCHMARKS = (
    Benchmark(
        "P1", "get of a purchase with its two copies, against hand-written LMDB", f"{GET_OVER_FLOOR}", get_over_floor
    ),
    Benchmark(
        "P1b",
        "the same, against PostgreSQL's join through psycopg and through an ORM",
        f"{GET_OVER_PSYCOPG}, {GET_OVER_ORM} faster",
        get_over_postgres,
    ),
    Benchmark(
        "P2",
        "page of a customer's 10 newest purchases, against hand-written LMDB and PostgreSQL",
        f"{PAGE_OVER_FLOOR}, {PAGE_OVER_POSTGRES} faster",
        page,
    ),
)
