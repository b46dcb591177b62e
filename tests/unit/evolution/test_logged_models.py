"""Models that are logged under stored data, or not any more: nothing is built again, older programs are refused."""

from datetime import timedelta

import msgspec
import pytest

from oneread import Key, Model, Schema, connect, migration
from oneread.derivations.schema_rows import stored_schema
from oneread.errors import Expired, SchemaMismatch
from oneread.models import versions
from oneread.store.requests import Read, Scan
from oneread.store.rows import VALUE
from oneread.transactions.change_log import LOGS
from oneread.transactions.system_rows import SCHEMA_ROW
from tests.unit.evolution.stores import end_lease

WEEK = timedelta(days=7)


def declared(logged=None, *, extra=False, further=False):
    """A schema of posts; its classes are new ones each time, as those of another release."""

    class Post(Model[int]):
        number: Key[int]
        title: str = ""

    class Note(Model[int]):
        number: Key[int]

    class Page(Model[int]):
        number: Key[int]

    Post.logged = logged
    return Schema(Post, *((Note,) if extra else ()), *((Page,) if further else ()))


@pytest.fixture
def keep(url):
    """Keeps a store of this name in memory while the test opens it several times."""
    with connect(url, declared(), workers=0) as db:
        yield db


def opened(url, schema):
    db = connect(url, schema, workers=0, cursor_secret=b"s" * 32)
    db.post = schema.models[0]
    return db


def following(db, cursor):
    batches = db.changes(db.post, cursor=cursor, wait=0, pace=0.01)
    return [each.key[0] for each in next(batches)]


def logs(db):
    """The keys of the rows of all logs."""
    return [key for key, _row in db.run(Scan("system", LOGS, 1000).__iter__())]


def format_of(db):
    (row,) = db.run(Read("system", [SCHEMA_ROW]).__iter__())
    return msgspec.msgpack.decode(row[VALUE].value)["format"]


def test_a_log_builds_nothing_again_and_refuses_older_writers(keep, url):
    keep.save(keep.operations.catalog.models[0](number=1))
    with opened(url, declared(WEEK)) as db:
        assert not db.survey().unfinished
        cursor = db.changes_cursor(db.post)
        end_lease(keep)
        with pytest.raises(SchemaMismatch):  # it would not log what it writes
            keep.save(keep.operations.catalog.models[0](number=2))
        db.save(db.post(number=3))
        assert following(db, cursor) == [3]
        assert not db.verify().faults
    with pytest.raises(SchemaMismatch):
        connect(url, declared(), workers=0)


@pytest.mark.usefixtures("keep")
def test_a_different_time_to_keep_leaves_the_schema_as_it_is(url):
    with opened(url, declared(WEEK)) as week, opened(url, declared(2 * WEEK)) as two:
        cursor = week.changes_cursor(week.post)
        two.save(two.post(number=1))
        week.save(week.post(number=2))
        assert following(week, cursor) == [1, 2]
        assert week.run(stored_schema()).version == two.run(stored_schema()).version


@pytest.mark.usefixtures("keep")
def test_a_program_that_follows_is_refused_once_a_newer_one_does_not_log(url):
    with opened(url, declared(WEEK)) as db:
        cursor = db.changes_cursor(db.post)
        db.save(db.post(number=1))
        assert len(logs(db)) == 2
        with opened(url, declared(extra=True)) as newer:
            newer.save(newer.post(number=2))
            assert len(logs(newer)) == 2  # no more
            with pytest.raises(SchemaMismatch, match="does not watch or log this any more"):
                following(db, cursor)
            assert newer.sweep().changes == 2
            assert not logs(newer)
            assert not newer.verify().faults


@pytest.mark.usefixtures("keep")
def test_a_cursor_from_before_a_time_without_a_log_is_expired(url):
    with opened(url, declared(WEEK)) as db:
        cursor = db.changes_cursor(db.post)
    with opened(url, declared(extra=True)) as unlogged:
        unlogged.save(unlogged.post(number=1))
    with opened(url, declared(WEEK, extra=True, further=True)) as db:
        db.save(db.post(number=2))
        with pytest.raises(Expired):
            following(db, cursor)
        assert following(db, db.changes_cursor(db.post)) == []


@pytest.mark.usefixtures("keep")
def test_a_rollback_ends_the_log(url):
    with opened(url, declared(WEEK)) as db:
        db.save(db.post(number=1))
        migration(url, declared()).rollback()
        with pytest.raises(SchemaMismatch):
            db.changes_cursor(db.post)
        with opened(url, declared()) as older:
            older.save(older.post(number=2))
            assert older.run(stored_schema()).logged == {}


@pytest.mark.usefixtures("keep")
def test_a_plan_says_that_a_model_is_logged(url):
    plan = migration(url, declared(WEEK)).plan()
    (difference,) = [each for each in plan.differences if each.field == "logged"]
    assert (difference.name, difference.before, difference.after) == ("Post", "not logged", "logged")


def test_a_release_that_knows_no_logs_is_refused_while_there_is_one(keep, url):
    assert format_of(keep) == versions.FORMAT  # any release of this format may open it
    with opened(url, declared(WEEK)) as db:
        assert format_of(db) == versions.FORMAT + 1
    with opened(url, declared(extra=True)) as db:
        assert format_of(db) == versions.FORMAT
