"""The share of a launched view on a store of single rows: what was decided by a former one is not committed."""

import pytest

from oneread import Index, Key, Model, Schema, by, descending
from oneread.derivations.emitted_record import decode_record
from oneread.derivations.schema_rows import stored_schema
from oneread.evolution.writing_shares import change_share
from oneread.store.requests import Mutate, Read
from oneread.transactions.journal_recovery import LEASE_SECONDS
from oneread.transactions.root import parse_root
from tests.unit.evolution.test_leased_fence import Store


class Event(Model[int]):
    number: Key[int]
    group: str
    score: int = 0


class Home(Index[Event]):
    group: str = by(Event.group)


class HomeByScore(Index[Event]):
    replaces = Home
    group: str = by(Event.group)
    score: int = descending(Event.score)


SCHEMA = Schema(Event, Home, HomeByScore)


@pytest.fixture
def store():
    return Store()


def share(db, percent):
    db.run(change_share(db.operations.committer, "HomeByScore", percent))
    db.run(db.operations.fence.refresh())


def names_view(db, number):
    key = db.operations.catalog.kinds[Event].key((number,))
    (row,) = db.run(Read("roots", [key], "dm").__iter__())
    (token,) = db.operations.catalog.views[HomeByScore].tokens
    return token in decode_record(parse_root(row).emitted)


@pytest.mark.parametrize("learns", ["at the end of its lease", "by another thread"])
@pytest.mark.parametrize("together", [False, True])
def test_what_was_decided_by_a_former_share_is_decided_again(store, learns, together):
    db, other = store.program(SCHEMA), store.program(SCHEMA)
    share(db, 0)

    def raise_share(request):
        if type(request) is Mutate and request.table == "system":
            store.before = lambda _request: None
            share(other, 100)
            if learns == "by another thread":
                db.run(db.operations.fence.refresh())
            else:
                store.pass_by(LEASE_SECONDS)

    store.before = raise_share
    events = [Event(number=number, group="a") for number in (1, 2)]
    if together:
        with db.bulk(batch=10) as bulk:
            for each in events:
                bulk.save(each)
    else:
        for each in events:
            db.save(each)
    assert [names_view(db, number) for number in (1, 2)] == [True, True]


def test_a_program_follows_when_half_of_its_lease_is_over(store):
    db, other = store.program(SCHEMA), store.program(SCHEMA)
    db.save(Event(number=1, group="a"))
    share(other, 0)
    db.save(Event(number=1, group="b"))
    assert names_view(db, 1)
    store.pass_by(LEASE_SECONDS / 2)
    db.save(Event(number=1, group="c"))
    assert not names_view(db, 1)


def test_a_view_that_was_readable_is_not_read_before_it_is_not_written(store):
    db = store.program(SCHEMA)
    seen = []

    def look():
        view = store.run(stored_schema()).views["HomeByScore"]
        seen.append((view.state, view.writes))

    store.asleep = look
    store.slept.clear()
    share(db, 10)
    assert (store.slept, seen) == ([2.0], [("building", 100.0)])
    store.slept.clear()
    share(db, 20)
    share(db, 100)
    assert store.slept == []
