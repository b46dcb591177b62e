"""Damaged entries of feeds, and damaged rows of what they follow from: exactly that is reported, and mended."""

from datetime import datetime, timedelta

import msgspec
import pytest

from oneread import Feed, Ref, Schema, by, connect, newest, on
from oneread.feeds.entries import SHOWN_BY, Entries
from oneread.store.requests import Scan
from oneread.store.rows import VALUE, Cell, RowRange
from oneread.testing.audit import Audit
from oneread.testing.clock import START, Clock
from oneread.transactions import outbox
from oneread.verify import feed_entries
from tests.properties.schema_of_feeds import (
    FEED_SCHEMA,
    BareFeed,
    EachFeed,
    Group,
    HomeFeed,
    In,
    JoinFeed,
    Member,
    Membership,
    Notice,
    Photo,
    PopularFeed,
    Post,
)

A, B = Group.at("a"), Group.at("b")


def entities():
    yield Group(name="a", title="A")
    for number in range(1, 5):
        yield Membership(number=number, member=Member.at(number), group=A, role="x")
    yield Membership(number=5, member=Member.at(1), group=B, role="x")
    yield Membership(number=6, member=Member.at(1), group=A, role="x")
    for number in range(3):
        at = START + timedelta(seconds=number)
        yield Post(
            number=number, group=A, groups=[A, B], at=at, text=f"text {number}", votes=2**70 * number, home=In.of("a")
        )
    yield Photo(number=9, group=B, groups=[B], at=START, votes=1)
    yield Notice(number=1, group="a")


class Store:
    """A store with feeds, and hands that change its rows behind everybody's back."""

    def __init__(self, url, schema=FEED_SCHEMA):
        self.clock = Clock()
        self.db = connect(url, schema, clock=self.clock, workers=0)
        self.engine = self.db._driver.engine

    def fill(self):
        for each in entities():
            self.db.save(each)
        self.db.drain()
        return self

    def fill_members(self):
        for number in range(1, 5):
            self.db.save(Membership(number=number, member=Member.at(number), group=A, role="x"))
        return self

    def views(self, prefix=b""):
        found = self.engine.answer(Scan("views", RowRange(prefix, b""), 1 << 30, families="dm"))
        return {key: row for key, row in found if key.startswith(prefix)}

    def rows(self):
        """All rows of views, without their stamps."""
        return {key: {column: cell.value for column, cell in row.items()} for key, row in self.views().items()}

    def put(self, key, row):
        self.engine.transaction(lambda inside: inside.replace("views", {key: row}), 30)

    def feed(self, view):
        return Entries(self.db.operations.catalog.views[view])

    def faults(self):
        return [(fault.view, fault.kind) for fault in self.db.verify().faults]

    def texts(self):
        return [fault.text for fault in self.db.verify().faults]


@pytest.fixture(params=["memory", "lmdb"])
def store(request, tmp_path):
    made = Store("memory://" if request.param == "memory" else f"lmdb://{tmp_path}/store").fill()
    yield made
    made.db.close()


def test_what_is_right_has_no_fault(store):
    verification = store.db.verify()
    assert verification.clean
    assert verification.faults == ()
    assert store.db.verify(HomeFeed).clean


def no_row(_row):
    return None


def other_value(row):
    return row | {VALUE: Cell(row[VALUE].value[:-1] + b"\x01", 1)}


def value_that_cannot_be_read(row):
    return row | {VALUE: Cell(b"\xff", 1)}


def no_value(row):
    return {SHOWN_BY: row[SHOWN_BY]}


def no_memberships(row):
    return {VALUE: row[VALUE]}


def empty_memberships(row):
    return row | {SHOWN_BY: Cell(b"\x90", 1)}


def memberships_that_cannot_be_read(row):
    return row | {SHOWN_BY: Cell(b"\xc1", 1)}


def one_membership_less(row):
    return row | {SHOWN_BY: Cell(msgspec.msgpack.encode(msgspec.msgpack.decode(row[SHOWN_BY].value)[1:]), 1)}


def one_membership_twice(row):
    known = msgspec.msgpack.decode(row[SHOWN_BY].value)
    return row | {SHOWN_BY: Cell(msgspec.msgpack.encode([*known, known[0]]), 1)}


def one_membership_more(row):
    known = msgspec.msgpack.decode(row[SHOWN_BY].value)
    return row | {SHOWN_BY: Cell(msgspec.msgpack.encode([*known, known[0] + b"\x00"]), 1)}


def one_more_cell(row):
    return row | {b"d:x": Cell(b"x", 1)}


DAMAGES = {
    no_row: "missing",
    other_value: "different",
    value_that_cannot_be_read: "different",
    no_value: "unreadable",
    no_memberships: "unreadable",
    empty_memberships: "different",
    memberships_that_cannot_be_read: "unreadable",
    one_membership_less: None,
    one_membership_twice: "dangling",
    one_membership_more: "dangling",
    one_more_cell: "unreadable",
}
"""Each with the fault that is found; one membership less is a fault of its own kind where none is left."""


EVERY = [(HomeFeed, damage) for damage in DAMAGES]
SOME = [
    (view, damage) for view in (EachFeed, PopularFeed, JoinFeed) for damage in (no_row, other_value, no_memberships)
]


@pytest.mark.parametrize(("view", "damage"), [*EVERY, *SOME], ids=lambda given: given.__name__)
def test_any_damage_to_an_entry_is_found_and_mended(store, view, damage):
    before = store.rows()
    places = sorted(store.views(store.feed(view).prefix).items())
    for key, row in (places[0], places[-1]):
        store.put(key, damage(row))
        assert {name for name, _kind in store.faults()} == {view.__name__}
        if DAMAGES[damage] is not None:
            assert DAMAGES[damage] in {kind for _name, kind in store.faults()}
        repaired = store.db.repair()
        assert repaired.clean
        assert store.db.verify().clean
        assert store.rows() == before


def test_faults_name_the_member_and_the_item(store):
    feed = store.feed(HomeFeed)
    (first, row), (second, _), *_rest = sorted(store.views(feed.prefix).items())
    store.put(first, None)
    store.put(second, other_value(row))
    texts = store.texts()
    assert any("of Post 2: the entry is missing" in text for text in texts), texts
    assert all(text.startswith("HomeFeed 1/2024-01-01T00:00:0") for text in texts), texts
    (fault, *_) = store.db.verify(HomeFeed).faults
    assert (fault.view, fault.kind, fault.entity) == ("HomeFeed", "missing", "Post(2)")


def test_an_entry_that_nothing_shows_is_removed(store):
    before = store.rows()
    feed = store.feed(BareFeed)
    key, row = next(iter(store.views(feed.prefix).items()))
    store.put(key + b"\x00", row)
    store.put(feed.prefix + b"\xff\xff", row)
    assert {kind for _view, kind in store.faults()} == {"dangling"}
    assert store.db.repair().clean
    assert store.rows() == before


@pytest.mark.parametrize("side", ["items", "members"])
def test_a_damaged_item_or_membership_is_reported_alone_and_its_entries_follow(store, side):
    before = store.rows()
    feed = store.feed(HomeFeed)
    prefix = getattr(feed, side)
    key, row = next(iter(store.views(prefix).items()))
    for damaged in (
        None,
        {VALUE: Cell(b"\xff", 1)},
        {VALUE: Cell(row[VALUE].value + b"\xc0", 1)},
        {b"d:x": row[VALUE]},
    ):
        store.put(key, damaged)
        assert {view for view, _kind in store.faults()} == {f"HomeFeed.{side}"}
        assert store.db.repair().clean
        assert store.rows() == before
    store.put(key + b"\x00", row)  # of no entity, with no entry
    assert {view for view, _kind in store.faults()} == {f"HomeFeed.{side}"}
    assert store.db.repair().clean
    assert store.rows() == before


def test_what_followed_from_damage_is_mended_too(store):
    """A commit sees a membership that is no more, and an item without its membership."""
    feed = store.feed(HomeFeed)
    (key, row), *_rest = store.views(feed.members).items()
    store.put(key, None)
    store.db.save(Post(number=20, group=A, groups=[], text="unseen"))
    store.db.drain()
    store.put(key, row)
    assert ("HomeFeed", "different") in store.faults()  # the member has another membership in the group
    assert store.db.repair().clean
    assert store.db.verify().clean
    Audit(store.engine, store.db.operations).check()
    assert [row.source.key for row in store.db.page(HomeFeed, 1).rows].count((20,)) == 1


def test_pairs_that_wait_for_a_task_are_left_out():
    schema = Schema(Membership, Member, Group, Post, HomeFeed, EachFeed, inline=1)
    store = Store("memory://", schema)
    for number in range(1, 5):
        store.db.save(Membership(number=number, member=Member.at(number), group=A, role="x"))
    for change in (
        lambda: store.db.save(Post(number=1, group=A, groups=[A, B])),
        lambda: store.db.save(Post(number=1, group=A, groups=[A], text="new")),
        lambda: store.db.save(Post(number=2, group=A, groups=[A], text="new")),
        lambda: store.db.delete(Membership, 1),
        lambda: store.db.save(Membership(number=1, member=Member.at(1), group=A, role="x")),
        lambda: store.db.delete(Post, 1),
    ):
        change()
        while True:
            assert store.db.verify().clean
            if not store.db.run(store.db.operations.drain_step(1)):
                break
    store.db.close()


def test_a_task_lost_is_found_and_mended():
    store = Store("memory://", Schema(Membership, Member, Group, Post, HomeFeed, inline=0)).fill_members()
    store.db.save(Post(number=1, group=A, groups=[]))
    for key, _row in store.engine.answer(Scan("system", outbox.TASKS, 100)):
        store.engine.transaction(lambda inside, key=key: inside.replace("system", {key: None}), 30)
    assert [kind for _view, kind in store.faults()] == ["missing"] * 4
    assert store.db.repair().mended == 4
    assert store.db.verify().clean
    store.db.close()


def test_what_has_expired_is_not_compared():
    class Recent(Feed[Post]):
        expires_after = timedelta(seconds=100)
        member: Ref[Member] = by(Membership.member)
        at: datetime = newest(Post.at)
        joined = on(Post.group, Membership.group)

    store = Store("memory://", Schema(Membership, Member, Group, Post, Recent)).fill_members()
    store.db.save(Post(number=1, group=A, groups=[], at=START))
    store.clock.tick(200)
    for key in store.views(store.feed(Recent).prefix):
        store.put(key, None)
    assert store.db.verify().clean
    store.db.close()


def test_groups_larger_than_what_is_kept_are_compared_in_parts(store, monkeypatch):
    monkeypatch.setattr(feed_entries, "KEPT", 1)
    assert store.db.verify().clean
    key = next(iter(store.views(store.feed(HomeFeed).prefix)))
    store.put(key, None)
    assert {kind for _view, kind in store.faults()} == {"missing"}


def test_a_feed_alone_is_verified_with_its_items_and_memberships(store):
    home, bare = store.feed(HomeFeed), store.feed(BareFeed)
    store.put(next(iter(store.views(bare.prefix))), None)
    assert store.db.verify(HomeFeed).clean
    store.put(next(iter(store.views(home.items))), None)
    assert {fault.view for fault in store.db.verify(HomeFeed).faults} == {"HomeFeed.items"}
