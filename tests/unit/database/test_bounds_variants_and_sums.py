"""Bounds that are references, verbs by way of a variant, buckets of lists, sums of durations, copies of another class.

One small schema for the corners where a verb must mean the same by every way that leads to it.
"""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from oneread import (
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    any_of,
    bucket,
    by,
    connect,
    count,
    each,
    mean,
    total,
)
from oneread.errors import AlreadyExists, InvalidKey, InvalidQuery, InvalidValue, LimitExceeded, NotFound
from tests.unit.database.faces import FACES

DAY = datetime(2024, 5, 1, tzinfo=UTC)


class Tag(Model[int]):
    number: Key[int]
    word: str = ""


class Pair(Model[str, int]):
    left: Key[str]
    right: Key[int]


class Word(Copy[Tag]):
    word: str


class OtherWord(Copy[Tag]):
    word: str


class Post(Model[int]):
    number: Key[int]
    tag: Ref[Tag]
    word: Word | None = None
    pair: Ref[Pair] | None = None
    seen: list[datetime] = msgspec.field(default_factory=list)
    took: timedelta = timedelta(0)


class Answer(Post):
    to: int = 0


class ByTag(Index[Post]):
    tag: Ref[Tag] = by(Post.tag)


class ByWord(Index[Post]):
    number: int = by(Post.number)
    word: Word | None = by(Post.word, none="first")


class ByPair(Index[Post]):
    pair: Ref[Pair] = by(Post.pair)


class Days(Aggregate[Post]):
    day: datetime = bucket(each(Post.seen), "day")
    posts: int = count()


class DayRows(Index[Post]):
    day: datetime = bucket(each(Post.seen), "day")


class Took(Aggregate[Post]):
    whole: timedelta = total(Post.took)


class MeanTook(Aggregate[Post]):
    each_: timedelta | None = mean(Post.took)


SCHEMA = Schema(Tag, Pair, Post, Answer, ByTag, ByWord, ByPair, Days, DayRows, Took, MeanTook)


@pytest.fixture(params=FACES.values(), ids=FACES)
def db(url, request):
    db = request.param(url, SCHEMA, workers=0)
    db.save_all([Tag(number=number, word=f"w{number}") for number in range(1, 6)])
    db.save_all([Pair(left=left, right=right) for left in "ab" for right in (1, 2, 3)])
    yield db
    db.close()


def numbers(rows):
    return [row.source.key[0] for row in rows]


def test_a_bound_is_a_reference_a_copy_or_its_key(db):
    db.save_all([Post(number=tag, tag=Tag.at(tag)) for tag in range(1, 6)])
    for since, until in ((2, 4), (Tag.at(2), Tag.at(4)), (Word.of(2), 4)):
        assert numbers(db.page(ByTag, since=since, until=until)) == [2, 3]
    assert numbers(db.page(ByTag, since=db.get(Post, 3).tag, limit=1)) == [3]
    with pytest.raises(InvalidKey):
        db.page(ByWord, since=Tag.at(1))  # the next field is a number, and no reference
    with pytest.raises(InvalidKey):
        db.page(Post, since=Tag.at(1))


def test_a_bound_behind_another_field(db):
    db.save_all([Post(number=1, tag=Tag.at(1), word=Word.of(word)) for word in (3,)])
    assert numbers(db.page(ByWord, 1, since=Word.of(3))) == [1]
    assert numbers(db.page(ByWord, any_of(1, 2), until=Word.of(3))) == []


def test_a_bound_that_is_a_reference_by_several_parts_is_refused(db):
    db.save_all(
        [Post(number=number, tag=Tag.at(1), pair=Pair.at("a", right)) for number, right in enumerate((1, 2, 3))]
    )
    with pytest.raises(InvalidQuery) as refusal:
        db.page(ByPair, since=Pair.at("a", 2))
    assert refusal.value.facts["bound"] == ("a", 2)
    assert numbers(db.page(ByPair, "a", since=2)) == [1, 2]


def test_an_entity_counts_once_in_a_bucket(db):
    hours = [DAY + timedelta(hours=hour) for hour in (1, 5, 23, 24, 30)]
    db.save(Post(number=1, tag=Tag.at(1), seen=hours))
    assert [(row.day, row.posts) for row in db.page(Days)] == [(DAY, 1), (DAY + timedelta(1), 1)]
    assert [row.day for row in db.page(DayRows)] == [DAY, DAY + timedelta(1)]
    db.patch(Post, 1, seen=hours[1:3])
    assert [(row.day, row.posts) for row in db.page(Days)] == [(DAY, 1)]
    db.delete(Post, 1)
    assert len(db.page(Days)) == len(db.page(DayRows)) == 0


def test_an_entity_of_another_variant_is_not_there(db):
    db.save(Post(number=1, tag=Tag.at(1)))
    db.save(Answer(number=2, tag=Tag.at(1), to=1))
    with pytest.raises(NotFound) as refusal:
        db.patch(Answer, 1, took=timedelta(1))
    assert refusal.value.facts["model"] is Answer
    db.delete(Answer, 1)
    assert db.get(Post, 1).took == timedelta(0)
    assert db.patch(Post, 2, took=timedelta(1)) == db.get(Answer, 2)
    with pytest.raises(AlreadyExists):
        db.upsert(Answer(number=1, tag=Tag.at(1)), took=timedelta(2))
    assert db.upsert(Post(number=2, tag=Tag.at(1)), took=timedelta(2)) == db.get(Answer, 2)
    db.delete(Answer, 2)
    db.delete(Post, 1)
    assert db.find(Post, 1) is db.find(Post, 2) is None


def test_an_entity_of_another_variant_is_not_there_in_a_transaction(url):
    with connect(url, SCHEMA) as db:
        db.save(Tag(number=1))
        db.save(Post(number=1, tag=Tag.at(1)))

        def body(transaction):
            with pytest.raises(NotFound):
                transaction.patch(Answer, 1, to=5)
            transaction.delete(Answer, 1)

        db.transact(body)
        assert db.exists(Post, 1)


def test_a_sum_of_durations_beyond_what_one_can_hold(db):
    db.save_all([Post(number=number, tag=Tag.at(1), took=timedelta.max) for number in (1, 2)])
    for call in (lambda: db.get(Took), lambda: db.page(Took)):
        with pytest.raises(LimitExceeded) as refusal:
            call()
        assert refusal.value.facts["view"] is Took
        assert refusal.value.facts["field"] == "whole"
    assert db.get(MeanTook).each_ == timedelta.max
    db.delete(Post, 2)
    assert db.get(Took).whole == timedelta.max


def test_a_copy_of_another_class_is_refused(db):
    with pytest.raises(InvalidValue) as refusal:
        db.save(Post(number=1, tag=Tag.at(1), word=OtherWord.of(1)))
    assert refusal.value.facts["field"] == "word"
    db.save(Post(number=1, tag=Tag.at(1), word=Word.of(1)))
    with pytest.raises(InvalidValue):
        db.patch(Post, 1, word=OtherWord.of(1))
    assert db.get(Post, 1).word.word == "w1"
