"""Histories with `on_delete="delete"`: the database shows what the oracle does, in the commit and by tasks.

Chains (user, post, comment, reply), references in lists, sources that are made again while their task waits, holders
that are re-pointed, and holders that others hold by "refuse". Totals of what stays and of what goes.
"""

from typing import Annotated

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from oneread import (
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    by,
    count,
    each,
    reference,
    rollup,
    shown,
    total,
    within,
)
from oneread.errors import UsageError
from oneread.testing import strategies
from oneread.testing.crashes import survive
from oneread.testing.proof import Proof, prove
from oneread.testing.steps import DeleteStep, DrainStep, PatchStep, SaveStep


class Author(Copy["User"]):
    on_delete = "delete"
    name: str


class Quoted(Copy["Comment"]):
    text: str


class User(Model[int]):
    number: Key[int]
    name: str
    posts: int = rollup(lambda: PostCount.posts)


class Post(Model[int]):
    number: Key[int]
    author: Author
    likes: Annotated[list[Ref[User]], Meta(max_length=3)] = reference(on_delete="delete")
    comments: int = rollup(lambda: CommentCount.comments)
    score: int = rollup(lambda: Votes.score)


class Comment(Model[int]):
    number: Key[int]
    post: Ref[Post] = reference(on_delete="delete")
    reply_to: Ref["Comment"] | None = reference(on_delete="delete")
    text: str = ""


class Vote(Model[int]):
    """Goes with its voter and with its post; the total of the other one shrinks."""

    number: Key[int]
    voter: Ref[User] = reference(on_delete="delete")
    post: Ref[Post] = reference(on_delete="delete")
    value: int = 1


class Pin(Model[int]):
    number: Key[int]
    post: Ref[Post] | None = reference(on_delete="refuse")
    quoted: Quoted | None = None


class PostsBy(Index[Post]):
    author: Author = by(Post.author)


class LikedBy(Index[Post]):
    user: Ref[User] = by(each(Post.likes))


class CommentsOn(Index[Comment]):
    post: Ref[Post] = by(Comment.post)
    author: str | None = shown(within(Comment.post, within(Post.author, Author.name)))


class CommentCount(Aggregate[Comment]):
    post: Ref[Post] = by(Comment.post)
    comments: int = count()


class PostCount(Aggregate[Post]):
    author: Author = by(Post.author)
    posts: int = count()


class Votes(Aggregate[Vote]):
    post: Ref[Post] = by(Vote.post)
    score: int = total(Vote.value)


class Quotes(Index[Pin]):
    text: str = by(within(Pin.quoted, Quoted.text))


MODELS = (User, Post, Comment, Vote, Pin, PostsBy, LikedBy, CommentsOn, CommentCount, PostCount, Votes, Quotes)
SCHEMA = Schema(*MODELS)
GIVEN = {User.name: st.sampled_from(["", "a", "b"]), Comment.text: st.sampled_from(["", "a"])}


@given(strategies.histories(SCHEMA, GIVEN))
def test_the_database_shows_what_the_oracle_shows(history):
    prove(SCHEMA, history)


@given(strategies.crashes(SCHEMA, GIVEN))
def test_crashes_leave_no_holder_behind(crash):
    survive(SCHEMA, crash)


DECISIONS = st.lists(
    st.one_of(
        st.just(SaveStep(User(number=1, name="again"))),
        st.builds(lambda n: PatchStep(Post, (n,), {"author": Author.of(2)}), st.integers(1, 6)),
        st.builds(lambda n: SaveStep(Pin(number=n, post=Post.at(n))), st.integers(1, 6)),
        st.builds(lambda n: DeleteStep(Pin, (n,)), st.integers(1, 6)),
        st.just(DrainStep(1)),
        st.just(DrainStep(2)),
    ),
    max_size=12,
)


@given(DECISIONS, st.integers(0, 8))
def test_what_happens_while_the_task_waits(steps, inline):
    """A source that is made again keeps the holders that are left; one that was re-pointed stays; the rest goes."""
    with Proof(SCHEMA, inline=inline) as proof:
        for number in (1, 2):
            proof.do(SaveStep(User(number=number, name="")))
        for number in range(1, 7):
            proof.do(SaveStep(Post(number=number, author=Author.of(1), likes=[])))
            proof.do(SaveStep(Comment(number=number, post=Post.at(number))))
        proof.database.delete(User, 1)
        proof.oracle.delete(User, 1)
        for step in steps:
            try:
                proof.do(step)
            except UsageError:
                continue
        proof.look()
        alive = proof.oracle.get(User, 1) is not None
        aside = {each.holder for each in proof.database.set_aside()}  # held when its turn came, and perhaps no longer
        for number in range(1, 7):
            post = proof.database.find(Post, number)
            held = any(pin.post == Post.at(number) for pin in proof.oracle.all(Pin))
            assert not (held and post is None)
            if post is not None and not alive and not held and f"Post({number})" not in aside:
                assert post.author.ref.key == (2,)
            assert post is not None or proof.database.find(Comment, number) is None
