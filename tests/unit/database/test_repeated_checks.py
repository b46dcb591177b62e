"""A server that makes a conditional write twice, and answers for the second time: every change is made once."""

import pytest

from oneread import Aggregate, Key, Model, Schema, add, by, connect, count, total
from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.errors import OutcomeUnknown
from oneread.store.requests import CheckAndMutate


class Page(Model[int]):
    number: Key[int]
    site: str
    visits: int = 0


class Sites(Aggregate[Page]):
    site: str = by(Page.site)
    pages: int = count()
    visits: int = total(Page.visits)


@pytest.fixture
def db(monkeypatch):
    once = OneRowMemoryEngine.answer

    def answer(engine, request):
        if type(request) is not CheckAndMutate:
            return once(engine, request)
        once(engine, request)
        applied = once(engine, request)
        if request.has_history and not applied:
            raise OutcomeUnknown("refused, which may be for the second time")
        return applied

    with connect("memory://?span=row", Schema(Page, Sites), workers=0) as opened:
        monkeypatch.setattr(OneRowMemoryEngine, "answer", answer)
        yield opened
        monkeypatch.undo()


def test_commits_are_made_once(db):
    db.create(Page(number=1, site="a"))
    for _time in range(3):
        db.patch(Page, 1, visits=add(1))
    assert db.get(Page, 1).visits == 3
    assert (db.get(Sites, "a").pages, db.get(Sites, "a").visits) == (1, 3)
    db.delete(Page, 1)
    assert db.find(Page, 1) is None
    assert db.get(Sites, "a").pages == 0


@pytest.mark.parametrize("once", [False, True])
def test_adds_to_counters_are_made_once(db, once):
    hits = db.counter("hits")
    for number in range(3):
        hits.add(2, once=f"add-{number}" if once else None)
    assert hits.read() == 6
