"""Paths: class attributes name fields, copies lead on to further ones, and all else is refused with what to write."""

import msgspec
import pytest

from oneread.errors import InvalidDeclaration, InvalidValue
from oneread.models.layout import Layout
from oneread.models.model import Key, Model
from oneread.models.paths import Path, each, getter, path_of, within
from oneread.models.references import Copy, Ref


class Home(Model[int]):
    number: Key[int]
    city: str


class Place(Copy[Home]):
    city: str


class Customer(Model[int]):
    number: Key[int]
    home: Place | None
    tags: list[str] = msgspec.field(default_factory=list)


class Buyer(Copy[Customer]):
    city: str = within(Customer.home, Place.city)


class Purchase(Model[str]):
    code: Key[str]
    buyer: Buyer | None


class Gift(Purchase):
    card: str


def test_a_class_attribute_is_a_path():
    assert path_of(Customer.number) == Path(((Customer, "number"),))
    assert path_of(Gift.code) == Path(((Purchase, "code"),))
    path = path_of(within(Purchase.buyer, Buyer.city))
    assert path.steps == ((Purchase, "buyer"), (Buyer, "city"))
    assert (path.declared_in, path.names) == (Purchase, ("buyer", "city"))
    assert path_of(within(path, Home.city)).names == ("buyer", "city", "city")
    assert not path.every
    assert path_of(each(Customer.tags)).every


def test_paths_read_as_they_are_written():
    assert repr(path_of(each(Customer.tags))) == "each(Customer.tags)"
    assert repr(path_of(within(Purchase.buyer, Buyer.city))) == "within(Purchase.buyer, Buyer.city)"


class Slotted:
    __slots__ = ("code",)


NO_FIELDS = [3, None, "code", Purchase, Purchase.ref, Purchase.__dict__, msgspec.field, int.real, Slotted.code]


@pytest.mark.parametrize("wrong", NO_FIELDS, ids=range(len(NO_FIELDS)))
def test_an_unknown_field_is_refused_with_what_to_write(wrong):
    for call in (path_of, each, lambda field: within(field, Buyer.city), lambda field: within(Purchase.buyer, field)):
        with pytest.raises(InvalidDeclaration, match=r"write Purchase\.quantity"):
            call(wrong)


def test_each_goes_around_the_whole_path():
    for call in (
        lambda: within(each(Customer.tags), Place.city),
        lambda: within(Purchase.buyer, each(Customer.tags)),
        lambda: each(each(Customer.tags)),
    ):
        with pytest.raises(InvalidDeclaration, match=r"each\(\)"):
            call()


def test_a_getter_reads_through_copies_and_finds_nothing_where_one_is_missing():
    buyer = Buyer(ref=Ref((1,)), city="Paris")
    city, code = getter(path_of(within(Purchase.buyer, Buyer.city))), getter(path_of(Purchase.code))
    assert code(Purchase(code="a", buyer=None)) == "a"
    assert city(Purchase(code="a", buyer=buyer)) == "Paris"
    assert city(Gift(code="a", buyer=buyer, card="")) == "Paris"
    assert city(Purchase(code="a", buyer=None)) is None
    assert city(Purchase(code="a", buyer=Buyer.of(1))) is None
    assert getter(path_of(within(within(Purchase.buyer, Buyer.ref), Ref.key)))(Purchase(code="a", buyer=buyer)) == (1,)
    assert getter(path_of(each(Customer.tags)))(Customer(number=1, home=None, tags=["b"])) == ["b"]


def test_a_path_is_a_default_but_not_a_value():
    assert Buyer.__struct_defaults__ == (False, path_of(within(Customer.home, Place.city)))
    assert len({path_of(Customer.number), path_of(Customer.number)}) == 1
    forgotten = Purchase(code="a", buyer=Buyer(ref=Ref((1,))))
    with pytest.raises(InvalidValue) as caught:
        Layout(Purchase, 1).validated(forgotten)
    assert caught.value.facts["field"] == "buyer.city"
