"""A feed that is added to live data: its entries are written once, whatever is written and killed meanwhile."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from oneread import Feed, Key, Model, Schema, by, connect, newest, on, shown
from oneread.store.requests import Mutate, Replace

START = datetime(2026, 1, 1, tzinfo=UTC)


class Member(Model[int]):
    number: Key[int]
    member: int
    group: str


class Post(Model[int]):
    number: Key[int]
    group: str
    at: datetime = START
    text: str = ""


class Plain(Feed[Post]):
    expires_after = None
    member: int = by(Member.member)
    at: datetime = newest(Post.at)
    text: str = shown(Post.text)
    joined = on(Post.group, Member.group)


class Few(Plain):
    at_most = 3


class Large(Plain):
    large_group = 2
    merged_groups = 2


FEEDS = (Plain, Few, Large)


class Killed(Exception):
    """The program ends at a request."""


class Program:
    """A program with some of the feeds; it is killed when `left` requests are done."""

    def __init__(self, url, feeds=FEEDS, inline=1000):
        self.left, self.requests = None, []
        self.db = connect(url, Schema(Member, Post, *feeds, inline=inline), workers=0, observers=(self.observe,))
        if not self.db.operations.spans_rows:
            self.db.operations.outbox.leases.seconds = 0.0

    def observe(self, request, _answer):
        self.requests.append(request)
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Killed

    def prefix(self, feed):
        return self.db.operations.catalog.views[feed].prefix

    def written(self, feed):
        """How many rows of a feed were put."""
        replaced = [row for each in self.requests if isinstance(each, Replace) for row in each.rows.items()]
        mutated = [row for each in self.requests if isinstance(each, Mutate) for row in each.rows]
        put = [key for key, row in replaced if row is not None] + [row.key for row in mutated if row.puts]
        return sum(key.startswith(self.prefix(feed)) for key in put)


def fill(db, members=10, posts=12):
    db.save_all([Member(number=each, member=each, group="ab"[each % 2]) for each in range(members)])
    db.save_all([post(each, "ab"[each % 2]) for each in range(posts)])


def post(number, group, text=""):
    return Post(number=number, group=group, at=START - timedelta(minutes=number), text=text)


@pytest.mark.parametrize("inline", [0, 2, 1000])
def test_each_entry_is_written_once(url, inline):
    before = Program(url, ())
    fill(before.db)
    new = Program(url, (Plain,), inline)
    assert new.db.backfill(fence=True).done
    assert new.written(Plain) == 10 * 6
    assert [len(new.db.page(Plain, member)) for member in range(10)] == [6] * 10
    assert new.db.drain() == 0
    assert new.db.verify().clean
    new.db.close()
    before.db.close()


def test_a_feed_that_can_be_read_follows_while_another_is_built(url):
    before = Program(url, (Plain,))
    fill(before.db)
    new = Program(url, (Plain, Few))
    while not new.db.backfill(fence=True).done:
        pass
    assert new.written(Plain) == 0  # nothing of it has changed
    assert new.written(Few) == 10 * Few.at_most
    assert new.db.verify().clean
    new.db.close()
    before.db.close()


def change(db, chance, members, posts):
    number = chance.randrange(12)
    model, known = chance.choice([(Member, members), (Post, posts)])
    if number in known and chance.random() < 0.5:
        del known[number]
        db.delete(model, number)
    elif model is Member:
        known[number] = db.save(Member(number=number, member=number % 4, group=chance.choice("ab")))
    else:
        known[number] = db.save(post(number, chance.choice("ab"), str(chance.randrange(9))))


def naive(members, posts, member):
    groups = {each.group for each in members.values() if each.member == member}
    found = [each for each in posts.values() if each.group in groups]
    return [(each.number, each.text) for each in sorted(found, key=lambda each: each.number)]


@pytest.mark.parametrize("seed", range(6))
def test_a_backfill_is_killed_again_and_again_beside_live_writes(url, seed):
    """The feeds are the naive join, and clean, whatever commits have written of them before."""
    chance = random.Random(f"{url[:4]} {seed}")
    inline = chance.choice([0, 1, 3, 1000])
    members, posts = {}, {}
    old = Program(url, (), inline)
    for _ in range(30):
        change(old.db, chance, members, posts)
    live = Program(url, inline=inline)
    done = False
    while not done:
        builder = Program(url, inline=inline)
        builder.left = chance.randrange(5, 60)
        try:
            done = builder.db.backfill(fence=True).done
        except Killed:
            builder.left = None
        finally:
            builder.db.close()
        for _ in range(chance.randrange(3)):
            change(live.db, chance, members, posts)
        if chance.random() < 0.3:
            live.db.drain()
    live.db.drain()
    for member in range(4):
        expected = naive(members, posts, member)
        for feed in FEEDS:
            rows = [(each.source.key[0], each.text) for each in live.db.page(feed, member)]
            if feed is Few:  # what was trimmed does not come back; verify holds that all newer ones are there
                assert rows == [each for each in expected if each in rows][: Few.at_most]
            else:
                assert rows == expected, feed
    assert live.db.verify().clean
    live.db.close()
    old.db.close()
