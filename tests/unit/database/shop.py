"""A plain shop: what the tests of verbs, costs and bad input have in common."""

from datetime import UTC, datetime
from decimal import Decimal
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
    by,
    count,
    each,
    greatest,
    newest,
    reference,
    shown,
    total,
)
from oneread.store.requests import Scan
from oneread.store.rows import TABLES, RowRange

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


class Customer(Model[int]):
    number: Key[int]
    name: str
    country: str = "Iceland"


class Product(Model[str]):
    code: Key[str]
    name: str
    note: str | None = None


class Tag(Model[str]):
    word: Key[str]


class Buyer(Copy[Customer]):
    name: str


class Sold(Copy[Product]):
    on_delete = "refuse"

    name: str


class Purchase(Model[str, int]):
    order: Key[str]
    line: Key[int]
    buyer: Buyer
    product: Sold
    tags: Annotated[list[Ref[Tag]], msgspec.Meta(max_length=3)] = reference()
    quantity: int = 1
    price: Decimal = Decimal("2.50")
    remark: str | None = None
    ordered_at: datetime = NOON


class PurchasesOfBuyer(Index[Purchase]):
    buyer: Buyer = by(Purchase.buyer)
    ordered_at: datetime = newest(Purchase.ordered_at)
    product: Sold = shown(Purchase.product)


class PurchasesOfProduct(Index[Purchase]):
    max_limit = 20

    product: Sold = by(Purchase.product)
    quantity: int = by(Purchase.quantity)
    buyer: Buyer = shown(Purchase.buyer)


class PurchasesOfTag(Index[Purchase]):
    tag: Ref[Tag] = by(each(Purchase.tags))


class CustomerNames(Index[Customer]):
    unique = True

    name: str = by(Customer.name)


class SalesOfProduct(Aggregate[Purchase]):
    product: Sold = by(Purchase.product)
    orders: int = count()
    units: int = total(Purchase.quantity)


class SalesOfBuyer(Aggregate[Purchase]):
    buyer: Buyer = by(Purchase.buyer)
    orders: int = count()
    dearest: Decimal | None = greatest(Purchase.price)


SHOP = (
    Customer,
    Product,
    Tag,
    Purchase,
    PurchasesOfBuyer,
    PurchasesOfProduct,
    PurchasesOfTag,
    CustomerNames,
    SalesOfProduct,
    SalesOfBuyer,
)
SCHEMA = Schema(*SHOP)


def customer(number=1, **fields):
    return Customer(number=number, **{"name": f"Customer {number}", **fields})


def product(code="p", **fields):
    return Product(code=code, **{"name": f"Product {code}", **fields})


def purchase(line=1, order="o", buyer=1, sold="p", **fields):
    known = {"order": order, "line": line, "buyer": Buyer.of(buyer), "product": Sold.of(sold), "tags": []}
    return Purchase(**(known | fields))


def fill(db, purchases=3):
    """Two customers, two products, two tags, and purchases of the first of each."""
    db.save_all([customer(1), customer(2)])
    db.save_all([product("p"), product("q")])
    db.save_all([Tag(word="new"), Tag(word="old")])
    db.save_all([purchase(line, quantity=line, tags=[Tag.at("new")]) for line in range(1, purchases + 1)])


def all_rows(db):
    """Every raw row of the store, to see that nothing was written."""
    whole = RowRange(b"", b"")
    return {table: db.run(Scan(table, whole, 100_000, families="dm").__iter__()) for table in TABLES}
