"""Feeds with keyspaces of their own under a schema that changes: they stay as they are, or are built again."""

from datetime import UTC, datetime, timedelta

import pytest

from oneread import Feed, Key, Model, Ref, Schema, by, connect, migration, newest, on, renamed, shown
from oneread.testing.clock import Clock

NOW = datetime(2026, 11, 22, tzinfo=UTC)
OPTIONS = {
    "plain": {},
    "trimmed": {"at_most": 3},
    "large groups": {"large_group": 2},
    "both": {"at_most": 3, "large_group": 2},
    "marked": {"at_most": 3, "large_group": 2, "marks": True},
}


class Member(Model[int]):
    number: Key[int]


class Group(Model[str]):
    name: Key[str]


class Membership(Model[int]):
    number: Key[int]
    member: Ref[Member]
    group: Ref[Group]


class Post(Model[int]):
    number: Key[int]
    group: Ref[Group]
    made_at: datetime
    groups: str = ""  # called as a keyspace of a feed with large groups


class Extra(Model[int]):
    number: Key[int]


def home(options):
    class Home(Feed[Post]):
        member: Ref[Member] = by(Membership.member)
        made_at: datetime = newest(Post.made_at)
        groups: str = shown(Post.groups)
        joined = on(Post.group, Membership.group)

    for name, value in options.items():
        setattr(Home, name, value)
    return Home


def renamed_home(options):
    """The same feed after the shown field of the item was renamed."""

    class Post(Model[int]):
        stored_as = "Post"
        number: Key[int]
        group: Ref[Group]
        made_at: datetime
        written: str = ""
        evolution = (renamed("groups", to="written"),)

    class Home(Feed[Post]):
        stored_as = "Home"
        member: Ref[Member] = by(Membership.member)
        made_at: datetime = newest(Post.made_at)
        written: str = shown(Post.written)
        joined = on(Post.group, Membership.group)

    for name, value in options.items():
        setattr(Home, name, value)
    return Post, Home


def membership(number, member, group="chess"):
    return Membership(number=number, member=Member.at(member), group=Group.at(group))


def post(number):
    return Post(number=number, group=Group.at("chess"), made_at=NOW - timedelta(hours=number), groups=f"{number}")


@pytest.fixture(params=OPTIONS)
def options(request):
    return OPTIONS[request.param]


@pytest.fixture
def clock():
    return Clock(NOW)


def fill(url, clock, options):
    feed = home(options)
    with connect(url, Schema(Member, Group, Membership, Post, feed), workers=0, clock=clock) as db:
        db.save_all([Group(name="chess"), *[Member(number=each) for each in range(4)]])
        db.save_all([membership(each, each) for each in range(4)])
        db.save_all([post(number) for number in range(3)])
        db.drain()
    return feed


def test_a_feed_stays_when_something_else_changes(url, clock, options):
    feed = fill(url, clock, options)
    with connect(url, Schema(Member, Group, Membership, Post, feed, Extra), workers=0, clock=clock) as db:
        assert not db.survey().unfinished
        assert [row.source.key[0] for row in db.page(feed, 0)] == [0, 1, 2]
        db.save(membership(9, 0))
        db.delete(Membership, 0)
        db.delete(Post, 1)
        db.drain()
        assert [row.source.key[0] for row in db.page(feed, 0)] == [0, 2]
        assert db.verify().clean


def test_a_feed_stays_when_a_shown_field_is_renamed(url, clock, options):
    fill(url, clock, options)
    later, feed = renamed_home(options)
    with connect(url, Schema(Member, Group, Membership, later, feed), workers=0, clock=clock) as db:
        assert [row.written for row in db.page(feed, 0)] == ["0", "1", "2"]
        assert db.backfill(quiet=0).done
        assert [row.written for row in db.page(feed, 0)] == ["0", "1", "2"]
        assert db.verify().clean


def test_an_option_that_is_taken_away_or_added_builds_the_feed_again(url, clock, options):
    fill(url, clock, options)
    for changed in ({"at_most": 2}, {"large_group": 3}, {"large_group": 3, "at_most": 2}):
        marked = {"marks": True} if "marks" in options else {}
        feed = home({**changed, **marked})
        with connect(url, Schema(Member, Group, Membership, Post, feed), workers=0, clock=clock) as db:
            assert db.backfill(quiet=0).done
            assert len(db.page(feed, 0)) == (
                3 if "large_group" in changed else 2
            )  # items that are read are not trimmed
            assert db.verify().clean


def test_marks_are_taken_away_when_they_are_deleted(url, clock):
    feed = fill(url, clock, OPTIONS["marked"])
    with connect(url, Schema(Member, Group, Membership, Post, feed), workers=0, clock=clock) as db:
        db.mark(feed, 0, seen=True)
        db.mark(feed, 0, seen=False, read=False)
    without = home({"at_most": 3, "large_group": 2})
    schema = Schema(Member, Group, Membership, Post, without)
    with migration(url, schema) as change:
        change.apply(drop=["Home.marks"])
    with connect(url, schema, workers=0, clock=clock) as db:
        assert [row.source.key[0] for row in db.page(without, 0)] == [0, 1, 2]
        assert db.backfill(quiet=0).done
        assert db.verify().clean
