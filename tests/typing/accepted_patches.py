"""Changes of fields that type checkers know, with every verb that takes them."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, assert_type

from msgspec import Meta

from oneread import AsyncDatabase, AsyncTransaction, Copy, Database, Key, Model, Ref, Transaction, add, field
from oneread.models.expressions import FieldChange


class Customer(Model[int]):
    number: Key[int]
    name: str


class Buyer(Copy[Customer]):
    name: str


class Purchase(Model[str, int]):
    order: Key[str]
    line: Key[int]
    buyer: Buyer | None
    referrer: Ref[Customer] | None = None
    note: str | None = None
    quantity: int = 1
    spare: int | None = None
    seal: bytes = b""
    price: Decimal = Decimal(0)
    weight: float = 0.0
    taken: timedelta | None = None
    ordered_at: datetime
    due: date
    tags: Annotated[list[str], Meta(max_length=9)] = []  # noqa: RUF012 - msgspec makes each its own
    readers: set[int] = set()  # noqa: RUF012 - msgspec makes each its own
    path: tuple[int, ...] = ()


class Gift(Purchase):
    card: str


class Loose(Model):
    id: Key[int]
    text: str


ADA = Customer(number=7, name="Ada")
CHANGES: list[FieldChange] = [
    field(Purchase.quantity).to(2),
    field(Purchase.quantity).add(2),
    field(Purchase.spare).to(None),
    field(Purchase.spare).add(2),
    field(Purchase.note).to("!"),
    field(Purchase.note).add("!"),
    field(Purchase.seal).add(b"!"),
    field(Purchase.price).add(Decimal(1)),
    field(Purchase.price).add(1),
    field(Purchase.weight).to(1),
    field(Purchase.weight).add(1),
    field(Purchase.weight).add(0.5),
    field(Purchase.taken).add(timedelta(1)),
    field(Purchase.ordered_at).add(timedelta(1)),
    field(Purchase.due).add(timedelta(1)),
    field(Purchase.due).to(date(2026, 1, 1)),
    field(Purchase.buyer).to(Buyer.of(7)),
    field(Purchase.buyer).to(None),
    field(Purchase.referrer).to(ADA.ref()),
    field(Purchase.tags).to([]),
    field(Purchase.tags).append("new"),
    field(Purchase.tags).remove("new"),
    field(Purchase.readers).to({1, 2}),
    field(Purchase.readers).append(1),
    field(Purchase.path).append(1),
]


def patching(db: Database, bought: Purchase, buyer: Buyer) -> None:
    two, note = field(Purchase.quantity).to(2), field(Purchase.note).to("!")
    assert_type(field(Purchase.quantity).to(2), FieldChange)
    assert_type(db.patch(Purchase, "a", 1, two), Purchase)
    assert_type(db.patch(Purchase, "a", 1, two, note), Purchase)
    assert_type(db.patch(Purchase, "a", 1, two, note, two), Purchase)
    assert_type(db.patch(Purchase, "a", 1, two, note, two, note), Purchase)
    assert_type(db.patch(Purchase, "a", 1, two, note, if_version=3, enqueue=[]), Purchase)
    assert_type(db.patch(Purchase, "a", 1, two, note="!"), Purchase)
    assert_type(db.patch(Purchase, "a", 1, quantity=add(1)), Purchase)
    assert_type(db.patch(Purchase, bought.ref(), two), Purchase)
    assert_type(db.patch(Purchase, bought.ref(), *CHANGES), Purchase)
    assert_type(db.patch(Customer, buyer, field(Customer.name).to("Bea")), Customer)
    assert_type(db.patch(Gift, "a", 1, two, field(Gift.card).to("!")), Gift)
    assert_type(db.patch(Loose, 1, field(Loose.text).to("!")), Loose)
    assert_type(db.upsert(bought, field(Purchase.quantity).add(1)), Purchase)
    assert_type(db.upsert(bought, *CHANGES, enqueue=[]), Purchase)
    with db.bulk() as bulk:
        bulk.patch(Purchase, "a", 1, two, note)
        bulk.patch(Purchase, bought.ref(), *CHANGES)
        bulk.patch(Customer, buyer, field(Customer.name).to("Bea"))

    def body(tx: Transaction) -> None:
        assert_type(tx.patch(Purchase, "a", 1, two, note), Purchase)
        assert_type(tx.patch(Purchase, bought.ref(), *CHANGES), Purchase)
        assert_type(tx.patch(Customer, buyer, field(Customer.name).to("Bea")), Customer)

    db.transact(body)
    db.explain.patch(Purchase, "a", 1, two, note)


async def patching_async(db: AsyncDatabase, bought: Purchase) -> None:
    two = field(Purchase.quantity).to(2)
    assert_type(await db.patch(Purchase, "a", 1, two), Purchase)
    assert_type(await db.patch(Purchase, bought.ref(), *CHANGES), Purchase)
    assert_type(await db.upsert(bought, two), Purchase)
    async with db.bulk() as bulk:
        await bulk.patch(Purchase, "a", 1, two, two)

    async def body(tx: AsyncTransaction) -> Purchase:
        return await tx.patch(Purchase, "a", 1, two)

    assert_type(await db.transact(body), Purchase)
