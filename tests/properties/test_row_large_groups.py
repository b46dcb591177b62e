"""A feed with large groups shows on a store that changes one row at a time what it shows on one that spans rows."""

from datetime import datetime, timedelta

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from oneread import Feed, Schema, by, connect, each, newest, on, shown
from oneread.errors import Expired, NotFound
from oneread.feeds.cell_following import RowFeeds
from oneread.testing.clock import START, Clock
from tests.simulation.feed_models import Membership, Post
from tests.simulation.row_large_groups_mutations import entries_of_merged_groups_are_shown

FEW = settings(deadline=None, max_examples=max(10, settings().max_examples // 6))
DIRECTED = settings(FEW, phases=[Phase.explicit], report_multiple_bugs=False)
MEMBERS = range(3)


def feed(above, merged):
    class Home(Feed[Post]):
        expires_after = None
        marks = True
        watched = timedelta(hours=1)
        large_group = above
        merged_groups = merged
        member: int = by(Membership.member)
        at: datetime = newest(Post.at)
        text: str = shown(Post.text)
        joined = on(each(Post.groups), Membership.group)

    return Home


FEEDS = [feed(1, 1), feed(2, 1), feed(2, 2), feed(3, 2)]
NUMBERS = st.integers(0, 6)
POSTS = st.builds(
    lambda number, groups, late, text: Post(
        number=number, groups=groups, at=START + timedelta(seconds=number + 10 * late), text=text
    ),
    NUMBERS,
    st.sampled_from([["a"], ["a"], ["b"], ["a", "b"], ["c", "a"], []]),
    st.sampled_from([0, 0, 1]),
    st.sampled_from("xy"),
)
MEMBERSHIPS = st.builds(
    lambda number, group: Membership(number=number, member=number % 3, group=group), NUMBERS, st.sampled_from("aaabc")
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("save"), st.one_of(POSTS, MEMBERSHIPS, MEMBERSHIPS)),
        st.tuples(st.just("delete"), st.sampled_from([Post, Membership]), NUMBERS),
    ),
    max_size=30,
)


def joined(number, group="a"):
    return "save", Membership(number=number, member=number % 3, group=group)


def posted(number, text="x"):
    return "save", Post(number=number, groups=["a"], at=START + timedelta(seconds=number), text=text)


REMOVED_WHILE_READ = [
    *[joined(0), joined(1), posted(1), posted(2), joined(2), ("delete", Post, 1), posted(2, "y"), posted(3)],
    *[("delete", Membership, 2), ("delete", Membership, 1), posted(4), ("delete", Membership, 0)],
]
"""A group is written, read and written again, and an item goes and another one changes while it is read."""


def do(db, step):
    """One write; what it returned, for pages that include it."""
    verb, *arguments = step
    try:
        return getattr(db, verb)(*arguments)
    except NotFound:
        return None


def walk(db, home, member, limit, *, backward=False):
    found, cursor = [], None
    while True:
        page = db.page(home, member, limit=limit, cursor=cursor, backward=backward)
        found = [*page, *found] if backward else [*found, *page]
        cursor = page.previous if backward else page.next
        if cursor is None:
            return [(each.source.key[0], each.at, each.text) for each in found]


def pages(db, home):
    """What members see: whole pages, by pages of two in both directions, and the number of unread entries."""
    seen = []
    for member in MEMBERS:
        found = walk(db, home, member, 100)
        assert walk(db, home, member, 2) == found
        assert walk(db, home, member, 2, backward=True) == found
        seen.append((found, db.unread(home, member).unread))
    return seen


class FollowedPage:
    """What a browser shows of a member's feed that it follows."""

    def __init__(self, db, home, member):
        self._db, self._home, self._member = db, home, member
        self._begin()

    def _begin(self):
        self._cursor = self._db.changes_cursor(self._home)
        self.rows = {(at, number): text for number, at, text in walk(self._db, self._home, self._member, 100)}

    def look(self):
        while True:
            try:
                batch = next(self._db.changes(self._home, self._member, cursor=self._cursor, wait=0))
            except Expired:
                self._begin()
                return
            for change in batch:
                place = change.key[1], change.source.key[0]
                self.rows.pop(place, None)
                if change.row is not None:
                    self.rows[place] = change.row.text
            self._cursor = batch.cursor
            if not batch.more:
                return


def compare(effort=FEW, deletes="hide", inline=1000):
    @effort
    @example(FEEDS[1], REMOVED_WHILE_READ)
    @example(FEEDS[3], [*REMOVED_WHILE_READ[:4], joined(3), joined(2), *REMOVED_WHILE_READ[5:]])
    @given(st.sampled_from(FEEDS), STEPS)
    def agree(home, steps):
        clock, schema = Clock(), Schema(Membership, Post, home, inline=inline)
        native = connect("memory://", schema, workers=0, clock=clock)
        row = connect(f"memory://?span=row&deletes={deletes}", schema, workers=0, clock=clock)
        with native, row:
            followed = [FollowedPage(row, home, member) for member in MEMBERS]
            for step in steps:
                do(native, step)
                native.drain()
                written = do(row, step)
                check_included(row, native, home, written)
                for reader in followed:
                    reader.look()
                row.drain()
                clock.tick()
                found = pages(row, home)
                assert found == pages(native, home)
                for reader, (shown_now, _unread) in zip(followed, found, strict=True):
                    reader.look()
                    assert reader.rows == {(at, number): text for number, at, text in shown_now}

    agree()


def check_included(row, native, home, written):
    """A page that includes a write shows it, though its tasks wait: a post, or all posts of a group that was joined."""
    if written is None:
        return
    for member in MEMBERS:
        wanted = walk(native, home, member, 100)
        page = row.page(home, member, limit=100, includes=written)
        found = [(each.source.key[0], each.at, each.text) for each in page]
        assert len(set(found)) == len(found)
        if isinstance(written, Post):
            assert [each for each in found if each[0] == written.number] == [
                each for each in wanted if each[0] == written.number
            ]
        elif written.member == member:
            assert [each for each in wanted if each not in found] == []


@pytest.mark.parametrize(("deletes", "inline"), [("hide", 1000), ("remove", 0)])
def test_pages_counts_and_changes_are_the_same(deletes, inline):
    compare(deletes=deletes, inline=inline)


def test_entries_of_groups_that_are_merged_are_found(monkeypatch):
    entries_of_merged_groups_are_shown(monkeypatch)
    with pytest.raises(AssertionError):
        compare(DIRECTED)


def test_changes_without_the_places_are_found(monkeypatch):
    monkeypatch.setattr(RowFeeds, "log", lambda *_given: iter(()))
    with pytest.raises(AssertionError):
        compare(DIRECTED)
