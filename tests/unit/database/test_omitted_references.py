"""A reference whose default says only what it promises may be left out where it can be empty."""

from typing import Annotated

import pytest
from msgspec import Meta

from oneread import Key, Model, Ref, Schema, connect, reference
from oneread.errors import InvalidValue, MissingReference


class Tag(Model[str]):
    word: Key[str]


class Post(Model[int]):
    number: Key[int]
    answers: Ref["Post"] | None = reference(missing_ok=True)
    tag: Ref[Tag] | None = reference(on_delete="refuse")


class Note(Model[int]):
    number: Key[int]
    tag: Ref[Tag] = reference(on_delete="refuse")
    tags: Annotated[list[Ref[Tag]], Meta(max_length=3)] = reference(on_delete="refuse")


SCHEMA = Schema(Tag, Post, Note)


def test_a_reference_that_can_be_empty_is_empty_when_it_is_left_out(url):
    with connect(url, SCHEMA) as db:
        saved = db.save(Post(number=1))
        assert saved.answers is None
        assert db.get(Post, 1) == saved
        db.save_all([Post(number=2), Post(number=3, answers=Post.at(9))])
        assert db.get(Post, 3).answers == Post.at(9)
        assert db.upsert(Post(number=4), tag=None).tag is None
        assert db.transact(lambda transaction: transaction.save(Post(number=5))).answers is None
        with pytest.raises(MissingReference):
            db.save(Post(number=6, tag=Tag.at("nothing")))


def test_one_that_cannot_be_empty_must_be_given(url):
    with connect(url, SCHEMA) as db:
        db.save(Tag(word="a"))
        for field, note in (("tag", Note(number=1, tags=[])), ("tags", Note(number=1, tag=Tag.at("a")))):
            with pytest.raises(InvalidValue) as refusal:
                db.save(note)
            assert refusal.value.facts["field"] == field
