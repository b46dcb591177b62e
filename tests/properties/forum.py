"""A forum: what people make of models - trees, unions, constraints, variants, keys of many parts, values in values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec

from oneread import (
    CREATED,
    GENERATED,
    UPDATED,
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    by,
    count,
    descending,
    each,
    greatest,
    newest,
    reference,
    shown,
    total,
    within,
)

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=12)]
Slug = Annotated[str, msgspec.Meta(pattern="^[a-z]{1,5}$")]


class Role(Enum):
    READER = 1
    AUTHOR = 2


class Spot(msgspec.Struct, frozen=True):
    x: Annotated[float, msgspec.Meta(ge=-180, lt=180)]
    y: Annotated[int, msgspec.Meta(gt=-90, le=90, multiple_of=5)] = 0
    inside: Spot | None = None


@dataclasses.dataclass(frozen=True)
class Style:
    bold: bool
    size: int = 12
    tags: list[str] = dataclasses.field(default_factory=list)
    area: int = dataclasses.field(init=False, default=0)


class Span(NamedTuple):
    start: int
    end: int | None = None


class Settings(TypedDict, total=False):
    theme: Literal["light", "dark"]
    size: int


class Member(Model[UUID]):
    id: Key[UUID] = GENERATED
    name: Name
    role: Role = Role.READER
    spot: Spot | None = None
    settings: Settings = msgspec.field(default_factory=dict)
    birthday: date | None = None
    wakes: time | None = None
    anything: Any = None
    joined: datetime = CREATED


class Moderator(Member):
    area: Slug = "all"


class Author(Copy[Member]):
    name: Name
    role: Role


class Board(Model[Role, str]):
    role: Key[Role]
    slug: Key[Slug]
    title: str | int = ""
    style: Style | None = None


class On(Copy[Board]):
    on_delete = "clear"
    missing_ok = True

    title: str | int


class Post(Model[Role, str, int]):
    role: Key[Role]
    slug: Key[Slug]
    number: Key[Annotated[int, msgspec.Meta(ge=0, le=3)]]
    board: On
    author: Author
    parent: Ref[Post] | None = reference(missing_ok=True)
    readers: Annotated[list[Ref[Member]], msgspec.Meta(max_length=3)] = reference(missing_ok=True)
    words: frozenset[Name] = frozenset()
    spans: tuple[Span, ...] = ()
    pair: tuple[int, str] | None = None
    votes: Annotated[int, msgspec.Meta(ge=0)] = 0
    worth: Annotated[Decimal, msgspec.Meta()] | None = None
    read: timedelta = timedelta()
    blob: Annotated[bytes, msgspec.Meta(min_length=2)] | None = None
    raw: bytearray | None = None
    weights: Mapping[str, Annotated[float, msgspec.Meta(gt=0)]] = msgspec.field(default_factory=dict)
    rest: Sequence[int] = ()
    changed: datetime = UPDATED

    def check(self) -> None:
        if self.votes > 5 and not self.words:
            raise ValueError("a post that was voted for has words")


class PostsOfBoard(Index[Post]):
    board: On = by(Post.board)
    changed: datetime = newest(Post.changed)
    author: Author = shown(Post.author)
    words: frozenset[Name] = shown(Post.words)


class PostsOfAuthor(Index[Post]):
    name: Name = by(within(Post.author, Author.name), hashed=True)
    worth: Decimal | None = descending(Post.worth, none="first")


class PostsOfReader(Index[Post]):
    reader: Ref[Member] = by(each(Post.readers))
    read: timedelta = descending(Post.read)


class Answers(Index[Post]):
    parent: Ref[Post] = by(Post.parent)


class MembersOfName(Index[Member]):
    unique = True

    name: Name = by(Member.name)


class Votes(Aggregate[Post]):
    role: Role = by(within(Post.author, Author.role))
    posts: int = count()
    votes: int = total(Post.votes)
    best: int | None = greatest(Post.votes)


FORUM = Schema(
    Member, Moderator, Board, Post, PostsOfBoard, PostsOfAuthor, PostsOfReader, Answers, MembersOfName, Votes
)
