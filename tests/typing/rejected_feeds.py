"""Wrong feeds: every marked line must be reported."""

from datetime import datetime

from oneread import Feed, Key, Model, Ref, by, newest, on, shown


class Group(Model[int]):
    number: Key[int]


class Membership(Model[int]):
    number: Key[int]
    group: Ref[Group]
    who: int


class Post(Model[int]):
    number: Key[int]
    group: Ref[Group]
    made_at: datetime
    title: str


class Home(Feed[Post]):
    who: str = by(Membership.who)  # rejected
    made_at: datetime = newest(Post.title)  # rejected
    title: int = shown(Post.title)  # rejected
    joined = on(Post.group)  # rejected
    expires_after = 5  # rejected
    at_most = "all"  # rejected


class OfText(Feed[str]):  # rejected
    who: int = by(Membership.who)
