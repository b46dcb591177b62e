"""What a deleted entity left: its last values, what still follows, entries that still show it, rows that should not."""

from datetime import UTC, datetime

import pytest

from oneread import Copy, Feed, Index, Key, Model, Schema, by, connect, newest, on, shown
from oneread.store.requests import Mutate, Read
from oneread.store.rows import VALUE, Cell, RowMutation
from oneread.transactions import outbox
from oneread.transactions.root import EMITTED

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


class Customer(Model[int]):
    number: Key[int]
    name: str
    since: datetime = NOON


class Buyer(Copy[Customer]):
    name: str
    since: datetime


class Order(Model[int]):
    number: Key[int]
    buyer: Buyer

    def check(self):
        if self.buyer.deleted and self.number == 13:
            raise ValueError("this one has to be paid first")


class Club(Model[int]):
    number: Key[int]


class InClub(Copy[Club]):
    number: int


class Evening(Model[int]):
    number: Key[int]
    title: str
    club: InClub
    at: datetime = NOON


class EveningsByTitle(Index[Evening]):
    title: str = by(Evening.title)


class Joining(Model[int, int]):
    person: Key[int]
    club: Key[int]


class Home(Feed[Evening]):
    person: int = by(Joining.person)
    at: datetime = newest(Evening.at)
    title: str = shown(Evening.title)
    expires_after = None
    joined = on(Evening.club, Joining.club)


SHOP = Schema(Customer, Order, Club, Evening, EveningsByTitle, Joining, Home, inline=0)


@pytest.fixture
def db(url):
    with connect(url, SHOP, workers=0) as opened:
        opened.save(Customer(number=7, name="Ada"))
        for number in (1, 2, 13):
            opened.save(Order(number=number, buyer=Buyer.of(7)))
        opened.save(Club(number=3))
        for person in (1, 2, 5):
            opened.save(Joining(person=person, club=3))
        opened.save(Evening(number=4, title="Chess", club=InClub.of(3)))
        opened.drain()
        yield opened


def stored_row(db, table, key):
    (row,) = db.run(Read(table, [key], "dm").__iter__())
    return row


def put(db, table, key, puts):
    db.run(Mutate(table, [RowMutation(key, puts)]).__iter__())


def test_its_last_values_and_the_task_that_waits_are_named(db):
    db.delete(Customer, 7)
    found = db.places(Customer, 7)
    assert (found.entity, found.last, found.places) == (None, {"name": "Ada", "since": NOON}, ())
    (task,) = found.tasks
    assert (task.kind, task.of, task.done, task.error, task.tries) == ("follow", "Customer(7)", 0, "", 0)
    assert abs((task.since - datetime.now(UTC)).total_seconds()) < 600
    assert [(each.model, each.key) for each in found.holders] == [("Order", (1,)), ("Order", (2,)), ("Order", (13,))]


def test_a_holder_that_could_not_follow_is_named_with_its_error(db):
    db.delete(Customer, 7)
    db.drain()
    (aside,) = db.places(Customer, 7).tasks
    assert (aside.kind, aside.of, aside.tries) == ("set aside", "Order(13)", 1)
    assert aside.error.startswith("InvalidValue: ")
    assert "this one has to be paid first" in aside.error
    assert aside.since is not None


def test_entries_that_still_show_it_are_named_until_the_task_is_done(db):
    db.delete(Evening, 4)
    found = db.places(Evening, 4)
    assert [(each.kind, each.view, each.key) for each in found.places] == [
        ("feed entry", "Home", (person, NOON, 4)) for person in (1, 2, 5)
    ]
    assert [row.title for row in db.page(Home, *found.places[0].equal)] == ["Chess"]
    assert [(each.kind, each.of.split("(")[0]) for each in found.tasks] == [("feed", "Home.items")]
    assert len(db.places(Evening, 4, limit=2).places) == 2
    db.drain()
    found = db.places(Evening, 4)
    assert (found.places, found.tasks) == ((), ())


def test_a_deleted_member_is_named_by_the_task_of_its_row(db):
    db.delete(Joining, 2, 3)
    found = db.places(Joining, 2, 3)
    assert [(each.kind, each.of.split("(")[0]) for each in found.tasks] == [("feed", "Home.members")]
    assert [each.kind for each in db.places(Joining, 1, 3).tasks] == []


def test_of_an_entity_that_is_not_deleted_nothing_of_it_is_read(db):
    db.patch(Customer, 7, name="Bea")
    found = db.places(Customer, 7)
    assert (found.tasks, found.last) == ((), {})
    assert db.cost(found).requests == 2


def test_a_record_that_still_lists_rows_says_of_each_whether_it_is_there(db):
    before = db.places(Evening, 4)
    root = db.operations.root(Evening, (4,))
    record = stored_row(db, "roots", root)[EMITTED].value
    gone, stays = [each for each in before.places if each.kind in ("index", "feed item")][::-1]
    kept = stored_row(db, "views", stays.row)
    db.delete(Evening, 4)
    db.drain()
    later = max(cell.stamp for cell in stored_row(db, "roots", root).values())
    put(db, "roots", root, {EMITTED: Cell(record, later + 1)})
    put(db, "views", stays.row, {VALUE: Cell(kept[VALUE].value, later + 1)})
    found = db.places(Evening, 4, check=True)
    states = {each.row: each.state for each in found.places}
    assert (states[stays.row], states[gone.row]) == ("dangling", None)
    assert {each.kind for each in found.faults} == {"dangling", "different"}


@pytest.mark.parametrize("damage", ["task", "aside"])
def test_what_cannot_be_read_is_said_and_not_an_error(db, damage):
    db.delete(Customer, 7)
    if damage == "aside":
        db.drain()
    root = db.operations.root(Customer, (7,))
    within = outbox.TASKS if damage == "task" else outbox.aside_of(root)
    ((key, row),) = db.run(outbox.Scan("system", within, 2, families="d").__iter__())
    put(db, "system", key, {VALUE: Cell(b"\xff", row[VALUE].stamp + 1)})
    (task,) = db.places(Customer, 7).tasks
    assert "repair the store" in task.error


def test_what_it_costs(db):
    db.delete(Customer, 7)
    db.delete(Evening, 4)
    asked = {(Customer, 7): (4, 5), (Evening, 4): (7, 9)}
    for (model, *key), (requests, rows) in asked.items():
        found = db.places(model, *key)
        cost, bound = db.cost(found), db.explain.places(model, *key).bound
        assert (cost.requests, cost.rows) == (requests, rows), model
        for name in ("requests", "rows", "bytes", "rounds"):
            assert getattr(cost, name) <= getattr(bound, name), (name, model)
