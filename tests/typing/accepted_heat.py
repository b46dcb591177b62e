"""Heat, hot keys, slow calls and findings of the doctor, with the types that an editor shows."""

from datetime import datetime, timedelta
from typing import assert_type

from oneread import (
    AsyncDatabase,
    Database,
    HeatCause,
    HeatFinding,
    HeatMap,
    HeatRange,
    HotKey,
    Index,
    Key,
    Model,
    Schema,
    SlowCall,
    by,
    connect,
)


class Song(Model[int]):
    number: Key[int]
    genre: str


class Songs(Index[Song]):
    genre: str = by(Song.genre)


def hottest(heat: HeatMap) -> HeatRange:
    return heat.hottest(1)[0][0]


def shown(db: Database) -> None:
    heat = db.heat(last=timedelta(hours=1), operation="write", measure="rows", declared=Songs, ranges=8)
    assert_type(heat, HeatMap)
    assert_type(hottest(heat).share, float | None)
    assert_type(heat.hottest(3), tuple[tuple[HeatRange, float], ...])
    assert_type(heat.causes(0), tuple[HeatCause, ...])
    assert_type(heat.times, tuple[datetime, ...])
    assert_type(db.hot_keys(Songs, limit=3), list[HotKey])
    assert_type(db.slow_calls(last=timedelta(minutes=5)), list[SlowCall])
    assert_type(db.doctor(), list[HeatFinding])
    assert_type([each.rebuilds for each in db.doctor()], list[timedelta | None])


async def asynchronously(db: AsyncDatabase) -> None:
    assert_type(await db.heat(), HeatMap)
    assert_type(await db.hot_keys(Song), list[HotKey])
    assert_type(await db.slow_calls(), list[SlowCall])
    assert_type(await db.doctor(last=timedelta(days=1)), list[HeatFinding])


def recorded(url: str) -> None:
    with connect(url, Schema(Song, Songs), heat=0.01, heat_keys=False) as db:
        shown(db)
