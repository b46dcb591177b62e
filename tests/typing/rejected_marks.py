"""Mistakes with marks that a type checker finds."""

from datetime import datetime

from oneread import Database, Feed, Key, Model, Ref, by, newest, on


class Member(Model[int]):
    number: Key[int]


class Membership(Model[int]):
    number: Key[int]
    group: int
    member: Ref[Member]


class Post(Model[int]):
    number: Key[int]
    group: int
    made_at: datetime


class Home(Feed[Post]):
    member: Ref[Member] = by(Membership.member)
    made_at: datetime = newest(Post.made_at)
    joined = on(Post.group, Membership.group)
    marks = True


def wrong(db: Database, post: Post) -> None:
    db.mark(Post, 1, seen=True)  # rejected
    db.mark(Home, 1, seen=3)  # rejected
    db.mark(Home, 1, red=True)  # rejected
    db.mark(Home, 1, seen=True, back=None)  # rejected
    db.unread(Member, 1)  # rejected
    db.unread(Home, 1, limit="9")  # rejected
    db.unread(Home, 1).count  # rejected
    db.marks(Home, 1).has_seen(post)  # rejected
    db.page(Home, 1, lag=2)  # rejected
