"""A store is verified and repaired while four processes write to it, and a repair is killed again and again.

The story: an operator looks at a store in use. What is half done by others must never look like a fault, and what was
wrong must be right in the end, whatever was written meanwhile and wherever the repair was stopped.
"""

import contextlib
import multiprocessing
import random
from decimal import Decimal

import pytest

from oneread import connect
from oneread.errors import OnereadError
from tests.failures.stores import until
from tests.simulation.schema import Buyer, City, Customer, Home, Product, Purchase, Sold
from tests.unit.verify.damaged import SCHEMA, Damaged
from tests.unit.verify.faults import PLANTED

PROCESSES, OPERATIONS, KILLS = 4, 250, 12


def write(url, seed, operations):
    """A process that saves, patches, renames and deletes, whatever is refused."""
    chance = random.Random(seed)
    with connect(url, SCHEMA) as db:
        for _ in range(operations):
            with contextlib.suppress(OnereadError):
                ACTS[chance.randrange(len(ACTS))](db, chance)


def save(db, chance):
    number = chance.randint(1, 60)
    price = None if chance.random() < 0.2 else Decimal(chance.randint(1, 99)) / 4
    db.save(
        Purchase(
            number=number,
            buyer=Buyer.of(chance.randint(1, 4)),
            product=Sold.of(chance.randint(1, 2)),
            also=[Product.at(2)],
            quantity=chance.randint(-3, 9),
            price=price,
        )
    )


def patch(db, chance):
    db.patch(Purchase, chance.randint(1, 60), quantity=chance.randint(0, 50))


def delete(db, chance):
    db.delete(Purchase, chance.randint(1, 60))


def rename(db, chance):
    model = chance.choice((City, Customer, Product))
    db.patch(model, chance.randint(1, 2), name=f"name {chance.randint(1, 9)}")


def move(db, chance):
    db.patch(Customer, chance.randint(1, 4), city=Home.of(chance.randint(1, 2)), email=f"{chance.randint(1, 6)}@x")


ACTS = (save, save, save, patch, delete, rename, move)


@pytest.fixture
def store(tmp_path):
    store = Damaged(f"lmdb://{tmp_path}/store?durability=none")
    yield store
    store.close()


@pytest.fixture
def writers(store, tmp_path):  # noqa: ARG001 - made before it is written to
    """Starts writing processes; ends those that a failed test leaves behind."""
    spawn = multiprocessing.get_context("spawn")
    started = []

    def start():
        for seed in range(PROCESSES):
            url = f"lmdb://{tmp_path}/store?durability=none"
            process = spawn.Process(target=write, args=(url, seed, OPERATIONS))
            process.start()
            started.append(process)
        return started

    yield start
    for process in started:
        process.kill()
        process.join()


def test_there_is_no_false_alarm_while_four_processes_write(store, writers):
    running = writers()
    before = store.rows("roots")
    until(lambda: store.rows("roots") != before)
    looks = 0
    while any(process.is_alive() for process in running):
        found = store.db.verify()
        assert found.clean, found.faults
        looks += 1
    assert looks > 3
    assert [process.exitcode for process in running] == [0] * PROCESSES
    assert store.db.verify().clean


def test_repair_ends_clean_while_four_processes_write(store, writers):
    planted = 0
    for plant in PLANTED:
        with contextlib.suppress(StopIteration, KeyError, OnereadError):
            plant(store)
            planted += 1
    running = writers()
    repairs = [store.db.repair()]
    while any(process.is_alive() for process in running):
        repairs.append(store.db.repair())
    assert repairs[-1].clean or store.db.repair().clean
    assert sum(each.mended for each in repairs) > planted / 2
    assert store.db.verify().clean


def mend(url):
    with connect(url, SCHEMA) as db:
        db.repair()


def test_a_repair_that_is_killed_is_done_again(store, tmp_path):
    url = f"lmdb://{tmp_path}/store?durability=none"
    spawn = multiprocessing.get_context("fork")
    chance = random.Random(7)
    for _ in range(KILLS):
        for plant in chance.sample(PLANTED, 12):
            with contextlib.suppress(StopIteration, LookupError, OnereadError):  # what is damaged already fits no plant
                plant(store)
        process = spawn.Process(target=mend, args=(url,))
        process.start()
        process.join(chance.uniform(0, 0.15))  # the moment of the kill, not a wait for anything
        process.kill()
        process.join()
    assert store.db.repair().clean
    assert store.db.verify().clean
