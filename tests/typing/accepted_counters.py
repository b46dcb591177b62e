"""Counters as type checkers must accept them, both faces."""

from datetime import UTC, datetime
from typing import assert_type

from oneread import (
    AsyncDatabase,
    AsyncTransaction,
    CacheCounter,
    Counter,
    CounterRules,
    Database,
    Index,
    Key,
    Model,
    Schema,
    Transaction,
    TransactionCounter,
    WindowSize,
    counter,
    descending,
    rollup,
)
from oneread.counters.cache_first import CacheCounterEntry, CacheLoss, CacheReading, GreatestShard
from oneread.counters.counters import CounterEntry, CounterWindow
from oneread.counters.reading import Reading


class Poll(Model[int]):
    number: Key[int]


class Page(Model[int]):
    number: Key[int]
    views: int = rollup(counter("views:{number}"), every=10)
    likes: int = rollup(counter("likes:{number}"))


class PagesByViews(Index[Page]):
    views: int = descending(Page.views)


def shown(db: Database) -> None:
    db.save(Page(number=1))
    assert_type(db.get(Page, 1).views, int)
    assert_type(db.page(PagesByViews).rows[0].views, int)
    db.counter("views:1").delete()


def in_transaction(tx: Transaction) -> None:
    assert_type(tx.counter("votes", shards=3), TransactionCounter)
    tx.counter("votes").add(2, once="id", at=datetime(2024, 1, 1, tzinfo=UTC))


async def in_asynchronous(tx: AsyncTransaction) -> None:
    await tx.counter("votes").add(-2)


polls = Schema(Poll, counters=CounterRules(shards=8, once_for=86_400))


def plain(db: Database) -> None:
    votes = db.counter("votes:42", shards=4, keep={"hour": 48, "day": 7})
    assert_type(votes, Counter)
    assert_type(votes.add(), bool)
    assert_type(votes.add(-2, once=b"id"), bool)
    assert_type(votes.read(max_age=60), int)
    assert_type(votes.look(max_age=0.5), Reading)
    assert_type(votes.windows("hour", last=3), list[CounterWindow])
    size: WindowSize = "day"
    assert_type(votes.windows(size, until=datetime(2024, 1, 1, tzinfo=UTC)), list[CounterWindow])
    assert_type(votes.add(2, once="id", at=datetime(2024, 1, 1, tzinfo=UTC)), bool)
    assert_type(votes.configure(shards=9, keep={"minute": 5}), CounterEntry)
    assert_type(db.counters("votes:", limit=3), list[CounterEntry])
    views = db.cache_counter("views:7", chance_to_write=0.05, shards=1)
    assert_type(views, CacheCounter)
    views.add()
    views.add(3)
    assert_type(views.read(), int)
    assert_type(views.look(), CacheReading)
    assert_type(views.stored(), int)
    assert_type(views.shards(), list[GreatestShard])
    assert_type(views.loss, CacheLoss)
    assert_type(db.cache_counters("views:", limit=3, after="views:1"), list[CacheCounterEntry])
    with db.counter_batch(seconds=0.5, size=10) as batch:
        batch.add("views:7")
        batch.add("views:7", 3)


async def asynchronous(db: AsyncDatabase) -> None:
    votes = db.counter("votes:42")
    assert_type(await votes.add(once="id"), bool)
    assert_type(await votes.read(), int)
    assert_type(await db.cache_counter("views:7").read(), int)
    await db.cache_counter("views:7").add()
    await db.cache_counter("views:7").delete()
    assert_type(await db.cache_counters(), list[CacheCounterEntry])
    async with db.counter_batch() as batch:
        batch.add("views:7")
