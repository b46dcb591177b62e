"""Conditions, paths and copied paths as they are meant to be written."""

from oneread.models.expressions import Expression, field
from oneread.models.model import Key, Model
from oneread.models.paths import each, within
from oneread.models.references import Copy, Ref


class Home(Model[int]):
    number: Key[int]
    city: str


class Place(Copy[Home]):
    city: str


class Customer(Model[int]):
    number: Key[int]
    home: Place | None
    quantity: int
    note: str | None
    tags: list[str]
    marks: set[int] | None


class Seen(Copy[Customer]):
    city: str = within(Customer.home, Place.city)
    quantity: int


def where(condition: Expression) -> Expression:
    return condition


where(field(Customer.quantity) > 0)
where((field(Customer.quantity) == 1) & ~field(Customer.note).is_none() | field(Customer.note).starts_with("a"))
where(field(within(Customer.home, Place.city)) == "Paris")
where(field(Customer.quantity).one_of(1, 2))
where(field(Customer.tags).contains("a"))
where(field(Customer.marks).contains(1))
where(field(Customer.note).contains("a"))
tag: str = each(Customer.tags)
mark: int = each(Customer.marks)
Seen(ref=Ref((1,)), city="Paris", quantity=1)
