"""A reference that forbids the delete of its source does so by itself, whatever else refers to that source."""

from __future__ import annotations

import pytest

from oneread import Copy, Key, Model, Ref, Schema, connect, reference
from oneread.errors import StillReferenced


class Tag(Model[str]):
    name: Key[str]


class Shown(Copy[Tag]):
    name: str


class Owner(Copy[Tag]):
    on_delete = "refuse"
    name: str


class Post(Model[int]):
    number: Key[int]
    main: Ref[Tag] | None = reference(on_delete="refuse")
    other: Ref[Tag] | None = None
    shown: Shown | None = None
    owner: Owner | None = None


def test_only_the_field_that_says_refuse_holds_a_delete_up(url) -> None:
    with connect(url, Schema(Tag, Post)) as db:
        db.save_all([Tag(name="a"), Tag(name="b"), Tag(name="c")])
        db.save(Post(number=1, main=Tag.at("a"), other=Tag.at("b"), shown=Shown.of("b"), owner=None))
        db.delete(Tag, "b")
        assert db.get(Post, 1).shown == Shown(ref=Tag.at("b"), deleted=True, name="b")
        with pytest.raises(StillReferenced) as refused:
            db.delete(Tag, "a")
        assert refused.value.facts == {"key": "Tag('a')", "owner": "Post(1)"}


def test_a_copy_that_says_refuse_holds_a_delete_up_until_it_points_elsewhere(url) -> None:
    with connect(url, Schema(Tag, Post)) as db:
        db.save_all([Tag(name="a"), Tag(name="b")])
        db.save(Post(number=1, main=None, owner=Owner.of("a")))
        with pytest.raises(StillReferenced):
            db.delete(Tag, "a")
        db.patch(Post, 1, owner=Owner.of("b"))
        db.delete(Tag, "a")
        assert db.find(Tag, "a") is None


def test_who_refers_may_be_deleted_together_with_the_source(url) -> None:
    with connect(url, Schema(Tag, Post)) as db:
        db.save(Tag(name="a"))
        db.save(Post(number=1, main=Tag.at("a")))
        db.delete(Post, 1)
        db.delete(Tag, "a")
        assert db.find(Tag, "a") is None
