"""One worker of each schema looks for what others left, on a store that changes one row at a time."""

from collections import Counter
from time import sleep

import pytest

from oneread import Schema, connect
from oneread.database import worker
from oneread.database.open import opened
from oneread.database.recoverer import BACK_SECONDS
from oneread.database.worker import Worker
from oneread.engines.memory import MemoryEngine
from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.errors import Unavailable
from oneread.plans.effects import Sleep
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.requests import CheckAndMutate, Read, Scan
from oneread.transactions import journal_recovery
from oneread.transactions.journal import Journal
from oneread.transactions.system_commits import RowSystem
from oneread.transactions.system_rows import NATIVE_SYSTEM
from tests.unit.database.shop import SHOP, Customer

OLDER = Schema(Customer)
NEWER = Schema(*SHOP)


class Store:
    """A store and a clock, which the clocks that are never set follow."""

    def __init__(self, engine):
        self.now = 1_000_000
        self.driver = SyncDriver(engine, lambda: self.now)
        self.requests = []

    def open(self, schema=NEWER):
        """The verbs of a program."""
        spans_rows = self.driver.engine.capabilities.spans_rows
        committer = NATIVE_SYSTEM if spans_rows else RowSystem(Journal(clock=self.clock))
        found = self.run(opened(schema, read_only=False, committer=committer))
        found.outbox.leases._clock = self.clock
        if not spans_rows:
            found.fence.clock = found.committer.journal.clock = self.clock
            found.fence._read_at = self.clock()
        return found

    def clock(self):
        return self.now / 1000

    def run(self, plan):
        self.requests.clear()
        return self.driver.run(plan, Trace((lambda asked, _answer: self.requests.append(type(asked)),)))

    def look(self, program):
        return self.run(program.look())


@pytest.fixture
def store():
    return Store(OneRowMemoryEngine("hide"))


def test_one_of_two_programs_looks(store):
    one, other = store.open(), store.open()
    assert store.look(one)
    for _ in range(10):
        assert store.look(one)
        assert store.requests == [Read, Read, Read, CheckAndMutate]
        assert not store.look(other)
        assert store.requests == [Read]
        store.now += 5_000


def test_a_look_of_the_one_that_looks_is_a_few_requests(store):
    program = store.open()
    looking = Worker(program, store.driver, (lambda asked, _answer: store.requests.append(type(asked)),))
    looking._work_off()
    for _ in range(3):
        store.now += 5_000
        store.requests.clear()
        assert looking._look()
        looking._work_off()
        assert Counter(store.requests) == {Read: 3, CheckAndMutate: 1, Scan: 3}


def test_a_program_that_ends_lets_another_look_at_once(store):
    one, other = store.open(), store.open()
    assert store.look(one)
    store.run(one.free_leases())
    assert store.look(other)
    assert not store.look(one)


def test_a_dead_program_is_followed_when_its_lease_is_over(store):
    one, other = store.open(), store.open()
    assert store.look(one)
    store.now += 9_000
    assert not store.look(other)
    store.now += 2_000
    assert store.look(other)
    assert not store.look(one)


def test_a_lease_of_a_clock_that_is_ahead_is_over_once_it_was_seen_for_its_time(store):
    one, other = store.open(), store.open()
    store.now += 10**9
    assert store.look(one)
    store.now -= 10**9
    assert not store.look(other)
    store.now += 10_000
    assert store.look(other)


def test_programs_of_two_schemas_both_look(store, monkeypatch):
    monkeypatch.setattr(journal_recovery, "END_SECONDS", 0)
    older = store.open(OLDER)
    newer = store.open()
    assert newer.fence.version > older.fence.version
    for _ in range(3):
        assert store.look(older)
        assert store.look(newer)
        store.now += 5_000


def test_a_program_that_failed_lets_others_look(store):
    one, other = store.open(), store.open()
    assert store.look(one)
    one.parts.recoverer.stand_back()
    store.now += 11_000
    assert not store.look(one)
    assert store.look(other)
    store.run(other.free_leases())
    assert not store.look(one)
    store.now += int(BACK_SECONDS * 1000)
    assert store.look(one)


def test_a_program_that_shares_tasks_looks_beside_another(store):
    one, other = store.open(), store.open()
    other.share_tasks()
    assert store.look(one)
    assert store.look(other)
    assert store.look(one)
    other.parts.recoverer.stand_back()
    assert store.look(other)


def test_each_program_looks_where_transactions_span_rows():
    store = Store(MemoryEngine())
    one, other = store.open(), store.open()
    one.share_tasks()
    for program in (one, other, one):
        assert store.look(program)
        assert store.requests == [Read]


URL = "memory://shared?span=row"


@pytest.fixture
def worked(monkeypatch):
    """Databases on one store, with workers that sleep for a short time; closes them."""
    monkeypatch.setattr(worker, "RECOVERY_SECONDS", 0.01)
    monkeypatch.setattr(worker, "PAUSE_SECONDS", 0.01)
    found = []

    def connected(**options):
        found.append(connect(URL, NEWER, **options))
        return found[-1]

    yield connected
    for each in found:
        each.close()


def test_who_is_woken_looks_while_another_has_the_lease(worked):
    seen = []
    first = worked(workers=1)
    until(lambda: first.operations.outbox.leases.held)
    second = worked(workers=1, observers=(lambda asked, _answer: seen.append(asked),))
    until(lambda: len(seen) > 20 and Scan not in {type(each) for each in seen[-20:]})  # its first look is behind it
    del seen[:]
    second._worker.wake()
    until(lambda: Scan in {type(each) for each in seen})


def test_a_worker_whose_look_fails_gives_up_the_lease(worked, monkeypatch):
    first = worked(workers=0)

    def fails(_batch):
        yield Sleep(0)
        raise Unavailable("simulated")

    monkeypatch.setattr(first.operations.outbox, "step", fails)
    failing = Worker(first.operations, first._worker_driver)
    failing.wake()
    until(lambda: first.operations.parts.recoverer._back_until > 0)
    failing.stop()


def until(found, tries=3000):
    for _ in range(tries):
        if found():
            return
        sleep(0.01)
    raise AssertionError("not seen in time")
