"""Scrubbing rows: what holders took of others before is in no cell beside them, and in no document under a cell."""

import asyncio

import pytest

from oneread import Copy, Key, Model, Schema, connect, connect_async, within
from oneread.errors import Unsupported
from oneread.plans.trace import Trace
from oneread.store.engine import Scrubbed
from oneread.store.requests import Scan
from oneread.store.rows import RowRange

MARK = b"Zwiebelfisch"


class Person(Model[int]):
    number: Key[int]
    name: str


class Author(Copy[Person]):
    name: str


class Like(Model[int]):
    """Nothing follows from its copy, which is put beside its document."""

    number: Key[int]
    by: Author | None = None


class Post(Model[int]):
    number: Key[int]
    author: Author | None = None


class OfPost(Copy[Post]):
    who: str | None = within(Post.author, Author.name)


class Comment(Model[int]):
    number: Key[int]
    post: OfPost


SCHEMA = Schema(Person, Like, Post, Comment, inline=1)


def fill(db):
    """A person of whom others have copies in documents and in cells, and another one who takes the place."""
    db.save(Person(number=1, name="Zwiebelfisch"))
    db.save(Person(number=2, name="Other"))
    for number in range(4):
        db.save(Like(number=number, by=Author.of(1)))
        db.save(Post(number=number, author=Author.of(1)))
        db.save(Comment(number=number, post=OfPost.of(number)))
    db.patch(Person, 1, name="Zwiebelfisch II")
    db.drain()
    db.patch(Like, 1, by=Author.of(2))  # beside it is the cell of before
    db.patch(Like, 2, by=None)
    db.delete(Like, 3)
    db.patch(Post, 1, author=Author.of(2))  # under the cell of its comment is the document of before
    db.patch(Post, 2, author=None)
    db.delete(Comment, 3)
    db.drain()


def left(db):
    """The root rows in which the name is left."""
    found = db._driver.run(Scan("roots", RowRange(b"", b""), 1000, families="dm").__iter__(), Trace(()))
    return [key for key, row in found if any(MARK in cell.value for cell in row.values())]


def shown(db):
    likes, comments = db.page(Like).rows, db.page(Comment).rows
    return [each.by and each.by.name for each in likes], [each.post.who for each in comments]


@pytest.fixture
def db(url):
    with connect(url, SCHEMA, workers=0) as opened:
        fill(opened)
        opened.erase(Person, 1)
        yield opened


def test_what_holders_had_before_is_gone(db):
    before = shown(db)
    if db.operations.spans_rows:
        assert left(db) == []
        return
    assert len(left(db)) == 6
    found = db.scrub()
    assert found.entries >= 5
    assert (found.pages, found.refused) == (0, 0)
    assert left(db) == []
    assert db.verify().clean
    assert shown(db) == before
    assert db.scrub() == Scrubbed(0)


def test_a_holder_that_comes_back_has_the_newest_values(db):
    if not db.operations.spans_rows:
        db.scrub()
    db.save(Person(number=1, name="Another one"))
    db.patch(Like, 1, by=Author.of(1))
    db.patch(Post, 1, author=Author.of(1))
    db.patch(Person, 1, name="Another name")
    db.drain()
    assert db.get(Like, 1).by.name == "Another name"
    assert db.get(Post, 1).author.name == "Another name"
    assert db.get(Comment, 1).post.who == "Another name"
    assert db.verify().clean


def test_a_store_in_memory_keeps_nothing(db):
    with pytest.raises(Unsupported, match="is in memory"):
        db.scrub()


def test_both_faces(url, kind_of_store):
    async def scrubbed():
        async with connect_async(url, SCHEMA, workers=0) as opened:
            return await opened.scrub()

    if kind_of_store != "memory":
        with connect(url, SCHEMA, workers=0) as db:
            fill(db)
            db.erase(Person, 1)
        assert asyncio.run(scrubbed()).entries >= 3


class Refusing:
    """The same models, in a program that allows no comments any more."""

    class Comment(Model[int]):
        number: Key[int]
        post: OfPost

        def check(self):
            raise ValueError("no comments")


def test_documents_that_are_refused_are_counted(url):
    with connect(url, SCHEMA, workers=0) as db:
        fill(db)
        spans_rows = db.operations.spans_rows
    with connect(url, Schema(Person, Like, Post, Refusing.Comment, inline=1), workers=0) as db:
        if not spans_rows:
            assert db.scrub().refused == 3
