"""A value of a wrong Python type is refused with the type that was given and the one that is declared."""

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Literal
from uuid import UUID

import msgspec
import pytest

from oneread import Key, Model, Schema, connect
from oneread.errors import InvalidValue
from oneread.models.refusals import spelled


class Colour(Enum):
    RED = "red"


class Line(msgspec.Struct):
    price: Decimal = Decimal(0)


class Thing(Model[int]):
    number: Key[int]
    moment: datetime | None = None
    day: date | None = None
    clock: time | None = None
    span: timedelta | None = None
    id: UUID | None = None
    amount: Decimal | None = None
    data: bytes | None = None
    colour: Colour | None = None
    text: str | None = None
    count: int | None = None
    size: Literal["small", "large"] | None = None
    moments: list[datetime] = []  # noqa: RUF012 - msgspec copies it
    days: dict[str, date] = {}  # noqa: RUF012 - msgspec copies it
    lines: list[Line] = []  # noqa: RUF012 - msgspec copies it


VALUES = {
    "moment": datetime(2020, 1, 1, tzinfo=UTC),
    "day": date(2020, 1, 1),
    "clock": time(1, 2),
    "span": timedelta(days=3),
    "id": UUID(int=7),
    "amount": Decimal("1.5"),
    "data": b"ab",
    "colour": Colour.RED,
    "text": "2020-01-01",
    "count": 5,
}
READ_BACK = {("data", "id"), ("amount", "count")}
"""Refused as another value, or taken: an int is a Decimal."""


@pytest.fixture(scope="module")
def db(new_url):
    with connect(new_url(), Schema(Thing), workers=0) as opened:
        yield opened


def refused(db: Any, **fields: Any) -> InvalidValue:
    with pytest.raises(InvalidValue) as caught:
        db.save(Thing(number=1, **fields))
    return caught.value


@pytest.mark.parametrize("field", VALUES)
@pytest.mark.parametrize("given", VALUES)
def test_each_type_in_a_field_of_each_other_type(db, field, given):
    if field == given or (field, given) in READ_BACK:
        return
    facts = refused(db, **{field: VALUES[given]}).facts
    got = type(VALUES[given])
    reason = facts.get("reason")
    if reason is None:  # it would be read back as another value
        assert facts["type"] is got
        return
    assert reason.endswith(f", got `{got.__name__}`") or reason == f"Invalid enum value {VALUES[given]!r}"
    declared = type(VALUES[field]).__name__
    assert declared == "Colour" or f"Expected `{declared}" in reason


def test_the_place_inside_a_list_is_looked_up(db):
    assert (
        refused(db, moments=[VALUES["moment"], timedelta(3)]).facts["reason"] == "Expected `datetime`, got `timedelta`"
    )
    found = refused(db, lines=[Line(), Line(price=timedelta(3))])  # type: ignore[arg-type]
    assert (found.facts["field"], found.facts["reason"]) == ("lines[1].price", "Expected `Decimal`, got `timedelta`")


def test_a_key_of_a_dict_is_not_known(db):
    assert refused(db, days={"a": timedelta(3)}).facts["reason"] == "Expected `date`"


def test_what_is_right_about_text_stays(db):
    assert refused(db, size="huge").facts["reason"] == "Invalid enum value 'huge'"
    assert "timezone" in refused(db, moment=datetime(2020, 1, 1)).facts["reason"]


@pytest.mark.parametrize("path", ["", "missing", "lines[7]", "lines[...]", "number[0]", "lines[0].missing"])
def test_a_path_that_leads_nowhere_says_what_msgspec_said(path):
    thing = Thing(number=1, lines=[Line()])
    assert spelled("Expected `duration | null`, got `str`", thing, path) == "Expected `timedelta | null`, got `str`"
    assert spelled("Invalid enum value 7", thing, path) == "Invalid enum value 7"
