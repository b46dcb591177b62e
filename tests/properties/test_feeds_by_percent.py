"""Whatever programs write while the share of a launched feed changes: entries are those of a plain join.

In between a member may lack entries of the new feed, never have one too many, and the former feed is whole. After a
backfill the entries are those of all memberships within the share, and of no other one.
"""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from oneread import Feed, Key, Model, Schema, by, connect, newest, on, shown
from oneread.database.marking import newest_entries
from oneread.evolution import writing_shares
from oneread.launches.sides import bucket_of, buckets_below, seed_of
from oneread.testing.clock import Clock
from tests.unit.database.faces import FACES
from tests.unit.evolution.stores import end_leases

START = datetime(2026, 1, 1, tzinfo=UTC)


class Post(Model[int]):
    number: Key[int]
    group: str
    made_at: datetime
    score: int


class Membership(Model[int]):
    number: Key[int]
    member: int
    group: str


class Home(Feed[Post]):
    member: int = by(Membership.member)
    made_at: datetime = newest(Post.made_at)
    score: int = shown(Post.score)
    joined = on(Post.group, Membership.group)
    expires_after = None


class Aged(Feed[Post]):
    """Its items expire, far in the future."""

    replaces = Home
    member: int = by(Membership.member)
    made_at: datetime = newest(Post.made_at)
    score: int = shown(Post.score)
    joined = on(Post.group, Membership.group)
    expires_after = timedelta(days=4000)


class Large(Feed[Post]):
    replaces = Home
    member: int = by(Membership.member)
    made_at: datetime = newest(Post.made_at)
    score: int = shown(Post.score)
    joined = on(Post.group, Membership.group)
    expires_after = None
    large_group = 3


FEEDS = [Aged, Large]
PROGRAMS, GROUPS = st.sampled_from(["one", "other"]), st.sampled_from("ab")
POSTS, MEMBERSHIPS, MEMBERS = range(5), range(8), range(5)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("post"), PROGRAMS, st.sampled_from(POSTS), GROUPS, st.integers(0, 3), st.integers(0, 9)),
        st.tuples(st.just("post"), PROGRAMS, st.sampled_from(POSTS), GROUPS, st.integers(0, 3), st.integers(0, 9)),
        st.tuples(st.just("remove"), PROGRAMS, st.sampled_from(POSTS)),
        st.tuples(st.just("join"), PROGRAMS, st.sampled_from(MEMBERSHIPS), st.sampled_from(MEMBERS), GROUPS),
        st.tuples(st.just("leave"), PROGRAMS, st.sampled_from(MEMBERSHIPS)),
        st.tuples(st.just("share"), st.sampled_from([0, 20, 50, 90, 100])),
        st.tuples(st.just("build"), PROGRAMS),
        st.tuples(st.just("start"), PROGRAMS),
    ),
    min_size=10,
    max_size=30,
)


class History:
    """Two programs of one schema, on a store that an older program began; what they wrote, as plain values."""

    def __init__(self, url, feed, face):
        self.url, self.feed, self.face, self.clock, self.programs, self.leases = url, feed, face, Clock(), {}, 0
        self.posts, self.memberships, self.percent = {}, {}, 100
        with connect(url, Schema(Post, Membership, Home), workers=0, clock=self.clock) as before:
            for number in range(4):
                before.save(self.made(number, "ab"[number % 2], 1, number))
                before.save(self.joined(number, number, "ab"[number % 2]))
            before.drain()
        for program in ("one", "other"):
            self.start(program)

    def made(self, number, group, score, hour):
        self.posts[number] = (group, START + timedelta(hours=hour), score)
        return Post(number=number, group=group, score=score, made_at=START + timedelta(hours=hour))

    def joined(self, number, member, group):
        self.memberships[number] = (member, group)
        return Membership(number=number, member=member, group=group)

    def start(self, program):
        if program in self.programs:
            self.programs.pop(program).close()
        made = connect if program == "one" else self.face
        self.programs[program] = made(self.url, Schema(Post, Membership, Home, self.feed), workers=0, clock=self.clock)

    def post(self, program, number, group, score, hour):
        self.programs[program].save(self.made(number, group, score, hour))

    def remove(self, program, number):
        self.programs[program].delete(Post, number)
        self.posts.pop(number, None)

    def join(self, program, number, member, group):
        self.programs[program].save(self.joined(number, member, group))

    def leave(self, program, number):
        self.programs[program].delete(Membership, number)
        self.memberships.pop(number, None)

    def share(self, percent):
        self.programs["one"].launches.set(self.feed.__name__, writes=percent)
        self.percent = percent

    def build(self, program):
        self.drain()
        self.leases += 1
        for db in self.programs.values():
            end_leases(db, self.leases)
        assert self.programs[program].backfill(fence=True, quiet=0, wait=0).done
        self.expect(self.within(), exactly=True)

    def drain(self):
        for db in self.programs.values():
            db.drain()

    def within(self):
        """The memberships of the share."""
        kind = self.programs["one"].operations.catalog.kinds[Membership]
        below, seed = buckets_below(self.percent), seed_of(self.feed.__name__)
        return {number for number in self.memberships if bucket_of(kind.key((number,)), seed) < below}

    def joins(self, member, memberships):
        """The posts that a member has by these memberships, the newest first."""
        groups = {self.memberships[number][1] for number in memberships if self.memberships[number][0] == member}
        found = [(at, number) for number, (group, at, _score) in self.posts.items() if group in groups]
        return [number for at, number in sorted(found, key=lambda each: (-each[0].timestamp(), each[1]))]

    def entries(self, member):
        """The posts of which a member has an entry in the new feed, whether or not it is read."""
        db = self.programs["one"]
        marking = db.operations.marking
        feed = marking.feed(self.feed)
        whose = feed.member(feed.values((member,)))
        tails = db.run(newest_entries(feed.entries, marking._group_reader(feed.view), whose, 100)).tails
        numbers = {db.operations.catalog.kinds[Post].suffix((number,)): number for number in POSTS}
        found = [feed.position_at(feed.entries.prefix + whose + tail) for tail in tails]
        return [(numbers[each.item], each.at) for each in found]

    def expect(self, memberships, *, exactly):
        self.drain()
        for member in MEMBERS:
            wanted = [(number, self.posts[number][1]) for number in self.joins(member, memberships)]
            found = self.entries(member)
            assert found == wanted if exactly else set(found) <= set(wanted)

    def look(self):
        """No entry is too many, and the former feed is whole."""
        self.expect(self.memberships, exactly=False)
        self.clock.tick(2)
        for db in self.programs.values():
            self.ask(db)
        assert self.programs["one"].verify().faults == ()

    def ask(self, db):
        for member in MEMBERS:
            rows = [(row.source.key[0], row.score) for row in db.page(Home, member)]
            assert rows == [(number, self.posts[number][2]) for number in self.joins(member, self.memberships)]

    def close(self):
        for each in self.programs.values():
            each.close()


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
@pytest.mark.parametrize("feed", FEEDS)
def test_entries_are_those_of_the_memberships_within_the_share(new_url, monkeypatch, feed, face):
    monkeypatch.setattr(writing_shares, "UNREAD_SECONDS", 0.0)

    @settings(max_examples=25, deadline=None, phases=[Phase.generate])
    @given(STEPS)
    def holds(steps):
        history = History(new_url(), feed, face)
        for verb, *values in steps:
            getattr(history, verb)(*values)
            history.look()
        history.share(100)
        history.build("other")
        history.clock.tick(2)
        for db in history.programs.values():
            assert db.verify().clean
        history.programs["one"].launches.set(feed.__name__, reads=100)
        for db in history.programs.values():
            history.ask(db)
        history.close()

    holds()
