"""Several workers share the tasks of one store by leases, which cost no request and bind no longer than needed."""

import asyncio
import time

import pytest

from oneread import Copy, Key, Model, Schema, connect, connect_async
from oneread.derivations import pending_tasks
from oneread.errors import Closed, Unavailable
from oneread.plans.effects import Atomically
from oneread.store.requests import Read, Replace, Scan
from oneread.store.rows import Cell
from oneread.transactions import outbox, tasks
from oneread.transactions.leases import LEASE, Lease, LeaseHolder, lease_in
from oneread.transactions.outbox import FOLLOW, TASKS
from oneread.transactions.task_batches import FollowHandler, TaskRunner
from oneread.transactions.tasks import TaskStepResult

HOLDERS = 7
START = 1_700_000_000_000


class Maker(Model[int]):
    number: Key[int]
    name: str


class MadeBy(Copy[Maker]):
    name: str


class Thing(Model[int, int]):
    maker_number: Key[int]
    number: Key[int]
    maker: MadeBy


SCHEMA = Schema(Maker, Thing, inline=0)


class Store:
    """A database whose clock and whose workers' clocks stand still."""

    def __init__(self, url):
        self.now, self.elapsed, self.requests = START, 0.0, []
        observer = lambda request, _answer: self.requests.append(request)  # noqa: E731 - of one line
        self.db = connect(url, SCHEMA, workers=0, clock=lambda: self.now, observers=(observer,))
        for maker in (1, 2):
            self.db.save(Maker(number=maker, name="old"))
            self.db.save_all(
                [Thing(maker_number=maker, number=each, maker=MadeBy.of(maker)) for each in range(HOLDERS)]
            )

    def rename(self, *makers):
        for maker in makers:
            self.db.patch(Maker, maker, name="new")
        self.requests.clear()

    def worker(self, name):
        operations = self.db.operations
        held = LeaseHolder(10, lambda: self.elapsed, lambda: name)
        return TaskRunner(operations.committer, {FOLLOW: FollowHandler(operations.catalog.source)}, held)

    def step(self, worker, batch=3):
        self.requests.clear()
        return self.db.run(worker.step(batch))

    def tasks(self):
        return self.db.run(Scan("system", TASKS, 9, families="dm").__iter__())

    def owners(self):
        return [lease and lease.owner for lease in (lease_in(row) for _key, row in self.tasks())]

    def followed(self, maker):
        return sum(each.maker.name == "new" for each in self.db.page(Thing, maker))


@pytest.fixture(params=["memory", "lmdb"])
def store(request, tmp_path):
    made = Store("memory://" if request.param == "memory" else f"lmdb://{tmp_path}/store?durability=none")
    yield made
    made.db.close()


def test_a_worker_has_a_lease_on_what_it_has_begun(store):
    store.rename(1)
    one = store.worker("one")
    assert store.step(one) is TaskStepResult.DONE
    ((_key, row),) = store.tasks()
    assert lease_in(row) == Lease("one", START + 10_000, 1)
    store.now += 4_000
    store.step(one)
    ((_key, row),) = store.tasks()
    assert lease_in(row) == Lease("one", START + 14_000, 2)
    store.step(one)
    assert store.tasks() == []
    assert store.step(one) is TaskStepResult.IDLE


def test_a_lease_costs_no_request(store):
    store.rename(1)
    one = store.worker("one")
    for looks in (1, 2):  # the second time: what was set aside, since every task had its turn, and the first task
        store.step(one)
        kinds = [type(request).__name__ for request in store.requests]
        assert kinds == ["Scan"] * looks + ["Read", "Scan", "Read", "Replace", "Replace"]


def test_two_workers_do_different_tasks(store):
    store.rename(1, 2)
    one, two = store.worker("one"), store.worker("two")
    assert store.step(one) is TaskStepResult.DONE
    assert store.step(two) is TaskStepResult.DONE
    assert sorted(store.owners()) == ["one", "two"]
    assert (store.followed(1), store.followed(2)) == (3, 3)
    assert store.step(two) is TaskStepResult.DONE  # its own again, not that of the other
    assert sorted((store.followed(1), store.followed(2))) == [3, 6]


def test_a_worker_waits_while_another_has_all_tasks(store):
    store.rename(1)
    one, two = store.worker("one"), store.worker("two")
    store.step(one)
    assert store.step(two) is TaskStepResult.HELD
    assert {type(request) for request in store.requests} == {Scan}
    store.now += 9_999
    assert store.step(two) is TaskStepResult.HELD
    store.now += 1
    assert store.step(two) is TaskStepResult.DONE
    assert store.owners() == ["two"]


def test_a_clock_that_was_set_back_delays_no_task(store):
    store.rename(1)
    one, two = store.worker("one"), store.worker("two")
    store.step(one)
    store.now -= 86_400_000
    assert store.step(two) is TaskStepResult.HELD
    store.elapsed += 10
    assert store.step(two) is TaskStepResult.DONE


def test_a_worker_that_lost_its_lease_writes_nothing(store):
    """It slept between its look and its transaction, for longer than its lease; the other has gone on."""
    store.rename(1)
    sleeper, other = store.worker("sleeper"), store.worker("other")
    store.step(sleeper)
    plan = sleeper.step(3)
    asked = plan.send(None)
    while not isinstance(asked, Atomically):
        asked = plan.send(store.db.run(asked.__iter__()) if isinstance(asked, (Scan, Read)) else store.now)
    store.now += 20_000
    assert store.step(other) is TaskStepResult.DONE
    before = store.tasks()
    store.requests.clear()
    answer = store.db.run(asked.__iter__())
    assert not any(isinstance(request, Replace) for request in store.requests)
    with pytest.raises(StopIteration):
        plan.send(answer)
    assert store.tasks() == before
    assert store.followed(1) == 6
    assert store.step(sleeper) is TaskStepResult.HELD
    store.step(other)
    assert store.followed(1) == HOLDERS
    assert store.db.verify().clean


def test_a_worker_that_stops_frees_its_tasks(store):
    store.rename(1, 2)
    one, two = store.worker("one"), store.worker("two")
    store.step(one)
    store.step(one)
    assert store.owners() == ["one", "one"]
    store.requests.clear()
    store.db.run(one.free())
    assert [type(request) for request in store.requests] == [Read, Replace]
    assert store.owners() == ["", ""]
    store.requests.clear()
    store.db.run(one.free())
    assert store.requests == []
    assert store.step(two) is TaskStepResult.DONE
    assert "two" in store.owners()


def test_a_worker_frees_only_what_is_still_its_own(store):
    store.rename(1)
    one, two = store.worker("one"), store.worker("two")
    store.step(one)
    store.now += 10_000
    store.step(two)
    store.db.run(one.free())
    assert store.owners() == ["two"]


def test_a_worker_leaves_tasks_to_others(store, monkeypatch):
    """Otherwise the first one would keep all that are large, and the others had nothing to do."""
    monkeypatch.setattr(tasks, "MOST_HELD", 1)
    store.rename(1, 2)
    one, two = store.worker("one"), store.worker("two")
    store.step(one)
    store.step(one)
    assert sorted(store.owners()) == ["", "one"]
    assert (store.followed(1), store.followed(2)) == (3, 3)
    store.step(two)
    assert sorted(store.owners()) == ["one", "two"]
    store.step(one)
    assert sorted((store.followed(1), store.followed(2))) == [6, 6]
    store.step(one)
    store.step(two)
    assert store.tasks() == []
    assert store.db.verify().clean


def test_what_others_have_ended_does_not_keep_a_worker_from_new_tasks(store, monkeypatch):
    monkeypatch.setattr(tasks, "MOST_HELD", 1)
    store.rename(1)
    one, two = store.worker("one"), store.worker("two")
    store.step(one)
    store.now += 10_000
    for _ in range(2):
        store.step(two)
    assert store.tasks() == []
    assert store.step(one) is TaskStepResult.IDLE
    store.rename(2)
    store.db.patch(Maker, 2, name="newer")
    store.step(one)
    store.step(one)
    assert store.owners() == ["one"]


def test_closing_frees_what_was_begun(tmp_path):
    store = Store(f"lmdb://{tmp_path}/store?durability=none")
    store.rename(1)
    store.db.run(store.db.operations.drain_step(3))
    assert store.owners() != [None]
    store.db.close()
    store.db.close()
    with connect(f"lmdb://{tmp_path}/store?durability=none", SCHEMA, workers=0) as db:
        ((_key, row),) = db.run(Scan("system", TASKS, 9, families="dm").__iter__())
        assert lease_in(row) == Lease("", 0, 2)


def test_closing_a_store_that_fails_leaves_leases_to_their_end(monkeypatch):
    store = Store("memory://")
    store.rename(1)
    store.db.run(store.db.operations.drain_step(3))

    def failing(*_given):
        raise Unavailable("simulated")

    monkeypatch.setattr(store.db._driver.engine, "transaction", failing)
    store.db.close()
    with pytest.raises(Closed):
        store.db.drain()


def test_the_asynchronous_face_waits_for_another_worker_too(tmp_path):
    url = f"lmdb://{tmp_path}/store?durability=none"

    async def drained():
        async with connect_async(url, SCHEMA, workers=0) as db:
            return await db.drain()

    store = Store(url)
    store.rename(1)
    store.now = time.time_ns() // 1_000_000 - 9_700  # the lease ends soon
    store.step(store.worker("another"))
    assert asyncio.run(drained()) == 1
    assert store.followed(1) == HOLDERS
    store.db.close()


def test_a_source_that_changes_again_starts_its_task_free(store):
    store.rename(1)
    one, two = store.worker("one"), store.worker("two")
    store.step(one)
    store.db.patch(Maker, 1, name="newer")
    assert store.owners() == [None]
    assert store.step(two) is TaskStepResult.DONE
    assert store.owners() == ["two"]


def test_a_backfill_takes_tasks_from_their_workers(store):
    store.rename(1)
    one = store.worker("one")
    store.step(one)
    store.db.run(store.db.operations.outbox.finish_waiting())
    assert store.tasks() == []
    assert store.step(one) is TaskStepResult.IDLE


def test_a_lease_that_cannot_be_read_binds_no_worker(store):
    store.rename(1)
    store.step(store.worker("one"))
    ((key, row),) = store.tasks()
    damaged = row | {LEASE: Cell(b"\xc1", 5)}
    store.db.run(Atomically(lambda store: store.replace("system", {key: damaged})).__iter__())
    assert store.db.verify().clean
    assert store.step(store.worker("two")) is TaskStepResult.DONE
    assert store.owners() == ["two"]


def test_more_tasks_of_others_than_a_scan_reads_are_passed_over(store, monkeypatch):
    monkeypatch.setattr(outbox, "BATCH", 2)
    monkeypatch.setattr(tasks, "MOST_HELD", 9)
    store.db.save_all([Maker(number=each, name="old") for each in range(10, 15)])
    store.db.save_all(
        [Thing(maker_number=maker, number=each, maker=MadeBy.of(maker)) for maker in range(10, 15) for each in range(4)]
    )
    store.rename(1, 2, *range(10, 15))
    one, two = store.worker("one"), store.worker("two")
    for _ in range(6):
        store.step(one)
    assert store.owners().count("one") == 6
    assert store.step(two) is TaskStepResult.DONE
    assert store.owners().count("two") == 1
    assert store.step(two) is TaskStepResult.DONE  # its own again
    assert store.owners().count("one") == 6


def test_what_another_worker_has_tried_meanwhile_is_not_tried_again(store):
    """Two workers see the same entry that was set aside, and its source has changed."""

    def tried(times):
        return outbox.SetAside(b"\x00\x01a", b"\x00\x02b", "InvalidValue", "too long", times, 1, b"")

    with_error = tried(2)
    key = outbox.aside_key(with_error.source, with_error.holder)
    newer = {b"d:b": Cell(outbox._encode(with_error), 7)}
    store.db.run(Atomically(lambda store: store.replace("system", {key: newer})).__iter__())
    stale = outbox.AsideEntry(key, tried(1))
    store.requests.clear()
    store.db.run(store.worker("two")._retry([stale]))
    assert not any(isinstance(request, Replace) for request in store.requests)


@pytest.mark.parametrize("seconds", [0, 7])
def test_the_age_of_a_task_is_counted_from_the_last_change(store, seconds):
    store.rename(1)
    store.now += 1_000 * seconds
    store.step(store.worker("one"))
    lag = store.db.survey().lag["follow"]
    assert (lag.waiting, lag.begun) == (1, 1)
    assert lag.oldest == pytest.approx(seconds, abs=0.1)
    store.now += 10_000
    assert store.db.survey().lag["follow"].begun == 0
    store.db.patch(Maker, 1, name="newer")
    assert store.db.survey().lag["follow"].oldest < 1


def test_views_are_behind_by_the_oldest_task(store):
    assert store.db.survey().behind == 0.0
    store.rename(1)
    store.now += 7_000
    store.rename(2)
    store.now += 1_000
    assert store.db.survey().behind == pytest.approx(8, abs=0.1)
    store.db.drain()
    assert store.db.survey().behind == 0.0


def test_of_many_tasks_the_first_are_counted(store, monkeypatch):
    monkeypatch.setattr(pending_tasks, "BATCH", 1)
    assert store.db.survey().are_all
    store.rename(1, 2)
    store.requests.clear()
    survey = store.db.survey(most=1)
    assert (survey.tasks, survey.are_all) == (1, False)
    assert [each.limit for each in store.requests if getattr(each, "range", None) == outbox.TASKS] == [1]


def test_a_clock_ahead_of_ours_gives_no_negative_age(store):
    store.now += 50_000
    store.rename(1)
    store.now -= 50_000
    assert store.db.survey().lag["follow"].oldest == 0


def test_a_drain_waits_for_what_another_worker_has_begun(store):
    store.rename(1, 2)
    one = store.worker("one")
    store.step(one)
    real = store.db.operations.outbox.leases = LeaseHolder(0.05)  # by a clock that goes
    assert store.db.drain() == 2
    assert real.held == []
    assert store.tasks() == []
    assert store.db.verify().clean
