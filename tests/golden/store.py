"""The golden store: a schema with every kind of view, and a history that leaves every kind of row."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated
from uuid import UUID

from msgspec import Meta

from oneread import (
    CREATED,
    GENERATED,
    UPDATED,
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    add,
    append,
    ascending,
    bucket,
    by,
    count,
    descending,
    each,
    field,
    greatest,
    least,
    mean,
    newest,
    oldest,
    reference,
    remove,
    shown,
    total,
    within,
)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Country(Model[str]):
    code: Key[str]
    name: str


class Home(Copy[Country]):
    name: str


class Customer(Model[int]):
    number: Key[int]
    name: str
    home: Home | None = None


class Product(Model[str]):
    stored_as = "Article"

    code: Key[str]
    name: str
    description: str | None = None


class Buyer(Copy[Customer]):
    name: str
    country: str | None = within(Customer.home, Home.name)


class Sold(Copy[Product]):
    on_delete = "clear"

    name: str | None


class Wished(Copy[Product]):
    missing_ok = True

    name: str


class Tag(Model[str]):
    word: Key[str]


class Purchase(Model[str, int]):
    order: Key[str]
    line: Key[int]
    buyer: Buyer
    product: Sold | None
    wish: Wished | None = None
    also: Ref[Product] | None = None
    tags: Annotated[list[Ref[Tag]], Meta(max_length=5)] = []  # noqa: RUF012 - msgspec makes each its own
    quantity: int
    price: Decimal
    weight: float | None = None
    taken: timedelta | None = None
    colour: Colour = Colour.RED
    note: str | None = None
    day: date = date(2011, 12, 9)
    ordered_at: datetime
    made_at: datetime = CREATED
    changed_at: datetime = UPDATED


class Gift(Purchase):
    card: bytes


class Visit(Model[UUID]):
    id: Key[UUID] = GENERATED
    page: str
    of: Ref[Country] = reference(on_delete="refuse", missing_ok=True)
    seen: int = 0


class PurchasesOfBuyer(Index[Purchase]):
    buyer: Buyer = by(Purchase.buyer)
    ordered_at: datetime = newest(Purchase.ordered_at)
    product: Sold | None = shown(Purchase.product)
    quantity: int = shown(Purchase.quantity)


class PurchasesOfCountry(Index[Purchase]):
    country: str = by(within(Purchase.buyer, Buyer.country))
    ordered_at: datetime = oldest(Purchase.ordered_at)


class PurchasesOfTag(Index[Purchase]):
    tag: Ref[Tag] = by(each(Purchase.tags))
    price: Decimal = descending(Purchase.price)


class BigPurchases(Index[Purchase]):
    where = field(Purchase.quantity) >= 10

    also: str | None = by(within(Purchase.also, Product.name), none="last")
    note: str | None = by(Purchase.note, none="first", hashed=True)
    weight: float | None = ascending(Purchase.weight, none="last")
    colour: Colour = by(Purchase.colour)
    day: date = ascending(Purchase.day)


class GiftsOfCard(Index[Gift]):
    card: bytes = by(Gift.card)


class ProductOfName(Index[Product]):
    unique = True

    name: str = by(Product.name)


class ProductSales(Aggregate[Purchase]):
    product: Sold | None = by(Purchase.product, none="last")
    orders: int = count()
    noted: int = count(Purchase.note)
    units: int = total(Purchase.quantity)
    turnover: Decimal = total(Purchase.price)
    weight: float = total(Purchase.weight)
    taken: timedelta = total(Purchase.taken)
    mean_price: Decimal | None = mean(Purchase.price)
    mean_taken: timedelta | None = mean(Purchase.taken)
    cheapest: Decimal | None = least(Purchase.price)
    dearest: Decimal | None = greatest(Purchase.price)
    last: datetime | None = greatest(Purchase.ordered_at)


class SalesOfMonth(Aggregate[Purchase]):
    month: datetime = bucket(Purchase.ordered_at, "month")
    units: int = total(Purchase.quantity)


class AllVisits(Aggregate[Visit]):
    pages: int = count()
    seen: int = total(Visit.seen)
    most: int | None = greatest(Visit.seen)


SCHEMA = Schema(
    Country, Customer, Product, Tag, Purchase, Gift, Visit, PurchasesOfBuyer, PurchasesOfCountry, PurchasesOfTag,
    BigPurchases, GiftsOfCard, ProductOfName, ProductSales, SalesOfMonth, AllVisits, inline=3,
)  # fmt: skip

FIRST = 1_323_421_200_000
DAY = datetime(2011, 12, 9, 9, 0, tzinfo=UTC)


class Clock:
    """Time that passes only when the history says so."""

    def __init__(self):
        self.now = FIRST

    def __call__(self):
        return self.now


def bought(line, **fields):
    given = {
        "order": "A1",
        "line": line,
        "buyer": Buyer.of(12347),
        "product": Sold.of("85123A"),
        "quantity": 6,
        "price": Decimal("2.55"),
        "ordered_at": DAY + timedelta(minutes=line),
    }
    return Purchase(**given | fields)


GIFT = Gift(
    order="G",
    line=1,
    buyer=Buyer.of(-1),
    product=None,
    quantity=1,
    price=Decimal("1E+3"),
    ordered_at=DAY,
    card=b"\x00\xff",
)


def history(db, clock):
    """Writes of every kind, a second apart; no clock, no chance but `clock`."""
    for step in STEPS:
        step(db)
        clock.now += 1000


STEPS = (
    lambda db: db.save_all([Country(code="IS", name="Iceland"), Country(code="FR", name="France")]),
    lambda db: db.save_all([Tag(word="red"), Tag(word="heart"), Tag(word="\x00odd")]),
    lambda db: db.save(Customer(number=12347, name="Ada", home=Home.of("IS"))),
    lambda db: db.save(Customer(number=-1, name="Björk")),
    lambda db: db.create(Product(code="85123A", name="White heart")),
    lambda db: db.create(Product(code="22423", name="Cake stand", description="Regency, 3 tiers")),
    lambda db: db.create(Product(code="gone", name="Lantern")),
    lambda db: db.save(bought(1)),
    lambda db: db.save(bought(2, quantity=2**70, note="n" * 300, weight=0.1, tags=[Tag.at("red"), Tag.at("\x00odd")])),
    lambda db: db.save(bought(3, product=None, price=Decimal("-0.10"), taken=timedelta(days=-1, microseconds=5))),
    lambda db: db.save(
        bought(4, quantity=12, also=Product.at("22423"), wish=Wished.of("later"), colour=Colour.BLUE, weight=-2.5)
    ),
    lambda db: db.save(bought(5, product=Sold.of("gone"), buyer=Buyer.of(-1), ordered_at=DAY + timedelta(days=40))),
    lambda db: db.save(GIFT),
    lambda db: db.save(Visit(id=UUID(int=7), page="/", of=Country.at("IS"), seen=2**63)),
    lambda db: db.upsert(Visit(id=UUID(int=7), page="/", of=Country.at("IS"), seen=1), seen=add(-(2**64))),
    lambda db: db.patch(Purchase, "A1", 1, quantity=add(4), tags=append(Tag.at("heart"))),
    lambda db: db.patch(Purchase, "A1", 2, tags=remove(Tag.at("red")), note=None),
    lambda db: db.create(Product(code="later", name="Later")),
    lambda db: db.patch(Product, "22423", name="Cakestand"),
    lambda db: db.patch(Customer, 12347, home=Home.of("FR")),
    lambda db: db.drain(),
    lambda db: db.delete(Product, "gone"),
    lambda db: db.delete(Purchase, "A1", 3),
    lambda db: db.transact(lambda tx: (tx.patch(Product, "later", name="Soon"), tx.delete(Customer, -1))),
    lambda db: db.patch(Country, "FR", name="République"),
)
