"""The doctor names models whose copies of others change often, and only where nothing else writes these rows."""

from datetime import timedelta

import pytest

from oneread import Aggregate, Copy, Index, Key, Model, Schema, by, count, rollup
from oneread.heat import doctor_rules
from oneread.heat.cells import Amounts, CellKey, HeatPlace
from oneread.heat.doctor import find_all
from oneread.heat.doctor_rules import busy_copies
from oneread.heat.loads import PlaceLoad
from tests.unit.database.faces import FACES
from tests.unit.heat.doctored import Site

HOLDERS = 6
SECONDS = 60


class Town(Model[int]):
    number: Key[int]
    name: str = ""
    people: int = 0


class Home(Copy[Town]):
    name: str


class Citizen(Model[int]):
    number: Key[int]
    home: Home
    nick: str = ""


class ByHome(Index[Citizen]):
    home: Home = by(Citizen.home)


SCHEMA = Schema(Town, Citizen, ByHome)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    ("changes", "field", "is_found"), [(5, "name", True), (5, "people", False), (1, "name", False)]
)
def test_copies_that_change_often_become_references(url, monkeypatch, face, changes, field, is_found):
    monkeypatch.setattr(doctor_rules, "COPY_RATE", 2 * HOLDERS * 2 / SECONDS)
    site = Site(url, SCHEMA, face)
    site.db.save(Town(number=1))
    for number in range(HOLDERS):
        site.db.save(Citizen(number=number, home=Home.of(1)))
    for number in range(changes):
        value = f"name {number}" if field == "name" else number + 1
        site.db.patch(Town, 1, **{field: value})
    site.db.drain()
    found = site.findings("reference")
    assert len(found) == is_found
    for each in found:
        assert (each.declared, each.severity, each.what) == ("Citizen", "look", "its copies of Town change often")
        assert each.change.endswith("\n    home: Ref[Town]  # in place of a copy")
        assert each.costs.endswith("a get_many of 50 costs 50 rows in 1 request at most")
        assert each.rebuilds is None
    site.close()


def test_an_even_load_changes_few_copies(url, monkeypatch):
    monkeypatch.setattr(doctor_rules, "COPY_RATE", 2 * HOLDERS * 2 / SECONDS)
    site = Site(url, SCHEMA)
    for number in range(HOLDERS):
        site.db.save(Town(number=number))
        site.db.save(Citizen(number=number, home=Home.of(number)))
    for number in range(30):
        site.db.patch(Citizen, number % HOLDERS, nick=f"{number}")
        site.db.patch(Town, number % HOLDERS, people=number + 1)
    site.db.patch(Town, 1, name="b")
    assert find_all(site.checkup(), [busy_copies]) == []
    site.close()


class Ballot(Model[int]):
    number: Key[int]
    booth: int
    text: str = ""


class BallotsOfBooth(Aggregate[Ballot]):
    booth: int = by(Ballot.booth)
    ballots: int = count()


class First(Copy[Ballot]):
    text: str


class Booth(Model[int]):
    """Shows a total of its ballots, and has a copy of one: both write it."""

    booth: Key[int]
    first: First | None = None
    ballots: int = rollup(BallotsOfBooth.ballots)


def load_of(site, cls, *cells):
    """What was recorded of a model within a minute: verb, what it was about, and rows."""
    prefix = site.db.operations.catalog.kinds[cls].prefix
    found = {CellKey("roots", prefix, verb != "get", verb, about): Amounts(1, rows) for verb, about, rows in cells}
    return PlaceLoad(HeatPlace("roots", prefix), cls.__name__, cls, SECONDS, found, (), 0, 0)


@pytest.mark.parametrize(
    ("cells", "is_found"),
    [
        ([("follow", "Town", 1_000)], False),
        ([("follow", "Town", 1_001)], True),
        ([("follow", "Town", 500), ("patch", "Town", 501)], True),
        ([("follow", "", 9_000)], False),
        ([("delete", "Town", 9_000)], False),
        ([("save", "Citizen", 9_000)], False),
        ([("get", "Town", 9_000)], False),
    ],
)
def test_a_thousand_rows_a_minute_may_follow(url, cells, is_found):
    site = Site(url, SCHEMA)
    checkup = site.checkup()._replace(loads=[load_of(site, Citizen, *cells)])
    assert [each.declared for each in busy_copies(checkup)] == ["Citizen"] * is_found
    site.close()


def test_where_totals_of_the_source_are_shown_too_nothing_is_said(url):
    site = Site(url, Schema(Ballot, BallotsOfBooth, Booth))
    checkup = site.checkup()._replace(loads=[load_of(site, Booth, ("save", "Ballot", 9_000))])
    assert [*busy_copies(checkup)] == []
    site.close()


def test_the_limit_is_a_hundred_rows_of_ten_changes_a_minute():
    assert 100 * 10 / timedelta(minutes=1).total_seconds() == doctor_rules.COPY_RATE
