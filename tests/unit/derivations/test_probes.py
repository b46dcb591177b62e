"""A source is asked at its own commit whether those who copy from it can hold what it is about to tell them."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest

from oneread import Aggregate, Copy, Database, Index, Key, Model, Schema, by, connect, count, least, within
from oneread.errors import InvalidDeclaration, InvalidValue


class City(Model[int]):
    number: Key[int]
    name: str


class Home(Copy[City]):
    name: str


class Person(Model[int]):
    number: Key[int]
    nick: str
    home: Home


class Author(Copy[Person]):
    nick: Annotated[str, msgspec.Meta(max_length=20)]
    city: str = within(Person.home, Home.name)


class Post(Model[int]):
    number: Key[int]
    author: Author


class PostsOfCity(Index[Post]):
    city: str = by(within(Post.author, Author.city))


class Nicks(Aggregate[Post]):
    city: str = by(within(Post.author, Author.city))
    posts: int = count()
    first: str | None = least(within(Post.author, Author.nick))


SCHEMA = Schema(City, Person, Post, PostsOfCity, Nicks, inline=1)


def _filled(url) -> Database:
    db = connect(url, SCHEMA)
    db.save(City(number=1, name="Oslo"))
    db.save(Person(number=1, nick="ada", home=Home.of(1)))
    db.save_all([Post(number=number, author=Author.of(1)) for number in range(3)])
    return db


def test_a_constraint_of_the_copy_is_checked_at_the_source(url) -> None:
    with _filled(url) as db, pytest.raises(InvalidValue) as refused:
        db.patch(Person, 1, nick="a" * 21)
    assert refused.value.facts["holder"] is Author
    assert refused.value.facts["field"] == "nick"


@pytest.mark.parametrize("name", ["x" * 201, "\udc80"])
def test_a_value_that_no_key_of_a_view_can_hold_is_refused_two_hops_away(url, name: str) -> None:
    with _filled(url) as db:
        with pytest.raises(InvalidValue):
            db.patch(City, 1, name=name)
        assert db.get(City, 1).name == "Oslo"
        assert db.drain() == 0


def test_a_value_that_all_can_hold_reaches_them_through_tasks(url) -> None:
    with _filled(url) as db:
        db.patch(City, 1, name="Bergen")
        db.drain()
        assert len(db.page(PostsOfCity, "Bergen")) == 3
        assert db.get(Nicks, "Bergen").first == "ada"


def test_a_unique_value_is_never_a_copy() -> None:
    class Alone(Index[Post]):
        unique = True
        city: str = by(within(Post.author, Author.city))

    with pytest.raises(InvalidDeclaration):
        Schema(City, Person, Post, Alone)
