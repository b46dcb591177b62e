"""A copied field renamed with `shown`: rows of before are read under the new name, and nothing is built again."""

import pytest

from oneread import Copy, Index, Key, Model, Schema, connect, migration, renamed, shown


class Post(Model[int]):
    number: Key[int]
    title: str


class Before(Copy[Post]):
    title: str


class After(Copy[Post]):
    evolution = (renamed("title", to="headline"),)

    headline: str = shown(Post.title)


class Same(Copy[Post]):
    title: str = shown(Post.title)


def schema(copied):
    class Vote(Model[int]):
        number: Key[int]
        post: copied

    class VotesOf(Index[Vote]):
        post: copied = shown(Vote.post)

    return Schema(Post, Vote, VotesOf), Vote, VotesOf


@pytest.fixture
def filled(url):
    declared, vote, _view = schema(Before)
    with connect(url, declared, workers=0) as db:
        db.save(Post(number=1, title="T"))
        db.save(vote(number=1, post=Before.of(1)))
    return url


def test_rows_are_kept_and_copies_follow(filled):
    declared, vote, view = schema(After)
    with migration(filled, declared) as upkeep:
        plan = upkeep.plan()
        assert [(each.what, each.field, each.after) for each in plan.differences] == [
            ("renamed", "post.headline", "post.headline")
        ]
        assert plan.builds == ()
    with connect(filled, declared, workers=0) as db:
        assert (db.get(vote, 1).post.headline, db.page(view)[0].post.headline) == ("T", "T")
        assert db.verify().clean
        db.backfill(wait=0, quiet=0, fence=True)
        db.patch(Post, 1, title="N")
        assert (db.get(vote, 1).post.headline, db.page(view)[0].post.headline) == ("N", "N")
        assert db.verify().clean


def test_the_same_name_written_with_shown_is_the_same_schema(filled):
    with migration(filled, schema(Same)[0]) as upkeep:
        assert upkeep.plan().differences == ()
