"""A history that leaves every row of cache-first counters."""

from oneread import Key, Model, Schema

FIRST = 1_700_000_000_000


class Page(Model[int]):
    number: Key[int]


SCHEMA = Schema(Page)


class Clock:
    """Milliseconds since 1970; moves when the history moves it."""

    def __init__(self):
        self.now = FIRST

    def __call__(self):
        return self.now


def history(db, clock):
    """Counters in one row and in many, the greatest value not in the last one; stored late, and by other chances."""
    for _ in range(12):
        clock.now += 1000
        db.cache_counter("views:1", chance_to_write=1, shards=5).add(7)
    lost(db, "views:1")
    db.cache_counter("views:1", chance_to_write=0.25).add(1)
    db.cache_counter("views:é", chance_to_write=1, shards=1).add(2**32)
    db.cache_counter("a\0b", chance_to_write=1e-6, shards=256).add()  # stored, since it filled the cache
    db.cache_counter("a\0b", chance_to_write=1e-6).add(100)


def lost(db, name):
    """Loses a counter's value in the cache, and what the process remembers."""
    db._driver.cache.lose()
    db.operations.cache_counters.seen = type(db.operations.cache_counters.seen)()
    assert db.cache_counter(name).stored()
