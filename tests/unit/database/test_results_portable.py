"""Everything that a program gets of a database can be pickled and copied, for caches, queues and other processes."""

import copy
import pickle
from datetime import timedelta

import pytest

from oneread import Aggregate, Index, Key, Model, Page, Schema, by, connect, count, newest, to_json
from oneread.errors import NotFound


class Note(Model[int]):
    number: Key[int]
    kind: str


class ByKind(Index[Note]):
    watched = timedelta(hours=1)
    kind: str = by(Note.kind)
    number: int = newest(Note.number)


class Kinds(Aggregate[Note]):
    kind: str = by(Note.kind)
    notes: int = count()


SCHEMA = Schema(Note, ByKind, Kinds)
WAYS = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "oldest pickle": lambda value: pickle.loads(pickle.dumps(value, protocol=2)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "twice": lambda value: copy.deepcopy(pickle.loads(pickle.dumps(value))),
}


@pytest.fixture
def db(url):
    with connect(url, SCHEMA, workers=0) as opened:
        opened.save_all([Note(number=number, kind="a") for number in range(5)])
        yield opened


def refused(db):
    with pytest.raises(NotFound) as error:
        db.get(Note, 404)
    error.value.add_note("a note")
    return error.value


RESULTS = {
    "entity": lambda db: db.get(Note, 1),
    "row": lambda db: db.page(ByKind, "a")[0],
    "group": lambda db: db.get(Kinds, "a"),
    "cursor": lambda db: db.page(ByKind, "a", limit=2).next,
    "cost": lambda db: db.page(ByKind, "a").cost,
    "verification": lambda db: db.verify(),
    "repair": lambda db: db.repair(),
    "survey": lambda db: db.survey(),
    "explanation": lambda db: db.explain.get(Note, 1),
    "counters": lambda db: db.counters(),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("result", RESULTS)
def test_a_result_comes_back_equal(db, way, result):
    given = RESULTS[result](db)
    found = WAYS[way](given)
    assert type(found) is type(given)
    assert found == given


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("looked_at", [False, True])
def test_a_page_comes_back_with_its_rows_and_cursors(db, way, looked_at):
    first = db.page(ByKind, "a", limit=2)
    for page in (
        first,
        db.page(ByKind, "a", limit=2, cursor=first.next),
        db.page(Note),
        first.map(str),
        db.page(ByKind, "b"),
    ):
        if looked_at:
            assert page.rows is page.rows
        found = WAYS[way](page)
        assert type(found) is Page
        assert (list(found), found.next, found.previous) == (list(page), page.next, page.previous)
        assert (found.cost, found.truncated, found.lag) == (page.cost, page.truncated, page.lag)
        assert to_json(found) == to_json(page)
    again = WAYS[way](first)
    assert list(db.page(ByKind, "a", limit=2, cursor=again.next)) == list(
        db.page(ByKind, "a", limit=2, cursor=first.next)
    )


@pytest.mark.parametrize("way", WAYS)
def test_changes_come_back(db, way):
    cursor = db.changes_cursor(ByKind)
    db.save(Note(number=9, kind="a"))
    given = next(db.changes(ByKind, "a", cursor=cursor, wait=1))
    found = WAYS[way](given)
    assert (list(found), found.cursor, found.more) == (list(given), given.cursor, given.more)


@pytest.mark.parametrize("way", WAYS)
def test_an_error_comes_back(db, way):
    given = refused(db)
    found = WAYS[way](given)
    assert (type(found), str(found), found.facts, found.__notes__) == (NotFound, str(given), given.facts, ["a note"])
