"""Feeds with marks: the posts of a member's groups, the notices of an address, which expire, and days of joining."""

from datetime import datetime, timedelta

from oneread import Aggregate, Feed, Key, Model, Ref, Schema, bucket, by, count, expires, newest, on, shown
from oneread.testing.clock import START


class Member(Model[int]):
    number: Key[int]


class Group(Model[int]):
    number: Key[int]


class Membership(Model[int, int]):
    in_group: Key[int]
    of_member: Key[int]
    group: Ref[Group]
    member: Ref[Member]
    at: datetime = START


class Post(Model[str]):
    name: Key[str]
    group: Ref[Group]
    at: datetime


class Home(Feed[Post]):
    member: Ref[Member] = by(Membership.member)
    at: datetime = newest(Post.at)
    group: Ref[Group] = shown(Post.group)
    joined = on(Post.group, Membership.group)
    marks = True


class Address(Model[str, str]):
    email: Key[str]
    topic: Key[str]


class Notice(Model[int]):
    number: Key[int]
    topic: str
    at: datetime
    until: datetime | None = None
    ttl = expires("until")


class Inbox(Feed[Notice]):
    email: str = by(Address.email)
    at: datetime = newest(Notice.at)
    joined = on(Notice.topic, Address.topic)
    expires_after = None
    marks = True


class Joins(Aggregate[Membership]):
    group: Ref[Group] = by(Membership.group)
    day: datetime = bucket(Membership.at, "day")
    members: int = count()


class Lines(Feed[Joins]):
    member: Ref[Member] = by(Membership.member)
    day: datetime = newest(Joins.day)
    members: int = shown(Joins.members)
    joined = on(Joins.group, Membership.group)
    expires_after = None
    marks = True


PLAIN = (Member, Group, Membership, Post, Home)
DECLARED = (*PLAIN, Address, Notice, Inbox, Joins, Lines)
SCHEMA = Schema(*DECLARED)


def membership(group, member):
    return Membership(in_group=group, of_member=member, group=Group.at(group), member=Member.at(member))


def post(name, *, group=1, hours=0):
    """A post so many hours before the clock's start."""
    return Post(name=name, group=Group.at(group), at=START - timedelta(hours=hours))


def fill(db, *, groups=2, members=3, joined=((1, 1), (1, 2))):
    db.save_all([Group(number=number) for number in range(1, groups + 1)])
    db.save_all([Member(number=number) for number in range(1, members + 1)])
    db.save_all([membership(group, member) for group, member in joined])
