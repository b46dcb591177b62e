"""Places of an entity that is being changed: nothing is called a fault that is only on its way."""

from datetime import datetime, timedelta

import pytest

from oneread import Index, Key, Model, Schema, by, connect, expires, newest
from oneread.database.place_reader import PlacesQuery, PlacesRead
from oneread.testing.clock import START, Clock
from tests.unit.database.test_places import EVENT, SCHEMA, Event, Group, Member, Note, place


def fill(db):
    db.save(Member(number=1, name="Ada"))
    db.save(Group(number=3, name="Players"))
    db.drain()
    db.save(EVENT)


@pytest.fixture
def late():
    """A store that changes one row at a time, whose writes return at their commit point."""
    with connect("memory://?span=row", SCHEMA, wait="commit", workers=0) as db:
        fill(db)
        yield db


def test_what_a_commit_has_yet_to_write_is_not_called_a_fault(late):
    found = late.places(Event, 7, check=True)
    assert (found.versions.waits, found.checked, found.faults) == (True, False, ())
    assert {each.state for each in found.places} == {None}
    assert late.cost(found).requests == 4  # the rows are not read
    late.drain()
    found = late.places(Event, 7, check=True)
    assert (found.versions.waits, found.checked, found.faults) == (False, True, ())


def test_a_child_waits_with_its_root(late):
    late.drain()
    late.save(Note(number=7, text="x"))
    assert late.places(Event, 7).versions.waits
    late.drain()
    assert not late.places(Note, 7, 1, check=True).versions.waits
    late.patch(Note, 7, 1, text="y")
    found = late.places(Note, 7, 1, check=True)
    assert (found.versions.waits, found.checked) == (True, False)


def test_a_commit_between_two_reads_is_seen(url):
    with connect(url, SCHEMA, workers=0) as db:
        fill(db)
        db.drain()
        query = PlacesQuery(Event, (7,), 50, None, check=True)
        requests, changed = [], False

        def answer(request):
            return (yield request)

        plan, given = PlacesRead(db.operations, db._cipher, query).read(), None
        while True:
            try:
                request = plan.send(given)
            except StopIteration as ended:
                found = ended.value
                break
            requests.append(type(request).__name__)
            given = db.run(answer(request))
            if not changed and type(request).__name__ in ("Read", "Snapshot"):
                db.patch(Event, 7, tags=["c"])
                db.drain()
                changed = True
        assert found.checked is (requests[0] == "Snapshot")
        assert found.faults == ()
        assert {place(found, "index", "EventsOfTag", tag).key for tag in "ab"} == {("a", 7), ("b", 7)}


class Grade(Model[int]):
    number: Key[int]


def test_an_entity_without_views_has_no_places(url):
    with connect(url, Schema(Grade), workers=0) as db:
        db.save(Grade(number=1))
        found = db.places(Grade, 1, check=True)
        assert (found.places, found.holders, found.checked) == ((), (), True)


class Lease(Model[int]):
    number: Key[int]
    house: str = "a"
    until: datetime = START
    ttl = expires("until")


def test_what_waits_for_a_sweep_is_expired(url):
    clock = Clock()
    with connect(url, Schema(Lease), clock=clock, workers=0) as db:
        db.save(Lease(number=1, until=START + timedelta(seconds=5)))
        assert not db.places(Lease, 1).versions.expired
        clock.tick(6)
        found = db.places(Lease, 1)
        assert db.find(Lease, 1) is None
        assert (found.versions.expired, found.versions.deleted, found.entity.house) == (True, False, "a")
        db.sweep()
        assert db.places(Lease, 1).versions.deleted


def leases(*rules):
    """A view of leases, whatever its rules are."""

    class LeasesOfHouse(Index[Lease]):
        house: str = by(Lease.house)
        until: datetime = rules[0](Lease.until)

    return LeasesOfHouse


def test_rows_of_a_former_generation_are_places_too(url):
    before, after = Schema(Lease, leases(newest)), Schema(Lease, leases(by))
    with connect(url, before, workers=0) as db:
        db.save(Lease(number=1, until=START + timedelta(days=99_999)))
        (old,) = [each for each in db.places(Lease, 1).places if each.view == "LeasesOfHouse"]
    with connect(url, after, workers=0) as db:
        (found,) = [each for each in db.places(Lease, 1, check=True).places if each.row == old.row]
        assert (found.view, found.key, found.state) == ("LeasesOfHouse~1", old.key, "there")
        db.backfill(fence=True, quiet=0.0)
        named = db.places(Lease, 1, check=True)
        assert {each.view: each.state for each in named.places if each.key == old.key} == {
            "LeasesOfHouse": "there", "LeasesOfHouse~1": "there",
        }  # fmt: skip


def test_rows_of_a_view_that_only_a_newer_program_has_are_named_by_its_number(url):
    with connect(url, Schema(Lease), workers=0) as old, connect(url, Schema(Lease, leases(by)), workers=0) as new:
        new.save(Lease(number=1, until=START + timedelta(days=99_999)))
        (known,) = [each for each in new.places(Lease, 1).places if each.view == "LeasesOfHouse"]
        (found,) = [each for each in old.places(Lease, 1).places if each.row == known.row]
        assert (found.kind, found.key, found.equal, found.changes, found.state) == ("index", (), (), {}, None)
        assert found.view.startswith("view number ")
        assert found.view.endswith(", generation 1")
