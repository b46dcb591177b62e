"""A patch refuses what the database sets, and `explain` refuses what the patch refuses."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated

import msgspec
import pytest

from oneread import (
    CREATED,
    UPDATED,
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    add,
    by,
    connect,
    reference,
    rollup,
    total,
)
from oneread.database.patches import set_to
from oneread.errors import InvalidValue

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


class Goal(Model[int]):
    number: Key[int]
    club: Ref["Club"]
    points: int = 1


class PointsOf(Aggregate[Goal]):
    club: Ref["Club"] = by(Goal.club)
    points: int = total(Goal.points)


class Club(Model[str]):
    code: Key[str]
    name: str = "A club"
    made_at: datetime = CREATED
    changed_at: datetime = UPDATED
    points: int = rollup(PointsOf.points)


class Member(Copy[Club]):
    name: str


class Other(Copy[Club]):
    code: str


class Match(Model[int]):
    number: Key[int]
    club: Member
    guest: Ref[Club] | None = None
    refs: Annotated[list[Ref[Club]], msgspec.Meta(max_length=3)] = reference()
    price: Decimal = Decimal(1)


class League(Match):
    season: int = 1


class ClubsByName(Index[Club]):
    name: str = by(Club.name)


SITE = Schema(Goal, PointsOf, Club, Match, League, ClubsByName)


@pytest.fixture
def db(url):
    with connect(url, SITE, workers=0) as database:
        database.save(Club(code="A"))
        database.save(League(number=1, club=Member.of("A"), refs=[]))
        yield database


CLUB = Club(code="A")
REFUSED = {
    "a total": (Club, "A", {"points": 5}),
    "the first stamp": (Club, "A", {"made_at": NOON}),
    "the newest stamp": (Club, "A", {"changed_at": set_to(NOON)}),
    "another type": (Club, "A", {"name": 5}),
    "another type, set": (Club, "A", {"name": set_to(5)}),
    "None": (Club, "A", {"name": None}),
    "a field of a variant": (Match, 1, {"season": 2}),
    "a float for a Decimal": (Match, 1, {"price": 1.5}),
    "NaN": (Match, 1, {"price": Decimal("NaN")}),
    "a key for a reference": (Match, 1, {"guest": "A"}),
    "a key for a copy": (Match, 1, {"club": "A"}),
    "an entity for a reference": (Match, 1, {"guest": CLUB}),
    "an entity in a list": (Match, 1, {"refs": [Club.at("A"), CLUB]}),
    "another class": (Match, 1, {"guest": Match.at(1)}),
}


@pytest.mark.parametrize("what", REFUSED)
def test_explain_refuses_what_a_patch_refuses(db, what):
    model, key, changes = REFUSED[what]
    with pytest.raises(InvalidValue) as done:
        db.patch(model, key, **changes)
    with pytest.raises(InvalidValue) as explained:
        db.explain.patch(model, key, **changes)
    assert explained.value.message == done.value.message
    assert explained.value.facts["field"] == done.value.facts["field"]


def test_explain_plans_what_a_patch_takes(db):
    for changes in (
        {"guest": Club.at("A"), "refs": [Club.at("A")], "price": add(1)},
        {"guest": None, "price": 2 * Decimal(10) ** 30, "club": Member.of("A")},
    ):
        assert db.explain.patch(Match, 1, **changes).bound.requests
        db.patch(Match, 1, **changes)


def test_stamps_stay_and_an_upsert_refuses_them_too(db):
    before = db.get(Club, "A")
    with pytest.raises(InvalidValue, match="a stamp, which the database sets"):
        db.upsert(Club(code="A"), made_at=NOON)
    assert db.get(Club, "A") == before


@pytest.mark.parametrize(
    ("changes", "why", "write"),
    [
        ({"guest": "A"}, "write a reference, not a key", "Club.at(...)"),
        ({"club": "A"}, "write a reference, not a key", "Member.of(...)"),
        ({"guest": CLUB}, "write a reference, not the entity", "entity.ref()"),
        ({"club": CLUB}, "write a reference, not the entity", "Member.of(...)"),
        ({"refs": [CLUB]}, "write a reference, not the entity", "entity.ref()"),
        ({"guest": Member.of("A")}, "write a reference, not a copy", "copy.ref"),
        ({"club": Club.at("A")}, "write a copy, not a reference", "Member.of(ref)"),
        ({"club": Other.of("A")}, "this is a copy of another class", "Member.of(...)"),
    ],
)
def test_a_wrong_reference_says_what_it_is(db, changes, why, write):
    with pytest.raises(InvalidValue, match=why) as refused:
        db.patch(Match, 1, **changes)
    assert refused.value.facts["write"] == write


def test_a_step_that_does_not_apply_says_with_what(db):
    with pytest.raises(InvalidValue) as refused:
        db.patch(Match, 1, price=add("x"))
    assert (refused.value.facts["operand"], refused.value.facts["stored"]) == ("x", Decimal)


@pytest.mark.parametrize("value", [None, 2**70, b"x" * 10_000])
def test_a_value_that_does_not_fit_is_named_with_its_entity(db, value):
    with pytest.raises(InvalidValue, match="does not fit its field") as refused:
        db.save_all([Club(code="B"), Club(code="C", name=value)])
    assert (refused.value.facts["key"], refused.value.facts["value"]) == (("C",), value)
    assert len(str(refused.value)) < 1000
