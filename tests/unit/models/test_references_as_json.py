"""A reference and a copy are sent alike: by the part of a key, the list of its parts, or an object with it as `ref`."""

import json
from typing import Annotated

import msgspec
import pytest
from msgspec import Meta
from pydantic import TypeAdapter

from oneread import Copy, Key, Model, Ref, Schema, connect, to_json
from oneread.database.shapes import CreateShape, PatchShape
from oneread.errors import InvalidValue
from oneread.models.json_form import form
from oneread.transfer.forms import forms_by_name


class Author(Model[int]):
    number: Key[int]
    name: str = ""


class Place(Model[str, int]):
    street: Key[str]
    number: Key[int]
    name: str = ""


class AuthorCopy(Copy[Author]):
    name: str


class PlaceCopy(Copy[Place]):
    name: str


class Post(Model[int]):
    number: Key[int]
    author: Ref[Author] | None = None
    shown: AuthorCopy | None = None
    place: Ref[Place] | None = None
    held: PlaceCopy | None = None
    several: Annotated[list[Ref[Author]], Meta(max_length=5)] = msgspec.field(default_factory=list)
    some: Annotated[set[Ref[Author]], Meta(max_length=5)] = msgspec.field(default_factory=set)


SCHEMA = Schema(Author, Place, Post)
SEVEN, CORNER = Author.at(7), Place.at("High Street", 1)
OF_ONE = (7, [7], {"ref": 7}, {"ref": [7]}, {"ref": 7, "name": "Ada", "deleted": False})
OF_TWO = (["High Street", 1], {"ref": ["High Street", 1]}, {"ref": ["High Street", 1], "name": "corner"})
SENT = {
    "author": (OF_ONE, SEVEN),
    "shown": (OF_ONE, AuthorCopy.of(7)),
    "place": (OF_TWO, CORNER),
    "held": (OF_TWO, PlaceCopy.of("High Street", 1)),
    "several": ([[each] for each in OF_ONE], [SEVEN]),
    "some": ([[each] for each in OF_ONE], {SEVEN}),
}
WRONG = ("x", True, {"id": 7}, [7, 8], [[7]], {"ref": "x"}, {"ref": {"ref": 7}}, {"ref": None})


def record_form():
    with connect("memory://", SCHEMA) as db:
        return forms_by_name(db.operations.catalog)["Post"]


READERS = {
    "web": lambda name, value: form(Post).decode(encoded(name, value)),
    "parsed": lambda name, value: form(Post).convert({"number": 1, name: value}),
    "load": lambda name, value: record_form().decode(encoded(name, value)),
    "columns": lambda name, value: record_form().from_text({"number": 1, name: value}),
    "pydantic": lambda name, value: TypeAdapter(Post).validate_python({"number": 1, name: value}),
    "shape": lambda name, value: TypeAdapter(CreateShape[Post]).validate_json(encoded(name, value)).entity(),
    "patch": lambda name, value: Post(number=1, **TypeAdapter(PatchShape[Post]).validate_python({name: value})),
}


def encoded(name, value):
    return json.dumps({"number": 1, name: value}).encode()


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", SENT)
def test_each_takes_every_form(reader, name):
    forms, expected = SENT[name]
    for value in forms:
        found = getattr(READERS[reader](name, value), name)
        if isinstance(expected, Copy):
            assert type(found) is type(expected), value
            assert found.ref == expected.ref, value
        else:
            assert found == expected, value


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", ["author", "shown"])
def test_what_is_none_of_them_is_refused(reader, name):
    for value in WRONG:
        with pytest.raises((InvalidValue, ValueError)):
            READERS[reader](name, value)
    assert getattr(READERS[reader](name, None), name) is None


def test_what_was_read_is_taken_for_either(url):
    with connect(url, SCHEMA) as db:
        db.save(Author(number=7, name="Ada"))
        post = db.save(Post(number=1, author=SEVEN, shown=AuthorCopy.of(7)))
        read = json.loads(to_json(post))
        sent = read | {"author": read["shown"], "shown": read["author"]}
        assert db.save(form(Post).decode(json.dumps(sent).encode())) == post
