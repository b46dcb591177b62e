"""Wrong declarations of what expires: every marked line must be reported."""

from datetime import datetime, timedelta

from oneread import Database, Index, Key, Model, by, expires


class Session(Model[str]):
    token: Key[str]
    user: int
    made_at: datetime
    ttl = timedelta(days=30)  # rejected


class SessionsOfUser(Index[Session]):
    ttl = expires(Session.user, after=timedelta(days=7))  # rejected
    user: int = by(Session.user)


class Recent(Index[Session]):
    ttl = expires(Session.made_at, after=7)  # rejected
    token: str = by(Session.token)


class Old(Index[Session]):
    ttl = expires(Session.made_at, timedelta(days=7))  # rejected
    token: str = by(Session.token)


def wrong(db: Database) -> None:
    db.sweep(100)  # rejected
    db.sweep(limit="all")  # rejected
    print(db.sweep().count)  # rejected
