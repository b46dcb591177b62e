"""Declarations of tests about what expires: sessions by a field, and posts that leave a list after a week."""

from datetime import datetime, timedelta

from oneread import (
    CREATED,
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    by,
    count,
    expires,
    newest,
    oldest,
    reference,
    shown,
)
from oneread.testing.clock import START


class User(Model[int]):
    number: Key[int]
    name: str = ""


class Who(Copy[User]):
    name: str


class Session(Model[str]):
    token: Key[str]
    who: Who
    nick: str | None = None
    made_at: datetime = CREATED
    until: datetime | None = None
    ttl = expires("until")


class WebSession(Session):
    agent: str = ""


class Nick(Index[Session]):
    unique = True
    nick: str = by(Session.nick)


class SessionsOf(Index[Session]):
    who: Who = by(Session.who)
    token: str = by(Session.token)
    until: datetime | None = shown(Session.until)


class SessionsOfUser(Aggregate[Session]):
    who: Who = by(Session.who)
    sessions: int = count()


class Note(Model[int]):
    number: Key[int]
    session: Ref[Session] | None = reference(missing_ok=False)


class Maybe(Model[int]):
    number: Key[int]
    session: Ref[Session] = reference(missing_ok=True)


class Lock(Model[int]):
    number: Key[int]
    session: Ref[Session] = reference(on_delete="refuse")


class Trace(Model[int]):
    number: Key[int]
    session: Ref[Session] = reference(on_delete="delete")


class Post(Model[int]):
    number: Key[int]
    made_at: datetime = CREATED
    text: str = ""


class RecentPosts(Index[Post]):
    ttl = expires(Post.made_at, after=timedelta(days=7))
    made_at: datetime = newest(Post.made_at)


class OldestPosts(Index[Post]):
    made_at: datetime = oldest(Post.made_at)


SCHEMA = Schema(
    User, Session, WebSession, Nick, SessionsOf, SessionsOfUser, Note, Maybe, Lock, Trace, Post, RecentPosts,
    OldestPosts,
)  # fmt: skip


def at(seconds):
    return START + timedelta(seconds=seconds)


def session(token, seconds=10, **more):
    return Session(token=token, who=Who.of(1), until=None if seconds is None else at(seconds), **more)
