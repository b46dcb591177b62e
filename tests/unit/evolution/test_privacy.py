"""Privacy: each place where a personal value is stored is listed, and the store has it in no other."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec
import pytest

from oneread import (
    Aggregate,
    Copy,
    Feed,
    Index,
    Key,
    Model,
    Personal,
    Ref,
    Schema,
    by,
    connect,
    count,
    counter,
    greatest,
    newest,
    on,
    rollup,
    shown,
    within,
)
from oneread.errors import UsageError
from oneread.evolution.privacy import personal_places
from oneread.plans.trace import Trace
from oneread.store.requests import Scan
from oneread.store.rows import RowRange


class Home(msgspec.Struct, frozen=True):
    street: Annotated[str, Personal()]
    town: str


class Person(Model[str]):
    logged = timedelta(days=7)

    email: Key[Annotated[str, Personal()]]
    name: Annotated[str, Personal()]
    home: Home
    hidden: Annotated[str, Personal()] = ""
    country: str = "UK"
    visits: int = rollup(counter("visits:{email}"))


class Author(Copy[Person]):
    called: str = shown(Person.name)
    country: str


class Post(Model[int]):
    number: Key[int]
    author: Author
    room: int
    at_: datetime
    text: str = ""
    photo: Annotated[bytes, Personal()] = b""


class Joined(Model[int]):
    number: Key[int]
    member: Ref[Person]
    room: int


class PostsByAuthor(Index[Post]):
    watched = timedelta(hours=1)

    name: str = by(within(Post.author, Author.called))
    secret: str = shown(within(Post.author, Person.hidden))
    text: str = shown(Post.text)


class PersonOfStreet(Index[Person]):
    unique = True

    street: str = by(within(Person.home, Home.street), hashed=True)


class PostsOf(Aggregate[Post]):
    author: Author = by(Post.author)
    posts: int = count()
    longest: str | None = greatest(within(Post.author, Author.called))


class Timeline(Feed[Post]):
    joined = on(Post.room, Joined.room)

    member: Ref[Person] = by(Joined.member)
    at_: datetime = newest(Post.at_)
    author: Author = shown(Post.author)


SCHEMA = Schema(Person, Post, Joined, PostsByAuthor, PersonOfStreet, PostsOf, Timeline)


def listed(schema=SCHEMA):
    return {(each.field, each.kind, each.place) for each in personal_places(schema)}


def test_all_places_of_a_schema():
    assert listed() >= {
        ("Person.email", "key", "Person.email"),
        ("Person.name", "field", "Person.name"),
        ("Person.home.street", "field", "Person.home.street"),
        ("Person.name", "copy", "Post.author.called"),
        ("Person.name", "last values", "Person.name"),
        ("Person.hidden", "hidden copy", "Post.author.hidden"),
        ("Person.email", "reference", "Post.author"),
        ("Person.email", "reference", "Joined.member"),
        ("Person.name", "key of rows", "PostsByAuthor.name"),
        ("Person.hidden", "row", "PostsByAuthor.secret"),
        ("Person.name", "log", "PostsByAuthor"),
        ("Person.email", "log", "Person"),
        ("Person.home.street", "unique value", "PersonOfStreet.street"),
        ("Person.home.street", "key of rows", "PersonOfStreet.street"),
        ("Person.email", "key of rows", "PersonOfStreet.source"),
        ("Person.email", "key of rows", "PostsOf.author"),
        ("Person.name", "number", "PostsOf.longest"),
        ("Person.email", "key of rows", "Timeline.member"),
        ("Person.name", "row", "Timeline.author"),
        ("Person.email", "row", "Timeline.author"),
        ("Person.email", "counter name", "counter visits:{email}"),
        ("Post.photo", "field", "Post.photo"),
    }
    named = {place for _field, _kind, place in listed()}
    assert not named & {"Person.country", "Post.author.country", "PostsOf.posts", "PostsByAuthor.text", "Post.text"}


def test_what_becomes_of_each_is_said():
    notes = {(each.kind, each.place): each.note for each in personal_places(SCHEMA)}
    assert notes["copy", "Post.author.called"] == "stays when the source is deleted; erasing clears it"
    assert notes["log", "PostsByAuthor"] == "kept for 1:00:00"
    assert notes["unique value", "PersonOfStreet.street"] == "as a digest"


def test_a_schema_without_personal_fields_has_no_places():
    class Plain(Model[int]):
        number: Key[int]
        name: str

    assert personal_places(Schema(Plain)) == ()


def test_only_a_schema_has_places():
    with pytest.raises(UsageError, match="expected a Schema"):
        personal_places(Person)  # type: ignore[arg-type]


def test_a_variants_own_fields_are_its_own():
    class Being(Model[int]):
        number: Key[int]
        name: Annotated[str, Personal()]

    class Human(Being):
        job: Annotated[str, Personal()]

    found = {place for _field, _kind, place in listed(Schema(Being, Human))}
    assert found == {"Being.name", "Human.job"}


def test_a_key_that_refers_has_the_personal_parts_of_the_key_that_it_refers_to():
    class Seat(Model[Ref[Person], int]):
        logged = timedelta(days=7)
        member: Key[Ref[Person]]
        room: Key[int]

    class Guest(Model[Ref[Seat], int]):
        seat: Key[Ref[Seat]]
        number: Key[int]

    class GuestsByNumber(Index[Guest]):
        number: int = by(Guest.number)

    class SeatsByRoom(Index[Seat]):
        room: int = by(Seat.room)

    found = listed(Schema(Person, Seat, Guest, GuestsByNumber, SeatsByRoom))
    assert found >= {
        ("Person.email", "key of rows", "SeatsByRoom.source"),
        ("Person.email", "key of rows", "GuestsByNumber.source"),
        ("Person.email", "reference", "Guest.seat"),
        ("Person.email", "log", "Seat"),
    }


def test_rows_of_no_other_declaration_have_a_personal_value(url):
    """Each row of a filled store that has the name in it is of a place that is listed for the name."""
    with connect(url, SCHEMA, workers=0) as db:
        db.save(Person(email="x@y.z", name="Zwiebelfisch", home=Home("Am Hang", "Jena")))
        db.save(Joined(number=1, member=Person.at("x@y.z"), room=1))
        db.save(Post(number=1, author=Author.of("x@y.z"), room=1, at_=datetime.now(UTC)))
        db.drain()
        catalog = db.operations.catalog
        prefixes = {space.prefix: space.name for view in catalog.views.values()
                    for space in view.keyspaces(catalog.kinds[view.model])}  # fmt: skip
        named = set()
        for table in ("views", "counts"):
            rows = db._driver.run(Scan(table, RowRange.under(b""), 1000, families="dm").__iter__(), Trace(()))
            for key, row in rows:
                held = b"Zwiebelfisch" in key or any(b"Zwiebelfisch" in cell.value for cell in row.values())
                if held:
                    named.add(prefixes[key[:4]].replace(".items", ""))
        expected = {place.partition(".")[0] for field, _kind, place in listed() if field == "Person.name"}
        expected |= {place for field, _kind, place in listed() if field == "Person.name"}
        assert named <= expected
        assert named >= {"PostsByAuthor", "Timeline"}
