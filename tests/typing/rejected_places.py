"""Mistakes with the places of an entity."""

from oneread import Database, Index, Key, Model, Ref, by


class Singer(Model[int]):
    number: Key[int]
    name: str


class Song(Model[str, int]):
    album: Key[str]
    track: Key[int]


class Singers(Index[Singer]):
    name: str = by(Singer.name)


def wrong(db: Database, at: Ref[Song]) -> None:
    db.places(Song, 1, "Blue")  # rejected
    db.places(Song, "Blue")  # rejected
    db.places(Singer, at)  # rejected
    db.places(Singer, 1, limit="5")  # rejected
    db.places(Singer, 1, checked=True)  # rejected
    db.places(Singer, 1).place  # rejected
