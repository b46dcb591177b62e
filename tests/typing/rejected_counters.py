"""Wrong uses of counters: every marked line must be reported."""

from oneread import CounterRules, Database, Index, Key, Model, Transaction, counter, descending, rollup


class Page(Model[int]):
    number: Key[int]
    views: int = rollup(counter("views:{number}"), every=10)
    likes: str = rollup(counter("likes:{number}"), every=10)  # rejected
    seen: int = rollup(counter(5))  # rejected
    read: int = rollup(counter("read:{number}"), every="soon")  # rejected


class PagesByViews(Index[Page]):
    views: str = descending(Page.views)  # rejected


Page(number=1, views=3)  # rejected


def wrong(db: Database) -> None:
    db.counter(42)  # rejected
    db.counter("votes", keep={"week": 3})  # rejected
    votes = db.counter("votes")
    votes.add("1")  # rejected
    votes.add(amount=1)  # rejected
    votes.add(1, once=7)  # rejected
    votes.read(60)  # rejected
    votes.windows("week")  # rejected
    votes.windows("hour", until=5)  # rejected
    votes.add(1, at="2024-01-01")  # rejected
    views = db.cache_counter("views", chance_to_write="often")  # rejected
    views.add("1")  # rejected
    number: int = views.add()  # rejected
    views.read(max_age=60)  # rejected
    CounterRules(once_for="an hour")  # rejected
    with db.counter_batch() as batch:
        batch.add("views", 1.5)  # rejected


def in_transactions(tx: Transaction) -> int:
    tx.counter("votes").add("1")  # rejected
    tx.counter("votes").read()  # rejected
    return tx.counter("votes").add(1)  # rejected
