"""What a store that changes one row at a time does not have yet is refused by name, with what to do instead."""

from datetime import UTC, datetime
from typing import Annotated

import pytest
from msgspec import Meta

from oneread import (
    Aggregate,
    Copy,
    Feed,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    by,
    connect,
    count,
    migration,
    newest,
    on,
    rollup,
    shown,
    within,
)
from oneread.errors import InvalidDeclaration, InvalidValue, Unsupported
from oneread.testing.clock import Clock
from tests.unit.feeds.community import Group, Member, Membership, Post, membership

URL = "memory://?span=row"


class Author(Model[str]):
    name: Key[str]
    country: str = ""


class Writer(Copy[Author]):
    country: str


class Book(Model[str]):
    title: Key[str]
    author: Writer
    pages: int = 0


class BooksOfAuthor(Index[Book]):
    author: Writer = by(Book.author)


class BooksInCountry(Aggregate[Book]):
    country: str = by(within(Book.author, Writer.country))
    books: int = count()


SCHEMA = Schema(Author, Book, BooksOfAuthor, BooksInCountry)


@pytest.fixture
def db():
    opened = connect(URL, SCHEMA)
    opened.save(Author(name="ada", country="NO"))
    yield opened
    opened.close()


def test_a_copy_of_the_store(db):
    with pytest.raises(Unsupported, match="dump the entities instead"):
        db.backup("/nowhere")


def test_a_model_that_had_entities_is_not_dropped():
    url = "memory://dropping?span=row"
    with connect(url, SCHEMA) as db:
        db.save(Author(name="bob"))
        db.delete(Author, "bob")
    with migration(url, Schema(Member)) as change, pytest.raises(Unsupported, match="rows of deleted entities"):
        change.apply(drop=["Author", "Book", "BooksOfAuthor", "BooksInCountry"])


def test_the_verbs_that_it_has(db):
    db.create(Book(title="a", author=Writer.of("ada")))
    db.save_all([Book(title=title, author=Writer.of("ada")) for title in "bc"])
    assert db.get_or_create(Book(title="c", author=Writer.of("ada")))[1] is False
    db.upsert(Book(title="d", author=Writer.of("ada")), pages=7)
    db.patch(Author, "ada", country="IS")
    db.delete(Book, "b")
    assert db.drain() == 0
    assert db.get(Book, "a").author.country == "IS"
    assert [each.pages for each in db.get_many(Book, [("c",), ("d",)])] == [0, 0]
    db.upsert(Book(title="d", author=Writer.of("ada")), pages=7)
    assert db.get(Book, "d").pages == 7
    assert db.find(Book, "b") is None
    assert [row.books for row in db.page(BooksInCountry)] == [3]
    assert db.get(BooksInCountry, "IS").books == 3
    assert len(db.page(BooksOfAuthor, "ada")) == 3
    assert db.set_aside() == []
    assert db.survey(exact=True).tasks == 0


def test_a_batch_says_what_is_stored(db):
    with pytest.raises(InvalidValue) as refused:
        db.save_all([Author(name="b"), Author(name="c", country=7), Author(name="d")])
    assert refused.value.facts["saved"] == 1
    assert db.find(Author, "d") is None


def test_dumps_leave_out_what_only_the_protocol_needs(db):
    """Deleted entities are tombstones there too; a row that only has a version is none."""
    committer = db.operations.committer
    db.run(committer.journal.fence(db.run(committer.journal.finished(db.operations.root(Author, ("never",)))), 5))
    db.save_all([Author(name="bob"), Book(title="a", author=Writer.of("ada"))])
    db.delete(Author, "bob")
    lines = []
    end = db.dump(lines.append)
    assert (end.entities, end.deleted) == ({"Author": 1, "Book": 1}, 1)
    rows = []
    assert db.dump_csv(rows.append, Author) == 1


class Country(Model[str]):
    country: Key[str]
    books: Annotated[int, Meta(le=9)] = rollup(BooksInCountry.books)


class Posts(Aggregate[Post]):
    group: Ref[Group] = by(Post.group)
    at: datetime = by(Post.at)
    posts: int = count()


class Lines(Feed[Posts]):
    expires_after = None
    member: Ref[Member] = by(Membership.member)
    at: datetime = newest(Posts.at)
    posts: int = shown(Posts.posts)
    joined = on(Posts.group, Membership.group)


REFUSED = [
    (Country, [Country], "rollup: a total with a constraint"),
]


@pytest.mark.parametrize(("declaration", "added", "feature"), REFUSED, ids=lambda each: getattr(each, "__name__", ""))
def test_a_declaration_that_it_cannot_keep(declaration, added, feature):
    schema = Schema(*SCHEMA.models, *SCHEMA.views, *added)
    with pytest.raises(Unsupported, match="does not keep this") as refused:
        connect("memory://refused?span=row", schema)
    assert refused.value.facts["declaration"] is declaration
    assert refused.value.facts["feature"].startswith(feature)
    connect("memory://refused?span=row", SCHEMA).close()  # nothing was stored


def test_a_total_with_a_constraint_is_not_portable():
    declared = (*SCHEMA.models, *SCHEMA.views, Country)
    with pytest.raises(InvalidDeclaration, match="a total has no constraint") as refused:
        Schema(*declared, portable=True)
    assert refused.value.facts == {"model": Country, "field": "books"}
    assert Schema(*declared).portable is False


def test_a_feed_of_groups():
    with connect(URL, Schema(Member, Group, Membership, Posts, Lines, Post)) as db:
        db.save_all([Group(number=1), Member(number=1), membership(1, 1)])
        first, second = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
        db.save_all([Post(number=number, group=Group.at(1), at=at) for number, at in enumerate([first, first, second])])
        db.drain()
        assert [(row.at, row.posts) for row in db.page(Lines, 1)] == [(second, 1), (first, 2)]
        db.delete(Post, 2)
        db.drain()
        assert [(row.at, row.posts) for row in db.page(Lines, 1)] == [(first, 2)]
        db.save(Member(number=2))
        db.save(membership(1, 2))
        db.drain()
        assert [row.posts for row in db.page(Lines, 2)] == [2]


def test_the_lag_of_a_feed_of_groups_counts_groups_that_wait():
    """A group's task leaves one of the feed."""
    clock = Clock()
    schema = Schema(Member, Group, Membership, Posts, Lines, Post, inline=0)
    with connect(URL, schema, workers=0, clock=clock) as db:
        db.save_all([Group(number=1), Member(number=1), membership(1, 1)])
        db.drain()
        assert db.page(Lines, 1, lag=True).lag == 0.0
        db.save(Post(number=1, group=Group.at(1), at=datetime(2026, 1, 1, tzinfo=UTC)))
        clock.tick(5)
        assert db.page(Lines, 1, lag=True).lag == 5.0
        assert (db.survey().feeds["Lines"].waiting, db.survey().lag["total"].waiting) == (1, 1)
        while db.survey().lag["total"].waiting:
            assert db.page(Lines, 1, lag=True).lag == 5.0
            db.run(db.operations.outbox.step(1))
        assert db.survey().feeds["Lines"].waiting == 1
        db.drain()
        assert db.page(Lines, 1)
        assert db.page(Lines, 1, lag=True).lag == 0.0
        assert db.survey().feeds["Lines"].waiting == 0
        assert db.page(Lines, 1, lag=True).cost.requests == db.page(Lines, 1).cost.requests + 2
