"""Conditions of numbers: one aggregate in place of several, what follows, what it costs, and what may be declared."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import new_class

import pytest

from oneread import (
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    by,
    connect,
    count,
    descending,
    field,
    greatest,
    least,
    mean,
    newest_values,
    rollup,
    shown,
    total,
    within,
)
from oneread.costs.budgets import budget
from oneread.errors import InvalidDeclaration
from oneread.store.rows import VALUE, Cell
from oneread.transactions.deltas import decode_amounts, encode_amounts
from tests.unit.derivations.twin import decide_in_python

START = datetime(2026, 5, 1, tzinfo=UTC)


class Event(Model[int]):
    number: Key[int]
    title: str = "talk"
    open: bool = True
    yes: int = rollup(lambda: Answers.yes)
    seats: int = rollup(lambda: Answers.seats)


class Announced(Copy[Event]):
    open: bool


class Rsvp(Model[int, int]):
    event: Key[int]
    member: Key[int]
    of: Announced
    answer: str
    guests: int | None = None
    price: Decimal = Decimal(0)
    at: datetime = START


YES, WAITS = field(Rsvp.answer) == "yes", field(Rsvp.answer) == "waits"
OPEN = field(within(Rsvp.of, Announced.open)) == True  # noqa: E712 - a condition


class Answers(Aggregate[Rsvp]):
    of: Announced = by(Rsvp.of)
    all: int = count()
    yes: int = count(where=YES)
    waiting: int = count(where=WAITS)
    bringing: int = count(Rsvp.guests, where=YES)
    seats: int = total(Rsvp.guests, where=YES)
    mean_guests: Decimal | None = mean(Rsvp.guests, where=YES)
    paid: Decimal = total(Rsvp.price, where=YES)
    still_open: int = count(where=OPEN & YES)
    most: int | None = greatest(Rsvp.guests, where=YES)
    cheapest: Decimal | None = least(Rsvp.price, where=YES | WAITS)
    newest: list[int] = newest_values(Rsvp.member, by=Rsvp.at, most=2, where=YES)


class Busiest(Index[Answers]):
    yes: int = descending(Answers.yes)
    waiting: int = shown(Answers.waiting)
    newest: list[int] = shown(Answers.newest)


SITE = Schema(Event, Rsvp, Answers, Busiest)


def rsvp(member, answer="yes", event=1, **fields):
    at = START + timedelta(hours=member)
    return Rsvp(event=event, member=member, of=Announced.of(event), answer=answer, at=at, **fields)


@pytest.fixture
def db(url):
    with connect(url, SITE, workers=0) as database:
        database.save_all([Event(number=1), Event(number=2)])
        yield database


def numbers(db, event=1):
    found = db.get(Answers, event)
    return found.all, found.yes, found.waiting, found.bringing, found.seats, found.mean_guests


def test_one_aggregate_counts_and_sums_several_answers(db):
    db.save_all([rsvp(1, guests=2), rsvp(2, "waits", guests=5), rsvp(3), rsvp(4, "no", guests=1)])
    assert numbers(db) == (4, 2, 1, 1, 2, Decimal(2))
    db.patch(Rsvp, 1, 2, answer="yes", price=Decimal("1.50"))
    assert numbers(db) == (4, 3, 0, 2, 7, Decimal("3.5"))
    assert db.get(Answers, 1).paid == Decimal("1.50")
    db.patch(Rsvp, 1, 1, answer="no")
    db.delete(Rsvp, 1, 3)
    assert numbers(db) == (3, 1, 0, 1, 5, Decimal(5))
    assert db.verify().clean


def test_least_greatest_and_newest_values_are_of_the_entities_that_count(db):
    db.save_all([rsvp(1, guests=2, price=Decimal(3)), rsvp(2, guests=4), rsvp(3, "waits", guests=9), rsvp(4, "no")])

    def shown_of():
        found = db.get(Answers, 1)
        return found.most, found.cheapest, found.newest

    assert shown_of() == (4, Decimal(0), [2, 1])
    db.patch(Rsvp, 1, 2, answer="no")
    assert shown_of() == (2, Decimal(0), [1])
    db.patch(Rsvp, 1, 3, answer="yes")
    assert shown_of() == (9, Decimal(0), [3, 1])
    db.delete(Rsvp, 1, 3)
    assert shown_of() == (2, Decimal(3), [1])
    assert db.verify().clean


def test_a_group_exists_while_any_entity_belongs_to_it(db):
    db.save(rsvp(1, "no", guests=3))
    (group,) = db.page(Answers)
    assert (group.all, group.yes, group.seats, group.mean_guests, group.most, group.newest) == (1, 0, 0, None, None, [])
    assert [(row.yes, row.newest) for row in db.page(Busiest)] == [(0, [])]
    db.delete(Rsvp, 1, 1)
    assert not db.page(Answers).rows
    assert not db.page(Busiest).rows
    assert db.get(Answers, 1).yes == 0
    assert db.verify().clean


def test_a_condition_on_a_copied_field_follows_it(db):
    db.save_all([rsvp(1), rsvp(2), rsvp(3, "no")])
    assert db.get(Answers, 1).still_open == 2
    db.patch(Event, 1, open=False)
    db.drain()
    assert db.get(Answers, 1).still_open == 0
    db.patch(Event, 1, open=True)
    db.drain()
    assert db.get(Answers, 1).still_open == 2
    assert db.verify().clean


def test_entities_and_lists_show_them(db):
    db.save_all([rsvp(1, guests=1), rsvp(2, "waits"), rsvp(1, event=2), rsvp(2, event=2), rsvp(3, event=2)])
    db.drain()
    assert [(row.yes, row.waiting, row.newest) for row in db.page(Busiest)] == [(3, 0, [3, 2]), (1, 1, [1])]
    assert (db.get(Event, 1).yes, db.get(Event, 1).seats, db.get(Event, 2).yes) == (1, 1, 3)
    db.patch(Rsvp, 1, 2, answer="yes")
    db.drain()
    assert (db.get(Event, 1).yes, db.page(Busiest)[1].yes) == (2, 2)


def test_a_wrong_number_is_found_and_mended(db):
    db.save_all([rsvp(1, guests=2), rsvp(2, "waits", guests=3)])
    view = db.operations.catalog.views[Answers]
    group = view.prefix + view.key.codec.encode((1,))

    def spoil(store):
        row = store.read("counts", [group], "dm")[0]
        amounts = decode_amounts(row[VALUE].value)
        amounts[view.keyspaces(db.operations.catalog.kinds[Rsvp])[0].numbers.index(f"entities where {YES!r}")] += 1
        store.replace("counts", {group: {**row, VALUE: Cell(encode_amounts(amounts), row[VALUE].stamp)}})

    db.run(db.operations.committer.together(spoil))
    (fault,) = db.verify().faults
    assert "entities where (field(Rsvp.answer) == 'yes')" in str(fault)
    db.repair()
    assert db.verify().clean
    assert db.get(Answers, 1).yes == 1


# What it costs, and how it is stored.


class Plain(Model[int]):
    number: Key[int]
    event: int
    answer: str
    guests: int = 0


PLAIN_YES = field(Plain.answer) == "yes"


def sums_of(*numbers, model=Plain, kind=int, name="Sums"):
    """An aggregate with these numbers."""
    rules = {f"n{at}": rule for at, rule in enumerate(numbers)}

    def declare(space):
        space |= {"__module__": __name__, "__annotations__": {"event": int, **dict.fromkeys(rules, kind)}}
        space |= {"event": by(model.event), **rules}

    return new_class(name, (Aggregate[model],), {}, declare)


def test_a_condition_costs_no_request_and_no_row(new_url):
    conditions = [count(where=PLAIN_YES), count(where=~PLAIN_YES), total(Plain.guests, where=PLAIN_YES)]

    def spent(sums):
        found = []
        with connect(new_url(), Schema(Plain, sums), workers=0) as db:
            for write in (
                lambda: db.save(Plain(number=1, event=1, answer="yes", guests=2)),
                lambda: db.patch(Plain, 1, answer="no", guests=3),
                lambda: db.delete(Plain, 1),
            ):
                with budget() as cost:
                    write()
                found.append((cost.cost.requests, cost.cost.rows))
            bound = db.explain.costs.patch(Plain, "answer")
        return found, bound.requests

    assert spent(sums_of(*conditions)) == spent(sums_of(count(), count(Plain.answer), total(Plain.guests)))


def test_equal_conditions_share_a_number(url):
    twice = [count(where=PLAIN_YES), count(where=field(Plain.answer) == "yes"), count(Plain.guests, where=PLAIN_YES)]
    other = [count(where=field(Plain.answer) != "yes"), total(Plain.guests, where=PLAIN_YES), total(Plain.guests)]
    schema = Schema(Plain, sums_of(*twice, *other))
    with connect(url, schema, workers=0) as db:
        (sums,) = db.operations.catalog.views.values()
        (groups,) = sums.keyspaces(db.operations.catalog.kinds[Plain])
    assert groups.numbers == (
        "contributions",
        f"entities where {PLAIN_YES!r}",
        f"values of Plain.guests where {PLAIN_YES!r}",
        "entities where (field(Plain.answer) != 'yes')",
        f"sum of Plain.guests where {PLAIN_YES!r}",
        "sum of Plain.guests",
    )
    assert len(sums.forms()[0].numbers) == len(groups.numbers) - 1


def test_all_numbers_of_a_class_test_a_condition_once(new_url, monkeypatch):
    tested = []
    compiled = type(PLAIN_YES).compiled

    def counted(self):
        test = compiled(self)
        return lambda entity: tested.append(self.operand) or test(entity)

    def tests_of(*views):
        with connect(new_url(), Schema(Plain, *views), workers=0) as db:
            tested.clear()
            db.save(Plain(number=1, event=1, answer="yes"))
        return list(tested)

    monkeypatch.setattr(type(PLAIN_YES), "compiled", counted)
    decide_in_python(monkeypatch)
    sums = sums_of(count(where=PLAIN_YES), total(Plain.guests, where=PLAIN_YES))
    extremes = sums_of(least(Plain.guests, where=PLAIN_YES), kind=int | None, name="Extremes")
    others = sums_of(least(Plain.guests), kind=int | None, name="Extremes")
    assert tests_of(sums, extremes) == tests_of(sums_of(count(where=PLAIN_YES)), others) != []


# What may be declared.


class Hidden(Model[int]):
    number: Key[int]
    event: int
    of: Ref[Event]


@pytest.mark.parametrize(
    ("model", "rule", "message"),
    [
        (Plain, count(where=True), "`where` is a condition"),
        (Plain, total(Plain.guests, where="guests > 1"), "`where` is a condition"),
        (Plain, count(where=field(Plain.answer) == 5), "can never apply"),
        (Plain, count(where=field(Rsvp.answer) == "yes"), "starts at another model"),
        (Hidden, count(where=field(within(Hidden.of, Event.title)) == "talk"), "the fields of its copies"),
    ],
    ids=["a bool", "text", "never holds", "another model", "a hidden copy"],
)
def test_what_is_not_a_condition_of_the_entity_is_refused(model, rule, message):
    view = sums_of(rule, model=model)
    with pytest.raises(InvalidDeclaration, match=message) as refused:
        Schema(Event, model, view)
    assert view in refused.value.facts.values()
