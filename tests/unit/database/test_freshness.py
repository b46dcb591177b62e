"""Pages of feeds that include one's own write, or say how far the feed is behind; and what each costs."""

import pytest

from oneread import Schema, any_of, to_json
from oneread.errors import InvalidQuery, UsageError
from oneread.testing.clock import START, Clock
from oneread.testing.meter import Meter
from tests.unit.database.faces import FACES
from tests.unit.feeds.marked import (
    DECLARED,
    Group,
    Home,
    Inbox,
    Joins,
    Member,
    Membership,
    Post,
    fill,
    membership,
    post,
)

JOINED = [(group, member) for group in (1, 2) for member in range(1, 10) if group == 1 or member == 1]


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def meter():
    return Meter()


@pytest.fixture(params=FACES.values(), ids=FACES)
def db(request, url, clock, meter):
    """A community whose commits give three members at most their entries: the others wait for the worker."""
    opened = request.param(url, Schema(*DECLARED, inline=3), workers=0, clock=clock, observers=(meter.observe,))
    fill(opened, members=10, joined=JOINED)
    opened.drain()
    yield opened
    opened.close()


def names(page):
    return [entry.source.key[0] for entry in page]


def test_a_page_includes_ones_own_publish(db, meter):
    saved = db.save(post("a"))
    assert names(db.page(Home, 4)) == []

    with meter(requests=6, rows=7) as spent:  # task and fence, item, membership, entry; the entry; the page
        page = db.page(Home, 4, includes=saved)
    assert names(page) == ["a"]
    assert (page.cost.requests, page.cost.rows, page.cost.bytes) == (6, 7, spent.cost.bytes)
    assert page.lag is None
    with meter(requests=5, rows=6):  # nothing is written: the entry is right
        assert names(db.page(Home, 4, includes=saved)) == ["a"]
    assert names(db.page(Home, 5)) == []
    assert names(db.page(Home, 10, includes=saved)) == []  # not in the group

    assert not db.done(db.tasks(saved))
    db.drain()
    with meter(requests=2, rows=3):  # the task is done
        assert names(db.page(Home, 4, includes=saved)) == ["a"]
    assert [names(db.page(Home, number)) for number in range(1, 11)] == [["a"]] * 9 + [[]]
    assert db.verify().clean


def test_a_write_whose_entries_are_there_costs_nothing(db, meter):
    saved = db.save(post("a", group=2))
    with meter(requests=1, rows=1):
        assert names(db.page(Home, 1, includes=saved)) == ["a"]
    member = db.save(Member(number=3))
    with meter(requests=1, rows=0):
        assert names(db.page(Home, 2, includes=member)) == []
    with meter(requests=1, rows=0):  # a feed of others
        assert names(db.page(Inbox, "e", includes=saved)) == []


def test_a_page_includes_an_edit_a_move_and_the_end_of_an_item(db):
    db.save_all([post("a"), post("b", hours=1)])
    db.drain()

    moved = db.patch(Post, "b", at=START)
    assert names(db.page(Home, 4, includes=moved)) == ["a", "b"]
    assert [entry.at for entry in db.page(Home, 4)] == [START, START]
    away = db.patch(Post, "a", group=Group.at(2))
    assert names(db.page(Home, 4)) == ["a", "b"]
    assert names(db.page(Home, 4, includes=away)) == ["b"]
    assert names(db.page(Home, 1, includes=away)) == ["a", "b"]
    assert [entry.group.key for entry in db.page(Home, 1)] == [(2,), (1,)]
    for number in (2, 9, 1):
        db.page(Home, number, includes=away)
    db.drain()
    assert names(db.page(Home, 5)) == ["b"]
    assert db.verify().clean


def test_a_page_includes_ones_own_join(db):
    db.save_all([post(name, hours=place) for place, name in enumerate("abcdefgh")])
    db.drain()

    joined = db.save(membership(1, 10))
    assert names(db.page(Home, 10)) == ["a", "b", "c"]  # as many as the commit gives
    assert names(db.page(Home, 10, limit=5, includes=joined)) == ["a", "b", "c", "d", "e"]
    assert names(db.page(Home, 9, includes=joined)) == list("abcdefgh")
    db.drain()
    assert names(db.page(Home, 10)) == list("abcdefgh")
    assert db.verify().clean


def test_a_page_includes_a_membership_that_came_back_or_went_elsewhere(db):
    db.save_all([post(name, hours=place) for place, name in enumerate("abcdefgh")])
    db.save(post("z", group=2))
    db.drain()

    db.delete(Membership, 1, 4)
    back = db.save(membership(1, 4))
    assert names(db.page(Home, 4, includes=back)) == list("abcdefgh")
    moved = db.patch(Membership, 1, 5, group=Group.at(2))
    assert names(db.page(Home, 5, includes=moved)) == ["z"]
    db.drain()
    assert (names(db.page(Home, 4)), names(db.page(Home, 5))) == (list("abcdefgh"), ["z"])
    assert db.verify().clean


def test_a_page_of_two_members_includes_it_for_both(db):
    saved = db.save(post("a"))
    assert names(db.page(Home, any_of(4, 5, 10), includes=saved)) == ["a", "a"]
    assert names(db.page(Home, 6, START, includes=saved)) == ["a"]
    assert names(db.page(Home, 7)) == []


def test_a_write_in_a_transaction_is_included(db):
    (saved,) = db.transact([("save", (post("a"),), {})])
    assert names(db.page(Home, 4, includes=saved)) == ["a"]


def test_lag_is_asked_for(db, clock, meter):
    page = db.page(Home, 4, lag=True)
    assert (page.lag, db.page(Home, 4).lag) == (0.0, None)
    db.save(post("a"))
    clock.tick(5)
    db.save(post("b"))
    clock.tick(2.5)

    with meter(requests=2, rows=2):  # both tasks
        page = db.page(Home, 1, lag=True)
    assert page.lag == 7.5
    assert page.map(str).lag == 7.5
    assert b'"lag":7.5' in to_json(page)
    assert b'"lag"' not in to_json(db.page(Home, 1))
    assert db.page(Inbox, "e", lag=True).lag == 0.0
    feeds = db.survey().feeds
    assert (feeds["Home"].waiting, feeds["Home"].oldest, feeds["Inbox"].waiting) == (2, 7.5, 0)
    assert db.survey().lag["feed"] == feeds["Home"]
    db.drain()
    assert db.page(Home, 1, lag=True).lag == 0.0
    assert db.survey().feeds["Home"].waiting == 0


def test_a_page_of_another_list_includes_every_write(db):
    saved = db.save(post("a"))
    assert [each.name for each in db.page(Post, includes=saved)] == ["a"]


def test_other_lists_and_other_objects_are_refused(db):
    saved = db.save(post("a"))
    with pytest.raises(InvalidQuery, match="of a feed, or of groups with a ttl"):
        db.page(Joins, lag=True)
    with pytest.raises(InvalidQuery, match="lag is True or False"):
        db.page(Home, 1, lag=1)
    with pytest.raises(UsageError, match="not a result"):
        db.page(Home, 1, includes=post("a"))
    with pytest.raises(InvalidQuery, match="limit of a page"):
        db.page(Home, 4, includes=saved, limit=0)
    assert names(db.page(Home, 4)) == []
