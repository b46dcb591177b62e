"""Bounds of what feeds of few entries, of large groups and of groups list, where one row changes, against its cost."""

from datetime import datetime, timedelta

import pytest

from oneread import Aggregate, Feed, Key, Model, Schema, by, connect, count, greatest, newest, on, shown
from oneread.costs import declared
from oneread.costs.budgets import budget
from oneread.costs.journal_feeds import JournalFeeds
from oneread.testing.clock import START, Clock


class Membership(Model[str, int]):
    group: Key[str]
    member: Key[int]


class Post(Model[int]):
    number: Key[int]
    group: str
    at: datetime


class Kept(Feed[Post]):
    expires_after = None
    at_most = 2
    member: int = by(Membership.member)
    at: datetime = newest(Post.at)
    joined = on(Post.group, Membership.group)


class Large(Feed[Post]):
    expires_after = None
    large_group = 1
    member: int = by(Membership.member)
    at: datetime = newest(Post.at)
    joined = on(Post.group, Membership.group)


class PostsOfGroup(Aggregate[Post]):
    group: str = by(Post.group)
    posts: int = count()
    last: datetime | None = greatest(Post.at)


class Busy(Feed[PostsOfGroup]):
    expires_after = None
    member: int = by(Membership.member)
    last: datetime | None = newest(PostsOfGroup.last)
    posts: int = shown(PostsOfGroup.posts)
    joined = on(PostsOfGroup.group, Membership.group)


class Community:
    """A store with one feed, in which few entries follow within a call."""

    def __init__(self, *views, inline):
        self.schema = Schema(Membership, Post, *views, inline=inline)
        self.clock = Clock()
        self.db = connect("memory://?span=row", self.schema, workers=0, clock=self.clock)

    @property
    def costs(self):
        return declared.of(self.schema, span="row")

    def join(self, *members):
        for member in members:
            self.db.create(Membership(group="a", member=member))
            self.db.drain()

    def post(self, *numbers):
        for number in numbers:
            self.count(self.db.create, Post(number=number, group="a", at=START + timedelta(seconds=number)))

    def count(self, act, *given):
        self.clock.tick(1)
        with budget() as spent:
            act(*given)
        self.cost = spent.cost


def test_a_post_to_full_feeds_reaches_its_bound(monkeypatch):
    """Each member's entries are looked over."""
    found = Community(Kept, inline=2)
    found.join(1, 2)
    found.post(1, 2, 3)
    bound = found.costs.create(Post)
    assert (found.cost.requests, found.cost.rounds) == (bound.requests, bound.rounds)
    assert found.cost.rows <= bound.rows
    monkeypatch.setattr(JournalFeeds, "_trimmed", lambda *_given: {})
    assert found.cost.requests > found.costs.create(Post).requests


@pytest.mark.parametrize("part", ["_looked_up", "_given_up"])
def test_the_last_member_of_a_large_group_who_leaves_reaches_the_bound(monkeypatch, part):
    """The group is written again, and his place is given up."""
    found = Community(Large, inline=2)
    found.join(1, 2)
    found.post(1)
    found.db.delete(Membership, "a", 2)
    found.db.drain()
    found.count(found.db.delete, Membership, "a", 1)
    bound = found.costs.delete(Membership)
    assert (found.cost.requests, found.cost.rounds) == (bound.requests, bound.rounds)
    assert found.cost.rows <= bound.rows
    monkeypatch.setattr(JournalFeeds, part, lambda *_given: {})
    assert found.cost.requests > found.costs.delete(Membership).requests


def test_a_post_to_a_feed_of_groups_reaches_its_bound(monkeypatch):
    """The group's row in the feed moves: the old one's entries go, those of the new one come."""
    found = Community(PostsOfGroup, Busy, inline=2)
    found.join(1, 2)
    found.post(1, 2)
    bound = found.costs.create(Post)
    assert (found.cost.requests, found.cost.rounds) == (bound.requests, bound.rounds)
    assert found.cost.rows <= bound.rows
    monkeypatch.setattr(JournalFeeds, "_given", lambda *_given: {})
    assert found.cost.requests > found.costs.create(Post).requests


@pytest.mark.parametrize("limit", [1, 3, 20])
@pytest.mark.parametrize("view", [Kept, Large])
def test_pages_pass_what_shows_nothing_within_their_bound(view, limit):
    """Entries that were trimmed, or whose item was removed, and those of groups that the page merges."""
    found = Community(view, inline=100)
    found.join(1)
    found.post(*range(40))
    found.join(2, 3)
    costs, most = found.costs, 0
    for last in (40, 20, 0):
        for number in range(last, 40):
            found.db.delete(Post, number)
        found.count(lambda: found.db.page(view, 1, limit=limit))
        bound = costs.page(view, limit=limit)
        assert found.cost.requests <= bound.requests
        assert found.cost.rounds <= bound.rounds
        assert found.cost.rows <= bound.rows
        assert found.cost.bytes <= bound.bytes
        most = max(most, found.cost.requests)
    assert most > (1 if view is Kept else 3)
