"""Jobs go along with a copy, and with a switch to another store and back: each is run in one of both."""

from datetime import timedelta

import pytest

from oneread import Job, JobHandlers, Key, Model, Schema, connect, copy_store, move
from oneread.copying import job_copies, move_flow
from oneread.errors import StoreMoved, Unavailable
from oneread.testing.clock import Clock
from tests.stores import KINDS, forget, make_url


class Order(Model[int]):
    number: Key[int]
    text: str = ""


class Work(Job):
    number: int


SCHEMA = Schema(Order, Work)


@pytest.fixture(params=KINDS)
def source(request, tmp_path):
    made = make_url(request.param, tmp_path)
    yield made
    forget(made)


@pytest.fixture(params=KINDS)
def target(request, tmp_path):
    made = make_url(request.param, tmp_path)
    yield made
    forget(made)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def program(source, clock):
    with opened(source, clock) as db:
        yield db


def opened(url, clock):
    return connect(url, SCHEMA, workers=0, clock=clock)


def fill(db, first=1):
    """Four jobs: one to be run, one that waits, one that has failed, one that is set aside."""
    db.save(Order(number=first), enqueue=[Work(number=first + 3)])
    run(db, tries=1, fails=True)
    db.enqueue(Work(number=first + 2))
    run(db, wait=timedelta(hours=1), fails=True)
    db.enqueue(Work(number=first + 1), delay=timedelta(days=1))
    db.save(Order(number=first, text="x"), enqueue=[Work(number=first)])


def run(db, *, fails=False, **options):
    handlers, seen = JobHandlers(), []

    @handlers.handles(Work, **options)
    def work(job, _run):
        seen.append(job.number)
        if fails:
            raise ValueError

    db.run_jobs(handlers)
    return sorted(seen)


def jobs(db):
    """All jobs, but for who runs them."""
    return db.jobs(), db.jobs(set_aside=True)


def test_a_copy_has_the_jobs(source, target, clock):
    with opened(source, clock) as db:
        fill(db)
        expected = jobs(db)
    copy_store(source, target, SCHEMA, clock=clock)
    with opened(target, clock) as db:
        assert jobs(db) == expected
        clock.tick(100_000)
        assert run(db) == [1, 2, 3]
        assert db.retry_jobs() == 1
        assert run(db) == [4]


def test_a_switch_takes_the_jobs_along_and_back(program, source, target, clock, monkeypatch):
    monkeypatch.setattr(job_copies, "PAGE", 2)
    fill(program)
    with move(source, target, SCHEMA, clock=clock) as it:
        it.start()
        it.copy()
        fill(program, 11)  # the first job fails as well, and is set aside
        it.follow(until_lag=0.0)
        assert it.compare().equal
        expected = jobs(program)
        it.switch()
        with opened(target, clock) as two:
            assert jobs(two) == expected
            with pytest.raises(StoreMoved):
                run(program)
            with pytest.raises(StoreMoved):
                program.enqueue(Work(number=99))
            with pytest.raises(StoreMoved):
                program.retry_jobs()
            clock.tick(100_000)
            assert run(two) == [2, 3, 11, 12, 13]
            fill(two, 21)
            it.follow(until_lag=0.0)
            expected = jobs(two)
            it.back(force=True)
            assert jobs(program) == expected
            with pytest.raises(StoreMoved):
                run(two)
        clock.tick(100_000)
        assert run(program) == [21, 22, 23]
        assert program.retry_jobs() == 4
        assert run(program) == [1, 4, 14, 24]
        it.switch(force=True)
        with opened(target, clock) as two:
            assert jobs(two) == ([], [])
            assert two.verify().clean


def test_a_switch_that_has_no_time_for_the_jobs_is_given_up(program, source, target, clock, monkeypatch):
    program.enqueue(Work(number=1))
    with move(source, target, SCHEMA, clock=clock) as it:
        it.start()
        it.copy()
        it.follow(until_lag=0.0)
        with monkeypatch.context() as patch:
            patch.setattr(move_flow, "copy_jobs", lambda *_given: False)
            with pytest.raises(Unavailable, match="the jobs did not go along"):
                it.switch(force=True)
        assert it.status().state == "following"
        assert run(program) == [1]
        assert it.switch(force=True).state == "switched"


def test_nothing_is_written_once_it_may_not_be(program, target, clock):
    program.enqueue(Work(number=1))
    with opened(target, clock) as two:
        assert not job_copies.copy_jobs(program, two, lambda: False)
        assert two.jobs() == []
