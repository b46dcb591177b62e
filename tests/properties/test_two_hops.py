"""Copies two hops away, under other names and by reference only: any history comes to what plain recomputation says."""

from datetime import date

import pytest
from hypothesis import given, settings

from oneread import Aggregate, Copy, Index, Key, Model, Ref, Schema, by, count, newest, shown, total, within
from oneread.testing.crashes import survive
from oneread.testing.proof import prove
from oneread.testing.strategies import crashes, histories


class User(Model[date]):
    born: Key[date]
    name: str


class Author(Copy[User]):
    name: str


class Editor(Copy[User]):
    on_delete = "clear"
    missing_ok = True


class Post(Model[int]):
    number: Key[int]
    author: Author
    editor: Editor | None = None
    title: str = ""


class Posted(Copy[Post]):
    author: Ref[User]
    edited_by: Ref[User] | None = within(Post.editor, Editor.ref)
    headline: str = shown(Post.title)
    writer: str = within(Post.author, Author.name)


class Vote(Model[int]):
    number: Key[int]
    post: Posted
    value: int = 1


class Comment(Model[int]):
    number: Key[int]
    post: Ref[Post]


class VotesForAuthor(Aggregate[Vote]):
    author: Ref[User] = by(within(Vote.post, Posted.author))
    points: int = total(Vote.value)


class CommentsForAuthor(Aggregate[Comment]):
    author: Author = by(within(Comment.post, Post.author))
    comments: int = count()


class CommentsOf(Index[Comment]):
    author: Author = by(within(Comment.post, Post.author))
    name: str = shown(within(Comment.post, within(Post.author, Author.name)))
    who: Ref[User] = shown(within(Comment.post, within(Post.author, Author.ref)))


class VotesOf(Index[Vote]):
    editor: Ref[User] | None = by(within(Vote.post, within(Post.editor, Editor.ref)), none="last")
    headline: str = shown(within(Vote.post, Posted.headline))
    born: date = newest(within(Vote.post, within(Posted.author, User.born)))  # type: ignore[assignment, arg-type]


class Everything(Index[Post]):
    title: str = shown(Post.title)


CLASSES = (User, Post, Vote, Comment, VotesForAuthor, CommentsForAuthor, CommentsOf, VotesOf, Everything)
SCHEMAS = {"within the commit": Schema(*CLASSES), "as tasks": Schema(*CLASSES, inline=1)}


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_any_history_comes_to_the_same(schema):
    @settings(max_examples=settings().max_examples // 4, deadline=None)
    @given(histories(schema))
    def holds(history):
        prove(schema, history)

    holds()


def test_every_crash_is_survived():
    schema = SCHEMAS["within the commit"]

    @settings(max_examples=settings().max_examples // 10, deadline=None)
    @given(crashes(schema))
    def holds(crash):
        assert survive(schema, crash)

    holds()
