"""Of two faults of one call the same is named by every verb, on every kind of store, on both faces."""

import re
from itertools import combinations
from typing import Annotated

import pytest
from msgspec import Meta

from oneread import Index, Key, Model, Ref, Schema, by, reference
from oneread.errors import AlreadyExists, Conflict, InvalidValue, MissingReference, NotFound, NotUnique, StillReferenced
from tests.unit.database.faces import Awaited, Plain


class Author(Model[int]):
    number: Key[int]


class Post(Model[int]):
    number: Key[int]
    title: Annotated[str, Meta(max_length=5)] = ""
    author: Ref[Author] | None = reference(on_delete="refuse")
    name: str = ""
    odd: bool = False

    def check(self):
        if self.odd:
            raise ValueError("it is odd")


class ByName(Index[Post]):
    unique = True
    name: str = by(Post.name)


SCHEMA = Schema(Author, Post, ByName)

ORDER = {
    "shape": (InvalidValue, "if_version: expected|no such field"),
    "value": (InvalidValue, "a value does not fit its field"),
    "version": (Conflict, "another version"),
    "existing": (AlreadyExists, "an entity with this key exists"),
    "missing": (NotFound, "there is no such entity"),
    "reference": (MissingReference, "refers to an entity that does not exist"),
    "check": (InvalidValue, "own check"),
    "unique": (NotUnique, ""),
    "held": (StillReferenced, ""),
}
"""The faults of a call in the order in which they are named: a page says so, see "Order of refusals"."""
VALUES = {
    "value": {"title": "too long"},
    "reference": {"author": Author.at(9)},
    "check": {"odd": True},
    "unique": {"name": "taken"},
}
OLD = 99


def values_of(faults):
    return {name: value for fault in faults for name, value in VALUES.get(fault, {}).items()}


def post(faults, number=1):
    return Post(number=2 if "existing" in faults else number, **values_of(faults))


def options(faults, *, version=True):
    if "shape" in faults:
        return {"if_version": "newest"}
    return {"if_version": OLD} if version and "version" in faults else {}


def changes(faults):
    wrong = {"nmae": 1} if "shape" in faults else {}
    version = {"if_version": OLD} if "version" in faults else {}
    return wrong | version | (values_of(faults) or {"title": "x"})


def patched(faults):
    return 7 if "missing" in faults else 1


def in_transaction(verb, arguments, named):
    return lambda db: db.transact([(verb, arguments, named)])


def in_bulk(verb, *arguments, **named):
    def call(db):
        with_bulk(db, verb, arguments, named)

    return call


def with_bulk(db, verb, arguments, named):
    if isinstance(db, Plain):
        with db.bulk() as bulk:
            getattr(bulk, verb)(*arguments, **named)
        return

    async def wait():
        async with db.db.bulk() as bulk:
            await getattr(bulk, verb)(*arguments, **named)

    db.runner.run(wait())


NEW, OF_PATCH = ("value", "existing", "reference", "check", "unique"), (
    "shape", "value", "version", "missing", "reference", "check", "unique",
)  # fmt: skip
STORED = ("value", "reference", "check", "unique")
VERBS = {
    "save": (("shape", "value", "version", "reference", "check", "unique"),
             lambda faults: lambda db: db.save(post(faults), **options(faults))),
    "create": (NEW, lambda faults: lambda db: db.create(post(faults, 3))),
    "get_or_create": (STORED, lambda faults: lambda db: db.get_or_create(post(faults, 3))),
    "upsert": (STORED, lambda faults: lambda db: db.upsert(post(faults, 3), title="x")),
    "upsert of one that exists": (STORED, lambda faults: lambda db: db.upsert(Post(number=1), **values_of(faults))),
    "save_all": (STORED, lambda faults: lambda db: db.save_all([post(faults)])),
    "patch": (OF_PATCH, lambda faults: lambda db: db.patch(Post, patched(faults), **changes(faults))),
    "delete": (("shape", "version", "held"), lambda faults: lambda db: db.delete(Author, 1, **options(faults))),
    "transaction.save": (("shape", "value", "version", "reference", "check", "unique"),
                         lambda faults: in_transaction("save", (post(faults),), options(faults))),
    "transaction.create": (NEW, lambda faults: in_transaction("create", (post(faults, 3),), {})),
    "transaction.patch": (OF_PATCH, lambda faults: in_transaction("patch", (Post, patched(faults)), changes(faults))),
    "transaction.delete": (("shape", "version", "held"),
                           lambda faults: in_transaction("delete", (Author, 1), options(faults))),
    "bulk.save": (STORED, lambda faults: in_bulk("save", post(faults))),
    "bulk.create": (NEW, lambda faults: in_bulk("create", post(faults, 3))),
    "bulk.patch": (tuple(each for each in OF_PATCH if each != "version"),
                   lambda faults: in_bulk("patch", Post, patched(faults), **changes(faults))),
}  # fmt: skip


@pytest.fixture(params=[Plain, Awaited])
def face(request):
    return request.param


@pytest.fixture
def db(url, face):
    opened = face(url, SCHEMA, workers=0)
    opened.save(Author(number=1))
    opened.save(Post(number=1, name="first", author=Author.at(1)))
    opened.save(Post(number=2, name="taken"))
    yield opened
    opened.close()


@pytest.mark.parametrize("verb", VERBS)
def test_the_first_fault_in_the_order_is_named(db, verb):
    faults, make = VERBS[verb]
    for pair in [*((each,) for each in faults), *combinations(faults, 2)]:
        first = next(each for each in ORDER if each in pair)
        error, text = ORDER[first]
        with pytest.raises(error) as caught:
            make(pair)(db)
        assert type(caught.value) is error, pair
        assert re.search(text, str(caught.value)), (pair, caught.value)
        assert db.get(Post, 1).name == "first", pair
        assert db.find(Post, 3) is None, pair


@pytest.mark.parametrize("verb", ["get_or_create", "upsert"])
def test_values_are_checked_although_the_entity_exists(db, verb):
    given = {"name": "x"} if verb == "upsert" else {}
    with pytest.raises(InvalidValue, match="a value does not fit its field"):
        getattr(db, verb)(Post(number=1, title="too long"), **given)
    assert db.get(Post, 1).name == "first"
