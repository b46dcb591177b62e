"""A feed of few entries shows on a store that changes one row at a time what it shows on one that spans rows."""

from datetime import datetime, timedelta

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from oneread import Feed, Schema, by, connect, each, newest, on, shown
from oneread.errors import NotFound
from oneread.feeds import entry_cells
from oneread.testing.clock import START, Clock
from oneread.transactions import copy_follower, feed_tasks
from tests.simulation.breaking import edit
from tests.simulation.feed_models import Membership, Post
from tests.simulation.row_trimming import the_item_alone_is_marked

FEW = settings(deadline=None, max_examples=max(20, settings().max_examples // 2))
DIRECTED = settings(FEW, phases=[Phase.explicit], report_multiple_bugs=False)
MEMBERS = range(2)


class Few(Feed[Post]):
    expires_after = None
    at_most = 2
    marks = True
    member: int = by(Membership.member)
    at: datetime = newest(Post.at)
    text: str = shown(Post.text)
    joined = on(each(Post.groups), Membership.group)


SCHEMA = Schema(Membership, Post, Few)
NUMBERS = st.integers(0, 5)
POSTS = st.builds(
    lambda number, groups, late, text: Post(
        number=number, groups=groups, at=START + timedelta(seconds=number + 10 * late), text=text
    ),
    NUMBERS,
    st.sampled_from([["a"], ["a"], ["b"], ["a", "b"], []]),
    st.sampled_from([0, 0, 1]),
    st.sampled_from("xy"),
)
MEMBERSHIPS = st.builds(
    lambda number, group: Membership(number=number, member=number % 2, group=group),
    st.integers(0, 3),
    st.sampled_from("aab"),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("save"), st.one_of(POSTS, POSTS, MEMBERSHIPS)),
        st.tuples(st.just("delete"), st.sampled_from([Post, Membership]), NUMBERS),
    ),
    max_size=25,
)


def posted(number, text="x", late=0):
    at = START + timedelta(seconds=number + late)
    return "save", Post(number=number, groups=["a"], at=at, text=text)


JOINED = ("save", Membership(number=1, member=1, group="a"))
FULL = [JOINED, posted(1), posted(2), posted(3)]
TRIMMED_AND_CHANGED = [*FULL, ("delete", Post, 3), ("delete", Post, 2), posted(1, "y")]
TRIMMED_AND_BACK = [*FULL, ("delete", Post, 3), ("delete", Membership, 1), JOINED]
MOVED = [*FULL, posted(3, late=5)]
"""What was trimmed is shown again when it is changed, or its member is back; what moves pushes nothing out."""


def do(db, step):
    verb, *arguments = step
    try:
        getattr(db, verb)(*arguments)
    except NotFound:
        return
    db.drain()


def pages(db):
    """What members see: whole pages, by pages of one, and the number of unread entries."""
    found = []
    for member in MEMBERS:
        page = db.page(Few, member)
        one = db.page(Few, member, limit=1)
        rest = [] if one.next is None else list(db.page(Few, member, cursor=one.next))
        assert [*one, *rest] == list(page)
        found.append(([(each.source.key[0], each.at, each.text) for each in page], db.unread(Few, member).unread))
    return found


def compare(effort=FEW, deletes="hide"):
    @effort
    @example(TRIMMED_AND_CHANGED)
    @example(TRIMMED_AND_BACK)
    @example(MOVED)
    @given(STEPS)
    def agree(steps):
        clock = Clock()
        native = connect("memory://", SCHEMA, workers=0, clock=clock)
        row = connect(f"memory://?span=row&deletes={deletes}", SCHEMA, workers=0, clock=clock)
        with native, row:
            for step in steps:
                do(native, step)
                do(row, step)
                clock.tick()
                assert pages(row) == pages(native)

    agree()


@pytest.mark.parametrize("deletes", ["hide", "remove"])
def test_pages_and_counts_are_the_same(deletes):
    compare(deletes=deletes)


def test_a_mark_of_the_item_alone_is_found(monkeypatch):
    the_item_alone_is_marked(monkeypatch)
    with pytest.raises(AssertionError):
        compare(DIRECTED)


def test_a_mark_that_stays_whatever_changes_is_found(monkeypatch):
    monkeypatch.setattr(entry_cells, "_is_covered", lambda row, column: entry_cells.mark_column(column) in row)
    with pytest.raises(AssertionError):
        compare(DIRECTED)


def test_rows_that_give_before_others_are_removed_are_found(monkeypatch):
    """A post that moves in time pushes another one out, before its former entry is gone."""
    edit(monkeypatch, feed_tasks, "follow_feeds", ("if row in done.intents.removed", "if False"))
    monkeypatch.setattr(copy_follower, "follow_feeds", feed_tasks.follow_feeds)
    with pytest.raises(AssertionError):
        compare(DIRECTED)
