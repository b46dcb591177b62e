"""Places of an entity that is being changed: nothing is called a fault that is only on its way."""

import pytest

from oneread import Key, Model, Schema, connect
from oneread.database.place_reader import PlacesQuery, PlacesRead
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
