"""Explaining a call makes no request, refuses what the call refuses, and names the very rows that it would ask for."""

import json

import msgspec
import pytest

from oneread import add, any_of, connect, field
from oneread.costs.bounds import Bound
from oneread.costs.numbers import BASICS, FORMAT, MachineNumbers, this_machine
from oneread.errors import InvalidCursor, InvalidKey, InvalidQuery, InvalidValue, UsageError
from oneread.store.requests import Read, Scan
from tests.unit.database.faces import FACES
from tests.unit.database.shop import (
    SCHEMA,
    Customer,
    CustomerNames,
    Product,
    Purchase,
    PurchasesOfBuyer,
    PurchasesOfProduct,
    SalesOfBuyer,
    SalesOfProduct,
    fill,
    purchase,
)

NUMBERS = MachineNumbers(FORMAT, "memory", this_machine(), dict.fromkeys(BASICS, 1e-6) | {"byte read": 0.0})


class Shop:
    """A filled shop that writes down what is asked of its store."""

    def __init__(self, face, url):
        self.asked = []
        self.db = face(url, SCHEMA, workers=0, observers=(lambda request, _answer: self.asked.append(request),))
        fill(self.db)
        self.asked.clear()


@pytest.fixture(params=FACES.values(), ids=FACES)
def shop(request, url):
    shop = Shop(request.param, url)
    yield shop
    shop.db.close()


def explainer(shop):
    db = shop.db
    return getattr(db, "db", db).explain


CALLS = {
    "get": (lambda e: e.get(Purchase, "o", 1), lambda db: db.get(Purchase, "o", 1)),
    "a unique row": (lambda e: e.get(CustomerNames, "Customer 1"), lambda db: db.get(CustomerNames, "Customer 1")),
    "a group": (lambda e: e.get(SalesOfBuyer, 1), lambda db: db.get(SalesOfBuyer, 1)),
    "a page": (
        lambda e: e.page(PurchasesOfBuyer, 1, limit=2),
        lambda db: db.page(PurchasesOfBuyer, 1, limit=2),
    ),
    "a page backwards": (
        lambda e: e.page(PurchasesOfBuyer, 1, limit=2, backward=True),
        lambda db: db.page(PurchasesOfBuyer, 1, limit=2, backward=True),
    ),
    "a page of two values": (
        lambda e: e.page(PurchasesOfProduct, any_of("p", "q"), limit=2),
        lambda db: db.page(PurchasesOfProduct, any_of("p", "q"), limit=2),
    ),
    "get_many": (
        lambda e: e.get_many(Purchase, [("o", 1), ("o", 2)]),
        lambda db: db.get_many(Purchase, [("o", 1), ("o", 2)]),
    ),
}


@pytest.mark.parametrize("what", CALLS)
def test_the_plan_names_what_the_call_then_asks(shop, what):
    explain, call = CALLS[what]
    explained = explain(explainer(shop))
    assert shop.asked == []
    call(shop.db)
    text = str(explained)
    for request in shop.asked:
        if isinstance(request, Scan):
            assert f"scan {request.table} for " in text
            assert request.range.start.hex() not in text
        elif isinstance(request, Read) and request.table != "roots":
            assert f"read {request.table} " in text
            assert request.keys[0].hex() not in text
    assert len(explained.plan) == sum(isinstance(request, Scan | Read) for request in shop.asked)
    assert len(shop.asked) <= explained.bound.requests
    if what == "get":
        assert "read roots Purchase('o', 1)" in text


WRITES = {
    "save": lambda e: e.save(purchase(1)),
    "create": lambda e: e.create(purchase(9)),
    "get_or_create": lambda e: e.get_or_create(purchase(9)),
    "upsert": lambda e: e.upsert(purchase(9), remark="!"),
    "patch": lambda e: e.patch(Purchase, "o", 1, quantity=add(1)),
    "delete": lambda e: e.delete(Purchase, "o", 1),
    "save_all": lambda e: e.save_all([purchase(9), purchase(10)]),
}


@pytest.mark.parametrize("verb", WRITES)
def test_a_write_is_explained_and_not_done(shop, verb):
    explained = WRITES[verb](explainer(shop))
    assert shop.asked == []
    assert explained.call.startswith(verb)
    assert "Purchase('o', " in str(explained)
    assert explained.bound.rows > 3
    assert json.loads(msgspec.json.encode(explained))["bound"]["verb"]


def test_what_is_read_with_a_save_is_named(shop):
    (line,) = explainer(shop).save(purchase(1)).plan
    assert line == "read roots Purchase('o', 1), Customer(1), Product('p')"


def test_known_holders_make_a_rename_exact(shop):
    explained = explainer(shop).patch(Product, "p", name="Pear", carriers=3)
    cost = shop.db.cost(shop.db.patch(Product, "p", name="Pear"))
    assert (cost.requests, cost.rows) == (explained.bound.requests, explained.bound.rows)


def test_times_are_predicted_by_numbers_and_strange_ones_are_said(shop):
    explain = explainer(shop)
    assert explain.get(Purchase, "o", 1).seconds is None
    assert explain.by(NUMBERS).get(Purchase, "o", 1).seconds == 1e-6
    assert "about" in str(explain.by(NUMBERS).save(purchase(1)))
    away = msgspec.structs.replace(NUMBERS, machine=msgspec.structs.replace(NUMBERS.machine, cores=9999))
    assert "measured elsewhere: cores: 9999, not" in str(explain.by(away).get(SalesOfProduct, "p"))


WRONG = {
    "a key that is too short": (lambda e: e.get(Purchase, "o"), InvalidKey),
    "no class": (lambda e: e.get("Purchase", "o"), UsageError),
    "an index that is not unique": (lambda e: e.get(PurchasesOfBuyer, 1), UsageError),
    "half a unique value": (lambda e: e.get(CustomerNames), InvalidQuery),
    "no rows": (lambda e: e.page(PurchasesOfBuyer, limit=0), InvalidQuery),
    "too many rows": (lambda e: e.page(PurchasesOfProduct, limit=21), InvalidQuery),
    "a foreign cursor": (lambda e: e.page(PurchasesOfBuyer, cursor="x"), InvalidCursor),
    "a condition on another": (
        lambda e: e.page(PurchasesOfBuyer, where=field(CustomerNames.name) == "x"),
        InvalidQuery,
    ),
    "a key that is no tuple": (lambda e: e.get_many(Customer, [1]), InvalidKey),
    "an unknown class": (lambda e: e.page(int), UsageError),
    "part of the key": (lambda e: e.patch(Purchase, "o", 1, line=2), InvalidValue),
    "an unknown field": (lambda e: e.patch(Purchase, "o", 1, colour="red"), UsageError),
    "two classes": (lambda e: e.save_all([purchase(1), Customer(number=1, name="A")]), UsageError),
    "no entity": (lambda e: e.save("Purchase"), UsageError),
    "a view": (lambda e: e.delete(PurchasesOfBuyer, 1), UsageError),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_the_call_refuses_is_refused(shop, what):
    explain, error = WRONG[what]
    with pytest.raises(error):
        explain(explainer(shop))
    assert shop.asked == []


def test_an_explanation_holds_a_bound(shop):
    assert isinstance(explainer(shop).delete(Customer, 1).bound, Bound)


def test_counters_are_explained_without_a_request(url):
    asked = []
    with connect(url, SCHEMA, workers=0, observers=(lambda *each: asked.append(each),)) as db:
        asked.clear()
        explained = db.explain.by(NUMBERS).counter_add("votes:42", keep={"hour": 3}, once=True)
        assert explained.call == "counter('votes:42').add(once=...)"
        assert explained.bound.requests == 5
        assert explained.seconds
        assert db.explain.counter_read("votes:42", shards=20).bound.rows == 20
        with pytest.raises(InvalidKey):
            db.explain.counter_read("")
        cached = db.explain.by(NUMBERS).cache_counter_add("views:7", chance_to_write=0.5, shards=20)
        assert cached.call == "cache_counter('views:7').add()"
        assert (cached.bound.requests, cached.bound.rows) == (5, 43)
        assert "loses 1.0 adds on average, 9.0 at most in 99.9 %" in str(cached)
        assert db.explain.cache_counter_read("views:7", shards=20).bound.rows == 40
        with pytest.raises(InvalidKey):
            db.explain.cache_counter_add("")
        with pytest.raises(InvalidKey):
            db.explain.cache_counter_read("")
        with pytest.raises(InvalidValue):
            db.explain.cache_counter_add("views:7", chance_to_write=0)
        assert not asked
