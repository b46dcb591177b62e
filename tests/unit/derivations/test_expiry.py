"""The class option `ttl`: what may be declared."""

from datetime import date, datetime, timedelta

import pytest

from oneread import Aggregate, Index, Key, Model, Ref, Schema, by, count, each, expires, newest, within
from oneread.derivations.expiry import expiry_options
from oneread.errors import InvalidDeclaration


class Post(Model[int]):
    number: Key[int]
    author: str = ""
    day: date | None = None
    made_at: datetime
    ends_at: datetime | None = None


class Other(Model[int]):
    number: Key[int]
    made_at: datetime


WEEK = timedelta(days=7)


@pytest.mark.parametrize(
    ("ttl", "text"),
    [
        (WEEK, "ttl: expected when an entity expires"),
        ("ends_at", "ttl: expected when an entity expires"),
        (0, "ttl: expected when an entity expires"),
        (b"\x00", "ttl: expected when an entity expires"),
        (expires(Post.ends_at), "with the name of a field"),
        (expires("endsat"), "the model has no such field .*perhaps='ends_at'"),
        (expires(""), "the model has no such field"),
        (expires("x" * 100_000), "the model has no such field"),
        (expires(None), "with the name of a field"),
        (expires("author"), "a field of the type datetime"),
        (expires("day"), "a field of the type datetime"),
        (expires("made_at", after=7), "expected after=timedelta"),
        (expires("made_at", after=True), "expected after=timedelta"),
        (expires("made_at", after=timedelta()), "at least a millisecond"),
        (expires("made_at", after=timedelta(microseconds=999)), "at least a millisecond"),
        (expires("made_at", after=-WEEK), "at least a millisecond"),
    ],
)
def test_a_wrong_ttl_of_a_model_is_refused(ttl, text):
    namespace = {
        "__annotations__": {**Post.__annotations__},
        "__module__": __name__,
        "author": "",
        "day": None,
        "ends_at": None,
        "ttl": ttl,
    }
    cls = type(Model)("Expiring", (Model,), namespace)
    with pytest.raises(InvalidDeclaration, match=text) as refused:
        Schema(cls)
    assert "Expiring" in str(refused.value)


@pytest.mark.parametrize(
    ("ttl", "text"),
    [
        (WEEK, "ttl: expected when a row, or what an entity contributes, expires"),
        (expires("made_at", after=WEEK), "by a field of the model"),
        (expires(Other.made_at, after=WEEK), "one of the view's model"),
        (expires(Post.author), "a field of the type datetime"),
        (expires(Post.made_at, after=timedelta()), "at least a millisecond"),
        (expires(Post.made_at, after="7d"), "expected after=timedelta"),
    ],
)
def test_a_wrong_ttl_of_a_view_is_refused(ttl, text):
    given = ttl

    class Recent(Index[Post]):
        ttl = given
        made_at: datetime = newest(Post.made_at)

    class Posts(Aggregate[Post]):
        ttl = given
        author: str = by(Post.author)
        posts: int = count()

    for view in (Recent, Posts):
        with pytest.raises(InvalidDeclaration, match=text) as refused:
            Schema(Post, Other, view)
        assert view.__name__ in str(refused.value)


class Reply(Model[int]):
    number: Key[int]
    post: Ref[Post]
    read_at: list[datetime] | None = None


def replies(given):
    class Replies(Index[Reply]):
        ttl = given
        post: Ref[Post] = by(Reply.post)

    return Replies


@pytest.mark.parametrize(
    ("ttl", "text"),
    [
        (
            expires(within(Reply.post, Post.day)),
            r"type datetime.*field='within\(Reply.post, Post.day\)'",
        ),
        (expires(within(Post.made_at, Post.day)), "one of the view's model"),
        (expires(each(Reply.read_at)), "a field of the type datetime"),
        (expires(each(Reply.number)), "expected a list or a set"),
        (expires(within(Reply.post, Post.made_at), after=timedelta()), "at least a millisecond"),
    ],
)
def test_a_wrong_path_of_a_ttl_is_refused(ttl, text):
    with pytest.raises(InvalidDeclaration, match=text) as refused:
        Schema(Post, Reply, replies(ttl))
    assert "Replies" in str(refused.value)


def test_the_store_knows_a_ttl_by_its_path():
    view = replies(expires(within(Reply.post, Post.made_at), after=WEEK))
    assert Schema(Post, Reply, view).views[0] is view
    assert expiry_options(view, Reply) == (("ttl", "post.made_at 604800000000"),)


def test_what_cannot_have_a_ttl():
    class OneReply(Index[Reply]):
        ttl = expires(within(Reply.post, Post.made_at), after=WEEK)
        unique = True
        post: Ref[Post] = by(Reply.post)

    class Counted(Aggregate[Post]):
        author: str = by(Post.author)
        posts: int = count()

    class Top(Index[Counted]):
        ttl = expires(Post.made_at, after=WEEK)
        posts: int = by(Counted.posts)

    class Session(Model[int]):
        number: Key[int]
        until: datetime | None = None
        ttl = expires("until")

    class WebSession(Session):
        ttl = None

    for declared, text in (
        ((Post, Reply, OneReply), "counted from a field of the entity itself"),
        ((Post, Counted, Top), "an index over groups has no ttl.*give the aggregate the ttl"),
        ((Session, WebSession), "a variant expires as its model does"),
    ):
        with pytest.raises(InvalidDeclaration, match=text):
            Schema(*declared)


def test_the_schema_adds_an_index_for_each_ttl():
    class Session(Model[int]):
        number: Key[int]
        post: Ref[Post] | None = None
        until: datetime | None = None
        stored_as = "S"
        ttl = expires("until")

    class Recent(Index[Post]):
        ttl = expires(Post.made_at, after=WEEK)
        made_at: datetime = newest(Post.made_at)

    class Posts(Aggregate[Post]):
        ttl = expires(Post.made_at, after=WEEK)
        author: str = by(Post.author)
        posts: int = count()

    schema = Schema(Post, Session, Recent, Posts)
    added = ["Session.expiry", "Recent.expiry", "Posts.expiry"]
    assert [view.__name__ for view in schema.views] == ["Recent", "Posts", *added]
    assert [view.stored_as for view in schema.views] == [None, None, "S.expiry", *added[1:]]
    assert repr(schema) == "Schema(Post, Session, Recent, Posts)"
    assert list(schema.named()) == ["Post", "Session", "Recent", "Posts"]
    again = Schema(*schema.models, *schema.views)
    assert again.declared().digest == schema.declared().digest
