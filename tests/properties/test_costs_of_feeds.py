"""No write of what feeds with large groups, and feeds of groups, list exceeds its bound where one row changes."""

from datetime import datetime, timedelta
from typing import Annotated

import msgspec
import pytest
from hypothesis import strategies as st

from oneread import Aggregate, Feed, Key, Model, Schema, by, count, each, greatest, newest, on, shown
from oneread.testing.clock import START
from tests.properties import row_bounds
from tests.properties.row_bounds import FEW


class Membership(Model[str, int]):
    """A member has one in a group, and one who is back has the same."""

    group: Key[str]
    member: Key[int]
    role: str = ""


class Post(Model[int]):
    number: Key[int]
    groups: Annotated[list[str], msgspec.Meta(max_length=2)]
    at: datetime = START
    text: str = ""


def feed(label, above, merged, most=None):
    class Home(Feed[Post]):
        expires_after = None
        watched = timedelta(hours=1)
        large_group, merged_groups, at_most = above, merged, most
        member: int = by(Membership.member)
        at: datetime = newest(Post.at)
        text: str = shown(Post.text)
        joined = on(each(Post.groups), Membership.group)

    Home.__name__ = Home.__qualname__ = label
    return Home


class PostsOfText(Aggregate[Post]):
    group: str = by(each(Post.groups))
    text: str = by(Post.text)
    posts: int = count()
    last: datetime | None = greatest(Post.at)


class Texts(Feed[PostsOfText]):
    """A feed of groups."""

    expires_after = None
    member: int = by(Membership.member)
    last: datetime | None = newest(PostsOfText.last)
    posts: int = shown(PostsOfText.posts)
    text: str = shown(PostsOfText.text)
    joined = on(PostsOfText.group, Membership.group)


LARGE = Schema(Membership, Post, feed("Alone", 1, 1), feed("Pairs", 2, 1), feed("Kept", 2, 2, 2))
OF_GROUPS = Schema(Membership, Post, PostsOfText, Texts)
GIVEN = {
    Membership.group: st.sampled_from("ab"),
    Membership.member: st.integers(0, 3),
    Membership.role: st.sampled_from("xy"),
    Post.number: st.integers(0, 5),
    Post.groups: st.sampled_from([["a"], ["b"], ["a", "b"], []]),
    Post.at: st.integers(0, 5).map(lambda seconds: START + timedelta(seconds=seconds)),
    Post.text: st.sampled_from("xy"),
}


def holds(schema, inline):
    row_bounds.holds(schema, inline, FEW, GIVEN)


@pytest.mark.parametrize("inline", [0, 2, 100])
@pytest.mark.timeout(900)
def test_no_write_of_large_groups_exceeds_its_bound(inline):
    holds(LARGE, inline)


@pytest.mark.parametrize("inline", [0, 2, 100])
@pytest.mark.timeout(900)
def test_no_write_of_feeds_of_groups_exceeds_its_bound(inline):
    holds(OF_GROUPS, inline)
