"""Commits that are not finished are counted, with their age, and the entities whose views are not right yet."""

import msgspec

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


def test_views_are_behind_by_the_oldest_commit():
    with fill(Clock()) as db:
        assert (db.survey().behind, db.survey().are_all) == (50.0, True)
        assert db.run(db.operations.behind({})) == 50.0
        assert stat._behind(db.survey()) == "views, copies and totals may lack changes of the last 50.0 s"
        db.drain()
        assert db.survey().behind == 0.0
        assert stat._behind(db.survey()) == "views, copies and totals show every change"


def test_of_many_markers_the_first_are_counted_and_the_oldest_is_known():
    """The oldest is in any bucket: the first entry of each is read."""
    asked = []
    with fill(Clock()) as db:
        plan, answer = unfinished_commits.unfinished_commits(2, 2), None
        while True:
            try:
                request = plan.send(answer)
            except StopIteration as ended:
                found = ended.value
                break
            asked.append(type(request).__name__)
            answer = db.run(iter_of(request))
        assert (found.markers, found.oldest, found.are_all) == (2, 50.0, False)
        assert asked == ["Now", "Scan", "Together", "Read"]
        survey = db.survey()
        assert (survey.behind, survey.are_all) == (50.0, True)  # fewer than a batch are all counted
        assert stat._behind(msgspec.structs.replace(survey, are_all=False)).endswith("last at least 50.0 s")


def iter_of(request):
    return (yield request)


def test_where_transactions_span_rows_there_are_none(url):
    with connect(url, SCHEMA, workers=0) as db:
        assert db.survey().commits is None


def test_they_are_shown():
    assert stat._unfinished(UnfinishedCommits(1, 2.04, 1)) == (
        "1 commit not finished, the oldest began 2.0 s ago; 1 entity with views that are not right yet"
    )
    assert "5 entities" in stat._unfinished(UnfinishedCommits(5, 2.0, 5))
