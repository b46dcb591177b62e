"""The queue of jobs: what it asks of a store, whose a job is, and what is left of one that was done."""

import threading
from collections import Counter
from datetime import timedelta

import pytest

from oneread import Index, Job, JobHandlers, Key, Model, Schema, by, connect
from oneread.database.purge import Purge
from oneread.derivations.emitted_record import RecordedPointers
from oneread.jobs.queue import LEAST_PAGE
from oneread.jobs.running import JobRunner
from oneread.store.limits import GRACE
from oneread.store.requests import Mutate, Read, Scan
from oneread.store.rows import VALUE, Cell, RowMutation
from oneread.testing.clock import Clock
from oneread.transactions.job_rows import BUCKETS, JOBS, JOBS_ASIDE, JOBS_DONE, aside_key, job_key, token_of
from oneread.transactions.leases import LEASE, LeaseHolder


class Order(Model[int]):
    number: Key[int]
    text: str = ""


class OrdersOf(Index[Order]):
    text: str = by(Order.text)


class Work(Job):
    number: int


SCHEMA = Schema(Order, OrdersOf, Work)
KINDS = {"Work"}


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def asked():
    return []


@pytest.fixture
def db(url, clock, asked):
    def note(request, answer):
        asked.append((request, answer))

    with connect(url, SCHEMA, workers=0, clock=clock, observers=(note,)) as db:
        yield db


def counted(asked):
    """Requests by their class, since the last time."""
    found = Counter(type(request).__name__ for request, _answer in asked)
    asked.clear()
    return found


def rows(db, within):
    return db.run(Scan("system", within, 1000, families="dm").__iter__())


def put(db, key, value, column=VALUE):
    db.run(Mutate("system", [RowMutation(key, {column: Cell(value, 1)})]).__iter__())


def handlers_of(seen, **options):
    handlers = JobHandlers()
    handlers.handles(Work, **options)(lambda job, _run: seen.append(job.number))
    return handlers


def reader(db, name="other", seconds=10.0, elapsed=lambda: 0.0):
    """What takes jobs for a worker with a clock of its own, which is never set."""
    return db.operations.jobs.queue.reader(LeaseHolder(seconds, elapsed, lambda: name))


def test_a_commit_writes_a_row_for_each_job(db, kind_of_store):
    plain = db.cost(db.save(Order(number=1, text="a")))
    one = db.cost(db.save(Order(number=2, text="a"), enqueue=[Work(number=1)]))
    two = db.cost(db.save(Order(number=3, text="a"), enqueue=[Work(number=1), Work(number=2)]))
    assert (one.rows - plain.rows, two.rows - plain.rows) == (1, 2)
    assert one.requests == two.requests == plain.requests + 1
    assert len(rows(db, JOBS)) == 3
    assert kind_of_store == "row" or one.rounds == plain.rounds


def test_a_schema_with_jobs_costs_what_one_without_does(new_url, clock):
    costs = []
    for declared in ((Order, OrdersOf), (Order, OrdersOf, Work)):
        with connect(new_url(), Schema(*declared), workers=0, clock=clock) as db:
            saved = db.save(Order(number=1, text="a"))
            costs.append([db.cost(saved), db.cost(db.patch(Order, 1, text="b")), db.page(OrdersOf, "b").cost])
    assert costs[0] == costs[1]


def test_a_look_at_an_empty_queue_is_one_request(db, asked):
    asked.clear()
    assert db.run(reader(db).take(KINDS, 8, ())) == ((), False)
    assert counted(asked) == {"Scan": 1}


def test_jobs_are_in_several_places_of_the_table(db):
    db.save(Order(number=1), enqueue=[Work(number=number) for number in range(200)])
    buckets = Counter(key[len(JOBS.start)] for key, _row in rows(db, JOBS))
    assert set(buckets) == set(range(BUCKETS))


def test_a_look_reads_a_page_whatever_waits(db, asked):
    db.save(Order(number=1), enqueue=[Work(number=number) for number in range(400)])
    asked.clear()
    taken, has_more = db.run(reader(db).take(KINDS, 4, ()))
    assert (len(taken), has_more) == (4, True)
    scans = [answer for request, answer in asked if isinstance(request, Scan)]
    assert len(scans) == 1 + BUCKETS
    assert max(map(len, scans)) <= LEAST_PAGE


def test_a_job_that_another_worker_has_is_left_to_it(db):
    db.enqueue(Work(number=1))
    seen, now = [], [0.0]
    first = reader(db, "first", elapsed=lambda: now[0])
    assert len(db.run(first.take(KINDS, 8, ())).jobs) == 1
    second = reader(db, "second", elapsed=lambda: now[0])
    for now[0] in (0.0, 5.0, 9.9):
        assert not db.run(second.take(KINDS, 8, ())).jobs
    assert db.run_jobs(handlers_of(seen)).done == 0
    now[0] = 10.0
    (taken,) = db.run(second.take(KINDS, 8, ())).jobs
    db.run(db.operations.jobs.queue.finish([taken]))
    assert rows(db, JOBS) == []


@pytest.mark.parametrize("days", [-400, 400])
def test_a_clock_that_jumps_gives_no_job_to_two_workers(db, clock, days):
    db.enqueue(Work(number=1))
    assert len(db.run(reader(db, "first").take(KINDS, 8, ())).jobs) == 1
    clock.tick(max(days, 0) * 86_400)
    second = reader(db, "second")
    for _ in range(3):
        assert not db.run(second.take(KINDS, 8, ())).jobs


def test_a_lease_that_is_renewed_is_not_taken_over(db):
    db.enqueue(Work(number=1))
    now = [0.0]
    queue = db.operations.jobs.queue
    first, second = (reader(db, name, elapsed=lambda: now[0]) for name in ("first", "second"))
    (job,) = db.run(first.take(KINDS, 8, ())).jobs
    for _ in range(5):
        now[0] += 6
        (job,) = db.run(queue.renew([job], first.leases))
        assert not db.run(second.take(KINDS, 8, ())).jobs
    now[0] += 10
    (other,) = db.run(second.take(KINDS, 8, ())).jobs
    assert db.run(queue.renew([job], first.leases)) == [None]
    assert not db.run(queue.try_again(job, first.leases, job.stored, 0))
    db.run(queue.free([other], second.leases))
    assert len(db.run(first.take(KINDS, 8, ())).jobs) == 1


def test_a_handler_that_takes_longer_than_its_lease_keeps_its_job(db):
    db.enqueue(Work(number=1))
    ends, begun, runs = threading.Event(), threading.Event(), []
    handlers = JobHandlers()

    @handlers.handles(Work)
    def work(_job, _run):
        runs.append(1)
        begun.set()
        assert ends.wait(20)

    def runner():
        made = JobRunner(db.operations.jobs, db.run, handlers, 1)
        made.leases.seconds = 0.3
        return made

    first, second = runner(), runner()
    thread = threading.Thread(target=first.work_off, args=(lambda: False,))
    thread.start()
    assert begun.wait(20)
    for _ in range(8):
        second.work_off(lambda: False)
        threading.Event().wait(0.1)
    ends.set()
    thread.join(20)
    assert (runs, first.done.done, second.done.done) == ([1], 1, 0)


def test_a_job_that_is_put_again_after_its_end_is_not_run_again(db, clock, kind_of_store):
    db.save(Order(number=1), enqueue=[Work(number=1)])
    ((key, row),) = rows(db, JOBS)
    seen = []
    db.run_jobs(handlers_of(seen))
    if kind_of_store in ("memory", "lmdb"):
        assert rows(db, JOBS_DONE) == []
        return
    for _ in range(2):
        db.run(Mutate("system", [RowMutation(key, {VALUE: row[VALUE]})]).__iter__())  # by a program that was late
        assert db.run_jobs(handlers_of(seen)).done == 0
        assert rows(db, JOBS) == []
    assert seen == [1]
    assert len(rows(db, JOBS_DONE)) == 1
    clock.tick(GRACE + 1)
    purge = Purge(db.operations.catalog, RecordedPointers(), GRACE)
    while db.run(purge.step()):
        pass
    assert rows(db, JOBS_DONE) == []


def test_what_is_dropped_does_not_come_again(db, kind_of_store):
    db.save(Order(number=1), enqueue=[Work(number=1)])
    ((key, row),) = rows(db, JOBS)
    handlers = JobHandlers()
    handlers.handles(Work, tries=1)(lambda _job, _run: 1 / 0)
    db.run_jobs(handlers)
    assert db.drop_jobs(str(token_of(key))) == 1
    if kind_of_store not in ("memory", "lmdb"):
        db.run(Mutate("system", [RowMutation(key, {VALUE: row[VALUE]})]).__iter__())
        assert db.run_jobs(handlers).set_aside == 0
    assert db.jobs() == db.jobs(set_aside=True) == []


def test_a_lease_without_a_job_is_removed(db):
    db.enqueue(Work(number=1))
    ((key, _row),) = rows(db, JOBS)
    (taken,) = db.run(reader(db, "first").take(KINDS, 8, ())).jobs
    db.run(Mutate("system", [RowMutation(key, deletes={VALUE: taken.stamp})]).__iter__())
    assert (db.jobs(), db.survey().jobs.waiting, db.verify().clean) == ([], 0, True)
    now = [0.0]
    second = reader(db, "second", elapsed=lambda: now[0])
    for now[0] in (0.0, 20.0):
        assert not db.run(second.take(KINDS, 8, ())).jobs
    assert db.run(Read("system", [key], "dm").__iter__()) == [None]


def test_rows_that_cannot_be_read_are_named_kept_and_dropped(db):
    db.enqueue(Work(number=1))
    ((key, _row),) = rows(db, JOBS)
    damaged = [job_key(1, token_of(key)), aside_key(token_of(key)), JOBS.start + b"\x01short", JOBS_ASIDE.start + b"x"]
    for each in damaged[:2]:
        put(db, each, b"\xc1\xc1")
    for each in damaged[2:]:
        put(db, each, b"\x90")
    faults = db.verify().faults
    assert sorted(each.key for each in faults) == sorted(damaged)
    assert {(each.kind, each.view, each.mendable, each.droppable) for each in faults} == {
        ("unreadable", "job", False, True)
    }
    seen = []
    assert db.run_jobs(handlers_of(seen)).done == 1
    assert [each.kind for each in db.jobs()] == [each.kind for each in db.jobs(set_aside=True)] == [""]
    assert db.retry_jobs() == 0
    assert not db.repair().clean
    assert len(db.drop(*faults)) == 4
    assert db.verify().clean
    assert db.drop(*faults) == ()


def test_a_readable_job_is_not_dropped_in_place_of_a_damaged_one(db):
    db.enqueue(Work(number=1))
    ((key, row),) = rows(db, JOBS)
    put(db, job_key(1, token_of(key)), b"\xc1\xc1")
    (fault,) = db.verify().faults
    db.run(Mutate("system", [RowMutation(fault.key, {VALUE: row[VALUE]})]).__iter__())
    assert db.drop(fault) == ()


def test_a_worker_that_is_stopped_waits_for_what_runs_and_no_longer(url, clock, monkeypatch):
    monkeypatch.setattr("oneread.jobs.running.STOP_SECONDS", 0.2)
    begun, ends = threading.Semaphore(0), threading.Event()
    handlers = JobHandlers()

    @handlers.handles(Work)
    def work(job, _run):
        begun.release()
        assert ends.wait(20) if job.number else True

    with connect(url, SCHEMA, workers=0, clock=clock) as db:
        db.start_jobs(handlers)
        db.enqueue(Work(number=1))
        assert begun.acquire(timeout=20)
    ends.set()


def test_every_job_has_another_token_of_its_time(db, clock):
    tokens = {db.enqueue(Work(number=1), delay=timedelta(days=1)) for _ in range(50)}
    assert len(tokens) == 50
    assert {each.enqueued for each in db.jobs(limit=50)} == {clock.now}
    assert all(row.keys() == {VALUE} for _key, row in rows(db, JOBS))
    assert LEASE not in rows(db, JOBS)[0][1]


def test_a_dump_has_no_jobs(db):
    db.save(Order(number=1), enqueue=[Work(number=1)])
    lines = []
    db.dump(lines.append)
    assert b"Work" not in b"".join(lines)


def test_what_became_of_jobs_is_noted(db):
    noted = []
    db.operations.meter = Meter(noted)
    handlers = JobHandlers()
    handlers.handles(Work, tries=2, wait=timedelta(0))(lambda job, _run: 1 // job.number)
    db.save(Order(number=1), enqueue=[Work(number=0), Work(number=1)])
    db.run_jobs(handlers)
    assert Counter(noted) == {("Work", "done"): 1, ("Work", "failed"): 1, ("Work", "set_aside"): 1}


class Meter:
    """What records how workers do."""

    def __init__(self, noted):
        self.note_job = lambda kind, outcome: noted.append((kind, outcome))
