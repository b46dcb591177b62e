"""Stores that earlier code wrote are read, changed and evolved by today's code; those of an earlier format are refused.

`stores/0.2-a.jsonl` was written under one schema and opened under the next, so it has rows of two layouts;
`stores/0.1-e.jsonl` is of format 2. `python -m tests.golden.test_older_stores` rewrites the first; only a new file name
should ever need that.
"""

import json
from decimal import Decimal
from pathlib import Path

import pytest

from oneread import Copy, Index, Key, Model, Schema, by, descending, renamed, retyped, shown
from oneread.database._sync.database import Database
from oneread.database.open import opened
from oneread.engines.memory import MemoryEngine
from oneread.errors import SchemaMismatch
from oneread.models.versions import FORMAT
from oneread.plans.effects import Atomically
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.requests import Scan
from oneread.store.rows import TABLES, Cell, RowRange
from tests.golden import store
from tests.golden.rows import rows_of
from tests.golden.test_store import iter_of, lines

STORES = Path(__file__).with_name("stores")


def loaded(name):
    """A driver of a store with these rows."""
    tables = {table: {} for table in TABLES}
    for line in (STORES / name).read_text(encoding="ascii").splitlines():
        table, key, column, stamp, value = json.loads(line)
        tables[table].setdefault(bytes.fromhex(key), {})[column.encode()] = Cell(bytes.fromhex(value), stamp)

    def load(inside):
        for table, rows in tables.items():
            inside.replace(table, rows)

    driver = SyncDriver(MemoryEngine(), lambda: store.FIRST + 10**9)
    driver.run(iter_of(Atomically(load)), Trace())
    return driver


def under(driver, schema, *, read_only=False):
    return Database(driver, driver.run(opened(schema, read_only=read_only), Trace()))


def first():
    class Person(Model[int]):
        number: Key[int]
        name: str
        city: str = "?"

    class Buyer(Copy[Person]):
        name: str

    class Sale(Model[str, int]):
        order: Key[str]
        line: Key[int]
        buyer: Buyer
        cents: int
        note: str | None = None

    class SalesOfName(Index[Sale]):
        buyer: Buyer = by(Sale.buyer)
        cents: int = shown(Sale.cents)

    return Schema(Person, Sale, SalesOfName)


def second():
    class Person(Model[int]):
        evolution = (renamed("name", to="called"),)

        number: Key[int]
        city: str = "?"
        called: str
        phone: str | None = None

    class Buyer(Copy[Person]):
        evolution = (renamed("name", to="called"),)

        called: str
        city: str | None

    class Sale(Model[str, int]):
        evolution = (renamed("cents", to="price"), retyped("price", was=int, by=lambda cents: Decimal(cents) / 100))

        order: Key[str]
        line: Key[int]
        buyer: Buyer
        price: Decimal

    class SalesOfName(Index[Sale]):
        buyer: Buyer = by(Sale.buyer)
        price: Decimal = shown(Sale.price)

    return Schema(Person, Sale, SalesOfName)


def written():
    driver = SyncDriver(MemoryEngine(), lambda: store.FIRST)
    one, two = first(), second()
    old, new = one.named(), two.named()
    db = under(driver, one)
    db.save_all([old["Person"](number=1, name="Ada", city="Paris"), old["Person"](number=2, name="Bob")])
    buyer = old["Sale"].__annotations__["buyer"]
    db.save_all(
        [old["Sale"](order="A", line=line, buyer=buyer.of(line % 2 + 1), cents=100 * line) for line in range(4)]
    )
    db.save(old["Sale"](order="B", line=1, buyer=buyer.of(2), cents=2**70, note="gone"))
    db.delete(old["Sale"], "A", 3)
    db.delete(old["Person"], 2)
    later = under(driver, two)
    later.patch(new["Person"], 1, phone="12")
    later.save(new["Person"](number=3, called="Eve"))
    return lines(rows_of(later))


@pytest.mark.parametrize("read_only", [False, True])
def test_a_store_of_an_earlier_format_is_refused_with_the_way_out(read_only):
    driver = loaded("0.1-e.jsonl")
    before = driver.run(stored_rows(), Trace())
    with pytest.raises(SchemaMismatch, match="write a dump of it with that release") as refused:
        under(driver, store.SCHEMA, read_only=read_only)
    assert refused.value.facts == {"format": 2, "known": FORMAT}
    assert driver.run(stored_rows(), Trace()) == before


def stored_rows():
    found = {}
    for table in TABLES:
        found[table] = yield Scan(table, RowRange(b"", b""), 10_000, families="dm")
    return found


@pytest.mark.parametrize("backfilled", [False, True], ids=["as it is", "backfilled"])
def test_a_store_with_rows_of_two_layouts(backfilled):
    schema = second()
    named = schema.named()
    person, sale, view = named["Person"], named["Sale"], named["SalesOfName"]
    db = under(loaded("0.2-a.jsonl"), schema)
    if backfilled:
        assert db.backfill(quiet=0).done
        assert db.verify().clean
        assert [row.price for row in db.page(view, 1)] == [Decimal(0), Decimal(2)]
    assert db.get(person, 1) == person(number=1, called="Ada", city="Paris", phone="12")
    assert db.get(person, 3).called == "Eve"
    assert [row.price for row in db.page(sale, "A")] == [Decimal(0), Decimal(1), Decimal(2)]
    assert db.get(sale, "B", 1).price == Decimal(2**70) / 100
    assert db.get(sale, "B", 1).buyer.called == "Bob"
    assert db.get(sale, "A", 2).buyer.city == "Paris"


def test_a_later_schema_reads_both_layouts():
    class Person(Model[int]):
        evolution = (renamed("name", to="called"), renamed("called", to="known_as"))

        number: Key[int]
        known_as: str

    schema = second().named()

    class Buyer(Copy[Person]):
        evolution = (renamed("name", to="called"), renamed("called", to="known_as"))

        known_as: str

    class Sale(Model[str, int]):
        evolution = schema["Sale"].evolution

        order: Key[str]
        line: Key[int]
        buyer: Buyer
        price: Decimal

    class SalesOfName(Index[Sale]):
        buyer: Buyer = by(Sale.buyer)
        price: Decimal = descending(Sale.price)

    db = under(loaded("0.2-a.jsonl"), Schema(Person, Sale, SalesOfName))
    assert [row.known_as for row in db.page(Person)] == ["Ada", "Eve"]
    assert [row.price for row in db.page(Sale, "A")] == [Decimal(0), Decimal(1), Decimal(2)]
    assert db.backfill(quiet=0).done
    assert [row.source.key for row in db.page(SalesOfName, 1)] == [("A", 2), ("A", 0)]
    assert db.verify().clean


if __name__ == "__main__":
    (STORES / "0.2-a.jsonl").write_text(written(), encoding="ascii")
