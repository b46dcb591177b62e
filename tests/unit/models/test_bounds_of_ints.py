"""Ints have at most 4,000 digits: what is stored can be written as JSON, CSV and text, sums of it included."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest

from oneread import (
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Schema,
    add,
    append,
    by,
    connect,
    to_json,
    total,
)
from oneread.cli import records
from oneread.cli.output import cell_text
from oneread.errors import InvalidKey, InvalidValue
from oneread.models.wide import MOST_DIGITS, digits_of

MOST = 10**MOST_DIGITS - 1
BEYOND = [MOST + 1, -MOST - 1, 10**4300, -(10**5000), 1 << 100_000]


class Inner(msgspec.Struct, frozen=True):
    number: int = 0


class Order(Model[int]):
    number: Key[int]
    product: str = ""
    quantity: int = 0
    many: list[int] = msgspec.field(default_factory=list)
    by_number: dict[int, int] = msgspec.field(default_factory=dict)
    inner: Inner = Inner()
    anything: Any = None


class ByQuantity(Index[Order]):
    quantity: int = by(Order.quantity, hashed=True)


class Shown(Copy[Order]):
    quantity: int


class Holder(Model[int]):
    number: Key[int]
    shown: Shown


SCHEMA = Schema(Order, ByQuantity, Holder)
PLACES = {
    "quantity": lambda value: {"quantity": value},
    "many": lambda value: {"many": [1, value]},
    "by_number": lambda value: {"by_number": {value: 1}},
    "inner": lambda value: {"inner": Inner(value)},
    "anything": lambda value: {"anything": [{"a": [value]}]},
}


@pytest.fixture
def db(url):
    with connect(url, SCHEMA) as opened:
        opened.save(Order(number=1))
        yield opened


@pytest.mark.parametrize("value", BEYOND, ids=range(len(BEYOND)))
@pytest.mark.parametrize("field", PLACES)
def test_larger_ones_are_refused_by_every_write(db, field, value):
    changes = PLACES[field](value)
    calls = [
        lambda: db.save(Order(number=1, **changes)),
        lambda: db.create(Order(number=2, **changes)),
        lambda: db.patch(Order, 1, **changes),
        lambda: db.upsert(Order(number=1), **changes),
        lambda: db.save_all([Order(number=1, **changes)]),
        lambda: db.transact(lambda transaction: transaction.save(Order(number=1, **changes))),
    ]
    for call in calls:
        with pytest.raises(InvalidValue, match="digits") as caught:
            call()
        assert caught.value.facts["field"] == field
        assert "4,000 digits" in caught.value.facts["reason"]
    assert db.get(Order, 1) == Order(number=1)


def test_steps_cannot_go_beyond(db):
    db.patch(Order, 1, quantity=MOST)
    for changes in ({"quantity": add(1)}, {"many": append(MOST + 1)}):
        with pytest.raises(InvalidValue, match="digits"):
            db.patch(Order, 1, **changes)
    assert db.get(Order, 1).quantity == MOST


def test_the_largest_are_stored_copied_and_shown(db):
    for place in PLACES.values():
        for value in (MOST, -MOST):
            saved = db.save(Order(number=1, **place(value)))
            assert db.get(Order, 1) == saved
            assert msgspec.json.decode(to_json(saved))
            assert repr(saved)
    db.save(Order(number=1, quantity=MOST))
    assert db.save(Holder(number=1, shown=Shown.of(1))).shown.quantity == MOST
    assert db.page(ByQuantity, MOST).rows
    lines = []
    db.dump_csv(lines.append, Order)
    assert len(b"".join(lines)) > MOST_DIGITS


def test_a_key_is_shorter_still(db):
    for value in BEYOND:
        with pytest.raises(InvalidKey):
            db.find(Order, value)
        with pytest.raises(InvalidKey):
            db.save(Order(number=value))


def test_a_sum_of_the_largest_can_be_written(url):
    class Units(Aggregate[Order]):
        product: str = by(Order.product)
        units: int = total(Order.quantity)

    with connect(url, Schema(Order, Units)) as db:
        db.save_all([Order(number=number, product="p", quantity=MOST) for number in range(50)])
        db.save_all([Order(number=number + 100, product="m", quantity=-MOST) for number in range(50)])
        page = db.page(Units)
        assert [row.units for row in page.rows] == [-50 * MOST, 50 * MOST]
        assert str(10**100 * MOST)
        assert to_json(page)
        assert repr(page.rows)


class TestStoresOfBeforeIntsHadABound:
    @pytest.fixture
    def db(self, url, monkeypatch):
        class Units(Aggregate[Order]):
            product: str = by(Order.product)
            units: int = total(Order.quantity)

        self.units = Units
        with connect(url, Schema(Order, Units)) as opened:
            with monkeypatch.context() as before:
                before.setattr("oneread.models.layout.check_bounded", lambda _doc: None)
                opened.save(Order(number=1, product="p", quantity=10**5000, by_number={10**5000: 1}))
            yield opened

    def test_they_are_read_written_out_and_verified(self, db):
        order = db.get(Order, 1)
        assert order.quantity == 10**5000
        assert f'"quantity":1{"0" * 5000},'.encode() in to_json(order)
        assert f'"units":1{"0" * 5000}'.encode() in to_json(db.page(self.units))
        assert cell_text(records.fields(order)["quantity"]) == f"1{'0' * 5000}"
        assert db.verify().clean

    def test_such_an_entity_can_be_mended_and_deleted(self, db):
        with pytest.raises(InvalidValue, match="digits"):
            db.patch(Order, 1, product="q")
        assert db.patch(Order, 1, quantity=1, by_number={}).quantity == 1
        db.delete(Order, 1)
        assert db.verify().clean


NUMBERS = [0, -1, MOST, -MOST, MOST + 1, -(10**4300), 10**12_345 + 7]


@pytest.mark.parametrize("number", NUMBERS, ids=range(len(NUMBERS)))
def test_digits_of_ints_of_any_size(number):
    digits = digits_of(number)
    sys.set_int_max_str_digits(0)
    try:
        assert digits == str(number)
    finally:
        sys.set_int_max_str_digits(4300)
