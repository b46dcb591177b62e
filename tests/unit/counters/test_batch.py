"""Adding up in the process: flushed by time, by size and at the end, once, whatever the store answers."""

import asyncio
import os
import threading
from contextlib import suppress

import pytest

from oneread import connect, connect_async
from oneread.counters.batch import IN_ONE, CounterBatch
from oneread.counters.rows import CounterSettings
from oneread.errors import Closed, InvalidKey, InvalidValue, LimitExceeded, OutcomeUnknown, Unavailable
from tests.unit.counters.handles import SCHEMA

LONG = 3600.0


class Store:
    """Counts what is committed, each token once; fails as told."""

    def __init__(self):
        self.sums, self.tokens, self.calls = {}, set(), 0
        self.failures = []
        self.called = threading.Event()

    def commit(self, adds, once):
        self.calls += 1
        failure = self.failures.pop(0) if self.failures else None
        if once.token not in self.tokens and not isinstance(failure, Unavailable):
            self.tokens.add(once.token)
            for each in adds:
                self.sums[each.name] = self.sums.get(each.name, 0) + each.amount
        self.called.set()
        if failure is not None:
            raise failure

    @property
    def total(self):
        return sum(self.sums.values())

    def batch(self, seconds=LONG, size=10**9):
        return CounterBatch(self.commit, CounterSettings(0, 20), 60.0, seconds, size)


def test_leaving_the_block_flushes():
    store = Store()
    with store.batch() as batch:
        for number in range(100):
            batch.add(f"views:{number % 7}", number)
        assert batch.waiting == 100
        assert store.calls == 0
    assert store.total == sum(range(100))
    assert (store.calls, len(store.sums), batch.waiting) == (1, 7, 0)
    with pytest.raises(Closed):
        batch.add("views:1")
    batch.close()


def test_a_number_of_adds_flushes():
    store = Store()
    with store.batch(size=10) as batch:
        for _ in range(10):
            batch.add("views")
        assert store.called.wait(30)
        assert store.total == 10


def test_time_flushes_again_and_again():
    store = Store()
    with store.batch(seconds=0.01) as batch:
        for turn in range(3):
            store.called.clear()
            batch.add("views", 2)
            assert store.called.wait(30)
            assert store.total == 2 * (turn + 1)


def test_an_exception_flushes_too():
    store = Store()
    with suppress(KeyError), store.batch() as batch:
        batch.add("views")
        raise KeyError
    assert store.total == 1


def test_unknown_outcomes_and_refusals_lose_and_double_nothing():
    store = Store()
    batch = store.batch()
    for failure in (OutcomeUnknown("lost"), Unavailable("busy"), OutcomeUnknown("lost")):
        store.failures = [failure]
        batch.add("views", 5)
        with pytest.raises(type(failure)):
            batch.flush()
        batch.add("views", 1)
    batch.close()
    assert store.total == 3 * 6


def test_a_close_that_fails_can_be_flushed_again():
    store = Store()
    store.failures = [Unavailable("busy")]
    batch = store.batch()
    batch.add("views")
    with pytest.raises(Unavailable):
        batch.close()
    batch.flush()
    batch.flush()
    assert (store.total, store.calls) == (1, 2)


def test_the_thread_tries_again(caplog):
    store = Store()
    store.failures = [Unavailable("busy"), OutcomeUnknown("lost"), RuntimeError("a fault of ours")]
    with store.batch(seconds=0.01) as batch:
        batch.add("views", 3)
        while not store.total or store.failures:
            store.called.wait(30)
            store.called.clear()
            batch.add("views", 0)
    assert store.total == 3
    assert "could not store what counters were added" in caplog.text


@pytest.mark.parametrize("call", [1, 5, IN_ONE, IN_ONE + 1, 2 * IN_ONE + 7])
def test_a_flush_that_is_interrupted_loses_and_doubles_nothing(call, monkeypatch):
    """It is interrupted while it makes parts of what waits."""
    store, calls = Store(), []

    def check_name(name):
        calls.append(name)
        if len(calls) == call:
            raise KeyboardInterrupt
        return name.encode()

    with store.batch() as batch:
        for number in range(2 * IN_ONE + 10):
            batch.add(f"views:{number}")
        monkeypatch.setattr("oneread.counters.batch.check_name", check_name)
        with pytest.raises(KeyboardInterrupt):
            batch.flush()
        monkeypatch.undo()
        batch.add("views:1")
    assert (store.total, len(store.sums)) == (2 * IN_ONE + 11, 2 * IN_ONE + 10)


def test_many_counters_are_several_transactions_each_with_its_token():
    store = Store()
    with store.batch() as batch:
        for number in range(IN_ONE * 2 + 1):
            batch.add(f"views:{number}")
    assert (store.calls, len(store.tokens), store.total) == (3, 3, IN_ONE * 2 + 1)


def test_adds_that_cancel_out_are_not_stored():
    store = Store()
    with store.batch() as batch:
        batch.add("votes")
        batch.add("votes", -1)
    assert store.calls == 0


def test_threads_lose_nothing():
    store = Store()
    with store.batch(seconds=0.01, size=1000) as batch:
        threads = [threading.Thread(target=lambda: [batch.add("views") for _ in range(20_000)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert store.total == 80_000


def test_wrong_arguments_are_refused_at_once(monkeypatch):
    batch = Store().batch()
    for name in ("", None, 3, [], "x" * 300, "\ud800"):
        with pytest.raises(InvalidKey):
            batch.add(name)
    for amount in (1.0, True, None, 2**63, -(2**63) - 1):
        with pytest.raises(InvalidValue):
            batch.add("views", amount)
    assert batch.waiting == 0
    monkeypatch.setattr("oneread.counters.batch.MOST_NAMES", 2)
    batch.add("a")
    batch.add("b")
    batch.add("a")
    with pytest.raises(LimitExceeded):
        batch.add("c")


def test_the_child_of_a_fork_does_not_count_what_waits():
    store = Store()
    batch = store.batch()
    batch.add("views", 5)
    pid = os.fork()
    if pid == 0:
        batch.add("views", 1)
        batch.close()
        os._exit(store.total)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    batch.close()
    assert store.total == 5


def test_both_faces(url):
    with connect(url, SCHEMA) as db:
        with db.counter_batch(seconds=0.01, keep={"day": 3}) as batch:
            for _ in range(1000):
                batch.add("views")
        assert db.counter("views").read() == 1000
        assert db.counter("views").windows("day")[-1].value == 1000

    async def asynchronously():
        async with connect_async(url, SCHEMA) as db:
            async with db.counter_batch(shards=3) as batch:
                for _ in range(1000):
                    batch.add("clicks")
            return await db.counter("clicks").read(), (await db.counter("clicks").settings()).shards

    assert asyncio.run(asynchronously()) == (1000, 3)
