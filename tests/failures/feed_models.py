"""Models and a feed that killed and writing processes share."""

from datetime import datetime

from oneread import Feed, Key, Model, by, newest, on, shown


class Membership(Model[int]):
    number: Key[int]
    member: int
    group: str


class Post(Model[int]):
    number: Key[int]
    group: str
    at: datetime
    text: str = ""


class Home(Feed[Post]):
    expires_after = None
    member: int = by(Membership.member)
    at: datetime = newest(Post.at)
    text: str = shown(Post.text)
    joined = on(Post.group, Membership.group)
