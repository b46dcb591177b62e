"""Feeds, with the types that an editor shows."""

from datetime import datetime, timedelta
from typing import assert_type

from oneread import Aggregate, Database, Feed, Key, Model, Ref, bucket, by, count, each, field, newest, on, shown


class Member(Model[int]):
    number: Key[int]


class Group(Model[int]):
    number: Key[int]


class Membership(Model[int, int]):
    of: Key[int]
    who: Key[int]
    group: Ref[Group]
    member: Ref[Member]


class Post(Model[int]):
    number: Key[int]
    group: Ref[Group]
    others: list[Ref[Group]]
    made_at: datetime
    title: str | None = None


class Home(Feed[Post]):
    member: Ref[Member] = by(Membership.member)
    made_at: datetime = newest(Post.made_at)
    title: str | None = shown(Post.title)
    joined = on(Post.group, Membership.group)
    expires_after = timedelta(days=7)
    at_most = 500
    where = field(Post.number) > 0


class Crossed(Feed[Post]):
    who: int = by(Membership.who)
    made_at: datetime = newest(Post.made_at)
    joined = on(each(Post.others), Membership.group)
    expires_after = None


class PostsOfDay(Aggregate[Post]):
    group: Ref[Group] = by(Post.group)
    day: datetime = bucket(Post.made_at, "day")
    posts: int = count()


class Days(Feed[PostsOfDay]):
    member: Ref[Member] = by(Membership.member)
    day: datetime = newest(PostsOfDay.day)
    posts: int = shown(PostsOfDay.posts)
    joined = on(PostsOfDay.group, Membership.group)
    at_most = 500


def read(db: Database) -> None:
    page = db.page(Home, 7, limit=20, since=datetime.now())
    for entry in page:
        assert_type(entry.source, Ref[Post])
        assert_type(entry.member, Ref[Member])
        assert_type(entry.title, str | None)
    assert_type(db.page(Days, 7)[0].source, Ref[PostsOfDay])
