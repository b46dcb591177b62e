"""Launched feeds that are written for a share of the memberships: which entries there are, what a backfill adds."""

from datetime import UTC, datetime, timedelta

import pytest

from oneread import Aggregate, Feed, Key, Model, Schema, by, connect, greatest, newest, on, shown
from oneread.database.marking import newest_entries
from oneread.errors import UsageError
from oneread.evolution import writing_shares
from oneread.launches.sides import bucket_of, buckets_below, seed_of
from oneread.testing.clock import Clock
from tests.unit.database.faces import FACES
from tests.unit.database.test_launched_views import Site
from tests.unit.evolution.stores import end_leases

START = datetime(2026, 1, 1, tzinfo=UTC)
MEMBERS, POSTS, GROUPS = range(20), range(8), "ab"


class Post(Model[int]):
    number: Key[int]
    group: str
    made_at: datetime
    changed_at: datetime
    title: str = ""


class Membership(Model[int]):
    number: Key[int]
    member: int
    group: str


class Home(Feed[Post]):
    member: int = by(Membership.member)
    made_at: datetime = newest(Post.made_at)
    title: str = shown(Post.title)
    joined = on(Post.group, Membership.group)
    expires_after = None


class ByChange(Feed[Post]):
    """It has another order, and its items expire."""

    replaces = Home
    member: int = by(Membership.member)
    changed_at: datetime = newest(Post.changed_at)
    made_at: datetime = shown(Post.made_at)
    title: str = shown(Post.title)
    joined = on(Post.group, Membership.group)
    expires_after = timedelta(days=400)


class Large(Feed[Post]):
    replaces = Home
    member: int = by(Membership.member)
    made_at: datetime = newest(Post.made_at)
    title: str = shown(Post.title)
    joined = on(Post.group, Membership.group)
    expires_after = None
    large_group = 6


class Newest(Feed[Post]):
    replaces = Home
    member: int = by(Membership.member)
    made_at: datetime = newest(Post.made_at)
    title: str = shown(Post.title)
    joined = on(Post.group, Membership.group)
    expires_after = None
    at_most = 3


FEEDS = (ByChange, Large, Newest)


class Posts(Aggregate[Post]):
    group: str = by(Post.group)
    newest_at: datetime | None = greatest(Post.made_at)


def post(number, title="", group=None):
    return Post(
        number=number, group=GROUPS[number % 2] if group is None else group, title=title,
        made_at=START + timedelta(hours=number), changed_at=START + timedelta(hours=9 - number),
    )  # fmt: skip


class Feeds(Site):
    def __init__(self, face, feed):
        super().__init__(face)
        self.feed = feed
        self.most = 3 if feed is Newest else len(POSTS)

    def set_writes(self, percent):
        return self.launches("set", self.feed.__name__, writes=percent)

    def save_memberships(self, numbers=MEMBERS):
        for number in numbers:
            self.read("save", Membership(number=number, member=number, group=GROUPS[number % 2]))

    def save_posts(self, title=""):
        for number in POSTS:
            self.read("save", post(number, title))

    def build(self):
        self.face.drain()
        found = self.face.backfill(fence=True, quiet=0, wait=0)
        assert found.done, found

    def within(self, percent):
        """The members whose membership the feed is written for."""
        kind = self.face.operations.catalog.kinds[Membership]
        below, seed = buckets_below(percent), seed_of(self.feed.__name__)
        return {number for number in MEMBERS if bucket_of(kind.key((number,)), seed) < below}

    def entries(self, member):
        """The posts of which a member has an entry in the new feed, whether or not it is read, in its order."""
        self.face.drain()
        marking = self.face.operations.marking
        feed = marking.feed(self.feed)
        whose = feed.member(feed.values((member,)))
        plan = newest_entries(feed.entries, marking._group_reader(feed.view), whose, 100)
        tails = self.run(self.face.db.run, plan).tails
        kind = self.face.operations.catalog.kinds[Post]
        numbers = {kind.suffix((number,)): number for number in (*POSTS, 50)}
        return [numbers[feed.position_at(feed.entries.prefix + whose + tail).item] for tail in tails]

    def expect_entries(self, members):
        """These members have entries of all posts of their group, and no other has one."""
        for member in MEMBERS:
            posts = [number for number in POSTS if number % 2 == member % 2]
            posts = sorted(posts, reverse=self.feed is not ByChange)[: self.most]
            assert self.entries(member) == (posts if member in members else [])

    def expect_all(self):
        self.expect_entries(set(MEMBERS))
        assert self.face.verify().clean
        self.launches("set", self.feed.__name__, reads=100)
        self.face.drain()
        for member in MEMBERS:
            assert [row.source.key[0] for row in self.read("page", Home, member)] == self.entries(member)


@pytest.fixture(params=FACES.values(), ids=FACES)
def feeds(request, url, monkeypatch):
    """Of a feed: a store of a program that does not know it, opened by one that does."""
    monkeypatch.setattr(writing_shares, "UNREAD_SECONDS", 0.0)
    opened = []

    def make(feed):
        with connect(url, Schema(Post, Membership, Home), workers=0) as before:
            for number in MEMBERS:
                before.save(Membership(number=number, member=number, group=GROUPS[number % 2]))
            for number in POSTS:
                before.save(post(number))
            before.drain()
        opened.append(request.param(url, Schema(Post, Membership, Home, feed), workers=0, clock=Clock()))
        return Feeds(opened[-1], feed)

    yield make
    for face in opened:
        face.close()


@pytest.mark.parametrize("feed", FEEDS)
def test_the_share_is_of_memberships(feeds, feed):
    of = feeds(feed)
    assert (of.set_writes(30).phase, of.set_writes(30).writes) == ("building", 30)
    of.build()
    some = of.within(30)
    assert 2 < len(some) < 12
    of.expect_entries(some)
    of.save_memberships()
    of.save_posts("again")
    of.expect_entries(some)
    assert of.face.verify().faults == ()
    of.set_writes(60)
    of.expect_entries(some)
    of.build()
    of.expect_entries(of.within(60))
    of.set_writes(100)
    of.build()
    of.expect_all()


@pytest.mark.parametrize("feed", FEEDS)
def test_a_stopped_feed_gives_new_posts_to_no_member(feeds, feed):
    of = feeds(feed)
    of.build()
    of.launches("set", feed.__name__, reads=100)
    report = of.launches("stop", feed.__name__)
    assert (report.phase, report.writes, report.reads) == ("stopped", 0, 0)
    before = [of.entries(member) for member in MEMBERS]
    of.read("save", post(50, group="a"))
    assert [of.entries(member) for member in MEMBERS] == before
    assert 50 in [row.source.key[0] for row in of.read("page", Home, 0)]
    of.read("delete", Post, 50)
    of.build()
    of.expect_entries(set())
    assert of.face.verify().faults == ()
    of.set_writes(100)
    of.build()
    of.expect_all()


def test_lowering_leaves_entries_until_the_membership_is_committed_again(feeds):
    of = feeds(ByChange)
    of.build()
    of.set_writes(30)
    of.expect_entries(set(MEMBERS))
    of.save_memberships(range(10))
    of.expect_entries(of.within(30) | set(range(10, 20)))
    of.build()
    of.expect_entries(of.within(30))
    assert of.face.verify().faults == ()


def test_another_program_writes_the_same_share(feeds, url):
    of = feeds(ByChange)
    with connect(url, Schema(Post, Membership, Home, ByChange), workers=0, clock=Clock()) as other:
        of.set_writes(30)
        end_leases(other, 1)
        for number in MEMBERS:
            other.save(Membership(number=number, member=number, group=GROUPS[number % 2]))
        for number in POSTS:
            other.save(post(number))
        other.drain()
        of.expect_entries(of.within(30))


def test_a_feed_of_groups_is_written_for_all(new_url):
    class Tops(Feed[Posts]):
        member: int = by(Membership.member)
        newest_at: datetime = newest(Posts.newest_at)
        joined = on(Posts.group, Membership.group)
        expires_after = None

    class OtherTops(Feed[Posts]):
        replaces = Tops
        member: int = by(Membership.member)
        newest_at: datetime = newest(Posts.newest_at)
        joined = on(Posts.group, Membership.group)
        expires_after = None

    with connect(new_url(), Schema(Post, Membership, Posts, Tops, OtherTops), workers=0) as db:
        with pytest.raises(UsageError, match="written for all groups") as refused:
            db.launches.set("OtherTops", writes=10)
        assert "OtherTops" in str(refused.value)
