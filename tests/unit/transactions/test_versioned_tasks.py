"""Tasks of a store that changes one row at a time: one worker has each, the newest of a source is done."""

import pytest

from oneread import Copy, Index, Key, Model, Schema, by, within
from oneread.database.open import opened
from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.errors import Corrupt
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.keys import SELECTION_BYTES
from oneread.store.requests import CheckAndMutate, Mutate, Scan
from oneread.store.rows import VALUE, Cell, RowMutation
from oneread.transactions import outbox
from oneread.transactions.leases import LEASE, LeaseHolder, TaskLease, encode_lease, task_lease_in
from oneread.transactions.outbox import TASKS
from oneread.transactions.system_commits import RowSystem
from oneread.transactions.tasks import TaskStepResult
from oneread.transactions.versioned_tasks import RowTaskRunner

START = 1_700_000_000_000
HOLDERS = 5
DONE, HELD, IDLE = TaskStepResult.DONE, TaskStepResult.HELD, TaskStepResult.IDLE


class Maker(Model[int]):
    number: Key[int]
    name: str


class MadeBy(Copy[Maker]):
    name: str


class Thing(Model[int]):
    number: Key[int]
    maker: MadeBy


class ThingsOfName(Index[Thing]):
    name: str = by(within(Thing.maker, MadeBy.name))


class Store:
    """A store whose clock, and whose workers' clocks, stand still."""

    def __init__(self, deletes="hide"):
        self.deletes, self.engine = deletes, OneRowMemoryEngine(deletes)
        self.capabilities = self.engine.capabilities
        self.now, self.elapsed = START, 0.0
        self.driver = SyncDriver(self, lambda: self.now, lambda: 0.5)
        self.before = lambda _request: None
        schema = Schema(Maker, Thing, ThingsOfName, inline=0)
        self.operations = self.driver.run(opened(schema, read_only=False, committer=RowSystem()), Trace())
        self.run(self.operations.save(Maker(number=1, name="old"), "save"))
        for number in range(HOLDERS):
            self.run(self.operations.save(Thing(number=number, maker=MadeBy.of(1)), "save"))

    def answer(self, request):
        self.before(request)
        return self.engine.answer(request)

    def run(self, plan):
        return self.driver.run(plan, Trace())

    def rename(self, name):
        self.now += 1
        return self.run(self.operations.patch(Maker, (1,), {"name": name}, None))

    def worker(self, name):
        return RowTaskRunner(self.operations.committer, LeaseHolder(10, lambda: self.elapsed, lambda: name))

    def step(self, worker, batch=2):
        return self.run(worker.step(batch))

    def tasks(self):
        return self.engine.answer(Scan("system", TASKS, 99, families="dm"))

    def seen_selection(self, source):
        """The selection that the holders of a source take."""
        ((key, _row), *_others) = self.engine.answer(Scan("views", outbox.holders_of(source), 9))
        return key[len(outbox.holders_of(source).start) :][:SELECTION_BYTES]

    def lease(self, key, owner, cursor, done):
        lease = TaskLease(owner, self.now + 1_000, 1, cursor, done)
        self.engine.answer(Mutate("system", [RowMutation(key, {LEASE: Cell(encode_lease(lease), self.now)})]))

    def names(self):
        found = [self.run(self.operations.find(Thing, (number,)))[0] for number in range(HOLDERS)]
        return [each.maker.name for each in found]


@pytest.fixture(params=["hide", "remove"])
def store(request):
    return Store(request.param)


def test_a_task_is_done_in_batches_and_then_gone(store):
    store.rename("new")
    worker = store.worker("one")
    assert [store.step(worker) for _ in range(4)] == [DONE, DONE, DONE, IDLE]
    assert store.names() == ["new"] * HOLDERS
    assert store.tasks() == []
    assert worker.batches == 3


def test_each_batch_moves_the_cursor(store):
    store.rename("new")
    store.step(store.worker("one"))
    assert store.names() == ["new"] * 2 + ["old"] * 3


def test_a_task_that_another_worker_has_is_left_alone_until_its_lease_ends(store):
    store.rename("new")
    one, other = store.worker("one"), store.worker("other")
    store.step(one)
    assert store.step(other) is HELD
    assert store.names() == ["new"] * 2 + ["old"] * 3
    store.now += 10_001
    assert [store.step(other), store.step(other), store.step(other)] == [DONE, DONE, IDLE]
    assert store.names() == ["new"] * HOLDERS


def test_a_lease_that_another_worker_takes_first_is_left_to_it(store):
    """The compare-and-set of one of two workers fails, and no holder follows twice."""
    store.rename("new")
    one, other = store.worker("one"), store.worker("other")

    def first(request):
        if type(request) is CheckAndMutate and request.column == LEASE:
            store.before = lambda _request: None
            store.step(other)

    store.before = first
    assert store.step(one) is DONE
    assert store.names() == ["new"] * 2 + ["old"] * 3
    assert store.step(one) is HELD


def test_a_worker_that_lost_its_lease_does_not_end_the_task(store):
    store.rename("new")
    one, other = store.worker("one"), store.worker("other")
    calls = []

    def late(request):
        if type(request) is Scan and request.table == "views" and not calls:
            calls.append(request)
            store.now += 10_001
            store.step(other)

    store.before = late
    store.step(one, batch=9)
    assert store.names() == ["new"] * HOLDERS
    assert len(store.tasks()) == 1, "the other worker has it, and ends it"
    assert [store.step(other), store.step(other), store.step(other)] == [DONE, DONE, IDLE]


def test_the_newest_task_of_a_source_is_done_and_older_ones_are_removed(store):
    for name in ("first", "second", "third"):
        store.rename(name)
    keys = [key for key, _row in store.tasks()]
    worker = store.worker("one")
    store.step(worker)
    assert [key for key, _row in store.tasks()] == keys[-1:]
    store.run(worker.finish_waiting())
    assert store.names() == ["third"] * HOLDERS
    assert store.tasks() == []


def test_a_newer_task_begins_with_the_first_holder(store):
    worker = store.worker("one")
    store.rename("first")
    store.step(worker)
    store.rename("second")
    store.run(worker.finish_waiting())
    assert store.names() == ["second"] * HOLDERS


def test_a_lease_without_a_task_is_removed_when_it_has_ended(store):
    """A worker may take it from a row that it read before the task was done."""
    store.rename("new")
    one, other = store.worker("one"), store.worker("other")

    def first(request):
        if type(request) is CheckAndMutate and request.column == LEASE:
            store.before = lambda _request: None
            store.run(other.finish_waiting())

    store.before = first
    store.step(one)
    columns = [list(row) for _key, row in store.tasks()]
    assert columns == ([] if store.deletes == "hide" else [[LEASE]]), "where deletes hide, that of the other one does"
    assert store.step(other) is IDLE
    assert len(store.tasks()) == len(columns)
    store.now += 10_001
    assert store.step(other) is IDLE
    assert store.tasks() == []


def test_tasks_have_ended_when_their_rows_are_gone(store):
    store.rename("new")
    tasks = [key for key, _row in store.tasks()]
    worker = store.worker("one")
    assert not store.run(worker.have_ended(tasks))
    store.run(worker.finish_waiting())
    assert store.run(worker.have_ended(tasks))


def test_a_worker_that_stops_frees_its_tasks_as_far_as_they_are(store):
    store.rename("new")
    worker = store.worker("one")
    store.step(worker)
    store.run(worker.free())
    (task,) = [task_lease_in(row) for _key, row in store.tasks()]
    assert (task.owner, task.done, bool(task.cursor)) == ("", 2, True)
    assert store.step(store.worker("other")) is DONE
    assert store.names() == ["new"] * 4 + ["old"]
    store.run(worker.free())
    assert [task_lease_in(row).owner for _key, row in store.tasks()] == ["other"], "it is another's"


def test_an_older_task_that_comes_late_has_its_holders_visited(store):
    """Its writer died behind the commit point, and was recovered when the newest task had passed over them."""
    store.rename("new")
    ((key, row),) = store.tasks()
    source = outbox.read_task(row).source
    selection = store.seen_selection(source)
    newest = outbox.task_row(key, outbox.Task(source, unchanged=(selection,)), row[VALUE].stamp)
    store.engine.answer(Mutate("system", [newest]))
    worker = store.worker("one")
    store.lease(key, "one", cursor=outbox.holders_of(source).stop, done=9)
    older = outbox.version_key(source, 1)
    store.engine.answer(Mutate("system", [outbox.task_row(older, outbox.Task(source), 1)]))
    assert store.step(worker) is DONE
    ((left, after),) = store.tasks()
    assert left == key, "the older one is gone"
    assert outbox.read_task(after).unchanged == ()
    assert task_lease_in(after).done == 2, "from the first holder on"
    store.run(worker.finish_waiting())
    assert store.names() == ["new"] * HOLDERS
    assert store.tasks() == []


def test_a_worker_finishes_what_a_writer_left(store):
    committer = store.operations.committer
    clock = [0.0]
    committer.journal.clock = lambda: clock[0]
    applied = committer.journal.apply

    def dies(_done):
        raise SystemExit
        yield

    committer.journal.apply = dies
    with pytest.raises(SystemExit):
        store.rename("new")
    committer.journal.apply = applied
    worker = store.worker("one")
    assert store.step(worker) is HELD
    clock[0] += 60
    assert [store.step(worker, 9), store.step(worker, 9)] == [DONE, IDLE]
    assert store.names() == ["new"] * HOLDERS


def test_an_answer_that_cannot_be_read_is_raised_and_no_task_is_taken(store):
    """It is the answer's damage, not that of the row that it names: the next one may be whole."""
    store.rename("new")
    before, worker = store.tasks(), store.worker("one")

    def broken(request):
        if type(request) is Scan and request.range == TASKS:
            raise Corrupt("the answer is broken", key=before[0][0])

    store.before = broken
    with pytest.raises(Corrupt, match="is broken"):
        store.step(worker)
    assert store.tasks() == before
    store.before = lambda _request: None
    store.run(worker.finish_waiting())
    assert store.names() == ["new"] * HOLDERS


def test_a_source_has_tasks_by_version():
    keys = [outbox.version_key(b"source", version) for version in (1, 255, 256, 1 << 40)]
    assert keys == sorted(keys)
    assert all(key.startswith(TASKS.start) for key in keys)
