"""The public verbs on a real HBase: any history comes to the same as in the oracle, and the shop by both faces."""

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count
from uuid import uuid4

import pytest
from hypothesis import Phase, given, settings

from examples.shop.schema import (
    SHOP,
    Buyer,
    BuyerTotals,
    Customer,
    Product,
    ProductSales,
    Purchase,
    PurchasesOfBuyer,
    Sold,
)
from oneread import connect, connect_async
from oneread.engines.hbase import HbaseEngine, options_from_url
from oneread.testing import strategies
from oneread.testing.proof import prove
from tests.properties.one_row import of_one_row
from tests.rooms import RoomOfKeys
from tests.simulation.schema import WORLD

EXAMPLES = max(1, settings().max_examples // 20)
FEW = settings(max_examples=EXAMPLES, deadline=None, phases=[Phase.generate])


@pytest.fixture
def rooms(hbase, worker_id, monkeypatch):
    """Lets `hbase://` open another empty store each time: a room in the tables of this worker."""
    engine = HbaseEngine(options_from_url(f"{hbase.place}/default", {"prefix": f"properties_{worker_id}_"}))
    numbers, run = count(), uuid4().bytes[:4]

    def open_room(_place, _options, _timeout):
        return RoomOfKeys(engine, run + next(numbers).to_bytes(4, "big")), True

    monkeypatch.setitem(connect.__globals__["_OPENERS"], "hbase", open_room)
    yield
    engine.close()


@pytest.mark.usefixtures("rooms")
def test_a_history_comes_to_the_same_in_hbase_and_oracle():
    @FEW
    @given(strategies.histories(WORLD))
    def is_equal(history):
        prove(WORLD, of_one_row(history), "hbase://room")

    is_equal()


def purchase(order, customer, code, quantity):
    price = Decimal("2.5")
    return Purchase(
        order=order,
        line=1,
        buyer=Buyer.of(customer),
        product=Sold.of(code),
        quantity=quantity,
        unit_price=price,
        amount=quantity * price,
        country="France",
        ordered_at=datetime(2011, 1, int(order), tzinfo=UTC),
    )


SAVED = [
    Customer(number=1, name="Ada", country="France"),
    Customer(number=2, name="Bob", country="France"),
    Product(code="P", name="HEART"),
    purchase("1", 1, "P", 3),
    purchase("2", 1, "P", 4),
    purchase("3", 2, "P", 5),
]
EXPECTED = ([("3", "STAR"), ("1", "STAR")], 8, Decimal("20.0"), 0, "Eve")


@pytest.mark.usefixtures("rooms")
def test_the_shop_on_hbase_by_the_synchronous_face():
    with connect("hbase://room", SHOP, workers=0) as db:
        for each in SAVED:
            db.save(each)
        db.patch(Product, "P", name="STAR")
        db.save(purchase("3", 1, "P", 5))
        db.patch(Customer, 1, name="Eve")
        db.delete(Purchase, "2", 1)
        db.drain()
        page = db.page(PurchasesOfBuyer, 1, limit=10)
        rows = [(str(each.ordered_at.day), each.product.name) for each in page.rows]
        sold = db.get(ProductSales, "P")
        shown = (
            rows,
            sold.units,
            db.get(BuyerTotals, 1).spent,
            db.get(BuyerTotals, 2).orders,
            db.get(Purchase, "1", 1).buyer.name,
        )
    assert shown == EXPECTED


@pytest.mark.usefixtures("rooms")
def test_the_shop_on_hbase_by_the_asynchronous_face():
    async def run():
        async with connect_async("hbase://room", SHOP, workers=0) as db:
            await asyncio.gather(*(db.save(each) for each in SAVED[:3]))
            await asyncio.gather(*(db.save(each) for each in SAVED[3:]))
            await db.patch(Product, "P", name="STAR")
            await db.save(purchase("3", 1, "P", 5))
            await asyncio.gather(db.patch(Customer, 1, name="Eve"), db.delete(Purchase, "2", 1))
            await db.drain()
            page = await db.page(PurchasesOfBuyer, 1, limit=10)
            rows = [(str(each.ordered_at.day), each.product.name) for each in page.rows]
            sold, spent = await db.get(ProductSales, "P"), (await db.get(BuyerTotals, 1)).spent
            orders = (await db.get(BuyerTotals, 2)).orders
            return rows, sold.units, spent, orders, (await db.get(Purchase, "1", 1)).buyer.name

    assert asyncio.run(run()) == EXPECTED
