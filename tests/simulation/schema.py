"""A small world with every way in which one row follows another, and a bound of two, so that tasks arise.

Region <- City <- Customer <- Purchase: hop after hop through copies, up to an index of purchases by town and one of
customers by land; and what no copy shows, by a plain reference. A product's name is a leaf copy: no view needs it.
"""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Annotated

import msgspec

from oneread import (
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    ascending,
    by,
    count,
    descending,
    each,
    greatest,
    least,
    newest_values,
    reference,
    shown,
    total,
    within,
)


class Region(Model[int]):
    code: Key[int]
    name: str
    size: int = 0


class Land(Copy[Region]):
    on_delete = "clear"

    name: str


class City(Model[int]):
    code: Key[int]
    name: str
    region: Land | None = None


class Home(Copy[City]):
    missing_ok = True

    name: str
    land: str | None = within(City.region, Land.name)


class Customer(Model[int]):
    number: Key[int]
    name: str
    email: str | None = None
    city: Home | None = None
    born_in: Ref[City] | None = reference(missing_ok=True)


class Buyer(Copy[Customer]):
    name: str
    town: str | None = within(Customer.city, Home.name)


class Product(Model[int]):
    code: Key[int]
    name: str
    stock: int = 0


class Sold(Copy[Product]):
    on_delete = "refuse"

    name: str


DAYS = [datetime(2024, 2, 28, tzinfo=UTC) + timedelta(days=number) for number in range(3)]


class Purchase(Model[int]):
    number: Key[int]
    buyer: Buyer
    product: Sold | None = None
    also: Annotated[list[Ref[Product]], msgspec.Meta(max_length=2)] = reference(missing_ok=True)
    quantity: int = 1
    price: Decimal | None = None
    sold_at: datetime = DAYS[0]


class CustomersOfEmail(Index[Customer]):
    unique = True

    email: str = by(Customer.email)


class CustomersOfLand(Index[Customer]):
    land: str | None = by(within(Customer.city, Home.land), none="first")
    name: str = ascending(Customer.name)


class CustomersOfOrigin(Index[Customer]):
    """Two hops away, and no copy shows it: both holders have a hidden copy."""

    size: int | None = ascending(within(within(Customer.born_in, City.region), Region.size), none="last")


class PurchasesAlso(Index[Purchase]):
    product: Ref[Product] = by(each(Purchase.also))


class PurchasesOfBuyer(Index[Purchase]):
    buyer: Buyer = by(Purchase.buyer)
    quantity: int = descending(Purchase.quantity)
    price: Decimal | None = shown(Purchase.price)


class PurchasesOfTown(Index[Purchase]):
    town: str | None = by(within(Purchase.buyer, Buyer.town), none="first")
    name: str = shown(within(Purchase.buyer, Buyer.name))


class SalesOfProduct(Aggregate[Purchase]):
    product: Sold | None = by(Purchase.product, none="last")
    purchases: int = count()
    quantity: int = total(Purchase.quantity)
    cheapest: Decimal | None = least(Purchase.price)
    dearest: Decimal | None = greatest(Purchase.price)


class SalesOfTown(Aggregate[Purchase]):
    town: str = by(within(Purchase.buyer, Buyer.town))
    revenue: Decimal = total(Purchase.price)
    largest: int | None = greatest(Purchase.quantity)
    newest: list[str] = newest_values(within(Purchase.buyer, Buyer.name), by=Purchase.sold_at, most=2)


class Compiled(Schema):
    """Compiled once for all empty stores: they give the same numbers."""

    def catalog(self, numbers):
        known = self.__dict__.setdefault("known", {})
        if repr(numbers) not in known:
            known[repr(numbers)] = super().catalog(numbers)
        return known[repr(numbers)]

    def declared(self):
        if "described" not in self.__dict__:
            self.described = super().declared()
        return self.described


@cache
def compiled(*classes, inline):
    """The schema of these classes, made once: a world of each seed has one of few."""
    return Compiled(*classes, inline=inline)


WORLD = Compiled(
    Region,
    City,
    Customer,
    Product,
    Purchase,
    CustomersOfEmail,
    CustomersOfLand,
    CustomersOfOrigin,
    PurchasesAlso,
    PurchasesOfBuyer,
    PurchasesOfTown,
    SalesOfProduct,
    SalesOfTown,
    inline=2,
)
