"""Copies that only refer can be compared, hashed and shown like any other."""

import pytest

from oneread.models.model import Key, Model
from oneread.models.references import Copy


class Customer(Model[int]):
    number: Key[int]
    name: str


class Buyer(Copy[Customer]):
    name: str


class Seller(Copy[Customer]):
    name: str


FILLED = Buyer(ref=Customer.at(1), name="Ada")


def test_copies_are_equal_when_they_show_the_same():
    assert Buyer.of(1) == Buyer.of(1)
    assert Buyer(ref=Customer.at(1), name="Ada") == FILLED
    assert hash(Buyer.of(1)) == hash(Buyer.of(1))
    assert hash(Buyer(ref=Customer.at(1), name="Ada")) == hash(FILLED)


@pytest.mark.parametrize(
    "other",
    [Buyer.of(2), FILLED, Buyer(ref=Customer.at(1), name="Eve"), Seller.of(1), Customer.at(1), None],
    ids=["another reference", "filled", "another value", "another class", "a reference", "nothing"],
)
def test_an_unfilled_copy_is_not_equal_to(other):
    assert Buyer.of(1) != other


def test_a_deleted_source_makes_a_difference():
    assert Buyer(ref=Customer.at(1), name="Ada", deleted=True) != FILLED


def test_an_unfilled_field_raises():
    with pytest.raises(AttributeError):
        Buyer.of(1).name  # noqa: B018 - reading is the point
    assert repr(Buyer.of(1)) == "Buyer.of(1)"
