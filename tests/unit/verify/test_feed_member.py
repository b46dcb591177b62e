"""One member's feed beside what it should be: the faults are those that a verification of the whole feed reports."""

from datetime import UTC, datetime, timedelta

import pytest

from oneread import Feed, Index, Key, Model, Ref, Schema, by, connect, newest, on, shown
from oneread.costs.budgets import budget
from oneread.errors import InvalidKey
from oneread.store.requests import Mutate, Read, Scan
from oneread.store.rows import RowMutation, RowRange
from oneread.verify.feed_member import GROUPS

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


class Reader(Model[int]):
    number: Key[int]


class Joining(Model[int, int]):
    """Its key begins with the member."""

    reader: Key[int]
    room: Key[int]


class Seat(Model[int]):
    """An index of it begins with the member."""

    number: Key[int]
    reader: Ref[Reader]
    room: int


class SeatsOfReader(Index[Seat]):
    reader: Ref[Reader] = by(Seat.reader)


class Paper(Model[int]):
    number: Key[int]
    room: int
    title: str
    at: datetime


class Desk(Feed[Paper]):
    reader: int = by(Joining.reader)
    at: datetime = newest(Paper.at)
    title: str = shown(Paper.title)
    expires_after = None
    joined = on(Paper.room, Joining.room)


class Hall(Feed[Paper]):
    reader: Ref[Reader] = by(Seat.reader)
    at: datetime = newest(Paper.at)
    title: str = shown(Paper.title)
    expires_after = None
    joined = on(Paper.room, Seat.room)


class Few(Feed[Paper]):
    reader: int = by(Joining.reader)
    at: datetime = newest(Paper.at)
    expires_after = None
    joined = on(Paper.room, Joining.room)
    at_most = 3


class Wide(Feed[Paper]):
    reader: int = by(Joining.reader)
    at: datetime = newest(Paper.at)
    expires_after = None
    joined = on(Paper.room, Joining.room)
    large_group = 3
    merged_groups = 1


MODELS = (Reader, Joining, Seat, SeatsOfReader, Paper)
ROOMS = Schema(*MODELS, Desk, Hall)


@pytest.fixture
def db(url):
    with connect(url, ROOMS, workers=0) as opened:
        for number in (1, 2):
            opened.save(Reader(number=number))
            for room in (1, 2):
                opened.save(Joining(reader=number, room=room))
            opened.save(Seat(number=number, reader=Reader.at(number), room=1))
        for number in range(1, 7):
            at = NOON + timedelta(hours=number)
            opened.save(Paper(number=number, room=1 + number % 2, title=f"Paper {number}", at=at))
        opened.drain()
        yield opened


def compared(db, feed, member=1, limit=20):
    return db.run(db.operations.parts.inspector.compare_member(db.operations.catalog.views[feed], (member,), limit))


def entry_keys(db, feed, member=1):
    view = db.operations.catalog.views[feed]
    within = RowRange.under(view.prefix + view.member_codec.encode((member,)))
    return [key for key, _row in db.run(Scan("views", within, 100).__iter__())]


def remove(db, key):
    (row,) = db.run(Read("views", [key], "dm").__iter__())
    later = max(cell.stamp for cell in row.values())
    db.run(Mutate("views", [RowMutation(key, delete_row=later)]).__iter__())
    return row


def texts(found):
    return sorted(each.fault.text for each in found.entries if each.fault is not None)


@pytest.mark.parametrize("feed", [Desk, Hall])
def test_a_feed_as_it_should_be_has_no_faults(db, feed):
    found = compared(db, feed)
    titles = [row.title for row in db.page(feed, 1)]
    assert [each.stored["title"] for each in found.entries] == titles
    assert [each.item for each in found.entries] == [row.source.key for row in db.page(feed, 1)]
    assert (found.faults, found.more_groups, found.older, found.settled) == ([], False, False, True)
    assert found.groups == (2 if feed is Desk else 1)
    assert texts(found) == []


@pytest.mark.parametrize("feed", [Desk, Hall])
def test_an_entry_that_is_missing_is_in_its_place(db, feed):
    keys = entry_keys(db, feed)
    remove(db, keys[1])
    found = compared(db, feed)
    assert [each.stored is None for each in found.entries] == [key == keys[1] for key in keys]
    assert texts(found) == sorted(each.text for each in db.verify(feed).faults if each.kind == "missing")
    assert compared(db, feed, 2).faults == []
    db.repair(feed)
    assert texts(compared(db, feed)) == []


def test_all_entries_of_a_member_may_be_missing(db):
    for key in entry_keys(db, Desk):
        remove(db, key)
    found = compared(db, Desk)
    assert [(each.stored, each.fault.kind) for each in found.entries] == [(None, "missing")] * 6


def test_an_entry_of_an_item_that_is_not_there_is_dangling(db):
    key = entry_keys(db, Desk)[0]
    row = remove(db, key)
    kind = db.operations.catalog.kinds[Paper]
    other = key.removesuffix(kind.suffix((6,))) + kind.suffix((9,))
    db.run(Mutate("views", [RowMutation(other, row)]).__iter__())
    found = compared(db, Desk)
    assert [(each.item, each.fault.kind) for each in found.entries if each.fault] == [
        ((6,), "missing"),
        ((9,), "dangling"),
    ]
    assert texts(found) == sorted(each.text for each in db.verify(Desk).faults)


@pytest.mark.parametrize(
    ("of", "kind", "view"), [((Paper, 6), "feed item", "Desk.items"), ((Joining, 1, 2), "membership", "Desk.members")]
)
def test_an_item_or_membership_that_is_missing_is_the_fault_and_not_its_entries(db, of, kind, view):
    (row,) = [each for each in db.places(*of).places if (each.kind, each.view) == (kind, "Desk")]
    remove(db, row.row)
    found = compared(db, Desk)
    assert ([each.view for each in found.faults], texts(found)) == ([view], [])
    assert [each.text for each in found.faults] == [each.text for each in db.verify().faults]


def test_what_a_task_will_remove_is_not_wrong(url):
    with connect(url, Schema(*MODELS, Desk, Hall, inline=0), workers=0) as db:
        db.save(Joining(reader=1, room=1))
        db.save(Paper(number=1, room=1, title="x", at=NOON))
        assert (compared(db, Desk).entries, compared(db, Desk).faults) == ([], [])
        db.drain()
        assert len(compared(db, Desk).entries) == 1
        db.delete(Paper, 1)
        assert [each.fault for each in compared(db, Desk).entries] == [None]


def test_the_newest_are_compared(db):
    remove(db, entry_keys(db, Desk)[0])
    remove(db, entry_keys(db, Desk)[-1])
    found = compared(db, Desk, limit=2)
    assert found.older
    assert [each.fault and each.fault.kind for each in found.entries] == ["missing", None, None]


def test_a_member_of_many_groups_is_compared_in_some(db):
    for room in range(10, 12 + GROUPS):
        db.save(Joining(reader=1, room=room))
        db.save(Paper(number=100 + room, room=room, title="x", at=NOON + timedelta(days=room)))
    db.drain()
    found = compared(db, Desk)
    assert (found.groups, found.more_groups, found.older) == (GROUPS, True, True)
    assert texts(found) == []


@pytest.mark.parametrize("feed", [Few, Wide])
def test_trimmed_feeds_and_large_groups_are_compared(url, feed):
    with connect(url, Schema(*MODELS, feed), workers=0) as db:
        for reader in range(1, 7):
            for room in (1, 2) if reader < 3 else (1,):
                db.save(Joining(reader=reader, room=room))
        for number in range(8):
            db.save(Paper(number=number, room=1 + number % 2, title="x", at=NOON + timedelta(hours=number)))
        db.drain()
        assert db.verify().clean
        for reader in (1, 2, 5):
            found = compared(db, feed, reader)
            assert (texts(found), found.faults, found.settled) == ([], [], True)
        keys = entry_keys(db, feed)
        remove(db, keys[0])
        assert [each.fault.kind for each in compared(db, feed).entries if each.fault] == ["missing"]
        assert texts(compared(db, feed)) == [each.text for each in db.verify().faults if each.view == feed.__name__]


def test_a_member_of_another_type_is_refused(db):
    with pytest.raises(InvalidKey):
        compared(db, Desk, "x")


def test_what_it_costs(db, kind_of_store):
    with budget() as spent:
        compared(db, Desk)
    on_row = kind_of_store in ("row", "bigtable", "hbase")
    assert (spent.cost.requests, spent.cost.rows) == ((15, 57) if on_row else (14, 51))
