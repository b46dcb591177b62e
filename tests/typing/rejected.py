"""Mistakes that an editor shows before anything runs: both type checkers report each marked line, and no other."""

from datetime import datetime
from decimal import Decimal

from oneread import (
    Aggregate,
    AsyncDatabase,
    Copy,
    Database,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    Transaction,
    ascending,
    bucket,
    by,
    connect,
    count,
    descending,
    each,
    greatest,
    mean,
    newest,
    shown,
    total,
    within,
)


class Customer(Model[int]):
    number: Key[int]
    name: str
    country: str


class Product(Model[str]):
    code: Key[str]
    name: str


class Buyer(Copy[Customer]):
    name: str
    country: str


class Purchase(Model[str, int]):
    order: Key[str]
    line: Key[int]
    buyer: Buyer
    product: Ref[Product]
    note: str | None
    tags: list[str]
    quantity: int
    unit_price: Decimal
    weight: float
    ordered_at: datetime


class PurchasesOfBuyer(Index[Purchase]):
    buyer: Buyer = by(Purchase.buyer)
    ordered_at: datetime = newest(Purchase.ordered_at)
    quantity: int = shown(Purchase.quantity)


class Sales(Aggregate[Purchase]):
    buyer: Buyer = by(Purchase.buyer)
    units: int = total(Purchase.quantity)


class WrongAggregate(Aggregate[Purchase]):
    orders: str = count()  # rejected
    units: int = total(Purchase.order)  # rejected
    wrong: str = total(Purchase.quantity)  # rejected
    mean_units: int | None = mean(Purchase.quantity)  # rejected
    large: int = count(where=Purchase.quantity > 9)  # rejected
    mean_price: Decimal = mean(Purchase.unit_price)  # rejected
    mean_buyer: Decimal | None = mean(Purchase.buyer)  # rejected
    dearest: str | None = greatest(Purchase.unit_price)  # rejected
    month: datetime = bucket(Purchase.quantity, "month")  # rejected
    decade: datetime = bucket(Purchase.ordered_at, "decade")  # rejected


class WrongIndex(Index[Purchase]):
    who: Buyer = by(Purchase.nobody)  # rejected
    when: datetime = newest(Purchase.quantity)  # rejected
    quantity: str = shown(Purchase.quantity)  # rejected
    country: int = by(within(Purchase.buyer, Buyer.country))  # rejected
    city: str = by(within(Purchase.buyer, Buyer.city))  # rejected
    tag: int = by(each(Purchase.tags))  # rejected
    letter: int = by(each(Purchase.quantity))  # rejected
    note: str = ascending(Purchase.note, none="last")  # rejected
    late: str | None = descending(Purchase.note, none="middle")  # rejected


SHOP = Schema(Customer, Product, Purchase, PurchasesOfBuyer, Sales)
Schema("Customer")  # rejected
Schema(Buyer)  # rejected
Schema(SHOP)  # rejected

Customer(number=1, name="x")  # rejected
Customer(number="1", name="x", country="y")  # rejected
Customer(1, "a", "b")  # rejected
Customer(number=1, name="x", country="y", town="z")  # rejected


def wrong(db: Database) -> None:
    db.get(Purchase, "537626")  # rejected
    db.get(Purchase, 1, "537626")  # rejected
    db.get(Purchase, "537626", 1).buyr  # rejected
    db.find(Purchase, "537626", 1).quantity  # rejected
    db.find(Customer, "1")  # rejected
    db.exists(Purchase, "537626")  # rejected
    db.delete(Purchase, "537626")  # rejected
    db.patch(Purchase, "537626", quantity=1)  # rejected
    db.get_many(Sales, [1])  # rejected
    db.save(Sales(buyer=Buyer.of(1), units=1))  # rejected
    db.create(Buyer.of(1))  # rejected
    db.save_all([Buyer.of(1)])  # rejected
    db.save(Customer)  # rejected
    db.page(Buyer, 1)  # rejected
    db.page(Customer(number=1, name="x", country="y"))  # rejected
    db.page(PurchasesOfBuyer, 1, limit="10")  # rejected
    db.page(PurchasesOfBuyer, 1, order="ordered_at")  # rejected
    db.page(PurchasesOfBuyer, 1, where=True)  # rejected
    db.changes(Buyer)  # rejected
    db.changes(PurchasesOfBuyer, 1, where=True)  # rejected
    db.changes_cursor(Buyer)  # rejected
    db.changes(PurchasesOfBuyer, pace="1")  # rejected
    name: int = db.page(PurchasesOfBuyer, 1).rows[0].buyer.name  # rejected
    cursor: str = db.page(PurchasesOfBuyer, 1).next  # rejected
    source: Ref[Customer] = db.page(PurchasesOfBuyer, 1)[0].source  # rejected
    reference: Ref[Customer] = Purchase.at("537626", 1)  # rejected
    Purchase.at("537626")  # rejected
    customer = db.get(Customer, 1)
    customer.name = "z"  # rejected
    db.get(Sales, 1).units = 3  # rejected
    print(name, cursor, source, reference)


def wrong_transaction(db: Database) -> None:
    def body(tx: Transaction) -> None:
        tx.get(Purchase, "537626")  # rejected
        tx.save(Sales(buyer=Buyer.of(1), units=1))  # rejected
        tx.page(PurchasesOfBuyer, 1)  # rejected

    db.transact(body)
    db.transact(lambda: 1)  # rejected
    count_of: str = db.transact(lambda tx: tx.get(Purchase, "1", 1).quantity)  # rejected
    print(count_of)


async def wrong_async(db: AsyncDatabase) -> None:
    (await db.get(Purchase, "537626", 1)).buyr  # rejected
    db.get(Purchase, "537626", 1).buyer  # rejected
    await db.get(Purchase, "537626")  # rejected
    async with connect("memory://", SHOP):  # rejected
        pass
