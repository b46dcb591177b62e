"""Copies that only refer can be compared, hashed and shown like any other."""

import copy
import pickle

import pytest

from oneread.models.model import Key, Model
from oneread.models.references import Copy, Ref


class Customer(Model[int]):
    number: Key[int]
    name: str


class Buyer(Copy[Customer]):
    name: str


class Seller(Copy[Customer]):
    name: str


FILLED = Buyer(ref=Customer.at(1), name="Ada")


@pytest.mark.parametrize("other", [Ref((1,)), Customer.at(1), Buyer.of(1).ref, FILLED.ref])
def test_a_reference_is_equal_with_its_class_or_without(other):
    for ref in (Ref((1,)), Customer.at(1)):
        assert ref == other
        assert not ref != other  # noqa: SIM202 - the other method
        assert hash(ref) == hash(other)
    for ref in (Ref((2,)), Customer.at(2), (1,), None):
        assert ref != other
        assert not ref == other  # noqa: SIM201 - the other method


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


@pytest.mark.parametrize("name", ["name", "deleted"])
def test_an_unfilled_field_raises_and_says_what_to_write(name):
    with pytest.raises(AttributeError, match=rf"^Buyer\.{name} is not filled, .* shown\(Post\.author\)") as caught:
        getattr(Buyer.of(1), name)
    assert (caught.value.name, caught.value.obj) == (name, Buyer.of(1))
    assert not hasattr(Buyer.of(1), name)
    assert repr(Buyer.of(1)) == "Buyer.of(1)"


@pytest.mark.parametrize("given", [FILLED, Buyer.of(1), Seller.of(2)])
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda given: pickle.loads(pickle.dumps(given))])
def test_copies_can_be_copied_and_pickled(again, given):
    assert again(given) == given
    assert hasattr(again(given), "deleted") == hasattr(given, "deleted")


def test_a_misspelt_field_is_not_called_unfilled():
    for given in (FILLED, Buyer.of(1)):
        with pytest.raises(AttributeError, match=r"^'Buyer' object has no attribute 'nmae'$"):
            given.nmae  # noqa: B018 - reading is the point


def test_a_copy_without_fields_only_refers_before_it_is_filled():
    class Reader(Copy[Customer]):
        pass

    assert repr(Reader.of(1)) == "Reader.of(1)"
    assert not hasattr(Reader.of(1), "deleted")
    assert not Reader(ref=Customer.at(1)).deleted
