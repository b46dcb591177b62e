"""What cannot be mended can be dropped: it goes with what was derived from it, and nothing else."""

import asyncio

import pytest

from oneread import connect, connect_async
from oneread.errors import UsageError
from oneread.testing.audit import Audit
from oneread.transactions.root import BODY
from tests.simulation.schema import Customer, Product, Purchase
from tests.unit.database import shop
from tests.unit.verify.damaged import Damaged
from tests.unit.verify.damaged_rows import DamagedRows
from tests.unit.verify.faults import LEFT, PLANTED
from tests.unit.verify.hands import url_of


@pytest.fixture(params=["memory", "lmdb", "one row"])
def store(request, tmp_path):
    url = url_of(request.param, tmp_path)
    store = DamagedRows(url) if request.param == "one row" else Damaged(url)
    yield store
    store.close()


@pytest.mark.parametrize("plant", LEFT, ids=lambda plant: plant.__name__)
def test_what_repair_leaves_is_dropped_and_the_store_is_right(store, plant):
    plant(store)
    left = store.db.repair().left
    assert [fault.droppable for fault in left] == [True]
    assert store.db.drop(*left) == left
    store.db.drain()
    assert store.db.repair().clean
    assert store.db.drop(*left) == ()
    Audit(store.engine, store.db.operations).check()


def test_nothing_else_is_touched(store):
    others = {number: store.db.get(Purchase, number) for number in (1, 2, 4, 5, 6, 7)}
    store.change_root(Purchase, 3, body=store.root(Purchase, 4)[1][BODY].value)
    before = {table: store.rows(table) for table in ("views", "counts")}
    (fault,) = store.db.repair().left
    assert fault.text == "Purchase 3: the row holds Purchase 4"
    store.db.drop(fault)
    assert store.db.find(Purchase, 3) is None
    assert {number: store.db.get(Purchase, number) for number in others} == others
    owner = store.root(Purchase, 3)[0][2:]
    for key, row in store.rows("views").items():
        assert before["views"][key] == row
    assert all(key.endswith(owner) for key in before["views"].keys() - store.rows("views").keys())
    assert before["counts"].keys() == store.rows("counts").keys()


def test_copies_of_what_was_dropped_keep_their_last_values(store):
    body = store.root(Customer, 3)[1][BODY].value
    store.change_root(Customer, 3, body=b"\x7f\xff" + body[2:])
    assert store.db.drop(*store.db.repair().left)
    store.db.drain()
    buyers = [each.buyer for each in store.db.page(Purchase) if each.buyer.ref.key == (3,)]
    assert buyers
    assert all(buyer.deleted and buyer.name == "name 3" for buyer in buyers)
    assert store.db.repair().clean


def test_an_entity_that_is_readable_by_then_stays(store):
    body = store.root(Purchase, 3)[1][BODY].value
    store.change_root(Purchase, 3, body=body[:2] + b"\xc1")
    (fault,) = store.db.repair().left
    store.change_root(Purchase, 3, body=body)
    assert store.db.drop(fault) == ()
    assert store.db.get(Purchase, 3).number == 3


@pytest.mark.parametrize("plant", PLANTED[:3], ids=lambda plant: plant.__name__)
def test_what_can_be_mended_is_not_dropped(store, plant):
    plant(store)
    before = store.rows("roots")
    faults = store.db.verify().faults
    with pytest.raises(UsageError, match="repair mends others"):
        store.db.drop(*faults)
    assert store.rows("roots") == before


@pytest.mark.parametrize("given", [None, 7, "Purchase(3)", Product])
def test_only_faults_are_dropped(given):
    with connect("memory://", shop.SCHEMA) as db, pytest.raises(UsageError, match="expected a fault"):
        db.drop(given)


def test_on_an_event_loop():
    async def main():
        async with connect_async("memory://", shop.SCHEMA) as db:
            assert await db.drop() == ()
            with pytest.raises(UsageError, match="expected a fault"):
                await db.drop("all")

    asyncio.run(main())
