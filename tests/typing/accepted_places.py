"""Where an entity is shown, with the types that an editor shows."""

from typing import assert_type

from oneread import (
    AsyncDatabase,
    Copy,
    Database,
    EntityPlaces,
    EntityVersions,
    Holder,
    Key,
    Model,
    RawCell,
    Ref,
    ShownNumber,
    ShownPlace,
)


class Singer(Model[int]):
    number: Key[int]
    name: str


class Sung(Copy[Singer]):
    name: str


class Song(Model[str, int]):
    album: Key[str]
    track: Key[int]
    by: Sung


def shown(db: Database, song: Song, at: Ref[Song]) -> None:
    found = db.places(Song, "Blue", 1, limit=5, check=True)
    assert_type(found, EntityPlaces)
    assert_type(db.places(Song, at, cursor=found.next), EntityPlaces)
    assert_type(db.places(Singer, song.by), EntityPlaces)
    assert_type(found.places, tuple[ShownPlace, ...])
    assert_type(found.shows, tuple[ShownNumber, ...])
    assert_type(found.holders, tuple[Holder, ...])
    assert_type(found.cells, tuple[RawCell, ...])
    assert_type(found.versions, EntityVersions)
    assert_type([each.fault.text for each in found.places if each.fault is not None], list[str])


async def asynchronously(db: AsyncDatabase) -> None:
    assert_type(await db.places(Song, "Blue", 1), EntityPlaces)
