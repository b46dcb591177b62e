"""Launches, views that replace others, and copies of stores, with the types that an editor shows."""

from collections.abc import Sequence
from datetime import timedelta
from typing import assert_type

from oneread import (
    AsyncDatabase,
    Database,
    Index,
    Key,
    LaunchDifference,
    LaunchGuard,
    LaunchOptions,
    LaunchReport,
    Model,
    Page,
    at_once,
    by,
    descending,
    sticky,
)


class Song(Model[int]):
    number: Key[int]
    genre: str
    votes: int


class Songs(Index[Song]):
    genre: str = by(Song.genre)
    votes: int = descending(Song.votes)


class NewSongs(Index[Song]):
    replaces = at_once(Songs)
    genre: str = by(Song.genre)
    votes: int = descending(Song.votes)


class OtherSongs(Index[Song]):
    replaces = Songs
    genre: str = by(Song.genre)
    votes: int = descending(Song.votes)


def by_sql(genre: str, limit: int = 10) -> list[int]:
    return [len(genre) + limit]


def by_view(genre: str, limit: int = 10) -> list[int]:
    return [len(genre) + limit]


def launched(db: Database) -> None:
    top = db.launch("top", old=by_sql, new=by_view, key=lambda genre, limit=10: (genre, limit))
    assert_type(top("rock", limit=3), list[int])
    with sticky(7):
        top("rock")
    options = LaunchOptions(settle=1.0, guard=LaunchGuard(within=timedelta(minutes=5)))
    assert_type(db.launches.set("top", reads=5, check=1.5, options=options), LaunchReport)
    assert_type(db.launches.set("Songs", writes=12.5), LaunchReport)
    assert_type(db.launches.stop("Songs", by="ada").writes, float)
    assert_type(db.launches.all(), Sequence[LaunchReport])
    assert_type(db.launches.differences("top", kind="missing"), Sequence[LaunchDifference])
    assert_type(db.launches.back("top", why="slow"), LaunchReport)
    assert_type(db.page(Songs, "rock"), Page[Songs])


async def by_sql_later(genre: str) -> list[int]:
    return [len(genre)]


async def asynchronously(db: AsyncDatabase) -> None:
    top = db.launch("top", old=by_sql_later, new=by_sql_later, key=lambda genre: genre)
    assert_type(await top("rock"), list[int])
    assert_type(await db.launches.report("top"), LaunchReport)
