"""Feeds of every kind over few models.

Covering and bare, of a variant, with `where`, of items with several groups and members with several memberships in one,
with copies shown, of items that expire, of memberships that do, with ages of their own, of the groups of an aggregate,
with ints beyond 64 bits, of few entries, with large groups.
"""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec
from hypothesis import strategies as st

from oneread import (
    Aggregate,
    Copy,
    Feed,
    Key,
    Model,
    Ref,
    Schema,
    bucket,
    by,
    count,
    each,
    expires,
    field,
    greatest,
    newest,
    on,
    reference,
    shown,
    within,
)
from oneread.testing.clock import START


class Member(Model[int]):
    number: Key[int]
    name: str = ""


class Group(Model[str]):
    name: Key[str]
    title: str = ""


Groups = Annotated[list[Ref[Group]], msgspec.Meta(max_length=3)]


class Author(Copy[Member]):
    name: str


class In(Copy[Group]):
    title: str


class Membership(Model[int]):
    """A member may have several in one group, and move to another group."""

    number: Key[int]
    member: Ref[Member] = reference(missing_ok=True)
    group: Ref[Group] = reference(missing_ok=True)
    role: str | None = None
    at: datetime = START


class Pass(Model[int]):
    """A membership that expires."""

    number: Key[int]
    member: int
    group: Ref[Group] = reference(missing_ok=True)
    until: datetime | None = None
    ttl = expires("until")


class Post(Model[int]):
    number: Key[int]
    group: Ref[Group] | None = reference(missing_ok=True)
    groups: Groups = reference(missing_ok=True)
    at: datetime = START
    text: str = ""
    votes: int = 0
    author: Author | None = None
    home: In | None = None


class Photo(Post):
    width: int = 0


class Notice(Model[int]):
    """An item that expires; its group is named by the plain value of the key."""

    number: Key[int]
    group: str = "a"
    at: datetime = START
    until: datetime | None = None
    ttl = expires("until")


class Told(Model[int]):
    """An item whose time is another entity's."""

    number: Key[int]
    groups: Groups = reference(missing_ok=True)
    of: Ref[Notice] = reference(missing_ok=True)
    text: str = ""


class JoinsOfDay(Aggregate[Membership]):
    group: Ref[Group] = by(Membership.group)
    day: datetime = bucket(Membership.at, "day")
    joins: int = count()
    last: datetime | None = greatest(Membership.at)


class HomeFeed(Feed[Post]):
    expires_after = None
    member: Ref[Member] = by(Membership.member)
    at: datetime = newest(Post.at)
    text: str = shown(Post.text)
    group: Ref[Group] | None = shown(Post.group)
    author: Author | None = shown(Post.author)
    joined = on(Post.group, Membership.group)


class BareFeed(Feed[Post]):
    expires_after = None
    member: Ref[Member] = by(Membership.member)
    at: datetime = newest(Post.at)
    joined = on(Post.group, Membership.group)


class EachFeed(Feed[Post]):
    """By the member and their role."""

    expires_after = None
    member: Ref[Member] = by(Membership.member)
    role: str = by(Membership.role)
    at: datetime = newest(Post.at)
    groups: Groups = shown(Post.groups)
    joined = on(each(Post.groups), Membership.group)


class PhotoFeed(Feed[Photo]):
    expires_after = None
    member: Ref[Member] = by(Membership.member)
    at: datetime = newest(Photo.at)
    width: int = shown(Photo.width)
    joined = on(each(Photo.groups), Membership.group)


class PopularFeed(Feed[Post]):
    """Joined by the group of a copy; what it shows may be beyond 64 bits, and be a copy's field."""

    where = field(Post.votes) > 0
    expires_after = None
    member: Ref[Member] = by(Membership.member)
    at: datetime = newest(Post.at)
    votes: int = shown(Post.votes)
    title: str | None = shown(within(Post.home, In.title))
    joined = on(Post.home, Membership.group)


class RecentFeed(Feed[Post]):
    """What is older than half a minute leaves it."""

    expires_after = timedelta(seconds=30)
    member: Ref[Member] = by(Membership.member)
    at: datetime = newest(Post.at)
    text: str = shown(Post.text)
    joined = on(Post.group, Membership.group)


class ToldFeed(Feed[Told]):
    """By the time of another entity, with which it expires."""

    expires_after = timedelta(seconds=30)
    member: Ref[Member] = by(Membership.member)
    at: datetime = newest(within(Told.of, Notice.at))
    text: str = shown(Told.text)
    joined = on(each(Told.groups), Membership.group)


class NoticeFeed(Feed[Notice]):
    expires_after = None
    member: Ref[Member] = by(Membership.member)
    at: datetime = newest(Notice.at)
    until: datetime | None = shown(Notice.until)
    joined = on(Notice.group, Membership.group)


class PassFeed(Feed[Post]):
    """Of memberships that expire."""

    expires_after = None
    member: int = by(Pass.member)
    at: datetime = newest(Post.at)
    text: str = shown(Post.text)
    joined = on(each(Post.groups), Pass.group)


class JoinFeed(Feed[JoinsOfDay]):
    expires_after = None
    member: Ref[Member] = by(Membership.member)
    day: datetime = newest(JoinsOfDay.day)
    joins: int = shown(JoinsOfDay.joins)
    last: datetime | None = shown(JoinsOfDay.last)
    joined = on(JoinsOfDay.group, Membership.group)


class FullFeed(Feed[Post]):
    """Of two entries at most."""

    expires_after = None
    at_most = 2
    member: Ref[Member] = by(Membership.member)
    at: datetime = newest(Post.at)
    text: str = shown(Post.text)
    joined = on(Post.group, Membership.group)


class MergedFeed(Feed[Post]):
    """Two members make a group large; a page merges one."""

    expires_after = None
    large_group = 1
    merged_groups = 1
    member: Ref[Member] = by(Membership.member)
    at: datetime = newest(Post.at)
    author: Author | None = shown(Post.author)
    joined = on(Post.group, Membership.group)


class BusyFeed(Feed[Post]):
    """Items with several groups, which expire, in groups that are large and not; the rest is trimmed."""

    expires_after = timedelta(seconds=30)
    large_group = 2
    merged_groups = 2
    at_most = 2
    member: Ref[Member] = by(Membership.member)
    at: datetime = newest(Post.at)
    votes: int = shown(Post.votes)
    joined = on(each(Post.groups), Membership.group)


MODELS = (Member, Group, Membership, Pass, Post, Photo, Notice, Told)
FEEDS = (
    HomeFeed, BareFeed, EachFeed, PhotoFeed, PopularFeed, RecentFeed, ToldFeed, NoticeFeed, PassFeed, JoinFeed,
    FullFeed, MergedFeed, BusyFeed,
)  # fmt: skip
FEED_SCHEMA = Schema(*MODELS, JoinsOfDay, *FEEDS)

GROUP_NAMES = st.sampled_from("abc")
_MINUTES = st.integers(-2, 2).map(lambda minutes: START + timedelta(seconds=25 * minutes))
_GROUP = GROUP_NAMES.map(Group.at)

GIVEN = {
    Group.name: GROUP_NAMES,
    Membership.member: st.integers(1, 3).map(Member.at),
    Membership.group: _GROUP,
    Membership.role: st.sampled_from([None, "x", "y"]),
    Membership.at: st.sampled_from([START, datetime(2019, 1, 1, 5, tzinfo=UTC)]),
    Pass.member: st.integers(1, 2),
    Pass.group: _GROUP,
    Pass.until: st.none() | _MINUTES,
    Post.group: st.none() | _GROUP,
    Post.groups: st.lists(_GROUP, max_size=3),
    Post.at: _MINUTES,
    Post.votes: st.sampled_from([0, 1, 2**64, -(2**70)]),
    Notice.group: GROUP_NAMES,
    Notice.at: _MINUTES,
    Notice.until: st.none() | _MINUTES,
    Told.groups: st.lists(_GROUP, max_size=3),
    Told.of: st.integers(1, 3).map(lambda number: Ref((number,))),
}
"""Few groups, members and instants, so that items and memberships meet."""
