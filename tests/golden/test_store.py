"""A change of any stored byte is seen: the golden store comes out of this release's code as it lies here.

On purpose? `python -m tests.golden.test_store` rewrites it; add a page to docs/formats and a `format` fragment.
"""

import json
from decimal import Decimal
from pathlib import Path

import pytest

from oneread import connect
from oneread.database._sync.database import Database
from oneread.database.open import opened
from oneread.engines.memory import MemoryEngine
from oneread.errors import NotFound
from oneread.plans.effects import Atomically
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.rows import TABLES, Cell
from tests.golden import store
from tests.golden.rows import rows_of

GOLDEN = Path(__file__).with_name("store.jsonl")


def lines(rows):
    return "".join(
        json.dumps([table, key.hex(), column.decode(), stamp, value.hex()]) + "\n"
        for table, key, column, stamp, value in rows
    )


def written(url="memory://"):
    clock = store.Clock()
    with connect(url, store.SCHEMA, clock=clock, workers=0) as database:
        store.history(database, clock)
        return lines(rows_of(database))


@pytest.fixture
def database():
    """The golden store, loaded row by row, opened under its schema and not allowed to change it."""
    tables = {table: {} for table in TABLES}
    for line in GOLDEN.read_text(encoding="ascii").splitlines():
        table, key, column, stamp, value = json.loads(line)
        row = tables[table].setdefault(bytes.fromhex(key), {})
        row[column.encode()] = Cell(bytes.fromhex(value), stamp)

    def load(store):
        for table, rows in tables.items():
            store.replace(table, rows)

    driver = SyncDriver(MemoryEngine(), lambda: store.FIRST + 10**6)
    driver.run(iter_of(Atomically(load)), Trace())
    with Database(driver, driver.run(opened(store.SCHEMA, read_only=True), Trace())) as opened_database:
        yield opened_database


def iter_of(effect):
    yield effect


@pytest.mark.parametrize("url", ["memory://", "lmdb://./store"])
def test_the_same_history_writes_the_same_rows(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert written(url) == GOLDEN.read_text(encoding="ascii")


def test_the_store_holds_every_kind_of_row():
    kinds = {(row[0], row[2]) for row in map(json.loads, GOLDEN.read_text(encoding="ascii").splitlines())}
    assert kinds == {
        ("roots", "d:b"),
        ("roots", "d:v"),
        ("roots", "m:e"),
        ("views", "d:b"),
        ("counts", "d:b"),
        ("system", "d:b"),
    }


def test_what_was_written_is_read(database):
    purchase = database.get(store.Purchase, "A1", 1)
    assert (purchase.buyer.name, purchase.buyer.country, purchase.quantity) == ("Ada", "France", 10)
    assert database.find(store.Purchase, "A1", 3) is None
    assert [row.source.key for row in database.page(store.PurchasesOfBuyer, 12347)] == [("A1", 4), ("A1", 2), ("A1", 1)]
    sales = database.get(store.ProductSales, "85123A")
    assert (sales.orders, sales.units, sales.dearest) == (3, 22 + 2**70, Decimal("2.55"))
    assert database.get(store.ProductOfName, "Cakestand").source.key == ("22423",)
    assert database.get(store.Gift, "G", 1).card == b"\x00\xff"


def test_a_task_that_was_left_is_done(database):
    assert database.drain() > 0
    assert database.get(store.Purchase, "A1", 1).buyer.country == "République"
    assert len(database.page(store.PurchasesOfCountry, "République")) == 3
    with pytest.raises(NotFound):
        database.get(store.Product, "gone")


if __name__ == "__main__":
    GOLDEN.write_text(written(), encoding="ascii")
