"""Where an entity is shown: places from its record, who refers to it, what was found of both."""

from datetime import UTC, datetime
from decimal import Decimal

import msgspec
import pytest

from oneread import (
    CREATED,
    GENERATED,
    Aggregate,
    Copy,
    Feed,
    Index,
    Key,
    Model,
    Schema,
    bucket,
    by,
    connect,
    count,
    counter,
    each,
    greatest,
    mean,
    newest,
    on,
    rollup,
    shown,
    total,
    within,
)
from oneread.errors import Corrupt, InvalidCursor, InvalidKey, InvalidQuery, NotFound
from oneread.plans.trace import Cost
from oneread.store.requests import Mutate, Read
from oneread.store.rows import VALUE, Cell, RowMutation
from oneread.transactions.root import BODY, EMITTED, VERSION

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)


class Member(Model[int]):
    number: Key[int]
    name: str
    town: str = "Nashville"


class Group(Model[int]):
    number: Key[int]
    name: str


class Host(Copy[Member]):
    on_delete = "refuse"

    name: str


class InGroup(Copy[Group]):
    name: str


class Membership(Model[int, int]):
    member: Key[int]
    group: Key[int]


class Event(Model[int]):
    number: Key[int]
    title: str
    host: Host
    group: InGroup
    tags: list[str] = msgspec.field(default_factory=list)
    seats: int = 0
    starts_at: datetime = NOON
    made_at: datetime = CREATED
    views: int = rollup(counter("views:{number}"))
    notes: int = rollup(lambda: NotesOf.notes)


class Note(Model[int, int]):
    child_of = Event

    number: Key[int]
    note: Key[int] = GENERATED
    text: str = ""


class NotesOf(Aggregate[Note]):
    number: int = by(Note.number)
    notes: int = count()


class EventsOfGroup(Index[Event]):
    group: InGroup = by(Event.group)
    starts_at: datetime = newest(Event.starts_at)
    title: str = shown(Event.title)


class EventsOfTag(Index[Event]):
    tag: str = by(each(Event.tags))
    title: str = shown(Event.title)


class EventsOfTown(Index[Event]):
    town: str = by(within(Event.host, Member.town))


class EventByTitle(Index[Event]):
    unique = True

    title: str = by(Event.title)


class EventsByText(Index[Event]):
    seats: int = by(Event.seats)
    text: str = by(Event.title, hashed=True)


class SeatsOfDay(Aggregate[Event]):
    day: datetime = bucket(Event.starts_at, "day")
    events: int = count()
    seats: int = total(Event.seats)
    usual: Decimal | None = mean(Event.seats)


class Days(Aggregate[Event]):
    day: datetime = bucket(Event.starts_at, "day")
    most: int | None = greatest(Event.seats)


class Home(Feed[Event]):
    member: int = by(Membership.member)
    starts_at: datetime = newest(Event.starts_at)
    title: str = shown(Event.title)
    expires_after = None
    joined = on(Event.group, Membership.group)


SCHEMA = Schema(
    Member, Group, Membership, Event, Note, NotesOf, EventsOfGroup, EventsOfTag, EventsOfTown, EventByTitle,
    EventsByText, SeatsOfDay, Days, Home,
)  # fmt: skip
DAY = datetime(2026, 11, 27, tzinfo=UTC)
EVENT = Event(number=7, title="Chess", host=Host.of(1), group=InGroup.of(3), tags=["a", "b"], seats=40)


@pytest.fixture
def db(url):
    with connect(url, SCHEMA) as opened:
        opened.save(Member(number=1, name="Ada"))
        opened.save(Group(number=3, name="Players"))
        for member in (1, 2, 5):
            opened.save(Membership(member=member, group=3))
        opened.save(EVENT)
        opened.drain()
        yield opened


def place(found, kind, view, *key):
    (one,) = [each for each in found.places if (each.kind, each.view) == (kind, view) and each.key[: len(key)] == key]
    return one


def change(db, table, key, **mutation):
    """Changes one row behind the library's back."""
    db.run(Mutate(table, [RowMutation(key, **mutation)]).__iter__())


def remove(db, table, key):
    (row,) = db.run(Read(table, [key], "dm").__iter__())
    change(db, table, key, delete_row=max(cell.stamp for cell in row.values()))


def test_every_place_is_named(db):
    found = db.places(Event, 7)
    assert {(each.kind, each.view, each.key) for each in found.places} == {
        ("index", "EventsOfGroup", (3, NOON, 7)),
        ("index", "EventsOfTag", ("a", 7)),
        ("index", "EventsOfTag", ("b", 7)),
        ("index", "EventsOfTown", ("Nashville", 7)),
        ("index", "EventByTitle", ("Chess", 7)),
        ("unique", "EventByTitle", ("Chess",)),
        ("index", "EventsByText", place(found, "index", "EventsByText").key),
        ("share", "SeatsOfDay", (DAY,)),
        ("share", "Days", (DAY,)),
        ("extremum", "Days.most", (DAY, 7)),
        ("feed item", "Home", (3, NOON, 7)),
        ("back-reference", "Member", (1,)),
        ("back-reference", "Group", (3,)),
        ("hold", "Member", (1,)),
    }
    assert place(found, "share", "SeatsOfDay").share == {"events": 1, "seats": 40, "usual": Decimal(40)}
    assert [place(found, "index", "EventsOfTag", tag).field for tag in "ab"] == ["tags", "tags"]
    assert place(found, "hold", "Member").field == "host"
    assert found.hidden == {"host.town": "Nashville"}
    assert (found.model, found.key, found.entity) == ("Event", (7,), db.get(Event, 7))
    assert (found.checked, found.faults) == (None, ())


def test_a_page_begins_with_the_rows_of_a_place(db):
    db.save(Event(number=6, title="Go", host=Host.of(1), group=InGroup.of(3), tags=["b"], seats=40))
    found = db.places(Event, 7)
    for view in (EventsOfGroup, EventsOfTag, EventsOfTown, EventByTitle, EventsByText):
        for one in [here for here in found.places if (here.kind, here.view) == ("index", view.__name__)]:
            assert 7 in {row.source.key[0] for row in db.page(view, *one.equal)}
    assert place(found, "index", "EventsByText").equal == (40,)
    assert db.get(SeatsOfDay, *place(found, "share", "SeatsOfDay").equal).seats == 80
    joined = db.places(Membership, 5, 3)
    assert (joined.places[0].kind, joined.places[0].key) == ("membership", (3, 5, 5, 3))
    assert [row.source.key for row in db.page(Home, *joined.places[0].equal)] == [(6,), (7,)]


def test_fields_whose_change_writes_rows_are_named(db):
    found = db.places(Event, 7)
    assert place(found, "index", "EventsOfGroup").changes == {"title": 1, "group": 2, "starts_at": 2}
    assert place(found, "index", "EventsOfTag", "a").changes == {"title": 1, "tags": 2}
    assert place(found, "index", "EventsOfTown").changes == {"host": 2}
    assert place(found, "unique", "EventByTitle").changes == {"title": 2}
    assert place(found, "share", "SeatsOfDay").changes == {"seats": 1, "starts_at": 2}
    assert place(found, "extremum", "Days.most").changes == {"seats": 2, "starts_at": 2}
    assert place(found, "back-reference", "Group").changes == {"group": 2}
    costs = db.explain.costs
    assert place(found, "feed item", "Home").changes == {"title": 1, "group": 2, "starts_at": 2}
    assert place(found, "feed item", "Home").follow == costs.most_entries
    db.save(Note(number=7, text="x"))
    assert place(db.places(Note, 7, 1), "share", "NotesOf").follow == costs.following(Note).groups[NotesOf] == 1


def test_members_of_the_groups_of_an_item_are_counted_up_to_the_limit(db):
    item = place(db.places(Event, 7), "feed item", "Home")
    assert (item.members, item.more_members) == (3, False)
    item = place(db.places(Event, 7, limit=2), "feed item", "Home")
    assert (item.members, item.more_members) == (2, True)


def test_totals_counters_and_sequences_are_named(db):
    for text in "xy":
        db.save(Note(number=7, text=text))
    event, note = db.places(Event, 7), db.places(Note, 7, 2)
    assert {(each.kind, each.field, each.name, each.key, each.last) for each in event.shows} == {
        ("counter", "views", "views:7", (), None),
        ("total", "notes", "NotesOf", (7,), None),
        ("sequence", "", "Note", (7,), 2),
    }
    assert [(each.kind, each.field, each.name, each.key) for each in note.shows] == [("sequence", "note", "Note", (7,))]


def test_versions_are_those_of_the_entity_and_of_its_row(db):
    found = db.places(Event, 7)
    assert found.versions.own == db.version(db.get(Event, 7)) == db.version(found.entity)
    assert found.versions.created == db.get(Event, 7).made_at
    assert found.versions.row == max(each.stamp for each in found.cells)
    db.save(Member(number=1, name="Bea"))
    db.drain()
    after = db.places(Event, 7)
    assert after.versions.own == found.versions.own
    assert (after.versions.waits, after.versions.deleted, after.versions.expired) == (False, False, False)
    assert {VERSION, BODY, EMITTED} <= {each.column for each in after.cells}
    assert (BODY, stored_row(db, Event, 7)[BODY].value) in [(each.column, each.data) for each in after.cells]


def stored_row(db, model, *key):
    (row,) = db.run(Read("roots", [db.operations.root(model, key)], "dm").__iter__())
    return row


def test_those_who_refer_to_it_come_in_pages(db):
    for number in range(20, 24):
        db.save(Event(number=number, title=f"E{number}", host=Host.of(1), group=InGroup.of(3)))
    found, cursor, requests = [], None, []
    while True:
        page = db.places(Member, 1, limit=3, cursor=cursor)
        found += page.holders
        requests.append(db.cost(page).requests)
        cursor = page.next
        if cursor is None:
            break
    events = (7, 20, 21, 22, 23)
    assert [(each.kind, each.key[0], each.fields, each.takes) for each in found] == [
        *(("back-reference", number, ("host",), ("name", "town")) for number in events),
        *(("hold", number, ("host",), ()) for number in events),
    ]
    assert {each.model for each in found} == {"Event"}
    assert requests == [2, 3, 2, 2]  # the second page ends behind the last back-reference
    assert db.places(Group, 3, limit=2).next is not None
    assert db.places(Event, 7).holders == ()


def test_of_a_deleted_entity_its_row_is_shown(db):
    db.delete(Event, 7)
    found = db.places(Event, 7)
    assert (found.entity, found.places, found.versions.deleted, found.versions.own) == (None, (), True, 0)
    assert found.versions.row > 0
    with pytest.raises(NotFound) as absent:
        db.places(Event, 8)
    assert absent.value.facts == {"model": Event, "key": (8,)}
    with pytest.raises(NotFound):
        db.places(Event, 8, check=True)


def test_a_check_says_of_each_row_whether_it_is_there(db):
    found = db.places(Event, 7, check=True)
    assert {each.kind: each.state for each in found.places} == {
        "index": "there", "unique": "there", "extremum": "there", "share": None, "feed item": "there",
        "back-reference": "there", "hold": "there",
    }  # fmt: skip
    assert (found.checked, found.faults) == (True, ())


def test_a_missing_row_is_named(db):
    gone = place(db.places(Event, 7), "index", "EventsOfTag", "b")
    remove(db, "views", gone.row)
    found = db.places(Event, 7, check=True)
    assert {each.row: each.state for each in found.places if each.state not in ("there", None)} == {gone.row: "missing"}
    assert [each.text for each in found.faults] == ["EventsOfTag b of Event 7: the row is missing"]
    assert place(found, "index", "EventsOfTag", "b").fault == found.faults[0]
    assert [each.text for each in db.verify().faults] == [each.text for each in found.faults]
    db.repair()
    assert db.places(Event, 7, check=True).faults == ()


def test_a_row_with_another_value_and_a_claim_of_another_are_named(db):
    before = db.places(Event, 7)
    row, claim = place(before, "index", "EventsOfTag", "b"), place(before, "unique", "EventByTitle")
    (other,) = db.run(Read("views", [place(before, "index", "EventByTitle").row]).__iter__())
    change(db, "views", row.row, puts={VALUE: Cell(other[VALUE].value, other[VALUE].stamp + 1)})
    remove(db, "counts", claim.row)
    found = db.places(Event, 7, check=True)
    states = {each.row: each.state for each in found.places if each.state not in ("there", None)}
    assert states == {row.row: "other value", claim.row: "missing"}
    assert {each.text for each in db.verify(Event).faults} == {each.text for each in found.faults}


@pytest.mark.parametrize("column", [BODY, EMITTED, VERSION])
def test_a_damaged_row_is_named(db, column):
    row = stored_row(db, Event, 7)
    wrong = Cell(b"\xff", row[column].stamp + 1)
    change(db, "roots", db.operations.root(Event, (7,)), puts={column: wrong})
    for check in (False, True):
        with pytest.raises(Corrupt) as damaged:
            db.places(Event, 7, check=check)
        assert damaged.value.facts["row"] == "Event(7)"


def test_a_row_without_a_record_is_named(db):
    row = stored_row(db, Event, 7)
    change(db, "roots", db.operations.root(Event, (7,)), deletes={EMITTED: row[EMITTED].stamp})
    with pytest.raises(Corrupt, match="record"):
        db.places(Event, 7)


def test_references_and_copies_name_an_entity(db):
    found = db.places(Event, 7)
    assert db.places(Event, Event.at(7)).places == found.places
    assert db.places(Member, found.entity.host).model == "Member"
    with pytest.raises(InvalidKey):
        db.places(Event, Member.at(7))


@pytest.mark.parametrize("limit", [0, 1001, True, 1.0, None])
def test_a_limit_out_of_bounds_is_refused(db, limit):
    for places in (db.places, db.explain.places):
        with pytest.raises(InvalidQuery):
            places(Event, 7, limit=limit)


def test_a_cursor_of_another_entity_is_refused(db):
    cursor = db.places(Member, 1, limit=1).next
    assert db.places(Member, 1, limit=1, cursor=cursor).holders[0].kind == "hold"
    for wrong in (cursor[:-1], "x", "", 5):
        with pytest.raises(InvalidCursor):
            db.places(Member, 1, cursor=wrong)
    with pytest.raises(InvalidCursor):
        db.places(Member, 2, cursor=cursor)
    with pytest.raises(InvalidCursor):
        db.page(Event, cursor=cursor)


def test_what_it_costs(db, kind_of_store):
    on_row = kind_of_store in ("row", "bigtable", "hbase")
    db.save(Note(number=7, text="x"))
    asked = {
        (Group, 3): (2, 2),
        (Member, 1): (3, 3),
        (Event, 7): (4, 5),  # its row, who refers to it, who holds it, the members of its group
        (Note, 7, 1): (2, 2 if on_row else 1),  # with the row of its root
    }
    for (model, *key), (requests, rows) in asked.items():
        cost, bound = db.cost(db.places(model, *key)), db.explain.places(model, *key).bound
        assert (cost.requests, cost.rows) == (requests, rows), model
        assert_below(cost, bound)
    for (model, *key), (requests, rows) in asked.items():
        found = db.places(model, *key, check=True)
        tables = {each.table for each in found.places if each.state is not None}
        again = len(key) if on_row and model is Note else int(on_row)
        cost, bound = db.cost(found), db.explain.places(model, *key, check=True).bound
        compared = len([each for each in found.places if each.state is not None])
        assert cost.requests == requests + 1 + len(tables) + int(on_row), model
        assert cost.rows == rows + 1 + compared + again, model
        assert_below(cost, bound)


def assert_below(cost: Cost, bound):
    assert cost.requests <= bound.requests
    assert cost.rows <= bound.rows
    assert cost.bytes <= bound.bytes
    assert cost.rounds <= bound.rounds
