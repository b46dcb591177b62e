"""The schema of a store that is moved while processes are killed."""

from oneread import GENERATED, Copy, Index, Key, Model, Schema, by


class Room(Model[str]):
    room: Key[str]
    title: str = ""


class Title(Copy[Room]):
    title: str


class Post(Model[str, int]):
    child_of = Room

    room: Key[str]
    number: Key[int] = GENERATED
    of: Title
    text: str


class PostsOf(Index[Post]):
    of: Title = by(Post.of)


class Note(Model[int]):
    number: Key[int]
    text: str


SCHEMA = Schema(Room, Post, PostsOf, Note)
