"""What P16 measures: a small site, and the same with a log of its entities."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from oneread import Aggregate, Index, Key, Model, Schema, by, count, descending, shown, total


class Song(Model[int]):
    number: Key[int]
    genre: str
    votes: int
    title: str


class TopOfGenre(Index[Song]):
    genre: str = by(Song.genre)
    votes: int = descending(Song.votes)
    title: str = shown(Song.title)


class GenreSums(Aggregate[Song]):
    genre: str = by(Song.genre)
    songs: int = count()
    votes: int = total(Song.votes)


class LoggedSong(Model[int]):
    logged = timedelta(days=7)

    number: Key[int]
    genre: str
    votes: int
    title: str


class TopOfLoggedGenre(Index[LoggedSong]):
    genre: str = by(LoggedSong.genre)
    votes: int = descending(LoggedSong.votes)
    title: str = shown(LoggedSong.title)


class LoggedGenreSums(Aggregate[LoggedSong]):
    genre: str = by(LoggedSong.genre)
    songs: int = count()
    votes: int = total(LoggedSong.votes)


SONGS: Final = Schema(Song, TopOfGenre, GenreSums)
LOGGED_SONGS: Final = Schema(LoggedSong, TopOfLoggedGenre, LoggedGenreSums)
GENRES: Final = 20
