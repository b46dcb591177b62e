"""Damaged rows of feeds besides entries: how many a member has, and what is kept of large groups; found and mended."""

from datetime import datetime

import pytest

from oneread import Feed, Ref, Schema, by, connect, newest, on
from oneread.feeds.entries import Entries
from oneread.feeds.large_groups import large_groups_of
from oneread.store.requests import Scan
from oneread.store.rows import VALUE, Cell, RowRange
from oneread.testing.clock import Clock
from tests.unit.feeds.community import Group, Member, Membership, Post, fill, post

OTHER = {VALUE: Cell(b"\x93\x01\x02\x03", 1)}


class Newest(Feed[Post]):
    member: Ref[Member] = by(Membership.member)
    at: datetime = newest(Post.at)
    joined = on(Post.group, Membership.group)
    at_most = 3


class Wide(Feed[Post]):
    member: Ref[Member] = by(Membership.member)
    at: datetime = newest(Post.at)
    joined = on(Post.group, Membership.group)
    large_group = 3
    merged_groups = 1


SCHEMA = Schema(Member, Group, Membership, Post, Newest, Wide)


class Store:
    """A store whose rows a test changes behind the library's back."""

    def __init__(self, url):
        self.db = connect(url, SCHEMA, clock=Clock(), workers=0)
        joined = [(1, member) for member in range(1, 7)] + [(2, member) for member in range(1, 5)] + [(3, 1)]
        fill(self.db, groups=4, members=6, joined=joined)
        self.db.save_all([post(number, number % 3 + 1, hours=number) for number in range(9)])
        self.db.drain()
        self.feed = Entries(self.db.operations.catalog.views[Newest])
        self.large = large_groups_of(Entries(self.db.operations.catalog.views[Wide]))

    def rows(self, prefix=b""):
        engine = self.db._driver.engine
        found = engine.answer(Scan("views", RowRange(prefix, b""), 1 << 30, families="dm"))
        return {
            key: {column: cell.value for column, cell in row.items()} for key, row in found if key.startswith(prefix)
        }

    def put(self, key, row):
        self.db._driver.engine.transaction(lambda inside: inside.replace("views", {key: row}), 30)


@pytest.fixture(params=["memory", "lmdb"])
def store(request, tmp_path):
    made = Store("memory://" if request.param == "memory" else f"lmdb://{tmp_path}/store?durability=none")
    yield made
    made.db.close()


def test_what_is_right_is_not_reported(store):
    found = store.db.verify()
    assert found.clean, found.faults
    assert len(store.rows(store.feed.view.kept)) == 6
    assert store.rows(store.large.groups)
    assert store.rows(store.large.read)
    assert store.rows(store.large.written)


@pytest.mark.parametrize("damage", ["missing", "other", "unreadable", "surplus"])
def test_numbers_of_entries_are_compared_and_counted_again(store, damage):
    before = store.rows()
    key = next(iter(store.rows(store.feed.view.kept)))
    if damage == "surplus":
        key = key[:-1] + b"\xff"
    row = {"missing": None, "other": {VALUE: Cell(b"\x92\x01\xc4\x00", 1)}, "unreadable": {VALUE: Cell(b"\xc1", 1)}}
    store.put(key, row.get(damage, {VALUE: Cell(b"\x92\x05\xc4\x00", 1)}))
    faults = store.db.verify().faults
    (number,) = [fault for fault in faults if fault.view == "Newest.kept"]
    assert number.key == key
    assert "entries" in number.text
    # Where the feed was trimmed is not known any more, so what was trimmed counts as missing.
    assert {fault.kind for fault in faults if fault.view == "Newest"} <= {"missing"}
    store.db.repair()
    assert store.db.verify().clean
    if damage != "unreadable":
        assert store.rows() == before


@pytest.mark.parametrize("what", ["groups", "read", "written"])
@pytest.mark.parametrize("damage", ["missing", "surplus", "other"])
def test_rows_of_large_groups_are_compared_and_served_again(store, what, damage):
    before = store.rows()
    key, values = next(iter(store.rows(getattr(store.large, what)).items()))
    if damage == "surplus":
        key = key[:-1] + b"\x7f"
        store.put(key, {column: Cell(value, 1) for column, value in values.items()})
    elif damage == "missing":
        store.put(key, None)
    else:
        store.put(key, {VALUE: Cell(b"\x95\x09\xc2\xc2\xc0\xc0", 1)} if what == "groups" else OTHER)
    found = store.db.verify()
    assert found.faults, damage
    assert {fault.view.split(".")[0] for fault in found.faults} == {"Wide"}
    store.db.repair()
    store.db.drain()
    again = store.db.verify()
    assert again.clean, again.faults
    assert store.rows() == before


def test_an_entry_of_a_membership_that_is_read_is_surplus(store):
    before = store.rows()
    values = next(iter(store.rows(store.large.feed.prefix).values()))
    read = next(iter(store.rows(store.large.read)))
    member = store.large.feed.member_in(read)
    group = store.large.read_group(read, member)
    tail = next(iter(store.rows(store.large.feed.items + group)))[4 + len(group) :]
    shown = store.large.feed.membership_of(store.large.membership_of(read, member), group)
    made = {VALUE: Cell(values[VALUE], 1), b"m:s": Cell(b"\x91\xc4" + bytes([len(shown)]) + shown, 1)}
    store.put(store.large.feed.prefix + member + tail, made)
    found = store.db.verify()
    assert [(fault.view, fault.kind) for fault in found.faults] == [("Wide", "dangling")]
    store.db.repair()
    assert store.rows() == before
