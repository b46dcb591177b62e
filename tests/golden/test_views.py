"""The golden store of cache-first counters: as this release writes it, and as every later one reads it.

`python -m tests.golden.test_views` rewrites it, on purpose only; see `tests/golden/test_store.py`.
"""

import json
from pathlib import Path

import pytest

from oneread.caches.memory import MemoryCache
from oneread.counters import rows
from oneread.database._sync.database import Database
from oneread.database.open import opened
from oneread.engines.memory import MemoryEngine
from oneread.plans.effects import Atomically
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.rows import TABLES, Cell
from tests.golden import views
from tests.golden.rows import rows_of
from tests.golden.test_store import iter_of, lines

GOLDEN = Path(__file__).with_name("views.jsonl")


def opened_with_cache(driver):
    driver.cache = MemoryCache()
    return Database(driver, driver.run(opened(views.SCHEMA, read_only=False), Trace()))


def written():
    """Chance is made to be the same each time."""
    clock, draws = views.Clock(), iter(range(10_000))
    with opened_with_cache(SyncDriver(MemoryEngine(), clock, lambda: next(draws) * 7 % 20 / 20)) as db:
        views.history(db, clock)
        return lines(rows_of(db))


@pytest.fixture
def db():
    tables = {table: {} for table in TABLES}
    for line in GOLDEN.read_text(encoding="ascii").splitlines():
        table, key, column, stamp, value = json.loads(line)
        tables[table].setdefault(bytes.fromhex(key), {})[column.encode()] = Cell(bytes.fromhex(value), stamp)

    def load(store):
        for table, found in tables.items():
            store.replace(table, found)

    driver = SyncDriver(MemoryEngine(), lambda: views.FIRST + 3_700_000)
    driver.run(iter_of(Atomically(load)), Trace())
    with opened_with_cache(driver) as found:
        yield found


def test_the_same_history_writes_the_same_rows():
    assert written() == GOLDEN.read_text(encoding="ascii")


def test_the_store_holds_every_kind_of_row():
    found = [json.loads(line) for line in GOLDEN.read_text(encoding="ascii").splitlines()]
    kinds = {bytes.fromhex(key)[:4] for table, key, *_rest in found if table == "counts"}
    assert kinds == {rows.CHANCES, rows.GREATEST}


def test_counters_go_on_from_the_greatest_stored_value(db):
    assert [(each.name, each.chance_to_write) for each in db.cache_counters()] == [
        ("a\0b", 1e-6), ("views:1", 0.25), ("views:é", 1.0)
    ]  # fmt: skip
    first = db.cache_counter("views:1")
    assert (first.stored(), first.read()) == (85, 85)
    assert len(first.shards()) == 5
    first.add(5)
    assert first.read() == 90
    assert db.cache_counter("views:é").read() == 2**32
    assert db.cache_counter("a\0b").read() == 1
    assert db.verify().clean


if __name__ == "__main__":
    GOLDEN.write_text(written(), encoding="ascii")
