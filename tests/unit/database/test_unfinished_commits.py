"""Commits that are not finished are counted, with their age, and the entities whose views are not right yet."""

from oneread import Index, Key, Model, Schema, by, connect
from oneread.cli import stat
from oneread.database import unfinished_commits
from oneread.database.unfinished_commits import UnfinishedCommits
from oneread.testing.clock import Clock


class Pupil(Model[int]):
    number: Key[int]
    form: str


class PupilsOfForm(Index[Pupil]):
    form: str = by(Pupil.form)


SCHEMA = Schema(Pupil, PupilsOfForm)


def fill(clock):
    db = connect("memory://?span=row", SCHEMA, clock=clock, wait="commit", workers=0)
    for number in range(5):
        db.save(Pupil(number=number, form="a"))
        clock.tick(10)
    return db


def test_commits_that_wait_are_counted():
    with fill(Clock()) as db:
        assert db.survey().commits == UnfinishedCommits(5, 50.0, 5)
        db.drain()
        assert db.survey(exact=True).commits == UnfinishedCommits()


def test_few_entities_are_looked_at(monkeypatch):
    monkeypatch.setattr(unfinished_commits, "LOOKED_AT", 3)
    with fill(Clock()) as db:
        assert db.survey().commits == UnfinishedCommits(5, 50.0, 3)


def test_where_transactions_span_rows_there_are_none():
    with connect("memory://", SCHEMA, workers=0) as db:
        assert db.survey().commits is None


def test_they_are_shown():
    assert stat._unfinished(UnfinishedCommits(1, 2.04, 1)) == (
        "1 commit not finished, the oldest began 2.0 s ago; 1 entity with views that are not right yet"
    )
    assert "5 entities" in stat._unfinished(UnfinishedCommits(5, 2.0, 5))
