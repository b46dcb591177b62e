"""What sweeps do with change logs: what is not kept goes, in small transactions, and cursors from before are known."""

from datetime import timedelta

import pytest

from oneread import Index, Key, Model, Schema, by, connect
from oneread.database.expiry_sweep import PAUSE_SECONDS, BackgroundSweeper, Swept
from oneread.database.log_sweep import LogSweep
from oneread.derivations.schema_rows import fence, replace_schema, stored_schema
from oneread.errors import Conflict, Expired
from oneread.plans.effects import Atomically
from oneread.store.requests import Read, Replace, Scan
from oneread.testing.clock import Clock
from oneread.transactions.change_log import LOGS, entries_from, last_entry, number_of
from tests.unit.database.faces import FACES


class Post(Model[int]):
    number: Key[int]
    author: str = "ada"


class Posts(Index[Post]):
    watched = timedelta(hours=1)

    author: str = by(Post.author)


class Brief(Index[Post]):
    watched = timedelta(minutes=1)

    author: str = by(Post.author)


class Unwatched(Index[Post]):
    author: str = by(Post.author)


class Later(Index[Post]):
    watched = timedelta(minutes=1)

    author: str = by(Post.author)


SCHEMA = Schema(Post, Posts, Brief, Unwatched)
PLAIN = Schema(Post, Unwatched)

MEASURES = {
    Read: lambda request, _answer: len(request.keys),
    Scan: lambda _request, answer: len(answer),
    Replace: lambda request, _answer: len(request.rows),
}


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def db(url, clock):
    with connect(url, SCHEMA, workers=0, clock=clock) as db:
        yield db


def numbers(db, view):
    """The numbers of the entries of a view's log."""
    log = db.operations.catalog.logs[view]
    return [number_of(key) for key, _row in db.run(Scan("system", entries_from(log, 0), 1000).__iter__())]


def last(db, view):
    log = db.operations.catalog.logs[view]
    (row,) = db.run(Read("system", [log]).__iter__())
    return last_entry(log, row)


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_what_is_older_than_declared_is_removed_and_no_more(url, face, clock):
    db = face(url, SCHEMA, workers=0, clock=clock)
    for number in range(5):
        db.save(Post(number=number))
        clock.tick(30)
    assert db.sweep() == Swept(changes=4)  # of Brief: those of 60 seconds ago and before
    clock.tick(3600 - 60)
    assert db.sweep().changes == 1 + 4
    assert not db.sweep().changes
    db.close()


def test_numbers_continue_behind_what_was_removed(db, clock):
    for number in range(3):
        db.save(Post(number=number))
    clock.tick(60)
    db.sweep()
    assert (numbers(db, Posts), numbers(db, Brief)) == ([1, 2, 3], [])
    assert last(db, Brief) == 3
    db.save(Post(number=9))
    assert (last(db, Brief), numbers(db, Brief)) == (4, [4])


def test_a_clock_that_was_wrong_keeps_entries_longer_and_their_order(db, clock):
    clock.tick(86_400)
    db.save(Post(number=1))
    clock.tick(-86_400)
    db.save(Post(number=2))
    clock.tick(3600)
    assert not db.sweep().changes
    clock.tick(86_400)
    assert db.sweep().changes == 4


def test_batches_are_small_transactions(db, clock):
    for number in range(7):
        db.save(Post(number=number))
    clock.tick(60)
    steps = []
    assert db.sweep(batch=2, progress=lambda each: steps.append(each.done)).changes == 7
    assert steps == [2, 4, 6, 7]


def test_a_cursor_between_removed_and_kept_entries_is_good(db, clock):
    db.save(Post(number=1))
    old = db.changes_cursor(Brief)
    clock.tick(30)
    db.save(Post(number=2))
    at = db.changes_cursor(Brief)
    clock.tick(45)
    db.save(Post(number=3))
    db.sweep()
    assert numbers(db, Brief) == [2, 3]
    found = next(db.changes(Brief, cursor=old, wait=0))
    assert [each.source.key for each in found] == [(2,), (3,)]
    clock.tick(30)
    db.sweep()
    assert len(next(db.changes(Brief, cursor=old, wait=0))) == 2  # this process still knows the entries
    db.operations.logs.clear()
    with pytest.raises(Expired):
        next(db.changes(Brief, cursor=old, wait=0))
    assert [each.source.key for each in next(db.changes(Brief, cursor=at, wait=0))] == [(3,)]


def test_entries_that_are_removed_behind_the_look_are_missed_by_no_reader(db, clock):
    cursor = db.changes_cursor(Brief)
    for number in range(3):
        db.save(Post(number=number))
    clock.tick(60)
    batches = db.changes(Brief, cursor=cursor, wait=0)
    watcher_looks = iter([db.sweep])

    def sweep_behind_the_look(_request, _answer):
        for sweep in watcher_looks:
            sweep()

    db._observers = (sweep_behind_the_look,)
    with pytest.raises(Expired):
        next(batches)
    assert last(db, Brief) == 3


def observed(url, schema, clock):
    asked = []

    def observe(request, answer):
        asked.append(f"{type(request).__name__} {request.table} {MEASURES[type(request)](request, answer)}")

    return connect(url, schema, workers=0, clock=clock, observers=(observe,)), asked


def test_what_a_sweep_costs(url, clock):
    db, asked = observed(url, SCHEMA, clock)
    asked.clear()
    db.sweep()
    assert asked == ["Scan system 0", "Scan system 0"]  # the second one looks for launches
    db.save(Post(number=1))
    asked.clear()
    db.sweep()
    learn = ["Scan system 1", "Read system 1"]
    assert asked == [*learn, "Scan system 1", "Scan system 1", "Scan system 1", "Scan system 0", "Scan system 0"]
    clock.tick(60)
    asked.clear()
    assert db.sweep().changes == 1
    assert "Replace system 1" in asked
    db.close()


def test_a_worker_sweeps_logs_where_views_are_watched_and_asks_nothing_elsewhere(new_url, clock):
    for schema, swept in ((SCHEMA, 2), (PLAIN, 0)):
        db, asked = observed(new_url(), schema, clock)
        db.save(Post(number=1))
        clock.tick(3600)
        asked.clear()
        now = [0.0]
        sweeper = BackgroundSweeper(db.operations._begin_background_sweep, lambda now=now: now[0])
        steps = 0
        while db.run(sweeper.step()):
            steps += 1
        assert steps == swept
        assert bool(asked) == bool(swept)
        asked.clear()
        assert not db.run(sweeper.step())
        assert not asked
        now[0] += PAUSE_SECONDS
        db.run(sweeper.step())
        assert bool(asked) == bool(swept)
        db.close()


def test_a_schema_that_changes_meanwhile_ends_the_removal_of_unknown_logs(db):
    db.save(Post(number=1))
    stored = db.run(stored_schema())
    sweep = LogSweep(db.operations.catalog, db.operations.committer, 10)
    db.run(sweep._learn())
    sweep._written = frozenset()  # as if a newer program had added these logs since
    db.run(Atomically(lambda store: replace_schema(store, stored, 1)).__iter__())
    assert fence(stored) != fence(db.run(stored_schema()))
    with pytest.raises(Conflict, match="sweep again"):
        db.run(sweep.step())
    assert db.run(Scan("system", LOGS, 10).__iter__())


def test_logs_of_views_that_only_a_newer_program_knows_stay(url, clock):
    rest = Schema(Post, Posts, Brief)
    with connect(url, rest, workers=0, clock=clock) as older, connect(url, SCHEMA, workers=0, clock=clock) as newer:
        later = Schema(Post, Posts, Brief, Unwatched, Later)
        with connect(url, later, workers=0, clock=clock) as newest:
            newest.save(Post(number=1))
            clock.tick(86_400)
            assert older.sweep().changes == newer.sweep().changes + 2 == 2
            assert numbers(newest, Later) == [1]
