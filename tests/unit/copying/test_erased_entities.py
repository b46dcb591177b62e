"""What was erased stays erased in a store that was copied or moved, also where it is erased while that goes."""

import pytest

from oneread import Copy, Index, Key, Model, Schema, by, connect, copy_store, move, within
from oneread.errors import NotFound
from oneread.testing.clock import Clock
from oneread.transfer.load import DumpReader, parse_head


class Person(Model[int]):
    number: Key[int]
    name: str


class Author(Copy[Person]):
    on_delete = "refuse"
    name: str


class Post(Model[int]):
    number: Key[int]
    author: Author


class PostsByName(Index[Post]):
    name: str = by(within(Post.author, Author.name))


SCHEMA = Schema(Person, Post, PostsByName)


def older_dump(db):
    lines: list[bytes] = []
    db.dump(lines.append)
    return lines


def refusals(db, lines):
    reader = DumpReader(db.operations.catalog, parse_head(lines[0]))
    refused: list[str] = []
    with db.bulk(on_refused=lambda refusal: refused.append(type(refusal.error).__name__)) as bulk:
        for line in lines[1:-1]:
            bulk.apply(reader.change(line), len(line))
    return refused


@pytest.fixture
def filled(new_url):
    url = new_url()
    with connect(url, SCHEMA, workers=0) as db:
        db.save_all([Person(number=number, name=f"name {number}") for number in (1, 2)])
        db.save_all([Post(number=number, author=Author.of(number)) for number in (1, 2)])
    return url


def check_erased(db, older):
    with pytest.raises(NotFound):
        db.get(Person, 1)
    assert db.plan_erasure(Person, 1).state == "erased"
    assert (db.get(Post, 1).author.name, db.get(Post, 2).author.name) == ("", "name 2")
    assert refusals(db, older) == ["Erased"]
    assert not db.verify().faults


def test_a_copied_store_knows(new_url, filled):
    target = new_url()
    with connect(filled, SCHEMA, workers=0) as db:
        older = older_dump(db)
        db.erase(Person, 1)
    copy_store(filled, target, SCHEMA)
    with connect(target, SCHEMA, workers=0) as db:
        check_erased(db, older)


def test_what_is_erased_while_a_store_is_moved_is_erased_there(new_url, filled):
    target, clock = new_url(), Clock()
    with connect(filled, SCHEMA, workers=0, clock=clock) as db, move(filled, target, SCHEMA, clock=clock) as it:
        older = older_dump(db)
        it.start()
        it.copy()
        db.delete(Post, 1)
        db.save(Post(number=1, author=Author.of(1)))
        db.erase(Person, 1)
        it.follow(until_lag=0.0)
        compared = it.compare()
        assert (compared.differ, compared.faults, compared.differences) == (0, 0, ())
        it.switch()
    with connect(target, SCHEMA, workers=0, clock=clock) as db:
        check_erased(db, older)
