"""CSV dumps of what a file of one class cannot hold: totals are left out, variants are named."""

import csv
from typing import Any

import pytest

from oneread import Aggregate, Key, Model, Ref, Schema, by, connect, count, rollup
from oneread.errors import UsageError
from oneread.transfer.load import RecordReader


class Vote(Model[int]):
    number: Key[int]
    post: Ref["Post"]


class VotesOf(Aggregate[Vote]):
    post: Ref["Post"] = by(Vote.post)
    votes: int = count()


class Post(Model[int]):
    number: Key[int]
    votes: int = rollup(VotesOf.votes)
    stars: int = 0
    title: str = ""


class Match(Model[int]):
    variants_only = True
    number: Key[int]


class League(Match):
    season: int


class Youth(League):
    age: int


SCHEMA = Schema(Vote, VotesOf, Post, Match, League, Youth)


@pytest.fixture(params=["memory://", "lmdb"])
def db(request, tmp_path):
    with connect(request.param if request.param != "lmdb" else f"lmdb://{tmp_path}/store", SCHEMA) as opened:
        yield opened


def dumped(db: Any, model: type) -> list[list[str]]:
    lines = list[bytes]()
    db.dump_csv(lines.append, model)
    return list(csv.reader(each.decode() for each in lines))


def read(db: Any, model: type, rows: list[list[str]]) -> list[Any]:
    reader = RecordReader(db.operations.catalog, model, {}, rows[0])
    return [*map(reader.entity, rows[1:])]


def test_totals_are_in_no_column_and_are_added_up_again(db):
    db.save_all([Post(number=1, stars=5, title="x"), Post(number=2, stars=4)])
    db.save(Vote(number=1, post=Post.at(1)))
    rows = dumped(db, Post)
    assert rows == [["number", "stars", "title"], ["1", "5", "x"], ["2", "4", '""']]
    with connect("memory://", SCHEMA) as other:
        other.save_all(read(other, Post, rows))
        other.save_all(read(other, Vote, dumped(db, Vote)))
        assert list(other.page(Post)) == list(db.page(Post))
        assert other.get(Post, 1).votes == 1


@pytest.mark.parametrize(("model", "variants"), [(Match, [League, Youth]), (League, [Youth])])
def test_a_model_with_entities_of_variants_names_them(db, model, variants):
    db.save_all([League(number=1, season=3), Youth(number=2, season=3, age=9)])
    with pytest.raises(UsageError, match="dump each variant") as error:
        dumped(db, model)
    assert error.value.facts["variants"] == variants
    assert read(db, Youth, dumped(db, Youth)) == [db.get(Youth, 2)]


def test_a_model_without_entities_of_variants_is_dumped(db):
    assert dumped(db, Match) == [["number"]]
    db.save(League(number=1, season=3))
    assert dumped(db, League) == [["number", "season"], ["1", "3"]]
