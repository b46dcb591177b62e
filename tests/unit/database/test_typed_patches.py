"""`field(Match.goals).to(2)` changes what `goals=2` changes, in every verb, and a wrong one names its field."""

import asyncio
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import msgspec
import pytest

from oneread import (
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    add,
    append,
    by,
    connect,
    connect_async,
    count,
    field,
    remove,
    shown,
    total,
    within,
)
from oneread.database.patches import set_to, take_changes, values_of
from oneread.errors import Conflict, InvalidKey, InvalidValue, NotFound, UsageError
from tests.unit.database.faces import FACES

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Club(Model[int]):
    number: Key[int]
    name: str


class Host(Copy[Club]):
    name: str


class Match(Model[int]):
    number: Key[int]
    host: Host
    guest: Ref[Club] | None = None
    note: str | None = None
    goals: int = 0
    price: Decimal = Decimal(1)
    starts_at: datetime = NOON
    day: date = date(2026, 5, 1)
    tags: list[str] = []  # noqa: RUF012 - msgspec makes each its own
    seats: set[int] = set()  # noqa: RUF012 - msgspec makes each its own
    if_version: int = 0
    carriers: int = 0


class CupFinal(Match):
    cup: str = "gold"


class MatchesOfClub(Index[Match]):
    host: Host = by(Match.host)
    goals: int = shown(Match.goals)


class GoalsOfClub(Aggregate[Match]):
    host: Host = by(Match.host)
    matches: int = count()
    goals: int = total(Match.goals)


SITE = Schema(Club, Match, CupFinal, MatchesOfClub, GoalsOfClub)


def match(number):
    return Match(number=number, host=Host.of(1), tags=["a", "b"], seats={1, 2})


ALIKE = {
    "a value": (field(Match.goals).to(3), {"goals": 3}),
    "None": (field(Match.note).to(None), {"note": None}),
    "a reference": (field(Match.guest).to(Club.at(1)), {"guest": Club.at(1)}),
    "a copy": (field(Match.host).to(Host.of(2)), {"host": Host.of(2)}),
    "a list": (field(Match.tags).to([]), {"tags": []}),
    "add": (field(Match.goals).add(2), {"goals": add(2)}),
    "add to a Decimal": (field(Match.price).add(2), {"price": add(2)}),
    "add to an instant": (field(Match.starts_at).add(timedelta(2)), {"starts_at": add(timedelta(2))}),
    "add to a date": (field(Match.day).add(timedelta(2)), {"day": add(timedelta(2))}),
    "append": (field(Match.tags).append("c"), {"tags": append("c")}),
    "append to a set": (field(Match.seats).append(3), {"seats": append(3)}),
    "remove": (field(Match.tags).remove("a"), {"tags": remove("a")}),
    "remove from a set": (field(Match.seats).remove(1), {"seats": remove(1)}),
}


@pytest.fixture(params=FACES)
def db(request, url):
    database = FACES[request.param](url, SITE, workers=0)
    database.save_all([Club(number=1, name="Reds"), Club(number=2, name="Blues"), match(1), match(2)])
    yield database
    database.close()


def stored(db, number):
    """The entity under a number, and what the views show of it."""
    found = db.get(Match, number)
    listed = [row.goals for club in (1, 2) for row in db.page(MatchesOfClub, club) if row.source == Match.at(number)]
    return msgspec.structs.replace(found, number=0), listed


@pytest.mark.parametrize("what", ALIKE)
def test_a_patch_changes_what_it_changes_by_name(db, what):
    change, named = ALIKE[what]
    typed, by_name = db.patch(Match, 1, change), db.patch(Match, 2, **named)
    assert stored(db, 1) == stored(db, 2)
    assert (typed.number, stored(db, 1)[0]) == (1, msgspec.structs.replace(typed, number=0))
    assert db.cost(typed).requests == db.cost(by_name).requests
    assert typed != match(1)
    assert db.verify().clean


@pytest.mark.parametrize("what", ALIKE)
def test_other_verbs_take_what_a_patch_takes(db, what):
    change, named = ALIKE[what]
    changed = db.transact([("patch", (Match, 1, change), {}), ("get", (Match, 1), {})])
    db.upsert(match(2), change)
    assert changed[0] == changed[1] == db.get(Match, 1)
    assert stored(db, 1) == stored(db, 2)
    assert db.explain.patch(Match, 1, change).bound == db.explain.patch(Match, 1, **named).bound
    assert db.explain.upsert(match(1), change).bound == db.explain.upsert(match(1), **named).bound


def test_several_changes_and_the_same_by_name():
    changes = {"carriers": 1}
    given = (1, field(Match.goals).add(2), field(Match.note).to("!"), field(Match.if_version).to(3))
    assert take_changes(Match, given, changes) == (1,)
    assert values_of(changes) == {"carriers": 1, "note": "!", "if_version": 3}
    assert changes["goals"].apply(1) == 3


def test_several_fields_change_at_once(db):
    tasks = field(Match.goals).add(2), field(Match.note).to("!"), field(Match.tags).append("c")
    five = (*tasks, field(Match.if_version).to(3), field(Match.carriers).to(4))
    for key in ((1,), (Match.at(1),)):
        changed = db.patch(Match, *key, *five, day=date(2026, 5, 2))
        assert (changed.note, changed.if_version, changed.carriers, changed.day.day) == ("!", 3, 4, 2)
    assert (changed.goals, changed.tags) == (4, ["a", "b", "c", "c"])
    assert db.patch(Club, changed.host, field(Club.name).to("Greens")).number == 1
    assert db.get(Match, 1).host.name == "Greens"


def test_an_upsert_creates_and_then_changes(db):
    three = Match(number=3, host=Host.of(2))
    assert db.upsert(three, field(Match.goals).add(1)).goals == 0
    assert db.upsert(three, field(Match.goals).add(1), note="!").goals == 1


def test_a_version_is_required_beside_changes(url):
    club = field(Club.name)
    with connect(url, SITE, workers=0) as db:
        reds = db.save(Club(number=1, name="Reds"))
        blues = db.patch(Club, 1, club.to("Blues"), if_version=db.version(reds))
        with pytest.raises(Conflict):
            db.patch(Club, 1, club.to("Reds"), if_version=db.version(reds))
        assert db.get(Club, 1) == blues == Club(number=1, name="Blues")


def test_a_bulk_writer_takes_them(url):
    with connect(url, SITE, workers=0) as db, db.bulk() as bulk:
        bulk.save(Club(number=1, name="Reds"))
        bulk.save(match(1))
        bulk.patch(Match, 1, field(Match.goals).add(2), field(Match.note).to("!"))
        bulk.patch(Match, Match.at(1), field(Match.goals).add(2))
        with pytest.raises(InvalidValue, match="twice"):
            bulk.patch(Match, 1, field(Match.goals).add(2), goals=1)
        bulk.flush()
        assert (db.get(Match, 1).goals, db.get(Match, 1).note) == (4, "!")


def test_an_asynchronous_bulk_writer_takes_them(url):
    async def write():
        async with connect_async(url, SITE, workers=0) as db:
            async with db.bulk() as bulk:
                await bulk.save(Club(number=1, name="Reds"))
                await bulk.save(match(1))
                await bulk.patch(Match, 1, field(Match.goals).add(2), field(Match.note).to("!"))
            return await db.get(Match, 1)

    found = asyncio.run(write())
    assert (found.goals, found.note) == (2, "!")


TWO = field(Match.goals).to(2)
REFUSED = {
    "a field of another model": ((field(Club.name).to("x"),), {}, "a field of another class", "Club.name"),
    "a field of a copy": ((field(Host.name).to("x"),), {}, "a field of another class", "Host.name"),
    "a field through a copy": ((field(within(Match.host, Host.name)).to("x"),), {}, "follows its source", "host"),
    "a field of a view": ((field(MatchesOfClub.goals).to(1),), {}, "a field of another class", "MatchesOfClub.goals"),
    "a field of a variant": ((field(CupFinal.cup).to("x"),), {}, "one of a variant", "cup"),
    "a part of the key": ((field(Match.number).to(2),), {}, "part of the key", "number"),
    "a field twice": ((TWO, field(Match.note).to("x"), TWO), {}, "changes a field twice", "goals"),
    "a field by name too": ((TWO,), {"goals": 2}, "changes a field twice", "goals"),
    "a field called if_version twice": (
        (field(Match.if_version).to(1),), {"if_version": set_to(2)}, "changes a field twice", "if_version"
    ),
    "a field": ((field(Match.goals),), {}, "takes changes", "Match.goals"),
    "a bare field": ((Match.goals,), {}, "takes changes", "goals"),
    "a condition": ((TWO, field(Match.note) == "x"), {}, "takes changes", "Match.note"),
    "two conditions": (((field(Match.goals) == 2) & (field(Match.note) == "x"),), {}, "takes changes", "Match.note"),
    "a step without a field": ((add(1),), {}, "takes changes", "add(1)"),
    "a value behind a change": ((TWO, 5), {}, "takes changes", "5"),
    "a step as a value": ((field(Match.goals).to(add(1)),), {}, "takes a value", "goals"),
    "a change by name": ((), {"goals": TWO}, "behind the key, not by name", "goals"),
    "a field by name": ((), {"goals": field(Match.goals)}, "behind the key, not by name", "goals"),
    "a value of another type": ((field(Match.goals).to("x"),), {}, "does not fit", "goals"),
    "an amount of another type": ((field(Match.goals).add("x"),), {}, "does not apply", "goals"),
    "an element of another type": ((field(Match.tags).append(1),), {}, "does not fit", "tags"),
    "an element for a number": ((field(Match.goals).append(1),), {}, "does not apply", "goals"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_a_change_is_refused_by_its_name(db, what):
    given, named, why, name = REFUSED[what]
    before = db.get(Match, 1)
    writes = [
        lambda: db.patch(Match, 1, *given, **named),
        lambda: db.patch(Match, Match.at(1), *given, **named),
        lambda: db.transact([("patch", (Match, 1, *given), named)]),
    ]
    if "if_version" not in named:
        writes += [lambda: db.upsert(match(1), *given, **named)]
    for write in writes:
        with pytest.raises(InvalidValue, match=why) as refused:
            write()
        assert name in str(refused.value)
    assert db.get(Match, 1) == before


def test_a_change_of_a_field_of_the_base_class_changes_a_variant(db):
    db.save(CupFinal(number=3, host=Host.of(1)))
    changed = db.patch(CupFinal, 3, field(Match.goals).add(2), field(CupFinal.cup).to("silver"))
    assert (changed.goals, changed.cup) == (2, "silver")
    assert db.patch(Match, 3, field(Match.note).to(None)).note is None


ELSEWHERE = {
    "no key": (lambda db: db.patch(Match, TWO), InvalidKey),
    "the key behind it": (lambda db: db.patch(Match, TWO, 1), InvalidValue),
    "a key of two parts": (lambda db: db.patch(Match, 1, 2, TWO), InvalidKey),
    "no such entity": (lambda db: db.patch(Match, 9, TWO), NotFound),
    "an entity": (lambda db: db.patch(match(1), TWO), UsageError),
    "a view": (lambda db: db.patch(MatchesOfClub, 1, field(MatchesOfClub.goals).to(1)), UsageError),
    "an upsert with a key": (lambda db: db.upsert(match(1), 1), UsageError),
    "an upsert with a key and a change": (lambda db: db.upsert(match(1), 1, TWO), UsageError),
    "an upsert of something else": (lambda db: db.upsert(5, TWO), UsageError),
    "a get": (lambda db: db.get(Match, TWO), InvalidKey),
    "a delete": (lambda db: db.delete(Match, TWO), InvalidKey),
    "a page": (lambda db: db.page(Match, where=TWO), UsageError),
}


@pytest.mark.parametrize("what", ELSEWHERE)
def test_changes_in_another_place_are_refused(db, what):
    wrong, error = ELSEWHERE[what]
    with pytest.raises(error):
        wrong(db)


def test_a_change_shows_how_it_is_written():
    assert repr(field(Match.goals).add(2)) == "field(Match.goals).add(2)"
    assert repr(TWO) == "field(Match.goals).to(2)"
