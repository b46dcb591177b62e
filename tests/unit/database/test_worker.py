"""Tasks are done by a worker of its own, can be waited for and resumed, and block no writer."""

import asyncio
import logging
import threading
from types import SimpleNamespace

import pytest

from oneread import Schema, connect, connect_async
from oneread.counters.rows import GENERATIONS_ROW
from oneread.database.worker import Worker
from oneread.errors import Closed, StaleCopies, Unavailable
from oneread.plans.plan import Plan
from oneread.store.requests import Mutate, Read
from oneread.store.rows import Cell, RowMutation
from oneread.transactions.outbox import TASKS
from tests.unit.database.shop import SHOP, Buyer, Customer, Product, Purchase, PurchasesOfBuyer, Sold, fill

FEW = Schema(*SHOP, inline=1)


def test_the_worker_of_a_local_store_does_what_a_commit_leaves(url):
    with connect(url, FEW, workers=1) as db:
        fill(db)
        renamed = db.patch(Product, "p", name="Pear")
        tasks = db.tasks(renamed)
        assert tasks
        tasks.wait(30)
        assert not tasks
        assert tasks.done()
        assert db.get(Purchase, "o", 3).product.name == "Pear"
        assert {row.product.name for row in db.page(PurchasesOfBuyer, 1)} == {"Pear"}


def test_the_worker_of_an_asynchronous_database_does_so_too(url):
    async def main():
        async with connect_async(url, FEW, workers=1) as db:
            await db.save(Customer(number=1, name="Ada"))
            await db.save(Product(code="p", name="Pea"))
            await db.save_all([Purchase(**fields) for fields in purchases()])
            renamed = await db.patch(Product, "p", name="Pear")
            await db.tasks(renamed).wait(30)
            return (await db.get(Purchase, "o", 2)).product.name

    assert asyncio.run(main()) == "Pear"


def purchases():
    return [{"order": "o", "line": line, "buyer": Buyer.of(1), "product": Sold.of("p"), "tags": []} for line in (1, 2)]


def test_what_leaves_no_task_is_done_at_once(url):
    with connect(url, FEW, workers=0) as db:
        fill(db)
        tasks = db.tasks(db.patch(Product, "q", name="Quince"))
        assert not tasks
        assert tasks.done()
        tasks.wait(0)
        assert not db.tasks(db.get(Product, "q"))


@pytest.mark.parametrize("clock", [lambda: 5_000_000, None])
def test_waiting_ends_when_no_worker_does_the_task(url, clock):
    with connect(url, FEW, workers=0, **({"clock": clock} if clock else {})) as db:
        fill(db)
        renamed = db.patch(Product, "p", name="Pear")
        with pytest.raises(Unavailable) as refusal:
            db.tasks(renamed).wait(0.02)
        assert refusal.value.retryable
        assert refusal.value.facts == {"left": 1, "timeout": 0.02}
        assert db.drain() == 1
        db.tasks(renamed).wait(0)


def test_tasks_of_a_process_that_ended_are_done_when_the_store_is_opened_again(url):
    with connect(url, FEW, workers=0) as db:
        fill(db)
        left = db.tasks(db.patch(Product, "p", name="Pear"))
    with connect(url, FEW, workers=1) as db:
        left._database = db
        left.wait(30)
        assert db.get(Purchase, "o", 1).product.name == "Pear"


def test_tasks_of_a_process_that_died_are_done_by_those_that_have_the_store_open(url, monkeypatch):
    monkeypatch.setattr("oneread.database.worker.RECOVERY_SECONDS", 0.01)
    with connect(url, FEW, workers=1) as db:
        fill(db)
        while db.run(db.operations.drain_step(1)):
            pass  # the worker has nothing left that would wake it
        with connect(url, FEW, workers=0) as other:
            left = other.tasks(other.patch(Product, "p", name="Pear"))
            left.wait(30)
            assert other.get(Purchase, "o", 1).product.name == "Pear"


def test_a_task_resumes_where_its_last_batch_ended(url):
    with connect(url, FEW, workers=0) as db:
        fill(db, purchases=7)
        db.patch(Product, "p", name="Pear")
        batches = 0
        while db.run(db.operations.drain_step(3)):
            batches += 1
            done = [each.product.name for each in db.page(Purchase, "o")].count("Pear")
            assert done == min(3 * batches, 7)
        assert batches == 3


def test_a_task_whose_source_changed_again_copies_the_newest_values(url):
    with connect(url, FEW, workers=0) as db:
        fill(db)
        db.patch(Product, "p", name="Pear")
        db.run(db.operations.drain_step(1))
        db.patch(Product, "p", name="Plum")
        db.drain()
        assert {each.product.name for each in db.page(Purchase, "o")} == {"Plum"}
        assert db.drain() == 0


def plant(db, table, key, column, value):
    """Puts bytes where the library never would."""
    cell = Cell(value, 1 << 50)
    db.run(Mutate(table, [RowMutation(key, {column: cell})]).__iter__())


def test_a_holder_that_cannot_be_read_does_not_keep_the_others_from_following(url, caplog):
    with connect(url, FEW, workers=0) as db:
        fill(db, purchases=5)
        spoiled = db.operations.kind(Purchase).key(("o", 2))
        plant(db, "roots", spoiled, b"d:b", b"\x00\x00 torn")
        renamed = db.patch(Product, "p", name="Pear")
        with caplog.at_level(logging.WARNING):
            db.drain()
        with pytest.raises(StaleCopies, match=r"Purchase\('o', 2\)"):
            db.tasks(renamed).wait()
        assert "could not update the copies in Purchase('o', 2) from Product('p'); set aside" in caplog.text
        assert {db.get(Purchase, "o", line).product.name for line in (1, 3, 4, 5)} == {"Pear"}
        assert [fault.entity for fault in db.verify().faults] == ["Purchase('o', 2)"]


def test_a_task_that_cannot_be_read_does_not_hold_up_those_behind_it(url):
    with connect(url, FEW, workers=0) as db:
        fill(db)
        plant(db, "system", TASKS.start + b"\x00" + db.operations.kind(Product).key(("a",)), b"d:b", b"torn")
        renamed = db.patch(Product, "p", name="Pear")
        assert db.drain() == 1 + 1
        assert db.tasks(renamed).done()
        assert db.get(Purchase, "o", 1).product.name == "Pear"
        assert [(each.source, each.holder, each.error) for each in db.set_aside()] == [("Product('a')", "", "Corrupt")]
        assert [(fault.view, fault.kind) for fault in db.verify().faults] == [("task", "unreadable")]
        assert db.repair().clean
        assert db.set_aside() == []
        assert db.drain() == 0


class Idle:
    """Counters of which none is to be swept or copied."""

    pause = 5.0

    def __init__(self):
        self.sweeper = self

    def step(self) -> Plan[bool]:
        return False
        yield


class Refusing:
    """Operations of which the first step of a task is refused, and the second finds nothing to do."""

    def __init__(self):
        self.steps = 0
        self.meter = None
        self.second = threading.Event()
        self.outbox, self.chores, self.copies, self.sweeper = self, Idle(), Idle(), Idle()
        self.parts = SimpleNamespace(recoverer=self)

    def look(self) -> Plan[bool]:
        yield from ()
        return False

    def stand_back(self) -> None:
        pass

    def step(self, _batch: int) -> Plan[bool]:
        self.steps += 1
        if self.steps == 1:
            raise Unavailable("the store is busy")
        self.second.set()
        return False
        yield


def test_a_refusal_is_written_down_and_tried_again(url, caplog, monkeypatch):
    monkeypatch.setattr("oneread.database.worker.PAUSE_SECONDS", 0.0)
    operations = Refusing()
    with connect(url, FEW, workers=0) as db, caplog.at_level(logging.ERROR):
        worker = Worker(operations, db._driver)
        worker.wake()
        assert operations.second.wait(30)
        worker.stop()
        worker.wake()  # after the end it stays ended
        worker.stop()
    assert operations.steps >= 2
    assert "a batch of a task failed" in caplog.text


@pytest.mark.parametrize("workers", [0, 1])
def test_an_asynchronous_close_that_failed_is_done_by_the_next_one(url, workers, monkeypatch):
    async def scenario():
        db = await connect_async(url, FEW, workers=workers)
        await db.save(Customer(number=1, name="Cy"))
        close, outcomes = db._driver.engine.close, iter([Unavailable("a transaction takes too long")])

        def failing():
            for failure in outcomes:
                raise failure
            close()

        monkeypatch.setattr(db._driver.engine, "close", failing)
        with pytest.raises(Unavailable):
            await db.close()
        await db.close()
        await db.close()
        with pytest.raises(Closed):
            db._driver.engine.answer(Read("roots", [b"a"]))

    asyncio.run(scenario())


@pytest.mark.parametrize("workers", [0, 1])
def test_an_asynchronous_close_that_was_cancelled_is_done_by_the_next_one(url, workers, monkeypatch):
    async def scenario():
        db = await connect_async(url, FEW, workers=workers)
        await db.save(Customer(number=1, name="Cy"))
        close, inside, go = db._driver.engine.close, threading.Event(), threading.Event()

        def slow():
            inside.set()
            assert go.wait(30)
            close()

        monkeypatch.setattr(db._driver.engine, "close", slow)
        closing = asyncio.create_task(db.close())
        assert await asyncio.to_thread(inside.wait, 30)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        again = asyncio.create_task(db.close())
        go.set()
        await again
        await db.close()
        with pytest.raises(Closed):
            db._driver.engine.answer(Read("roots", [b"a"]))

    asyncio.run(scenario())


def test_a_worker_ends_when_its_store_is_closed(url):
    db = connect(url, FEW, workers=0)
    worker = Worker(db.operations, db._driver)
    db.close()
    worker.wake()
    thread = worker._thread
    thread.join(30)
    assert not thread.is_alive()
    worker.stop()


def test_renames_before_the_worker_comes_are_one_task(url):
    with connect(url, Schema(*SHOP, inline=0), workers=0) as db:
        fill(db)
        for name in "bcdefg":
            renamed = db.patch(Product, "p", name=name)
        assert db.drain() == 1
        assert db.tasks(renamed).done()
        assert {purchase.product.name for purchase in db.page(Purchase)} == {"g"}


def test_the_worker_sweeps_the_tokens_of_counters(url):
    swept = threading.Event()

    def observe(request, _answer):
        if isinstance(request, Read) and request.keys == [GENERATIONS_ROW]:
            swept.set()

    with connect(url, FEW, observers=(observe,), workers=1) as db:
        db.counter("votes").add(1, once="request 1")
        sweeper = db.operations.counters.sweeper
        sweeper._next = 0
        db._worker.wake()
        assert swept.wait(30)
        assert db.counter("votes").add(1, once="request 1") is False
