"""Clocks that are wrong: ahead, behind, jumping, and outside of the calendar."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from oneread import CREATED, GENERATED, UPDATED, Aggregate, Copy, Index, Key, Model, Schema, by, connect, count, within
from oneread.errors import Unavailable
from oneread.store.requests import Scan
from oneread.store.rows import RowRange

NOW = 1_700_000_000_000
YEAR = 365 * 86_400_000
JUMPS = [3_600_000, YEAR, 10 * YEAR, 200 * YEAR]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Customer(Model[int]):
    number: Key[int]
    name: str


class Buyer(Copy[Customer]):
    name: str


class Order(Model[int]):
    number: Key[int]
    buyer: Buyer
    code: str = ""
    made: datetime = CREATED
    changed: datetime = UPDATED


class ByName(Index[Order]):
    name: str = by(within(Order.buyer, Buyer.name))


class ByCode(Index[Order]):
    unique = True
    code: str = by(Order.code)


class OrdersOfName(Aggregate[Order]):
    name: str = by(within(Order.buyer, Buyer.name))
    orders: int = count()


class Note(Model[UUID]):
    id: Key[UUID] = GENERATED
    text: str = ""


MODELS = (Customer, Order, ByName, ByCode, OrdersOfName, Note)


class Clock:
    def __init__(self):
        self.now = NOW

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def filled(url, clock, inline):
    db = connect(url, Schema(*MODELS, inline=inline), workers=0, clock=clock)
    db.save_all([Customer(number=n, name="old") for n in (1, 2)])
    db.save_all([Order(number=n, buyer=Buyer.of(1 + n % 2), code=str(n)) for n in range(20)])
    return db


@pytest.mark.parametrize("inline", [0, 1000])
@pytest.mark.parametrize("jump", JUMPS)
def test_a_write_by_a_clock_that_is_ahead_heals(url, clock, jump, inline):
    db = filled(url, clock, inline)
    clock.now += jump
    db.patch(Order, 3, code="late")
    db.patch(Customer, 2, name="late")
    db.drain()
    clock.now = NOW + 1000
    found = db.verify()
    assert found.clean
    assert found.ahead_count == 1 + 10
    assert {each.ahead for each in found.ahead} >= {jump - 1000}
    assert "Order(3)" in {each.entity for each in found.ahead}
    assert db.patch(Order, 3, code="right").code == "right"
    db.patch(Order, 4, code="late")  # the claim is free again
    db.delete(Order, 3)
    for number in (1, 2):
        db.patch(Customer, number, name="new")
    db.drain()
    assert {order.buyer.name for order in db.page(Order, limit=100)} == {"new"}
    assert db.get(OrdersOfName, "new").orders == 19
    db.save(Order(number=3, buyer=Buyer.of(1), code="again"))
    assert db.set_aside() == []
    assert db.verify().clean


@pytest.mark.parametrize("jump", JUMPS)
def test_created_and_updated_come_from_the_clock(url, clock, jump):
    db = filled(url, clock, 1000)
    clock.now += jump
    db.patch(Order, 3, code="late")
    clock.now = NOW + 1000
    order = db.patch(Order, 3, code="right")
    assert db.version(order) == NOW + jump + 1
    assert order.made == EPOCH + timedelta(milliseconds=NOW)
    assert order.changed == EPOCH + timedelta(milliseconds=NOW + 1000)


@pytest.mark.parametrize("back", [3_600_000, YEAR, 50 * YEAR])
def test_a_clock_that_goes_back_stops_nothing(url, clock, back):
    db = filled(url, clock, 0)
    clock.now -= back
    version = db.version(db.get(Order, 3))
    order = db.patch(Order, 3, code="early")
    assert db.version(order) == version + 1
    db.patch(Customer, 1, name="new")
    db.drain()
    assert {order.buyer.name for order in db.page(Order, limit=100)} == {"new", "old"}
    notes = [db.save(Note(text=str(n))) for n in range(3)]
    assert len({note.id for note in notes}) == 3
    assert db.verify().clean


def test_stamps_of_groups_claims_and_tasks_never_go_back(url, clock):
    db = filled(url, clock, 0)
    stamps = {}
    for _ in range(4):
        db.patch(Customer, 1, name=f"name {clock.now}")
        db.patch(Order, 3, code=f"code {clock.now}")
        db.save(Order(number=4, buyer=Buyer.of(2), code="4"))
        for _ in range(2):
            for table in ("counts", "system"):
                for key, row in rows_of(db, table).items():
                    assert row[b"d:b"].stamp >= stamps.get((table, key), 0), (table, key)
                    stamps[table, key] = row[b"d:b"].stamp
            clock.now -= 3_600_000
            db.run(db.operations.drain_step(3))


def rows_of(db, table):

    return dict(db.run(Scan(table, RowRange(b"", b""), 10_000, families="dm").__iter__()))


WRONG = [-1, -(10**12), 253_402_300_800_000, 1 << 48, 1 << 63, 1 << 64, 1.5, None, "noon", True]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_clock_outside_of_the_calendar_is_refused_and_nothing_is_written(url, clock, wrong):
    db = filled(url, clock, 0)
    db.patch(Customer, 1, name="new")
    clock.now = wrong
    for write in (
        lambda: db.save(Note()),
        lambda: db.patch(Order, 3, code="x"),
        lambda: db.delete(Order, 3),
        db.drain,
        lambda: db.transact(lambda work: work.patch(Order, 3, code="x")),
    ):
        with pytest.raises(Unavailable, match="correct it"):
            write()
    assert db.get(Order, 3).code == "3"
    clock.now = NOW
    assert db.set_aside() == []
    assert db.drain() > 0
    assert db.verify().clean


@pytest.mark.parametrize("edge", [0, 253_402_300_799_999])
def test_the_first_and_the_last_instant_of_the_calendar_are_times(url, clock, edge):
    db = filled(url, clock, 0)
    clock.now = edge
    db.save(Note())
    assert db.patch(Order, 3, code="edge").changed == EPOCH + timedelta(milliseconds=edge)
    db.patch(Customer, 1, name="new")
    db.drain()
    clock.now = NOW
    db.patch(Order, 3, code="now")
    assert db.verify().clean
