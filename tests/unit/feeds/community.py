"""A small community: members of groups, and the posts of these."""

from datetime import datetime, timedelta
from typing import Annotated

import msgspec

from oneread import Feed, Key, Model, Ref, Schema, by, each, field, newest, on, shown
from oneread.testing.clock import START


class Member(Model[int]):
    number: Key[int]
    name: str = ""


class Group(Model[int]):
    number: Key[int]
    name: str = ""


class Membership(Model[int, int]):
    in_group: Key[int]
    of_member: Key[int]
    group: Ref[Group]
    member: Ref[Member]


class Post(Model[int]):
    number: Key[int]
    group: Ref[Group]
    at: datetime
    title: str = ""


class Home(Feed[Post]):
    member: Ref[Member] = by(Membership.member)
    at: datetime = newest(Post.at)
    title: str = shown(Post.title)
    group: Ref[Group] = shown(Post.group)
    joined = on(Post.group, Membership.group)


class Cross(Model[int]):
    """A post in several groups, with a number that may be beyond 64 bits."""

    number: Key[int]
    groups: Annotated[list[Ref[Group]], msgspec.Meta(max_length=5)]
    at: datetime
    size: int = 0


class Crossed(Feed[Cross]):
    member: int = by(Membership.of_member)
    at: datetime = newest(Cross.at)
    size: int = shown(Cross.size)
    joined = on(each(Cross.groups), Membership.in_group)
    where = field(Cross.size) >= 0
    expires_after = None


SCHEMA = Schema(Member, Group, Membership, Post, Home, Cross, Crossed)


def membership(group, member):
    return Membership(in_group=group, of_member=member, group=Group.at(group), member=Member.at(member))


def post(number, group=1, title="", *, hours=0):
    """A post so many hours before the clock's start."""
    return Post(number=number, group=Group.at(group), at=START - timedelta(hours=hours), title=title)


def cross(number, *groups, hours=0, size=0):
    at = START - timedelta(hours=hours)
    return Cross(number=number, groups=[Group.at(each) for each in groups], at=at, size=size)


def fill(db, *, groups=3, members=4, joined=((1, 1), (1, 2), (2, 1))):
    db.save_all([Group(number=number) for number in range(1, groups + 1)])
    db.save_all([Member(number=number) for number in range(1, members + 1)])
    db.save_all([membership(group, member) for group, member in joined])


def posts(db, member, **options):
    """The numbers of the posts that a member is shown, in order."""
    return [entry.source.key[0] for entry in db.page(Home, member, **options)]
