"""Chores: each has its turn, one worker goes on with what is more than a batch, and a store at rest is not written."""

import pytest

from oneread.engines.memory import MemoryEngine
from oneread.errors import Unavailable
from oneread.plans.effects import Atomically
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.requests import Read, Replace, Scan
from oneread.store.rows import Cell, RowRange
from oneread.transactions.chores import ChoreRunner
from oneread.transactions.leases import LeaseHolder
from oneread.transactions.system_rows import NATIVE_SYSTEM

ROW = b"lease:sweep"


class Sweep:
    """A chore with so many batches to do."""

    def __init__(self, batches, name="sweep"):
        self.name = name
        self.batches = batches
        self.done = 0

    def step(self):
        yield from Scan("views", RowRange(b"", b""), 1)
        if self.batches:
            self.batches -= 1
            self.done += 1
        return self.batches > 0


class Failing:
    name = "failing"

    def step(self):
        raise Unavailable("simulated")
        yield


class Store:
    def __init__(self):
        self.now = 1_000_000
        self.requests = []
        self.driver = SyncDriver(MemoryEngine(), lambda: self.now)

    def worker(self, name, *chores, seconds=10):
        return ChoreRunner(NATIVE_SYSTEM, chores, LeaseHolder(seconds, lambda: self.now / 1000, lambda: name))

    def run(self, plan):
        self.requests.clear()
        return self.driver.run(plan, Trace((lambda request, _answer: self.requests.append(type(request)),)))

    def lease(self):
        (row,) = self.run(Read("system", [ROW]).__iter__())
        return None if row is None else row[b"d:b"].value


@pytest.fixture
def store():
    return Store()


def test_a_chore_of_one_batch_writes_nothing(store):
    worker = store.worker("a", Sweep(1))
    assert not store.run(worker.step())
    assert store.requests == [Scan]
    assert store.lease() is None
    store.run(worker.free())
    assert store.requests == []


def test_a_chore_with_more_takes_a_lease_and_frees_it_at_the_end(store):
    sweep = Sweep(3)
    worker = store.worker("a", sweep)
    assert store.run(worker.step())
    assert store.requests == [Scan, Read, Read, Replace]  # the lease, and its swap in a transaction
    assert b"a" in store.lease()
    assert store.run(worker.step())
    assert not store.run(worker.step())
    assert sweep.done == 3
    assert store.lease() == b"\x93\xa0\x00\x03"  # freed, and its count goes on
    assert not store.run(worker.step())
    assert store.requests == [Scan]


def test_another_worker_leaves_the_rest_to_the_first(store):
    first, second = Sweep(9), Sweep(9)
    one, two = store.worker("a", first), store.worker("b", second)
    assert store.run(one.step())
    assert not store.run(two.step())
    assert second.done == 1
    for _ in range(4):
        assert store.run(one.step())
        store.now += 6_000
    assert not store.run(two.step())


def test_the_chore_of_a_dead_worker_is_taken_over(store):
    one, two = store.worker("a", Sweep(9)), store.worker("b", Sweep(9))
    assert store.run(one.step())
    assert not store.run(two.step())
    store.now += 10_000
    assert store.run(two.step())
    assert not store.run(one.step())  # awake again: it has lost its lease
    store.run(one.free())
    assert b"b" in store.lease()


def test_a_worker_that_stops_frees_its_chore(store):
    one, two = store.worker("a", Sweep(9)), store.worker("b", Sweep(9))
    assert store.run(one.step())
    store.run(one.free())
    assert store.run(two.step())


def test_a_lease_taken_between_the_read_and_the_swap_is_lost(store):
    worker = store.worker("a", Sweep(9))
    plan = worker.step()
    answer = None
    while True:
        asked = plan.send(answer)
        if isinstance(asked, Atomically):
            break
        answer = store.now if not isinstance(asked, (Read, Scan)) else store.run(asked.__iter__())
    assert store.run(store.worker("b", Sweep(9)).step())
    failure = None
    try:
        answer = store.run(asked.__iter__())
    except Exception as error:  # noqa: BLE001 - sent into the plan, as a driver does
        failure = error
    assert failure is not None
    with pytest.raises(StopIteration) as ended:
        plan.throw(failure)
    assert ended.value.value is False
    assert b"b" in store.lease()


def test_a_chore_that_fails_lets_the_others_have_their_turns(store):
    sweep = Sweep(2)
    worker = store.worker("a", Failing(), sweep)
    with pytest.raises(Unavailable):
        store.run(worker.step())
    with pytest.raises(Unavailable):
        store.run(worker.step())
    assert sweep.done == 1


def test_an_unreadable_lease_is_replaced(store):
    store.driver.run(
        Atomically(lambda store: store.replace("system", {ROW: {b"d:b": Cell(b"?", 1)}})).__iter__(), Trace()
    )
    assert store.run(store.worker("a", Sweep(2)).step())
    assert b"a" in store.lease()
