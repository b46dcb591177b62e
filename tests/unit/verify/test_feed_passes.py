"""Feeds on a store that changes one row at a time: exactly the damage to what readers see is reported, and mended."""

from datetime import timedelta

import pytest

from oneread import Schema
from oneread.feeds.entry_cells import ITEM, MEMBERSHIP, TRIMMED, entry_row, mark_column
from oneread.store.requests import Mutate, Scan
from oneread.store.rows import REMOVED, VALUE, Cell, RowMutation
from oneread.testing.clock import START
from oneread.testing.logical_rows import hidden_of
from oneread.transactions import outbox
from oneread.verify import feed_entries, feed_passes, looks
from oneread.verify.feed_looks import FeedLooker, PartWatch
from tests.properties import schema_of_feeds as feeds
from tests.properties.schema_of_feeds import (
    EachFeed,
    FullFeed,
    Group,
    HomeFeed,
    Member,
    Membership,
    MergedFeed,
    PopularFeed,
    Post,
    RecentFeed,
)
from tests.simulation.breaking import edit
from tests.unit.verify.test_feed_entries import A, B, Store

SCHEMA = feeds.FEED_SCHEMA
SMALL = Schema(*feeds.MODELS, HomeFeed, EachFeed, PopularFeed, RecentFeed, FullFeed, MergedFeed)
FAR = 1 << 50
"""A stamp that no clock has yet."""


class RowStore(Store):
    """Compares what readers see: entries that something shows, and rows that are not removed."""

    def __init__(self, schema=SCHEMA):
        super().__init__("memory://?span=row", schema)

    def put(self, key, row):
        self.engine._store.transaction(lambda inside: inside.replace("views", {key: row}), 30)

    def feeds(self):
        return [each for each in feeds.FEEDS if each in self.db.operations.catalog.views]

    def seen(self, feed):
        entries = self.feed(feed)
        hidden = hidden_of(entries, list(self.views().items()))
        rows = {}
        for key, row in self.views(entries.prefix).items():
            shown = entry_row(row)
            if shown and (shown := entry_row(row, hidden.get(entries.member_in(key), frozenset()))):
                rows[key] = {column: cell.value for column, cell in shown.items()}
        return rows

    def all_seen(self):
        return {feed.__name__: self.seen(feed) for feed in self.feeds()}

    def shown(self, feed):
        """The stored rows of entries that something shows."""
        return sorted((key, row) for key, row in self.views(self.feed(feed).prefix).items() if key in self.seen(feed))


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(looks, "APART", 0.0)


@pytest.fixture
def store():
    made = RowStore(SMALL).fill()
    yield made
    made.db.close()


def test_what_is_right_has_no_fault():
    store = RowStore().fill()
    verification = store.db.verify()
    assert verification.clean, (verification.faults, verification.skipped)
    assert sum(map(len, store.all_seen().values())) > 60
    for each in feeds.FEEDS:
        assert store.db.verify(each).clean
    store.db.close()


# Damaged entries.


def column(row, under):
    return next(each for each in sorted(row) if each.startswith(under) and row[each].value != REMOVED)


def changed(under, value=None, stamp=0):
    """Gives the first cell under a prefix another value, or none; the stamp is added to."""

    def change(row):
        place = column(row, under)
        if value is None:
            return {each: cell for each, cell in row.items() if each != place}
        made = row[place].value[:-1] + b"\x01" if value == b"other" else value
        return row | {place: Cell(made, row[place].stamp + stamp)}

    return change


def marked(stamp):
    """Says that everything of an entry was trimmed."""

    def change(row):
        marks = {mark_column(each): Cell(b"", cell.stamp + stamp) for each, cell in row.items() if each[:2] == b"d:"}
        return row | marks

    return change


def named_twice(row):
    place = column(row, MEMBERSHIP)
    return row | {place[:-1] + bytes([place[-1] ^ 1]): row[place]}


def named_more(row):
    place = column(row, MEMBERSHIP)
    return row | {place[:-1] + bytes([place[-1] ^ 1]): Cell(row[place].value + b"\x00", row[place].stamp)}


DAMAGES = {
    "no row": (lambda _row: None, "missing"),
    "no item": (changed(ITEM), "missing"),
    "another item": (changed(ITEM, b"other"), "different"),
    "an item that cannot be read": (changed(ITEM, b"\xff"), "different"),
    "a removed item": (changed(ITEM, REMOVED), "missing"),
    "a newer item": (changed(ITEM, b"\xff", FAR), "different"),
    "an item removed later": (changed(ITEM, REMOVED, FAR), "missing"),
    "no membership": (changed(MEMBERSHIP), None),
    "a removed membership": (changed(MEMBERSHIP, REMOVED), None),
    "a membership removed later": (changed(MEMBERSHIP, REMOVED, FAR), None),
    "a name that is none": (changed(MEMBERSHIP, b"\xff"), None),
    "a membership twice": (named_twice, "dangling"),
    "a membership more": (named_more, "dangling"),
    "trimmed": (marked(0), "missing"),
    "trimmed later": (marked(FAR), "missing"),
}
"""Each with the fault that is found; who has two memberships in a group lacks one where one cell goes."""

EVERY = [(HomeFeed, damage) for damage in DAMAGES]
SOME = [(view, damage) for view in (EachFeed, PopularFeed) for damage in ("no row", "another item", "no membership")]


@pytest.mark.parametrize(("view", "damage"), [*EVERY, *SOME])
def test_any_damage_to_an_entry_is_found_and_mended(store, view, damage):
    before, (change, kind) = store.all_seen(), DAMAGES[damage]
    entries = store.shown(view)
    for key, row in (entries[0], entries[-1]):
        store.put(key, change(row))
        found = store.db.verify().faults
        assert [(fault.view, fault.key) for fault in found] == [(view.__name__, key)]
        assert kind in (None, found[0].kind)
        repaired = store.db.repair()
        assert (repaired.clean, repaired.mended >= 1, repaired.reasons) == (True, True, ()), repaired.left
        store.db.drain()
        assert store.db.verify().clean
        assert store.all_seen() == before


def told(store):
    return [(fault.view, fault.kind) for fault in store.db.verify().faults]


def mended(store):
    """Repairs, does what is left to do, and verifies again."""
    repaired = store.db.repair()
    assert (repaired.clean, repaired.reasons) == (True, ()), (repaired.left, repaired.reasons)
    store.db.drain()
    found = store.db.verify()
    assert found.faults == ()
    return found.clean


def test_faults_name_the_member_and_the_item(store):
    (first, _row), (second, row), *_rest = store.shown(HomeFeed)
    store.put(first, None)
    store.put(second, changed(ITEM, b"other")(row))
    faults = store.db.verify(HomeFeed).faults
    assert all(fault.text.startswith("HomeFeed 1/2024-01-01T00:00:0") for fault in faults), faults
    assert "of Post 2: the entry is missing" in faults[0].text
    assert [(fault.kind, fault.entity) for fault in faults] == [("missing", "Post(2)"), ("different", "Post(1)")]


def test_entries_that_nothing_shows_are_removed(store):
    before, feed = store.all_seen(), store.feed(HomeFeed)
    key, row = store.shown(HomeFeed)[0]
    stranger = feed.view.member_codec.encode((500,))
    for place in (key + b"\x00", feed.prefix + b"\xff\xff", feed.prefix + stranger + feed.tail_of(key)):
        store.put(place, row)
        ((view, kind),) = told(store)
        assert (view, kind in ("dangling", "unreadable")) == ("HomeFeed", True)
        assert mended(store)
        assert store.all_seen() == before


def test_entries_whose_item_or_membership_has_gone_are_removed(store):
    """As a worker leaves them whose task was lost."""
    kept = dict(store.shown(HomeFeed))
    store.db.delete(Post, 1)
    store.db.delete(Membership, 2)
    store.db.drain()
    before, gone = store.all_seen(), kept.keys() - store.seen(HomeFeed).keys()
    assert len(gone) > 4
    for key in gone:
        store.put(key, kept[key])
    assert sorted(fault.key for fault in store.db.verify().faults) == sorted(gone)
    assert {kind for _view, kind in told(store)} == {"dangling"}
    assert mended(store)
    assert store.all_seen() == before


@pytest.mark.parametrize("side", ["items", "members"])
def test_a_damaged_item_or_membership_is_reported_alone_and_its_entries_follow(store, side):
    before, feed = store.all_seen(), store.feed(HomeFeed)
    key, row = next(iter(store.views(getattr(feed, side)).items()))
    for damaged in (None, {VALUE: Cell(b"\xff", 1)}, {VALUE: Cell(b"\xff", FAR)}, {b"d:x": row[VALUE]}):
        store.put(key, damaged)
        assert {view for view, _kind in told(store)} == {f"HomeFeed.{side}"}
        assert mended(store)
        assert store.all_seen() == before
    store.put(key + b"\x00", row)  # of no entity, with no entry
    assert {view for view, _kind in told(store)} == {f"HomeFeed.{side}"}
    assert mended(store)
    assert store.all_seen() == before


def test_what_followed_from_damage_is_mended_too(store):
    """A commit sees a membership that is no more, and an item without its membership."""
    key, row = next(iter(store.views(store.feed(HomeFeed).members).items()))
    store.put(key, None)
    store.db.save(Post(number=20, group=A, groups=[], text="unseen"))
    store.db.drain()
    store.put(key, row)
    assert ("HomeFeed", "different") in told(store)  # the member has another membership in the group
    assert mended(store)
    assert [row.source.key for row in store.db.page(HomeFeed, 1).rows].count((20,)) == 1


def test_what_readers_do_not_see_is_not_a_fault(store):
    key, row = store.shown(HomeFeed)[0]
    item, membership = column(row, ITEM), column(row, MEMBERSHIP)
    stranger = store.feed(HomeFeed).view.member_codec.encode((500,))
    place = store.feed(HomeFeed).prefix + stranger + store.feed(HomeFeed).tail_of(key)
    for left in ({item: row[item]}, {membership: row[membership]}, {**row, item: Cell(REMOVED, FAR)}):
        store.put(place, left)
        assert store.db.verify().clean


def test_pairs_that_wait_for_a_task_are_left_out():
    store = RowStore(Schema(Membership, Member, Group, Post, HomeFeed, EachFeed, inline=1))
    for number in range(1, 5):
        store.db.save(Membership(number=number, member=Member.at(number), group=A, role="x"))
    committer = store.db.operations.committer
    follow, committer.views.feeds.follow_at_once = committer.views.feeds.follow_at_once, lambda *_given: waiting()
    for change in (
        lambda: store.db.save(Post(number=1, group=A, groups=[A, B])),
        lambda: store.db.save(Post(number=1, group=A, groups=[A], text="new")),
        lambda: store.db.delete(Membership, 1),
        lambda: store.db.save(Membership(number=1, member=Member.at(1), group=A, role="x")),
        lambda: store.db.delete(Post, 1),
    ):
        change()
        assert store.db.survey().tasks
        found = store.db.verify()
        assert found.clean, (found.faults, found.skipped)
        committer.views.feeds.follow_at_once = follow
        store.db.drain()
        committer.views.feeds.follow_at_once = lambda *_given: waiting()
        assert store.db.verify().clean
    store.db.close()


ROWS = """    stored = yield from self._scanner.read_stored("views", [*parts, *keys])
    rows = dict(zip([*parts, *keys], stored, strict=True))
"""
BEGIN = "    yield from watch.begin(parts)\n"


def entries_are_read_before_the_tasks(patch):
    edit(patch, FeedLooker, "entries", (ROWS, ""), (BEGIN, BEGIN + ROWS))


@pytest.mark.parametrize("broken", [None, entries_are_read_before_the_tasks])
def test_a_task_that_ends_during_a_look_has_put_its_entries_before(broken, monkeypatch):
    store = RowStore(Schema(Membership, Member, Group, Post, HomeFeed)).fill_members()
    committer = store.db.operations.committer
    follow, committer.views.feeds.follow_at_once = committer.views.feeds.follow_at_once, lambda *_given: waiting()
    store.db.save(Post(number=1, group=A, groups=[]))
    committer.views.feeds.follow_at_once = follow
    asked = PartWatch.waiting

    def ending(watch, parts):
        yield from store.db.operations.outbox.finish_waiting()
        return (yield from asked(watch, parts))

    monkeypatch.setattr(PartWatch, "waiting", ending)
    monkeypatch.setattr(feed_passes, "confirm", lambda suspects, look, _pace: look(list(suspects)))
    if broken is not None:
        broken(monkeypatch)
    assert store.db.verify().clean is (broken is None)
    store.db.close()


def waiting():
    """Of a commit that leaves all to the worker."""
    yield from ()
    return False


def test_a_task_lost_is_found_and_mended():
    store = RowStore(Schema(Membership, Member, Group, Post, HomeFeed)).fill_members()
    committer = store.db.operations.committer
    follow, committer.views.feeds.follow_at_once = committer.views.feeds.follow_at_once, lambda *_given: waiting()
    store.db.save(Post(number=1, group=A, groups=[]))
    committer.views.feeds.follow_at_once = follow
    lost = [key for key, _row in store.engine.answer(Scan("system", outbox.TASKS, 100))]
    store.db.run(Mutate("system", [RowMutation(key, delete_row=FAR) for key in lost]).__iter__())
    assert [kind for _view, kind in told(store)] == ["missing"] * 4
    assert store.db.repair().mended == 4
    assert store.db.verify().clean
    store.db.close()


def test_a_commit_that_is_not_applied_makes_the_feed_skipped_and_is_compared_later(store, monkeypatch):
    monkeypatch.setattr(looks, "LOOKS", 2)
    store.put(store.shown(HomeFeed)[0][0], None)
    store.db.operations.apply_later()
    store.db.save(Post(number=2, group=A, groups=[A], at=START + timedelta(seconds=2), text="changed"))
    committer = store.db.operations.committer
    committer.completion._later.clear()
    found = store.db.verify()
    assert found.found == {}
    assert {"Post", "feed HomeFeed"} <= {*found.skipped}
    store.db.run(committer.recovery.recover(patience=0.0))
    store.db.drain()
    again = store.db.verify(resume=found.cursor)
    assert (again.clean, again.skipped, again.cursor) == (True, (), "")


def test_what_has_expired_is_not_compared(store):
    store.db.save(Post(number=30, group=A, groups=[], at=START))
    store.clock.tick(10_000)
    for key in store.views(store.feed(RecentFeed).prefix):
        store.put(key, None)
    assert store.db.verify().clean


def test_groups_larger_than_what_is_kept_are_compared_in_parts(store, monkeypatch):
    monkeypatch.setattr(feed_entries, "KEPT", 1)
    monkeypatch.setattr(feed_passes, "READ", 2)
    monkeypatch.setattr(feed_passes, "SUSPECTS", 1)
    assert store.db.verify().clean
    for key, _row in store.shown(HomeFeed):
        store.put(key, None)
    assert {kind for _view, kind in told(store)} == {"missing"}
    assert mended(store)


# Few entries.


def trimmed(store):
    """The stored rows of entries that were trimmed."""
    rows = store.views(store.feed(FullFeed).prefix).items()
    return [(key, row) for key, row in rows if any(each.startswith(TRIMMED) for each in row)]


def test_an_entry_that_is_not_trimmed_any_more_is_one_too_many(store):
    before = store.all_seen()
    key, row = trimmed(store)[0]
    store.put(key, {each: cell for each, cell in row.items() if not each.startswith(TRIMMED)})
    (fault,) = store.db.verify().faults
    assert (fault.view, fault.kind, fault.key) == ("FullFeed", "dangling", key)
    assert fault.text.endswith("the member has 3 entries, and 2 are declared")
    assert mended(store)
    assert store.all_seen() == before


@pytest.mark.parametrize("damage", ["no row", "trimmed later"])
def test_a_trimmed_entry_may_be_damaged_and_is_trimmed_again(store, damage):
    before = store.all_seen()
    key, row = trimmed(store)[0]
    store.put(key, None if damage == "no row" else marked(FAR)(row))
    assert told(store) == [("FullFeed", "missing")]
    assert mended(store)
    assert store.all_seen() == before


def test_a_trimmed_entry_that_has_ended_is_not_a_fault(store):
    for key, row in trimmed(store):
        ended = {each: Cell(REMOVED, cell.stamp) if each.startswith(b"d:") else cell for each, cell in row.items()}
        store.put(key, ended)
    assert store.db.verify().clean
