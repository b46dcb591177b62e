"""Erasures whose program died are continued by workers, one of them at a time, and never for another entity."""

import pytest

from oneread import connect
from oneread.database.continued_erasures import ContinuedErasures
from oneread.plans.trace import Trace
from oneread.store.requests import Scan
from oneread.store.rows import REMOVED, VALUE
from oneread.testing.clock import Clock
from oneread.transactions.leases import SECONDS, LeaseHolder
from oneread.transactions.system_rows import ERASING
from tests.unit.database.test_erasing import SHOP, Counting, Customer, Photo, fill, left, person


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def db(url, clock):
    with connect(url, SHOP, workers=0, clock=clock) as opened:
        fill(opened)
        yield opened


class Sweeper:
    """What one worker does, step by step; `requests` counts those of its last step."""

    def __init__(self, db):
        self._db = db
        self._look = ContinuedErasures(db.operations, LeaseHolder())
        self.requests = 0

    def step(self):
        trace = Trace(())
        found = self._db._driver.run(self._look.step(), trace)
        self.requests = trace.requests
        return found

    def finish(self):
        steps = 0
        while self.step():
            steps += 1
        return steps


def interrupt(db, requests):
    """An erasure that dies behind so many requests."""
    db._driver.run(Counting(db._erasure_of(Customer, (7,)).run(), requests), Trace(()))


def under_way(db):
    found = db._driver.run(Scan("system", ERASING, 10).__iter__(), Trace(()))
    return [key for key, row in found if row[VALUE].value != REMOVED]


@pytest.mark.parametrize("requests", [10, 12, 20, 35, 60])
def test_a_worker_continues_what_was_interrupted_anywhere(db, clock, requests):
    interrupt(db, requests)
    clock.tick(SECONDS + 1)
    Sweeper(db).finish()
    (receipt,) = db.erasures()
    assert receipt.done is not None
    assert (receipt.children <= 2, receipt.counters, receipt.waiting) == (True, 1, 0)
    assert left(db) == []
    assert under_way(db) == []
    assert not db.verify().faults


def test_what_is_being_done_is_left_to_its_program(db):
    interrupt(db, 12)
    worker = Sweeper(db)
    assert (worker.step(), worker.requests) == (False, 1)
    assert db.erasures()[0].done is None


def test_of_two_workers_one_continues_it(db, url, clock):
    interrupt(db, 12)
    clock.tick(SECONDS + 1)
    with connect(url, SHOP, workers=0, clock=clock) as other:
        first, second = Sweeper(db), Sweeper(other)
        assert first.step()
        assert (second.step(), second.requests) == (False, 1)
        first.finish()
        assert db.erasures()[0].done is not None
        assert Sweeper(other).finish() == 0
        assert left(db) == []


def test_a_worker_that_dies_is_followed_by_another_one(db, url, clock):
    interrupt(db, 12)
    clock.tick(SECONDS + 1)
    Sweeper(db).step()
    clock.tick(SECONDS + 1)
    with connect(url, SHOP, workers=0, clock=clock) as other:
        Sweeper(other).finish()
    assert db.erasures()[0].done is not None
    assert left(db) == []


def test_another_entity_under_the_key_is_not_erased(db, clock):
    requests = 10
    while db.find(Customer, 7) is not None:
        interrupt(db, requests)
        requests += 1
    db.save(person(name="Another one"))
    db.save(Photo(number=7, title="new"))
    clock.tick(SECONDS + 1)
    Sweeper(db).finish()
    assert db.get(Customer, 7).name == "Another one"
    assert [each.title for each in db.page(Photo, 7)] == ["new"]
    assert under_way(db) == []
    assert db.erasures()[0].done is None
    assert db.erase(Customer, 7).done is not None


def test_at_rest_a_look_is_one_request(db):
    db.erase(Customer, 7)
    worker = Sweeper(db)
    assert (worker.step(), worker.requests) == (False, 1)


def test_it_is_a_chore_of_every_worker(db, clock):
    interrupt(db, 12)
    clock.tick(SECONDS + 1)
    while db.run(db.operations.chores.step()):
        pass
    assert db.erasures()[0].done is not None
