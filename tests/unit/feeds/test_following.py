"""What commits and tasks do to the entries of feeds, and what it costs."""

from datetime import datetime, timedelta

import pytest

from oneread import Aggregate, Feed, Key, Model, Ref, Schema, bucket, by, connect, count, newest, on, shown, within
from oneread.costs.declared import of as costs_of
from oneread.errors import InvalidQuery
from oneread.feeds import following
from oneread.store.requests import Read, Replace, Scan
from oneread.testing.clock import START, Clock
from tests.unit.database.faces import FACES
from tests.unit.feeds.community import (
    SCHEMA,
    Cross,
    Crossed,
    Group,
    Home,
    Member,
    Membership,
    Post,
    cross,
    fill,
    membership,
    post,
    posts,
)

MEASURES = {
    Read: lambda request, _answer: len(request.keys),
    Scan: lambda _request, answer: len(answer),
    Replace: lambda request, _answer: len(request.rows),
}


@pytest.fixture(params=FACES.values(), ids=FACES)
def face(request):
    return request.param


@pytest.fixture
def clock():
    return Clock()


def opened(face, url, clock, inline=1000):
    schema = Schema(*SCHEMA.models, *[view for view in SCHEMA.views if not view.is_added], inline=inline)
    return face(url, schema, workers=0, clock=clock)


@pytest.fixture
def db(face, url, clock):
    db = opened(face, url, clock)
    fill(db)
    yield db
    db.close()


def test_members_of_a_group_are_shown_its_items_newest_first(db):
    db.save_all([post(1, hours=2), post(2, hours=1), post(3, 2), post(4, 3)])
    assert posts(db, 1) == [3, 2, 1]
    assert posts(db, 2) == [2, 1]
    assert posts(db, 3) == []


def test_items_of_one_instant_are_in_the_order_of_their_keys(db):
    db.save_all([post(3), post(1), post(2)])
    assert posts(db, 2) == [1, 2, 3]


def test_an_entry_shows_the_item_and_whose_feed_it_is(db):
    db.save(post(1, title="first"))
    (entry,) = db.page(Home, 2)
    assert entry.source.key == (1,)
    assert (entry.member, entry.at, entry.title, entry.group) == (Member.at(2), START, "first", Group.at(1))


def test_an_edit_follows_and_the_entry_is_as_old_as_before(db):
    db.save_all([post(1, title="old", hours=2), post(2)])
    db.patch(Post, 1, title="new")
    assert [(entry.source.key[0], entry.title) for entry in db.page(Home, 2)] == [(2, ""), (1, "new")]


def test_another_time_moves_the_entry(db):
    db.save_all([post(1, hours=2), post(2)])
    db.patch(Post, 1, at=START + timedelta(hours=1))
    assert posts(db, 2) == [1, 2]


def test_an_item_that_changes_its_group_leaves_one_feed_and_enters_the_other(db):
    db.save(membership(2, 3))
    db.save(post(1))
    assert (posts(db, 1), posts(db, 2), posts(db, 3)) == ([1], [1], [])
    db.patch(Post, 1, group=Group.at(2))
    assert (posts(db, 1), posts(db, 2), posts(db, 3)) == ([1], [], [1])


def test_a_deleted_item_leaves_every_feed(db):
    db.save_all([post(1), post(2)])
    db.delete(Post, 1)
    assert (posts(db, 1), posts(db, 2)) == ([2], [2])


def test_who_joins_has_the_items_at_once_and_who_leaves_loses_them(db):
    db.save_all([post(1), post(2, 2)])
    db.save(membership(2, 2))
    assert posts(db, 2) == [1, 2]
    db.delete(Membership, 1, 2)
    assert posts(db, 2) == [2]
    db.save(membership(1, 2))
    assert posts(db, 2) == [1, 2]


def test_an_item_is_one_entry_however_many_groups_show_it(db):
    db.save(cross(1, 1, 2, 3, size=2**80))
    (entry,) = db.page(Crossed, 1)
    assert (entry.size, entry.member) == (2**80, 1)
    db.delete(Membership, 1, 1)
    assert len(db.page(Crossed, 1)) == 1
    db.delete(Membership, 2, 1)
    assert len(db.page(Crossed, 1)) == 0


def test_a_condition_keeps_items_out(db):
    db.save_all([cross(1, 1, size=-1), cross(2, 1, size=5)])
    assert [entry.source.key for entry in db.page(Crossed, 2)] == [(2,)]
    db.patch(Cross, 1, size=1)
    db.patch(Cross, 2, size=-1)
    assert [entry.source.key for entry in db.page(Crossed, 2)] == [(1,)]


def test_everything_in_one_transaction(url, clock):
    def body(t):
        t.save(post(1))
        t.save(membership(1, 3))
        t.delete(Membership, 1, 2)
        t.save(post(2))
        t.delete(Post, 1)

    with connect(url, SCHEMA, clock=clock) as db:
        fill(db)
        db.transact(body)
        assert [posts(db, member) for member in (1, 2, 3)] == [[2], [], [2]]


def test_pages_continue_in_both_directions_and_between_times(db):
    db.save_all([post(number, hours=number) for number in range(1, 8)])
    first = db.page(Home, 1, limit=3)
    second = db.page(Home, 1, limit=3, cursor=first.next)
    assert [entry.source.key[0] for entry in second] == [4, 5, 6]
    back = db.page(Home, 1, limit=3, cursor=second.previous)
    assert [entry.source.key[0] for entry in back] == [1, 2, 3]
    assert posts(db, 1, backward=True, limit=2) == [6, 7]
    assert posts(db, 1, since=START - timedelta(hours=3)) == [1, 2, 3]


# Expiry.


def test_an_expired_item_is_not_shown_and_a_sweep_removes_its_entries(db, clock):
    db.save_all([post(1, hours=24), post(2)])
    clock.tick(61 * 86_400 - 3600)
    assert posts(db, 1) == [2]
    assert posts(db, 1, backward=True) == [2]
    assert posts(db, 1, since=START - timedelta(days=2)) == [2]
    assert len(db.page(Home, 1, START - timedelta(hours=24))) == 0
    assert db.sweep().removed == 1
    assert posts(db, 1) == [2]
    assert db.get(Post, 1).number == 1
    clock.tick(7200)
    assert posts(db, 1) == []


class Meeting(Model[int]):
    number: Key[int]
    begins: datetime


class Comment(Model[int]):
    number: Key[int]
    group: Ref[Group]
    meeting: Ref[Meeting]


class Agenda(Feed[Comment]):
    """By the time of another entity."""

    member: Ref[Member] = by(Membership.member)
    at: datetime = newest(within(Comment.meeting, Meeting.begins))
    joined = on(Comment.group, Membership.group)
    expires_after = timedelta(hours=2)


def test_entries_by_the_time_of_another_entity_are_swept_and_follow_it(face, url, clock):
    """The clock that is set back shows what is stored: a sweep has removed the entries, a mask alone has not."""
    db = face(url, Schema(Member, Group, Membership, Meeting, Comment, Agenda), workers=0, clock=clock)
    fill(db)
    db.save_all([Meeting(number=number, begins=START + timedelta(hours=number)) for number in (0, 1)])
    db.save_all([Comment(number=n, group=Group.at(1), meeting=Meeting.at(n % 2)) for n in range(4)])

    def shown(seconds_ago=0):
        clock.tick(-seconds_ago)
        found = [entry.source.key[0] for entry in db.page(Agenda, 1)]
        clock.tick(seconds_ago)
        return found

    assert shown() == [1, 3, 0, 2]
    clock.tick(2 * 3600)
    assert (shown(), shown(7000)) == ([1, 3], [1, 3, 0, 2])
    assert db.verify().faults == ()
    assert db.sweep().removed == 2
    assert (shown(), shown(7000)) == ([1, 3], [1, 3])
    assert db.verify().faults == ()

    db.patch(Meeting, 0, begins=START + timedelta(hours=3))
    db.patch(Meeting, 1, begins=START - timedelta(hours=3))
    db.drain()
    assert shown() == [0, 2]
    assert db.verify().faults == ()
    assert db.sweep().removed == 0
    clock.tick(4 * 3600)
    assert (shown(), db.sweep().removed, shown(7200)) == ([], 2, [])
    assert db.verify().faults == ()
    db.close()


def test_an_item_that_is_too_old_is_in_no_feed(db):
    db.save(post(1, hours=24 * 62))
    db.save(membership(1, 3))
    assert posts(db, 1) == posts(db, 3) == []
    db.patch(Post, 1, at=START)
    assert posts(db, 1) == posts(db, 3) == [1]


# Tasks.


@pytest.mark.parametrize("inline", [0, 1, 2])
def test_tasks_give_what_a_commit_does_not(face, url, clock, inline):
    db = opened(face, url, clock, inline)
    fill(db, joined=[(1, member) for member in (1, 2, 3, 4)])
    db.save_all([post(number, hours=number) for number in range(5)])
    db.drain()
    assert [posts(db, member) for member in (1, 4)] == [[0, 1, 2, 3, 4]] * 2
    db.delete(Membership, 1, 4)
    db.delete(Post, 2)
    db.drain()
    assert [posts(db, member) for member in (1, 4)] == [[0, 1, 3, 4], []]
    db.close()


def test_a_commit_of_many_changes_leaves_the_rest_to_tasks(face, url, clock, monkeypatch):
    monkeypatch.setattr(following, "_ENTRIES", 5)
    db = opened(face, url, clock, inline=2)
    fill(db, joined=[(1, 1), (1, 2)])
    db.save_all([post(number, hours=number) for number in range(4)])
    assert posts(db, 1) == [0, 1]
    db.drain()
    assert posts(db, 1) == posts(db, 2) == [0, 1, 2, 3]
    db.save_all([membership(1, 3), membership(1, 4)])
    assert posts(db, 3) == [0, 1]
    db.drain()
    assert posts(db, 3) == posts(db, 4) == [0, 1, 2, 3]
    db.close()


def test_the_newest_items_come_back_at_once(face, url, clock):
    db = opened(face, url, clock, inline=2)
    fill(db, joined=())
    db.save_all([post(number, hours=number) for number in range(5)])
    db.save(membership(1, 1))
    assert posts(db, 1) == [0, 1]
    db.drain()
    assert posts(db, 1) == [0, 1, 2, 3, 4]
    db.close()


def test_who_comes_back_before_he_is_gone_is_not_shown_what_was_deleted_meanwhile(face, url, clock):
    db = opened(face, url, clock, inline=1)
    fill(db, joined=[(1, 1)])
    db.save_all([post(number, hours=number) for number in range(3)])
    db.drain()
    db.delete(Membership, 1, 1)
    db.delete(Post, 2)
    db.save(membership(1, 1))
    db.drain()
    assert posts(db, 1) == [0, 1]
    db.close()


# Costs.


class Asked:
    def __init__(self):
        self.lines = []

    def __call__(self, request, answer):
        self.lines.append(f"{type(request).__name__} {request.table} {MEASURES[type(request)](request, answer)}")


def asked_for(face, url, change):
    """What a change asks of a store with a hundred members in a group, and one post."""
    asked = Asked()
    db = face(url, SCHEMA, workers=0, clock=Clock(), observers=(asked,))
    fill(db, members=101, joined=[(1, member) for member in range(1, 101)])
    db.save(post(1, hours=1))
    asked.lines.clear()
    change(db)
    db.close()
    return asked.lines


def test_publishing_to_a_hundred_members(face, url):
    assert asked_for(face, url, lambda db: db.save(post(2))) == [
        "Read system 1",
        "Read roots 2",
        "Scan views 100",
        "Read views 100",
        "Replace roots 1",
        "Replace views 102",
    ]


def test_deleting_an_item_of_a_hundred_members(face, url):
    assert asked_for(face, url, lambda db: db.delete(Post, 1)) == [
        "Read system 1",
        "Read roots 1",
        "Scan views 100",
        "Read views 100",
        "Replace roots 1",
        "Replace views 102",
    ]


def test_joining(face, url):
    assert asked_for(face, url, lambda db: db.save(membership(1, 101))) == [
        "Read system 1",
        "Read roots 3",
        "Read system 2",
        "Scan views 1",
        "Scan views 0",
        "Read views 1",
        "Replace roots 1",
        "Replace views 3",
    ]


def test_leaving(face, url):
    assert asked_for(face, url, lambda db: db.delete(Membership, 1, 100)) == [
        "Read system 1",
        "Read roots 1",
        "Scan views 1",
        "Scan views 0",
        "Replace roots 1",
        "Replace views 3",
    ]


def test_bounds_hold():
    bounds = costs_of(SCHEMA)
    save, join = bounds.save(Post), bounds.create(Membership)
    assert (save.requests, join.requests) == (8, 11)
    assert save.rows > 6 * 100
    assert bounds.page(Home, limit=20).requests == 1
    trimming = costs_of(Schema(Member, Group, Membership, Post, Newest, inline=5)).save(Post)
    assert any(term.what == "oldest entries" and term.requests == 2 * 5 for term in trimming.terms)


def test_a_page_is_that_of_one_member(db):
    with pytest.raises(InvalidQuery, match="a page of a feed is that of one member: say whose"):
        db.page(Home)


def test_a_page_is_one_range_read(face, url):
    def read(db):
        assert db.page(Home, 5, limit=20).cost.requests == 1

    asked_for(face, url, read)


# Feeds of what is not a plain entity.


class Visit(Model[int]):
    number: Key[int]
    group: Ref[Group]
    at: datetime


class VisitsOfHour(Aggregate[Visit]):
    group: Ref[Group] = by(Visit.group)
    hour: datetime = bucket(Visit.at, "hour")
    visits: int = count()


class Hours(Feed[VisitsOfHour]):
    member: Ref[Member] = by(Membership.member)
    hour: datetime = newest(VisitsOfHour.hour)
    visits: int = shown(VisitsOfHour.visits)
    joined = on(VisitsOfHour.group, Membership.group)
    at_most = 100


def test_the_groups_of_an_aggregate_are_items(face, url, clock):
    db = face(url, Schema(Member, Group, Membership, Visit, VisitsOfHour, Hours), workers=0, clock=clock)
    fill(db)
    db.save_all([Visit(number=number, group=Group.at(1), at=START - timedelta(minutes=number)) for number in range(3)])
    assert [entry.visits for entry in db.page(Hours, 2)] == [1, 2]
    db.delete(Visit, 0)
    db.patch(Visit, 1, group=Group.at(2))
    assert [entry.visits for entry in db.page(Hours, 2)] == [1]
    assert [entry.visits for entry in db.page(Hours, 1)] == [1, 1]
    clock.tick(62 * 86_400)
    assert len(db.page(Hours, 1)) == 0
    db.close()


# Trimming.


class Newest(Feed[Post]):
    member: Ref[Member] = by(Membership.member)
    at: datetime = newest(Post.at)
    joined = on(Post.group, Membership.group)
    at_most = 3


def newest_posts(db, member):
    return [entry.source.key[0] for entry in db.page(Newest, member)]


@pytest.mark.parametrize("inline", [1000, 1])
def test_a_feed_keeps_the_newest_entries(face, url, clock, inline):
    db = face(url, Schema(Member, Group, Membership, Post, Newest, inline=inline), workers=0, clock=clock)
    fill(db)
    for number in (3, 1, 5, 2, 4):
        db.save(post(number, hours=number))
        db.drain()
    assert newest_posts(db, 1) == newest_posts(db, 2) == [1, 2, 3]
    db.delete(Post, 2)
    db.drain()
    assert newest_posts(db, 1) == [1, 3]  # what was trimmed does not come back
    db.save(post(6, 2, hours=6))
    db.drain()
    assert newest_posts(db, 1) == [1, 3, 6]
    db.save_all([post(7), post(8, hours=1)])
    db.drain()
    assert newest_posts(db, 1) == [7, 1, 8]
    db.save(membership(1, 3))
    db.drain()
    assert newest_posts(db, 3) == [7, 1, 8]
    db.close()
