"""Changes of fields that an editor refuses: both type checkers report each marked line, and no other."""

from datetime import datetime, timedelta
from decimal import Decimal

from oneread import AsyncDatabase, Copy, Database, Key, Model, Ref, Transaction, add, field


class Customer(Model[int]):
    number: Key[int]
    name: str


class Buyer(Copy[Customer]):
    name: str


class Purchase(Model[str, int]):
    order: Key[str]
    line: Key[int]
    buyer: Buyer
    referrer: Ref[Customer]
    quantity: int
    price: Decimal
    note: str | None
    ordered_at: datetime
    tags: list[str]


TWO = field(Purchase.quantity).to(2)
field(Purchase.quantty).to(2)  # rejected
field(Purchase.quantity).to("x")  # rejected
field(Purchase.quantity).to(None)  # rejected
field(Purchase.quantity).to(add(1), 2)  # rejected
field(Purchase.quantity).add("x")  # rejected
field(Purchase.quantity).add(0.5)  # rejected
field(Purchase.quantity).append(1)  # rejected
field(Purchase.price).add(0.5)  # rejected
field(Purchase.note).to(2)  # rejected
field(Purchase.note).remove("x")  # rejected
field(Purchase.ordered_at).add(1)  # rejected
field(Purchase.ordered_at).to(timedelta(1))  # rejected
field(Purchase.buyer).to(Customer(number=1, name="x"))  # rejected
field(Purchase.referrer).to(Purchase.at("a", 1))  # rejected
field(Purchase.tags).to(["a", 1])  # rejected
field(Purchase.tags).append(1)  # rejected
field(Purchase.tags).add(1)  # rejected


def wrong(db: Database, bought: Purchase) -> None:
    db.patch(Purchase, "a", TWO)  # rejected
    db.patch(Purchase, TWO)  # rejected
    db.patch(Purchase, "a", "1", TWO)  # rejected
    db.patch(Purchase, TWO, "a", 1)  # rejected
    db.patch(Purchase, "a", 1, 2)  # rejected
    db.patch(Purchase, "a", 1, add(1), 2)  # rejected
    db.patch(Purchase, "a", 1, field(Purchase.quantity))  # rejected
    db.patch(Purchase, "a", 1, field(Purchase.quantity) == 2)  # rejected
    db.patch(Purchase, "a", 1, field(Purchase.quantity).to("x"))  # rejected
    db.patch(Purchase, "a", 1, TWO, field(Purchase.quantty).to(2))  # rejected
    db.patch(Purchase, bought.ref(), 2)  # rejected
    db.patch(Customer, bought.ref(), TWO)  # rejected
    db.upsert(bought, 2)  # rejected
    db.upsert(bought, field(Purchase.quantity) == 2)  # rejected
    db.page(Purchase, "a", where=TWO)  # rejected
    with db.bulk() as bulk:
        bulk.patch(Purchase, "a", TWO)  # rejected

    def body(tx: Transaction) -> None:
        tx.patch(Purchase, "a", 1, field(Purchase.quantity))  # rejected

    db.transact(body)


async def wrong_async(db: AsyncDatabase) -> None:
    await db.patch(Purchase, "a", TWO)  # rejected
    name: str = (await db.patch(Purchase, "a", 1, TWO)).quantity  # rejected
    print(name)
