"""Equal values of several forms: what is derived follows the form, and what is returned does not depend on history."""

import itertools
import math
from datetime import UTC, datetime, timedelta, timezone
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
    by,
    connect,
    count,
    each,
    greatest,
    least,
    mean,
    reference,
    shown,
    total,
    within,
)
from oneread.derivations import emitted_record
from oneread.derivations.emitted_record import SAID_BY_KEY
from oneread.store.requests import Read
from oneread.transactions.root import EMITTED


class Inner(msgspec.Struct, frozen=True):
    price: Decimal
    reading: float
    words: frozenset[str] = frozenset()


class Line(Model[int]):
    number: Key[int]
    shop: str = "a"
    price: Decimal | None = None
    weight: float | None = None
    inner: Inner | None = None
    prices: list[Decimal] = msgspec.field(default_factory=list)
    made: datetime | None = None
    extra: dict[str, float] = msgspec.field(default_factory=dict)


class Extremes(Aggregate[Line]):
    shop: str = by(Line.shop)
    dearest: Decimal | None = greatest(Line.price)
    cheapest: Decimal | None = least(Line.price)
    heaviest: float | None = greatest(Line.weight)
    lightest: float | None = least(Line.weight)
    last: datetime | None = greatest(Line.made)


class Sums(Aggregate[Line]):
    shop: str = by(Line.shop)
    lines: int = count()
    price: Decimal = total(Line.price)
    mean_price: Decimal | None = mean(Line.price)
    weight: float = total(Line.weight)
    mean_weight: float | None = mean(Line.weight)


class ByPrice(Index[Line]):
    price: Decimal = by(each(Line.prices))
    extra: dict[str, float] = shown(Line.extra)


class Shown(Copy[Line]):
    price: Decimal | None
    weight: float | None
    inner: Inner | None
    extra: dict[str, float]
    made: datetime | None


class Holder(Model[int]):
    number: Key[int]
    line: Shown
    other: Ref[Line] | None = reference(missing_ok=True)


class HoldersOfShop(Index[Holder]):
    shop: str = by(within(Holder.other, Line.shop))
    weight: float | None = shown(within(Holder.other, Line.weight))
    price: Decimal | None = shown(within(Holder.other, Line.price))
    inner: Inner | None = shown(within(Holder.other, Line.inner))


SCHEMA = Schema(Line, Extremes, Sums, ByPrice, Holder, HoldersOfShop)
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
FORMS = {
    "price": [Decimal("1.00"), Decimal(1), Decimal("1.0"), Decimal("0.1E1")],
    "weight": [0.0, -0.0, 0.0],
    "inner": [Inner(Decimal(1), math.nan), Inner(Decimal("1.0"), math.nan), Inner(Decimal("1.0"), -0.0)],
    "extra": [{"a": 0.0, "b": 1.0}, {"b": 1.0, "a": 0.0}, {"b": 1.0, "a": -0.0}, {"n": math.nan}],
    "prices": [[Decimal("1.00"), Decimal(1)], [Decimal(1)], [Decimal("1.0")], []],
    "made": [NOON, NOON.astimezone(timezone(timedelta(hours=3))), NOON],
}


@pytest.fixture
def db(url):
    with connect(url, SCHEMA, workers=0) as db:
        db.save(Line(number=1))
        db.save(Holder(number=1, line=Shown.of(1), other=Line.at(1)))
        yield db


@pytest.mark.parametrize("field", FORMS)
def test_everything_follows_the_form_of_a_value(db, field):
    for value in FORMS[field]:
        db.patch(Line, 1, **{field: value})
        found = db.verify()
        assert found.clean, found.faults
        said = repr(getattr(db.get(Line, 1), field))
        if field in Shown.__struct_fields__:
            assert repr(getattr(db.get(Holder, 1).line, field)) == said
        if field in HoldersOfShop.__struct_fields__:
            assert [repr(getattr(row, field)) for row in db.page(HoldersOfShop, "a")] == [said]


@pytest.mark.parametrize(("field", "names"), [("price", ("dearest", "cheapest")), ("weight", ("heaviest", "lightest"))])
def test_an_extremum_shows_the_digits_that_its_entity_has_now(db, field, names):
    for value in FORMS[field]:
        db.patch(Line, 1, **{field: value})
        row = db.get(Extremes, "a")
        assert [repr(getattr(row, name)) for name in names] == [repr(value)] * 2


def test_what_a_record_keeps_of_an_extremum_whose_key_says_all_is_nothing(db):
    db.patch(Line, 1, made=NOON, price=Decimal("1.0"))
    catalog = db.operations.catalog
    (root,) = db.run(Read("roots", [catalog.kinds[Line].key((1,))], "dm").__iter__())
    record = emitted_record.decode_record(root[EMITTED].value)
    kept = {each.field: record[each.token][1] for each in catalog.views[Extremes].extrema if record[each.token]}
    assert kept == {"last": 0, "dearest": b"\xa31.0", "cheapest": b"\xa31.0"}


def kept_of(db, field, values):
    """What the record keeps of each value of an extremum."""
    (found,) = (one for one in db.operations.catalog.views[Extremes].extrema if one.field == field)
    return [found.pack(value)[1] for value in values]


@pytest.mark.parametrize("texts", [["0", "-0", "0.0", "0E+2"], ["100", "1E+2", "100.0"], ["-2.5", "-2.50", "-25E-1"]])
def test_of_equal_decimals_the_record_keeps_nothing_of_the_shortest_alone(db, texts):
    """Else a row would not be written again when the digits change."""
    numbers = {str(number): number for number in map(Decimal, texts)}
    kept = kept_of(db, "dearest", numbers.values())
    assert kept[0] == SAID_BY_KEY
    assert len({*kept}) == len(kept) > 1


def test_of_floats_the_record_keeps_which_zero_it_is(db):
    kept = kept_of(db, "heaviest", [0.0, -0.0, 1.0, -2.5])
    assert kept[2:] == [SAID_BY_KEY] * 2
    assert len({*kept}) == 3


def test_what_is_not_equal_to_itself_is_copied_like_anything_else(url):
    class Sensor(Model[int]):
        id: Key[int]
        reading: float

    class Reading(Copy[Sensor]):
        reading: float

    class Tile(Model[int]):
        id: Key[int]
        sensor: Reading

    class Tiles(Index[Tile]):
        id: int = by(Tile.id)
        sensor: Reading = shown(Tile.sensor)

    with connect(url, Schema(Sensor, Tile, Tiles)) as db:
        db.save(Sensor(id=1, reading=math.nan))
        db.save(Tile(id=1, sensor=Reading.of(1)))
        assert db.verify().clean
        assert db.repair().mended == 0
        db.delete(Sensor, 1)
        db.drain()
        assert db.verify().clean


PRICES = [Decimal("0.50"), Decimal("0.5"), Decimal("10.00"), Decimal("1E+2"), Decimal("0.00"), Decimal("-0.50")]


def test_a_sum_has_the_digits_of_its_value_whatever_came_before(new_url):
    said = set()
    for order in itertools.permutations(range(4)):
        with connect(new_url(), SCHEMA, workers=0) as db:
            db.save(Line(number=9, price=Decimal("0.123456"), weight=-0.0))
            for number in order:
                db.save(Line(number=number, price=PRICES[number], weight=-0.0))
            db.delete(Line, 9)
            assert db.verify().clean
            said.add(repr(db.get(Sums, "a")))
    assert len(said) == 1
    assert "Decimal('111')" in said.pop()


@pytest.mark.parametrize(
    ("prices", "price", "mean_price"),
    [
        (["0.50"], "0.5", "0.5"),
        (["0.50", "-0.5"], "0", "0"),
        (["-0.00"], "0", "0"),
        (["1E+3"], "1000", "1000"),
        (["1E+30", "2E+30"], "3" + "0" * 30, "15" + "0" * 29),
        (["1", "1", "2.00"], "4", "1.333333333333333333333333333"),
    ],
)
def test_sums_and_means_have_no_digits_that_say_nothing(url, prices, price, mean_price):
    with connect(url, SCHEMA, workers=0) as db:
        db.save_all([Line(number=number, price=Decimal(each)) for number, each in enumerate(prices)])
        row = db.get(Sums, "a")
        assert (str(row.price), str(row.mean_price)) == (price, mean_price)


def test_a_sum_of_nothing_but_negative_zeros_is_zero(url):
    with connect(url, SCHEMA, workers=0) as db:
        db.save(Line(number=1, weight=-0.0))
        row = db.get(Sums, "a")
        assert (repr(row.weight), repr(row.mean_weight)) == ("0.0", "0.0")
