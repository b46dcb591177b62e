"""P14: a purchase and a customer's newest ten through caches, in front of Bigtable's emulator and HBase."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from uuid import uuid4

from benchmarks.benchmark import Benchmark
from benchmarks.context import SMOKE, Context
from benchmarks.measure import each, interleaved
from benchmarks.rows import Goal, Row, Subject
from benchmarks.workloads.lines import Shop, catalogue
from benchmarks.workloads.ours import purchase, stock
from benchmarks.workloads.shop_schema import SHOP, Purchase, PurchasesOfBuyer
from oneread import Database, connect
from tools.servers.bigtable import bigtable_emulator
from tools.servers.hbase import hbase_server, thrift_server
from tools.servers.memcached import memcached_server
from tools.servers.redis import redis_on_a_port

OVER_STORE = Goal(0.4)
LINES = 300
"""That are loaded, at most: a save takes milliseconds."""
READS = 300
"""Of one round, at most."""
MAX_AGE = 3_600


def cached(context: Context) -> Sequence[Row]:
    rows = [*_rows(context, "Bigtable's emulator", _bigtable())]
    if context.sizes.lines > SMOKE.lines:  # HBase takes half a minute to start
        rows += _rows(context, "HBase", _hbase())
    return rows


def _rows(context: Context, store: str, place: AbstractContextManager[str]) -> Sequence[Row]:
    """What reads of one store take, alone and through each cache."""
    shop = replace(context.shop, lines=[line for line in context.shop.lines[:LINES] if line.customer is not None])
    with ExitStack() as stack:
        url = stack.enter_context(place)
        caches = {
            "memcached": stack.enter_context(memcached_server()).url,
            "Redis": stack.enter_context(redis_on_a_port()).url,
        }
        plain = stack.enter_context(connect(url, SHOP, workers=0))
        opened: Mapping[str, Database] = {"the store": plain} | {
            name: stack.enter_context(connect(url, SHOP, workers=0, cache=cache, max_age=MAX_AGE))
            for name, cache in caches.items()
        }
        _load(shop, plain)
        count = min(READS, context.sizes.reads)
        keys = [(Purchase, line.invoice, line.line) for line in shop.lines][:count]
        buyers = [(line.customer,) for line in shop.lines][:count]
        subject, found = Subject("P14", shop.data, len(shop.lines)), list[Row]()
        gets = {name: each(db.get, keys) for name, db in opened.items()}
        pages = {name: each(_page_of(db), buyers) for name, db in opened.items()}
        for what, contenders in (("get with 2 copies", gets), ("page of 10 newest", pages)):
            series = interleaved(contenders, rounds=context.sizes.rounds)
            found += [
                subject.slower(
                    f"{what}, through {cache}", series[cache], series["the store"], peer=store, goal=OVER_STORE
                )
                for cache in caches
            ]
        return found


def _page_of(db: Database) -> Callable[[int], object]:
    return lambda buyer: db.page(PurchasesOfBuyer, buyer, limit=10).rows


def _load(shop: Shop, db: Database) -> None:
    catalogued = catalogue(shop.lines)
    stock(db, replace(shop, customers=catalogued[0], products=catalogued[1]))
    for line in shop.lines:
        db.save(purchase(line))


@contextmanager
def _bigtable() -> Generator[str]:
    with bigtable_emulator() as server:
        before = os.environ.get("BIGTABLE_EMULATOR_HOST")
        os.environ["BIGTABLE_EMULATOR_HOST"] = server.host
        try:
            yield f"bigtable://test/i{uuid4().hex}"
        finally:
            del os.environ["BIGTABLE_EMULATOR_HOST"]
            if before is not None:
                os.environ["BIGTABLE_EMULATOR_HOST"] = before


@contextmanager
def _hbase() -> Generator[str]:
    with hbase_server() as server, thrift_server(server.zookeeper) as thrift:
        yield f"hbase://{thrift.place}/default"


BENCHMARKS = (
    Benchmark(
        "P14",
        "get of a purchase and page of 10 through memcached and Redis, against the store without them",
        f"{OVER_STORE} of the store",
        cached,
    ),
)
