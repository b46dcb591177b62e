"""CSV dumps of what a file of one class cannot hold: totals are left out, variants are named."""

import csv
import io
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from oneread import Aggregate, Key, Model, Ref, Schema, by, connect, count, rollup
from oneread.errors import InvalidValue, UsageError
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


class Shelf(Model[str, str]):
    room: Key[str]
    name: Key[str]


class Thing(Model[int]):
    number: Key[int]
    text: str = ""
    maybe: str | None = None
    shelf: Ref[Shelf] | None = None
    price: Decimal | None = None
    lasting: timedelta | None = None
    when: datetime | None = None
    words: list[str] = []  # noqa: RUF012 - a struct copies it
    any_value: Any = None
    either: str | int | None = None
    text_or_list: str | list[int] | None = None


SCHEMA = Schema(Vote, VotesOf, Post, Match, League, Youth, Shelf, Thing)


@pytest.fixture
def db(url):
    with connect(url, SCHEMA) as opened:
        yield opened


def dumped(db: Any, model: type) -> list[list[str]]:
    return list(csv.reader(io.StringIO(written(db, model), newline="")))


def written(db: Any, model: type) -> str:
    lines = list[bytes]()
    db.dump_csv(lines.append, model)
    return b"".join(lines).decode()


def read(db: Any, model: type, rows: list[list[str]]) -> list[Any]:
    reader = RecordReader(db.operations.catalog, model, {}, rows[0])
    return [*map(reader.entity, rows[1:])]


def test_totals_are_in_no_column_and_are_added_up_again(new_url, db):
    db.save_all([Post(number=1, stars=5, title="x"), Post(number=2, stars=4)])
    db.save(Vote(number=1, post=Post.at(1)))
    rows = dumped(db, Post)
    assert rows == [["number", "stars", "title"], ["1", "5", "x"], ["2", "4", '""']]
    with connect(new_url(), SCHEMA) as other:
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


TEXTS = [
    "", " ", '"', '""', '"a"', "a,b", "a\nb", "a\rb", "\r", "end\r", "\r\n", "a\x0bb\x85c\u2028d", "\x00", "\x1b[2J",
    "\u202e", "[1]", "{", "null", "None", "true", "1", "\ufeff", "\t", "'", "=1+1", "+1+1", "-1-1", "@SUM(A1)", "\t=1",
    "\r=1", " =1", "\uff1d1", "-5", "+49", "-", "=", "-2.50", "-1e5", '=HYPERLINK("http://example.org","x")', "a;=1",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_text_is_read_as_it_was_and_never_as_a_formula(db, text):
    given = Thing(number=1, text=text, maybe=text, words=[text], either=text, shelf=Shelf.at(text, "x"))
    db.save(Shelf(room=text, name="x"))
    db.save(given)
    rows = dumped(db, Thing)
    (found,) = read(db, Thing, rows)
    assert (found.text, found.maybe, found.words, found.either, found.shelf) == (text, text, [text], text, given.shelf)
    for cell in rows[1]:
        assert cell.lstrip()[:1] not in (*"=+-@\uff1d", "-") or cell.strip() in {"-5", "+49", "-2.50", "-1e5"}


@pytest.mark.parametrize(
    "fields",
    [
        {"price": Decimal("-2.50")},
        {"price": Decimal("1E+5")},
        {"lasting": timedelta(days=-1, seconds=3)},
        {"when": datetime(1969, 1, 1, tzinfo=UTC)},
        {"any_value": "5"},
        {"any_value": None},
        {"text_or_list": "[1]"},
        {"shelf": Shelf.at("", "")},
    ],
)
def test_other_values_are_read_as_they_were(db, fields):
    db.save(Shelf(room="", name=""))
    db.save(Thing(number=-1, **fields))
    assert read(db, Thing, dumped(db, Thing)) == [db.get(Thing, -1)]


@pytest.mark.parametrize("fields", [{"any_value": 5}, {"any_value": ["x"]}, {"either": 5}, {"text_or_list": [1]}])
def test_what_would_be_read_as_another_value_is_refused(db, fields):
    """A field that takes text takes every cell as text."""
    db.save(Thing(number=1, **fields))
    with pytest.raises(InvalidValue, match="CSV cannot represent"):
        dumped(db, Thing)


@pytest.mark.parametrize(
    ("header", "fault"),
    [
        (["number", "shelf.room"], "missing"),
        (["number", "shelf.room", "shelf.nmae"], "unknown"),
        (["number", "text.x"], "unknown"),
        (["number", "shelf", "shelf.room", "shelf.name"], "twice"),
    ],
)
def test_the_columns_of_a_key_are_all_of_its_parts(db, header, fault):
    with pytest.raises(UsageError, match="the columns do not fit") as error:
        read(db, Thing, [header])
    assert error.value.facts[fault]


def test_the_columns_of_a_key_may_be_in_any_order(db):
    (found,) = read(db, Thing, [["shelf.name", "number", "shelf.room"], ["n", "1", "r"]])
    assert found.shelf == Shelf.at("r", "n")
