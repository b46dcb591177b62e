"""Dumps without personal data: no value of a personal field is left, and what refers to each other still does."""

from base64 import b64decode
from datetime import date
from enum import Enum
from typing import Annotated, Any, NamedTuple

import msgspec
import pytest

from oneread import (
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Personal,
    Ref,
    Schema,
    by,
    connect,
    count,
    descending,
    greatest,
    rollup,
    shown,
    within,
)
from oneread.errors import InvalidDeclaration, InvalidValue, UsageError
from oneread.transfer.load import DumpReader, check_dump, parse_head


class Title(Enum):
    DR = "dr"
    PROF = "prof"


class Street(msgspec.Struct, frozen=True):
    name: Annotated[str, Personal()]
    town: str


class Spot(NamedTuple):
    east: float
    north: float


class Person(Model[str]):
    email: Key[Annotated[str, Personal()]]
    name: Annotated[str, Personal(), msgspec.Meta(max_length=20)]
    phone: Annotated[str | None, Personal(lambda number: f"+49{number % 10**10:010}")] = None
    born: Annotated[date | None, Personal()] = None
    title: Annotated[Title | None, Personal()] = None
    street: Street | None = None
    spot: Annotated[Spot | None, Personal()] = None
    tags: list[Annotated[str, Personal()]] = msgspec.field(default_factory=list)
    country: str = "UK"
    posts: int = rollup(lambda: PostsOf.posts)


class Writer(Copy[Person]):
    on_delete = "keep"
    name: str
    born: date | None


class Post(Model[int]):
    number: Key[int]
    text: str
    writer: Writer
    readers: Annotated[list[Ref[Person]], msgspec.Meta(max_length=9)] = msgspec.field(default_factory=list)


class Photo(Model[str, int]):
    child_of = Person
    email: Key[str]
    number: Key[int]
    of: str = ""


class PersonOfPhone(Index[Person]):
    unique = True
    phone: str = by(Person.phone)


class PostsByWriter(Index[Post]):
    name: str = by(within(Post.writer, Writer.name))
    phone: str | None = shown(within(Post.writer, Person.phone))


class PostsOf(Aggregate[Post]):
    writer: Writer = by(Post.writer)
    posts: int = count()
    oldest: date | None = greatest(within(Post.writer, Writer.born))


class MostPosts(Index[PostsOf]):
    posts: int = descending(PostsOf.posts)


SCHEMA = Schema(Person, Post, Photo, PersonOfPhone, PostsByWriter, PostsOf, MostPosts)
SECRETS = [
    "ada@",
    "Ada Byron",
    "bob@",
    "Bob Hope",
    "+4412",
    "1815-",
    "Main Street",
    "curious",
    "eve@",
    "Eve Adam",
    "51.5",
]


def ada(**changed):
    given: Any = {
        "email": "ada@x.org",
        "name": "Ada Byron",
        "phone": "+4412",
        "born": date(1815, 12, 10),
        "title": Title.DR,
    }
    given |= {"street": Street("Main Street", "London"), "spot": Spot(51.5, 0.1), "tags": ["curious", "curious"]}
    return Person(**given | changed)


def fill(db):
    db.save(ada())
    db.save(Person(email="bob@x.org", name="Bob Hope", born=date(1815, 12, 10)))
    db.save(Person(email="eve@x.org", name="Eve Adam", phone="+4413"))
    db.save(Post(number=1, text="one", writer=Writer.of("ada@x.org"), readers=[Person.at("bob@x.org")]))
    db.save(Post(number=2, text="two", writer=Writer.of("ada@x.org"), readers=[Person.at("ada@x.org")]))
    db.save(Post(number=3, text="three", writer=Writer.of("eve@x.org")))
    db.save(Photo(email="ada@x.org", number=1, of="a cat"))
    db.delete(Person, "eve@x.org")
    db.counter("visits:ada@x.org").add(3)
    db.drain()


def dumped(db, *models, **options):
    lines: list[bytes] = []
    db.dump(lines.append, *models, without_personal=True, **options)
    return lines


def load(db, lines):
    check_dump(lines)
    reader = DumpReader(db.operations.catalog, parse_head(lines[0]))
    with db.bulk() as bulk:
        for line in lines[1:-1]:
            bulk.apply(reader.change(line), len(line))
    db.drain()


@pytest.fixture
def db(url):
    with connect(url, SCHEMA, workers=0) as opened:
        fill(opened)
        yield opened


def readable(lines):
    """The text of a dump, with what is in base64 decoded."""
    parts = list(lines)
    for line in map(msgspec.json.decode, lines):
        parts += [b64decode(line[name]) for name in ("document", "used", "last") if name in line]
    return b"".join(parts).decode(errors="replace")


def test_no_personal_value_is_left(db):
    text = readable(dumped(db))
    assert [each for each in SECRETS if each in text] == []
    assert "one" in text
    assert "a cat" in text
    assert "London" in text


def test_it_loads_and_what_refers_to_each_other_still_does(new_url, db):
    with connect(new_url(), SCHEMA, workers=0) as other:
        load(other, dumped(db))
        assert not other.verify().faults
        people = other.page(Person).rows
        assert len(people) == 2
        (writer,) = [each for each in people if each.phone is not None]
        (reader,) = [each for each in people if each.phone is None]
        assert writer.posts == 2
        assert writer.email.startswith("email ")
        assert writer.born == reader.born, "equal values stay equal"
        assert writer.tags[0] == writer.tags[1]
        assert writer.country == "UK"
        assert other.find(PersonOfPhone, writer.phone).source == writer.ref()
        first, second, third = [other.get(Post, number) for number in (1, 2, 3)]
        assert first.writer.ref == writer.ref()
        assert (first.writer.name, first.writer.born) == (writer.name, writer.born)
        assert first.readers == [reader.ref()]
        assert second.readers == [writer.ref()]
        assert third.writer.deleted
        assert third.writer.name.startswith("nam ")
        assert [row.phone for row in other.page(PostsByWriter, writer.name).rows] == [writer.phone] * 2
        assert other.get(PostsOf, writer.email).oldest == writer.born
        assert other.get(Photo, writer.email, 1).of == "a cat"
        assert not list(other.counters())


def test_another_dump_has_other_placeholders(db):
    first, second = dumped(db, Person), dumped(db, Person)
    assert first[1] != second[1]


def test_csv_too(db):
    rows: list[bytes] = []
    db.dump_csv(rows.append, Person, without_personal=True)
    text = b"".join(rows).decode()
    assert [each for each in SECRETS if each in text] == []
    assert text.count("\n") == 3


def test_lengths_fit(db):
    lines = dumped(db, Person)
    names = [msgspec.json.decode(line)["entity"]["name"] for line in lines[1:-1] if b'"entity"' in line]
    assert [len(each) for each in names] == [20, 20]


class Patterned(Model[int]):
    number: Key[int]
    plate: Annotated[str, Personal(), msgspec.Meta(pattern="^[A-Z]{2}[0-9]+$")]


def test_a_field_that_takes_no_placeholder_is_refused_by_name(new_url):
    with connect(new_url(), Schema(Patterned), workers=0) as db:
        db.save(Patterned(number=1, plate="AB1"))
        with pytest.raises(InvalidValue, match="no placeholder of this field fits") as found:
            dumped(db)
        assert found.value.facts["model"] == "Patterned"
        assert "plate" in str(found.value)


def test_the_option_is_checked(db):
    with pytest.raises(UsageError, match="without_personal is True or False"):
        db.dump(lambda _line: None, without_personal="yes")


def test_a_reference_is_not_personal():
    class Friend(Model[int]):
        number: Key[int]
        of: Annotated[Ref[Person], Personal()]

    with pytest.raises(InvalidDeclaration, match="a field that refers is not personal"):
        Schema(Person, Friend)


def test_a_placeholder_is_a_function():
    class Wrong(Model[int]):
        number: Key[int]
        name: Annotated[str, Personal("x")]  # type: ignore[arg-type]

    with pytest.raises(InvalidDeclaration, match="takes a function that makes a placeholder"):
        Schema(Wrong)
