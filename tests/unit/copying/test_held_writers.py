"""What is done while writers are held at a switch, and what before and behind it: only what must be."""

import pytest

from oneread import Copy, Index, Key, Model, Schema, by, connect, shown
from oneread.copying.moves import Move
from oneread.counters.rows import INCREMENTS, name_key, shard_key
from oneread.database.operations import Operations
from oneread.derivations.pending_tasks import count_waiting
from oneread.plans.effects import Sleep
from oneread.store.requests import Increment
from oneread.testing.clock import Clock
from oneread.transactions import journal_recovery
from tests.stores import KINDS, forget, make_url


class Author(Model[int]):
    number: Key[int]
    name: str


class Byline(Copy[Author]):
    name: str


class Text(Model[int]):
    number: Key[int]
    author: Byline


class Texts(Index[Text]):
    number: int = by(Text.number)
    author: Byline = shown(Text.author)


SCHEMA = Schema(Author, Text, Texts, inline=1)
HOLDERS = 5


@pytest.fixture(params=KINDS)
def target(request, tmp_path):
    made = make_url(request.param, tmp_path)
    yield made
    forget(made)


@pytest.fixture
def moved(target):
    """A move that follows, by a process whose right to follow has to be renewed all the time, and the source."""
    clock, source = Clock(), make_url("memory", None)
    with connect(source, SCHEMA, workers=0, clock=clock) as db:
        db.save(Author(number=0, name="first"))
        db.save_all([Text(number=number, author=Byline.of(0)) for number in range(HOLDERS)])
        clock.tick()
        with Move(source, target, (SCHEMA, SCHEMA), clock, 0.0) as it:
            it.start()
            it.copy()
            it.follow(until_lag=0.0)
            db.patch(Author, 0, name="renamed")
            clock.tick()
            yield it, db
    forget(source)


def waiting(db):
    return count_waiting(db.run(db.operations.lag()))


def test_tasks_are_done_behind_the_batch_that_leaves_them(moved):
    it, _db = moved
    flow = it._opened()
    assert flow.follow_some(back=False) == 1
    assert not flow.is_near(1000.0, back=False), "a batch of tasks, and then the right is to be renewed"
    it.follow(until_lag=0.0)
    assert waiting(flow.states.target) == 0
    assert [each.author.name for each in flow.states.target.page(Text)] == ["renamed"] * HOLDERS


def test_no_task_is_done_while_writers_are_held(moved, target, monkeypatch):
    """Workers of the programs do it in the store that takes the writes then."""
    it, db = moved
    flow, asked = it._opened(), []
    step = Operations.drain_or_wait
    monkeypatch.setattr(flow, "prepare", lambda **_named: None)
    monkeypatch.setattr(Operations, "drain_or_wait", lambda *given: asked.append(state()) or step(*given))

    def state():
        return flow.states.of_source().row.state

    assert it.switch(force=True).state == "switched"
    assert "closing" not in asked
    with connect(target, SCHEMA, workers=0, clock=it._clock) as two:
        two.drain()
        assert [each.author.name for each in two.page(Text)] == ["renamed"] * HOLDERS
        assert two.verify().clean
    assert waiting(db)


def test_little_is_left_to_follow_when_writers_are_held(moved, monkeypatch):
    it, _db = moved
    flow, left = it._opened(), []
    close = flow.states.close
    monkeypatch.setattr(
        flow.states, "close", lambda *given, **named: left.append(flow.lag(back=False)) or close(*given, **named)
    )
    it.switch(force=True)
    assert left == [(0, 0.0)]


def test_an_increment_that_was_sent_before_the_start_is_counted(target):
    """It compares nothing, so neither a mark nor the copy can end it; it is done behind the copy of its counter."""
    clock, source = Clock(), make_url("row", None)
    with connect(source, SCHEMA, workers=0, clock=clock) as db:
        db.counter("seen", approximate=True, shards=1).add(1)
        with Move(source, target, (SCHEMA, SCHEMA), clock, 10.0) as it:
            it.start()
            it.copy()
            db.run(Increment("counts", shard_key(name_key("seen"), 0), INCREMENTS, 5).__iter__())
            it.switch(force=True)
        with connect(target, SCHEMA, workers=0, clock=clock) as two:
            assert two.counter("seen", approximate=True).read() == 6
    forget(source)


def test_what_passed_since_the_store_was_closed_is_not_waited_for_again(monkeypatch):
    monkeypatch.setattr(journal_recovery, "MOVING_END_SECONDS", 2.0)
    url = make_url("row", None)
    with connect(url, SCHEMA, workers=0) as db:
        recovery = db.operations.committer.recovery
        now = db.operations.committer.journal.clock()
        db.operations.committer.journal.clock = lambda: now
        asked = next(recovery.end_unaware(now - 1.5))
        assert type(asked) is Sleep
        assert asked.seconds == pytest.approx(0.5)
        assert type(next(recovery.end_unaware(now - 2.0))) is not Sleep
    forget(url)
