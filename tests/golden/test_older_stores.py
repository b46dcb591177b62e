"""Stores that earlier code wrote are read, changed, evolved and backfilled by today's code.

`stores/0.1-a.jsonl` is from before a schema had a history; `stores/0.1-d.jsonl` from before a row had an own version.
`stores/0.1-b.jsonl` was written under one schema and opened under the next, so a store has rows of two layouts;
`stores/0.1-e.jsonl` is of format 2, from before counters.
`python -m tests.golden.test_older_stores` rewrites it; only a new file name should ever need that.
"""

import json
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest

from oneread import Copy, Index, Key, Model, Schema, by, descending, renamed, retyped, shown
from oneread.database._sync.database import Database
from oneread.database.open import opened
from oneread.derivations import emitted_record
from oneread.derivations.schema_rows import stored_schema
from oneread.engines.memory import MemoryEngine
from oneread.plans.effects import Atomically
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.requests import Read, Replace
from oneread.store.rows import TABLES, Cell
from oneread.transactions.root import BODY, EMITTED, VERSION
from tests.golden import store
from tests.golden import unordered as hash_ordered
from tests.golden.rows import rows_of
from tests.golden.test_store import iter_of, lines

STORES = Path(__file__).with_name("stores")


def loaded(name):
    """A driver of a store with these rows."""
    tables = {table: {} for table in TABLES}
    for line in (STORES / name).read_text(encoding="ascii").splitlines():
        table, key, column, stamp, value = json.loads(line)
        tables[table].setdefault(bytes.fromhex(key), {})[column.encode()] = Cell(bytes.fromhex(value), stamp)

    def load():
        for table, rows in tables.items():
            yield Replace(table, rows)

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


def test_a_store_of_the_format_before_is_raised_when_it_is_written_to():
    """Releases of that format would take the rows of counters for strays, and remove them."""
    driver = loaded("0.1-e.jsonl")
    assert under(driver, store.SCHEMA, read_only=True).run(stored_schema()).format == 2
    db = under(driver, store.SCHEMA)
    assert db.run(stored_schema()).format == 3
    assert db.get(store.Purchase, "A1", 1).buyer.name == "Ada"
    db.counter("votes").add(1, once="x")
    db.drain()
    assert db.verify().clean
    assert db.repair().clean
    assert db.counter("votes").read() == 1


def test_a_store_without_history_is_read_and_changed():
    driver = loaded("0.1-a.jsonl")
    reading = under(driver, store.SCHEMA, read_only=True)
    before = lines(rows_of(reading))
    assert reading.get(store.Purchase, "A1", 1).buyer.country == "France"
    assert lines(rows_of(reading)) == before
    db = under(driver, store.SCHEMA)
    assert db.run(stored_schema()).version == 1
    db.drain()
    db.patch(store.Country, "FR", name="France")
    db.drain()
    assert db.get(store.Purchase, "A1", 1).buyer.country == "France"
    assert len(db.page(store.PurchasesOfCountry, "France")) == 3


def test_a_store_without_history_gets_a_view_and_a_field():
    class Tagged(Index[store.Tag]):
        word: str = by(store.Tag.word)

    class VisitsOfPage(Index[store.Visit]):
        page: str = by(store.Visit.page)

    driver = loaded("0.1-a.jsonl")
    db = under(driver, Schema(*store.SCHEMA.models, *store.SCHEMA.views, Tagged, VisitsOfPage, inline=3))
    assert db.backfill(quiet=0, fence=True).done
    assert len(db.page(Tagged)) == 3
    assert len(db.page(VisitsOfPage, "/")) == 1
    assert db.verify().clean


@pytest.mark.parametrize("backfilled", [False, True], ids=["as it is", "backfilled"])
def test_a_store_with_rows_of_two_layouts(backfilled):
    schema = second()
    named = schema.named()
    person, sale, view = named["Person"], named["Sale"], named["SalesOfName"]
    db = under(loaded("0.1-b.jsonl"), schema)
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

    db = under(loaded("0.1-b.jsonl"), Schema(Person, Sale, SalesOfName))
    assert [row.known_as for row in db.page(Person)] == ["Ada", "Eve"]
    assert [row.price for row in db.page(Sale, "A")] == [Decimal(0), Decimal(1), Decimal(2)]
    assert db.backfill(quiet=0).done
    assert [row.source.key for row in db.page(SalesOfName, 1)] == [("A", 2), ("A", 0)]
    assert db.verify().clean


def test_a_row_without_an_own_version_was_changed_at_its_last_commit():
    db = under(loaded("0.1-d.jsonl"), store.SCHEMA)
    _key, version, body, _record = entity_of(db, store.Purchase, "A1", 1)
    assert body.stamp == version.stamp
    found = db.get(store.Purchase, "A1", 1)
    assert db.version(found) == version.stamp
    db.drain()
    db.patch(store.Customer, 12347, name="Eve")
    assert entity_of(db, store.Purchase, "A1", 1)[1].stamp > version.stamp
    patched = db.patch(store.Purchase, "A1", 1, quantity=11, if_version=db.version(found))
    assert patched.buyer.name == "Eve"
    assert db.verify().clean


@pytest.fixture
def unordered():
    """A store in which sets lie in the order of one process."""
    db = under(loaded("0.1-c.jsonl"), hash_ordered.SCHEMA)
    yield db
    db.close()


def test_sets_in_the_order_of_another_process_are_not_wrong(unordered):
    found = unordered.verify()
    assert found.clean, found.faults
    assert unordered.repair().mended == 0


def test_what_is_wrong_among_sets_without_order_is_found_all_the_same(unordered):
    """An index row, and what a record keeps of one: of rows with sets inside of other values, too."""
    places = [row for row in rows_of(unordered) if row[0] == "views" and row[1][:2] not in (b"\0\0", b"\xff\xff")]
    for table, key, column, stamp, value in {row[1][:4]: row for row in places}.values():
        broken = {key: {column: Cell(b"\xc1" + value, stamp)}}
        unordered.run(iter_of(Atomically(partial(iter_of, Replace(table, broken)))))
        assert not unordered.verify().clean
        assert unordered.repair().clean
    key, version, body, record = entity_of(unordered, hash_ordered.Article, 1)
    remembered = emitted_record.decode_record(record.value)
    token = b"i" + unordered.operations.catalog.views[hash_ordered.ArticlesOfWord].prefix
    remembered[token][0][1] = b"?" * 16
    row = {VERSION: version, BODY: body, EMITTED: Cell(emitted_record.encode_record(remembered), record.stamp)}
    unordered.run(iter_of(Atomically(partial(iter_of, Replace("roots", {key: row})))))
    assert unordered.verify().found == {"record": {"different": 1}}
    assert unordered.repair().clean


def entity_of(db, model, *parts):
    """The key of a root row, and its cells."""
    key = db.operations.catalog.kinds[model].key(parts)
    (row,) = db.run(Read("roots", [key], "dm").__iter__())
    return key, row[VERSION], row[BODY], row[EMITTED]


def test_a_store_with_sets_without_order_is_written_on(unordered):
    holders = {each.id: unordered.version(each) for each in unordered.page(hash_ordered.Citation)}
    for entity in unordered.page(hash_ordered.Article):
        unordered.save(entity)
    assert unordered.drain() == 0
    assert {each.id: unordered.version(each) for each in unordered.page(hash_ordered.Citation)} == holders
    unordered.patch(hash_ordered.Article, 1, words={"new", "ones"}, price=Decimal("1.0"))
    assert unordered.get(hash_ordered.Citation, 0).article.words == {"new", "ones"}
    assert unordered.verify().clean
    assert unordered.backfill(quiet=0).done
    assert unordered.verify().clean


if __name__ == "__main__":
    (STORES / "0.1-b.jsonl").write_text(written(), encoding="ascii")
