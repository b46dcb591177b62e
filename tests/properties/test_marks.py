"""Marks and counts of a feed against plain Python, while items, memberships, marks and the clock move."""

from datetime import timedelta
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneread import Schema, connect
from oneread.testing.clock import Clock
from tests.unit.feeds.marked import PLAIN, Group, Home, Member, Membership, Post, membership

GROUPS, MEMBERS, NAMES = (1, 2), (1, 2), "abcdef"


class Place(NamedTuple):
    """A position as the test orders it: the greatest is the newest."""

    at: object
    key: int
    """Less for a name further up in the order of keys."""


def place_of(name, at):
    return Place(at, -ord(name))


class World:
    """What is stored, and what a reader of the rules expects of it."""

    def __init__(self, db, clock):
        self.db = db
        self.clock = clock
        self.posts = {}
        self.joined = set()
        self.marks = {(member, mark): None for member in MEMBERS for mark in ("seen", "read")}
        db.save_all([*(Group(number=each) for each in GROUPS), *(Member(number=each) for each in MEMBERS)])
        self.join(1, 1)
        self.join(2, 1)
        for place, name in enumerate(NAMES):
            self.publish(name, GROUPS[place % 2], place // 2)

    def feed(self, member):
        """The places of a member's entries, the newest first."""
        oldest = self.clock.now - timedelta(days=61)
        groups = {group for group, who in self.joined if who == member}
        found = [place_of(name, at) for name, (group, at) in self.posts.items() if group in groups and at > oldest]
        return sorted(found, reverse=True)

    def publish(self, name, group, minutes):
        at = self.clock.now + timedelta(minutes=minutes)
        self.posts[name] = group, at
        self.db.save(Post(name=name, group=Group.at(group), at=at))

    def unpublish(self, name):
        self.posts.pop(name, None)
        self.db.delete(Post, name)

    def join(self, group, member):
        self.joined.add((group, member))
        self.db.save(membership(group, member))

    def leave(self, group, member):
        self.joined.discard((group, member))
        self.db.delete(Membership, group, member)

    def tick(self, days):
        self.clock.tick(days * 24 * 3600)

    def mark(self, member, wanted, back):
        entries = self.db.page(Home, member).rows
        feed = self.feed(member)
        given = {}
        for mark, value in wanted.items():
            known = self.marks[member, mark]
            if value is False:
                given[mark], self.marks[member, mark] = False, None
            elif value is True:
                given[mark] = True
                if feed and (back or known is None or feed[0] > known):
                    self.marks[member, mark] = feed[0]
            elif feed:
                place = value % len(feed)
                given[mark] = entries[place]
                if back or known is None or feed[place] > known:
                    self.marks[member, mark] = feed[place]
        if given:
            self.db.mark(Home, member, **given, back=back)

    def check(self, limit):
        for member in MEMBERS:
            feed, entries = self.feed(member), self.db.page(Home, member).rows
            assert [place_of(entry.source.key[0], entry.at) for entry in entries] == feed
            found, marks = self.db.unread(Home, member, limit=limit), self.db.marks(Home, member)
            for mark, count, more, is_marked in (
                ("seen", found.unseen, found.more_unseen, marks.has_seen),
                ("read", found.unread, found.more_unread, marks.has_read),
            ):
                known = self.marks[member, mark]
                newer = [each for each in feed if known is None or each > known]
                assert (count, more) == (min(len(newer), limit), len(newer) > limit)
                assert [is_marked(entry) for entry in entries] == [each not in newer for each in feed]


GROUP, MEMBER, NAME = st.sampled_from(GROUPS), st.sampled_from(MEMBERS), st.sampled_from(NAMES)
MARK = st.booleans() | st.integers(0, 9)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), NAME, GROUP, st.integers(-2, 2)),
        st.tuples(st.just("unpublish"), NAME),
        st.tuples(st.just("join"), GROUP, MEMBER),
        st.tuples(st.just("leave"), GROUP, MEMBER),
        st.tuples(st.just("tick"), st.sampled_from([0, 0.0005, 20, 61])),
        st.tuples(
            st.just("mark"),
            MEMBER,
            st.dictionaries(st.sampled_from(["seen", "read"]), MARK, min_size=1),
            st.booleans(),
        ),
    ),
    max_size=12,
)


@pytest.mark.parametrize("inline", [1000, 1])
@settings(deadline=None)
@given(STEPS, st.integers(1, 4))
def test_counts_equal_those_of_plain_python(inline, steps, limit):
    clock = Clock()
    with connect("memory://", Schema(*PLAIN, inline=inline), workers=0, clock=clock) as db:
        world = World(db, clock)
        for verb, *arguments in steps:
            getattr(world, verb)(*arguments)
            db.drain()
            world.check(limit)
