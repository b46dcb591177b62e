"""The index of memberships: one that expires shows its items until a sweep deletes it, and then like one who leaves."""

from datetime import datetime, timedelta

import pytest

from oneread import Feed, Key, Model, Schema, by, connect, expires, newest, on, shown
from oneread.store.requests import Scan
from oneread.store.rows import RowRange
from oneread.testing.clock import START, Clock


class Pass(Model[int]):
    number: Key[int]
    member: int
    group: str
    until: datetime | None = None
    ttl = expires("until")


class Note(Model[int]):
    number: Key[int]
    group: str
    at: datetime = START
    text: str = ""


class Notes(Feed[Note]):
    member: int = by(Pass.member)
    at: datetime = newest(Note.at)
    text: str = shown(Note.text)
    joined = on(Note.group, Pass.group)


class MergedNotes(Notes):
    large_group = 2


class FewNotes(Notes):
    at_most = 2


STORE = "memberships that expire"
SOON = START + timedelta(seconds=60)


def opened(url, clock, inline=1000, views=(Notes, MergedNotes, FewNotes)):
    return connect(url, Schema(Pass, Note, *views, inline=inline), clock=clock, workers=0)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=[0, 1000], ids=["tasks", "commits"])
def db(request, url, clock):
    with opened(url, clock, request.param) as db:
        db.save_all([Note(number=number, group="a", text=str(number)) for number in range(1, 4)])
        members = [Pass(number=number, member=number, group="a", until=SOON) for number in (1, 2)]
        db.save_all([*members, Pass(number=3, member=3, group="a"), Pass(number=4, member=1, group="b")])
        db.drain()
        yield db


def notes(db, member, feed=Notes):
    return [entry.source.key[0] for entry in db.page(feed, member)]


def every(db, feed=Notes):
    return [notes(db, member, feed) for member in (1, 2, 3)]


def rows_of(db, feed):
    """Its entries, items and memberships, as they are stored."""
    views = db.operations.catalog.views
    prefixes = [views[each].prefix for each in (feed, *views[feed].parts)]
    return [db.run(Scan("views", RowRange.under(each), 100, families="dm").__iter__()) for each in prefixes]


ALL = [1, 2, 3]
ONE_LEFT = [[], [], ALL]


def test_an_expired_membership_shows_its_items_until_the_sweep(db, clock):
    clock.tick(61)
    assert db.find(Pass, 1) is None
    assert every(db) == every(db, MergedNotes) == [ALL, ALL, ALL]
    assert every(db, FewNotes) == [ALL[:2]] * 3
    assert db.verify().clean
    db.save(Note(number=9, group="a", text="in between"))
    db.drain()
    assert every(db) == every(db, MergedNotes) == [[*ALL, 9]] * 3
    assert db.verify().clean
    db.delete(Note, 9)
    assert db.sweep().deleted == 2
    db.drain()
    assert every(db) == every(db, MergedNotes) == ONE_LEFT
    assert every(db, FewNotes)[:2] == [[], []]
    assert db.verify().clean


def test_a_membership_that_is_prolonged_writes_no_entries(url, clock):
    with opened(url, clock, views=(Notes,)) as db:
        db.save_all([Note(number=1, group="a"), Pass(number=1, member=1, group="a", until=SOON)])
        stored = rows_of(db, Notes)
        clock.tick(30)
        db.patch(Pass, 1, until=SOON + timedelta(seconds=60))
        assert rows_of(db, Notes) == stored
        clock.tick(60)
        assert db.sweep().deleted == 0
        assert notes(db, 1) == [1]


def test_a_member_with_another_membership_keeps_the_items(db, clock):
    db.save(Pass(number=5, member=1, group="a"))
    clock.tick(61)
    db.sweep()
    db.drain()
    assert every(db) == every(db, MergedNotes) == [ALL, [], ALL]
    assert db.verify().clean


def test_a_membership_is_replaced_when_it_has_expired(db, clock):
    clock.tick(61)
    db.save(Pass(number=1, member=1, group="b", until=None))
    db.drain()
    assert notes(db, 1) == []
    db.sweep()
    db.drain()
    assert every(db) == ONE_LEFT
    assert db.verify().clean


def test_repair_makes_what_an_expired_membership_shows(db, clock):
    clock.tick(61)
    engine = db._driver.engine
    for key, _row in rows_of(db, Notes)[0][:2]:
        engine.transaction(lambda inside, key=key: inside.replace("views", {key: None}), 30)
    assert not db.verify().clean
    assert db.repair().mended == 2
    assert db.verify().clean
    assert every(db) == [ALL, ALL, ALL]


def test_a_backfill_builds_what_an_expired_membership_shows(url, clock):
    with opened(url, clock, views=()) as before:
        before.save_all([Note(number=1, group="a"), Pass(number=1, member=1, group="a", until=SOON)])
        with opened(url, clock) as db:
            clock.tick(61)
            assert db.backfill(fence=True).done
            assert notes(db, 1) == notes(db, 1, MergedNotes) == [1]
            assert db.verify().clean
            db.sweep()
            assert notes(db, 1) == notes(db, 1, MergedNotes) == []
            assert db.verify().clean


def test_a_ttl_that_is_added_builds_no_feed_again(url, clock):
    class Ticket(Model[int]):
        number: Key[int]
        member: int
        group: str
        until: datetime | None = None

    class Home(Feed[Note]):
        member: int = by(Ticket.member)
        at: datetime = newest(Note.at)
        joined = on(Note.group, Ticket.group)

    with connect(url, Schema(Ticket, Note, Home), clock=clock, workers=0) as db:
        db.save_all([Note(number=1, group="a"), Ticket(number=1, member=1, group="a", until=SOON)])
        Ticket.ttl = expires("until")
        with connect(url, Schema(Ticket, Note, Home), clock=clock, workers=0) as new:
            assert new.backfill(fence=True).done
            clock.tick(61)
            assert notes(new, 1, Home) == [1]
            assert new.sweep().deleted == 1
            assert notes(new, 1, Home) == []
            assert new.verify().clean
