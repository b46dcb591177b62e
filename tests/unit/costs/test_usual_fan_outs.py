"""What usually follows one change: counted in a store, in what bounds expect; and what no declaration limits."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from oneread import (
    Aggregate,
    Copy,
    Feed,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    by,
    connect,
    count,
    newest,
    on,
    rollup,
    shown,
    within,
)
from oneread.costs import declared
from oneread.costs.usual import NOTHING_COUNTED, FanOutSize, UsualFanOuts
from oneread.database.fan_out_sizes import fan_out_sizes

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


class Group(Model[str]):
    name: Key[str]
    town: str


class InTown(Copy[Group]):
    town: str


class Event(Model[int]):
    number: Key[int]
    group: InTown
    begins: datetime


class Stay(Model[int]):
    number: Key[int]
    group: Ref[Group]


class EventsOfTown(Index[Event]):
    town: str = by(within(Event.group, InTown.town))
    begins: datetime = newest(Event.begins)


class Home(Feed[Event]):
    joined = on(Event.group, Stay.group)

    member: int = by(Stay.number)
    begins: datetime = newest(Event.begins)
    town: str = shown(within(Event.group, InTown.town))


class LargeHome(Feed[Event]):
    joined = on(Event.group, Stay.group)
    large_group = 100

    member: int = by(Stay.number)
    begins: datetime = newest(Event.begins)
    town: str = shown(within(Event.group, InTown.town))


EVENTS = {"a": 1, "b": 3, "c": 9, "d": 3}
MEMBERS = {"a": 2, "b": 5, "c": 1, "d": 2}
SCHEMA = Schema(Group, Event, Stay, EventsOfTown, Home)


def fill(db):
    for name, many in EVENTS.items():
        db.save(Group(name=name, town="x"))
        db.save_all([Stay(number=ord(name) * 100 + k, group=Group.at(name)) for k in range(MEMBERS[name])])
        events = [Event(number=ord(name) * 100 + k, group=InTown.of(name), begins=NOON) for k in range(many)]
        db.save_all(events)
    db.save(Group(name="e", town="x"))  # without events and members, and not counted
    db.drain()


def test_holders_members_and_items_are_counted(url):
    with connect(url, SCHEMA, workers=0) as db:
        fill(db)
        found = db.run(fan_out_sizes(db.operations.catalog))
    assert found == UsualFanOuts(
        {"Group": FanOutSize(4, 3, 9, "c")}, {"Home": FanOutSize(4, 2, 5, "b")}, {"Home": FanOutSize(4, 3, 9, "c")}
    )
    assert found.lines()[0] == "Group: 3 holders of its copies at the median, 9 at the most, of c"


def test_of_an_empty_store_nothing_is_counted(url):
    with connect(url, SCHEMA, workers=0) as db:
        assert db.run(fan_out_sizes(db.operations.catalog)) == NOTHING_COUNTED


def test_the_first_rows_are_counted_where_there_are_more(url, monkeypatch):
    monkeypatch.setattr("oneread.database.fan_out_sizes._BATCH", 4)
    with connect(url, SCHEMA, workers=0) as db:
        fill(db)
        found = db.run(fan_out_sizes(db.operations.catalog, most=4))
    assert found.holders == {"Group": FanOutSize(2, 1, 3, "b", whole=False)}
    assert found.lines()[0].endswith("; of the first 2 that have any")


@pytest.mark.parametrize("span", ["rows", "row"])
def test_bounds_expect_what_was_counted(span):
    def patched(holders, members):
        sizes = {"Group": FanOutSize(1, holders, holders, "a")}, {"Home": FanOutSize(1, members, members, "a")}, {}
        return declared.of(SCHEMA, span).expecting(UsualFanOuts(*sizes)).patch(Group, "town")

    few, many, crowded = patched(1, 1), patched(10, 1), patched(10, 50)
    assert few.rows == many.rows == crowded.rows
    of_entries = {term.typical_rows for term in crowded.terms if term.what.endswith("feed entries")}
    assert of_entries == {500}
    assert 0 < few.typical_rows < many.typical_rows < crowded.typical_rows - 450
    assert 0 < few.typical < many.typical < crowded.typical


def test_what_is_expected_of_a_rename_is_what_it_costs():
    with connect("memory://", Schema(Group, Event, EventsOfTown), workers=0) as db:
        db.save(Group(name="a", town="x"))
        db.save_all([Event(number=number, group=InTown.of("a"), begins=NOON) for number in range(7)])
        costs = db.explain.costs.expecting(db.run(fan_out_sizes(db.operations.catalog)))
        cost = db.cost(db.patch(Group, "a", town="y"))
        bound = costs.patch(Group, "town")
        assert (cost.rows, cost.requests) == (bound.typical_rows, bound.requests)
        assert bound.rows > 4_000


@pytest.mark.parametrize("span", ["rows", "row"])
def test_entries_of_each_holder_are_unbounded(span):
    bound = declared.of(SCHEMA, span).patch(Group, "town")
    assert (bound.unlimited, bound.amounts) == (("Home",), ["unbounded"] * 4)
    assert "declare large_group= in Home" in str(bound)
    assert declared.of(SCHEMA, span).patch(Event).unlimited == ()
    assert declared.of(SCHEMA, span).patch(Group, "town", carriers=3).unlimited == ()


def test_a_declared_limit_makes_it_a_number():
    large, few = Schema(Group, Event, Stay, LargeHome), Schema(Group, Event, Stay, Home, inline=50)
    for schema in (large, few):
        bound = declared.of(schema).patch(Group, "town")
        assert (bound.unlimited, bound.amounts[2]) == ((), bound.rows)
        assert f"{bound.rows:,} rows" in str(bound)


class Party(Model[int]):
    number: Key[int]
    group: Ref[Group]
    begins: datetime
    yes: int = rollup(lambda: AnswersOfParty.yes)


class Answer(Model[int]):
    number: Key[int]
    party: Ref[Party]


class AnswersOfParty(Aggregate[Answer]):
    party: Ref[Party] = by(Answer.party)
    yes: int = count()


class Parties(Feed[Party]):
    joined = on(Party.group, Stay.group)

    member: int = by(Stay.number)
    begins: datetime = newest(Party.begins)


@pytest.mark.parametrize("span", ["rows", "row"])
def test_a_feed_that_does_not_show_a_total_is_not_expected_to_follow_it(span):
    """At most it does: entries that have expired go with the next change of their item, whatever that changes."""
    bound = declared.of(Schema(Group, Stay, Party, Answer, AnswersOfParty, Parties), span).create(Answer)
    entries = [(term.rows > 0, term.typical_rows) for term in bound.terms if term.what.endswith("feed entries")]
    assert {*entries} == {(True, 0)}
