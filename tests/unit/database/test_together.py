"""Several reads in one round trip: their results, costs, errors, and that they wait at the same time."""

import asyncio
import threading

import pytest

from oneread import connect, connect_async
from oneread.costs.budgets import budget
from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.errors import BudgetExceeded, NotFound, UsageError
from oneread.testing.meter import Meter
from tests.unit.database.shop import SCHEMA, Customer, PurchasesOfBuyer, fill

SECONDS = 20
URLS = ["memory://", "memory://?span=row", "memory://?span=row&latency_ms=1"]


@pytest.fixture(params=URLS)
def meter_and_db(request):
    meter = Meter()
    with connect(request.param, SCHEMA, workers=0, observers=(meter.observe,)) as db:
        fill(db)
        yield meter, db


def test_each_result_is_that_of_the_read(meter_and_db):
    meter, db = meter_and_db
    alone = db.get(Customer, 1), db.page(PurchasesOfBuyer, 1, limit=2), db.find(Customer, 99)
    with meter(requests=3):
        customer, page, absent = db.together(
            lambda: db.get(Customer, 1), lambda: db.page(PurchasesOfBuyer, 1, limit=2), lambda: db.find(Customer, 99)
        )
    assert (customer, page.rows, absent) == (alone[0], alone[1].rows, None)
    assert (page.next, page.cost) == (alone[1].next, alone[1].cost)
    assert db.cost(customer).requests == 1
    assert db.together() == ()


def test_the_first_error_is_raised(meter_and_db):
    _meter, db = meter_and_db
    with pytest.raises(NotFound) as raised:
        db.together(lambda: db.get(Customer, 1), lambda: db.get(Customer, 98), lambda: db.get(Customer, 99))
    assert raised.value.facts["key"] == (98,)
    with pytest.raises(UsageError, match="functions that read"):
        db.together(db.get(Customer, 1))


def test_they_are_within_the_budget_of_the_caller(meter_and_db):
    _meter, db = meter_and_db
    reads = [lambda: db.get_many(Customer, [(1,)])] * 3
    with budget(requests=3) as spent:
        db.together(*reads)
        assert spent.requests == 3
    with pytest.raises(BudgetExceeded), budget(requests=2):
        db.together(*reads)


@pytest.mark.parametrize("url", URLS)
def test_the_asynchronous_face(url):
    async def read():
        async with connect_async(url, SCHEMA, workers=0) as db:
            await db.save(Customer(number=1, name="ada", country="at"))
            customer, page = await db.together(lambda: db.get(Customer, 1), lambda: db.page(Customer))
            assert page.rows == [customer]
            with pytest.raises(NotFound) as raised:
                await db.together(lambda: db.get(Customer, 98), lambda: db.get(Customer, 99))
            assert raised.value.facts["key"] == (98,)
            with pytest.raises(UsageError, match="functions that read"):
                await db.together(1)

    asyncio.run(read())


@pytest.mark.parametrize("face", ["sync", "async"])
def test_reads_wait_at_the_same_time(monkeypatch, face):
    """Each request waits until three are on their way."""
    url = "memory://at-the-same-time?span=row&latency_ms=1"
    with connect(url, SCHEMA, workers=0) as db:
        fill(db)
        answer, together = OneRowMemoryEngine.answer, threading.Barrier(3)

        def waiting(engine, request):
            together.wait(SECONDS)
            return answer(engine, request)

        async def read():
            async with connect_async(url, SCHEMA, workers=0) as other:
                monkeypatch.setattr(OneRowMemoryEngine, "answer", waiting)
                found = await other.together(*[lambda: other.get(Customer, 1)] * 3)
                monkeypatch.setattr(OneRowMemoryEngine, "answer", answer)
                return found

        if face == "async":
            found = asyncio.run(read())
        else:
            monkeypatch.setattr(OneRowMemoryEngine, "answer", waiting)
            found = db.together(*[lambda: db.get(Customer, 1)] * 3)
        assert [each.name for each in found] == ["Customer 1"] * 3
        monkeypatch.undo()
