"""A schema with every kind of declaration, small enough to break by hand.

Region <- City <- Customer <- Purchase is two hops through a copy and through a plain reference; a purchase may be a
gift, whose giver is cleared when he goes; tags are many-to-many and refuse to go while they are used.
"""

from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated

import msgspec

from oneread import (
    CREATED,
    UPDATED,
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
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
    newest_values,
    oldest,
    reference,
    shown,
    total,
    within,
)


class State(Enum):
    OPEN = "open"
    PAID = "paid"
    SENT = "sent"


class Region(Model[str]):
    code: Key[str]
    name: str


class City(Model[str]):
    code: Key[str]
    name: str
    region: Ref[Region] | None = reference(missing_ok=True)


class Home(Copy[City]):
    missing_ok = True

    name: str
    region: Ref[Region] | None


class Customer(Model[int]):
    number: Key[int]
    name: str
    born: date | None = None
    city: Home | None = None


class Product(Model[str]):
    code: Key[str]
    name: str
    price: Decimal = Decimal(1)


class Tag(Model[str]):
    word: Key[str]
    title: str = ""


class Buyer(Copy[Customer]):
    name: str
    lives_in: str | None = within(Customer.city, Home.name)


class Giver(Copy[Customer]):
    on_delete = "clear"
    missing_ok = True

    name: str


class Sold(Copy[Product]):
    on_delete = "refuse"

    name: str


class Measures(msgspec.Struct, frozen=True):
    weight: float
    depth: int | None = None


class Purchase(Model[str, int]):
    order: Key[str]
    line: Key[int]
    buyer: Buyer
    product: Sold | None = None
    shipped_to: Ref[City] | None = reference(missing_ok=True)
    tags: Annotated[list[Ref[Tag]], msgspec.Meta(max_length=4)] = reference(on_delete="refuse")
    words: set[str] = msgspec.field(default_factory=set)
    state: State = State.OPEN
    quantity: int = 1
    price: Decimal | None = None
    score: float | None = None
    took: timedelta | None = None
    note: str | None = None
    blob: bytes | None = None
    due: date | None = None
    ordered_at: datetime
    measures: Measures | None = None
    extra: dict[str, int] = msgspec.field(default_factory=dict)
    made_at: datetime = CREATED
    changed_at: datetime = UPDATED


class Gift(Purchase):
    giver: Giver | None = None
    card: str | None = None


class PurchasesOfBuyer(Index[Purchase]):
    buyer: Buyer = by(Purchase.buyer)
    ordered_at: datetime = newest(Purchase.ordered_at)
    product: Sold | None = shown(Purchase.product)
    quantity: int = shown(Purchase.quantity)


class PurchasesOfBuyerName(Index[Purchase]):
    """By a copied field, covering a copy that has a leaf of its own."""

    name: str = by(within(Purchase.buyer, Buyer.name))
    price: Decimal | None = descending(Purchase.price, none="last")
    buyer: Buyer = shown(Purchase.buyer)


class PurchasesOfTown(Index[Purchase]):
    """By a value two hops away, carried by a copy."""

    town: str | None = by(within(Purchase.buyer, Buyer.lives_in), none="first")
    quantity: int = descending(Purchase.quantity)


class PurchasesOfRegion(Index[Purchase]):
    """Two hops through a plain reference: a hidden copy."""

    region: str = by(within(within(Purchase.shipped_to, City.region), Region.name))
    ordered_at: datetime = oldest(Purchase.ordered_at)


class PurchasesOfBirth(Index[Purchase]):
    """By a field that the copy does not show."""

    born: date | None = ascending(within(Purchase.buyer, Customer.born), none="last")
    note: str | None = shown(Purchase.note)


class PurchasesOfTag(Index[Purchase]):
    tag: Ref[Tag] = by(each(Purchase.tags))
    state: State = ascending(Purchase.state)


class PurchasesOfWord(Index[Purchase]):
    word: str = by(each(Purchase.words))


class PurchasesOfNote(Index[Purchase]):
    note: str | None = by(Purchase.note, none="first", hashed=True)


class PurchasesByMany(Index[Purchase]):
    score: float | None = descending(Purchase.score, none="first")
    took: timedelta | None = ascending(Purchase.took, none="last")
    due: date | None = descending(Purchase.due, none="last")


class PurchasesOfBlob(Index[Purchase]):
    """Sparse: without a blob it is not here."""

    blob: bytes = descending(Purchase.blob)
    weight: float | None = shown(within(Purchase.measures, Measures.weight))


class LargePurchases(Index[Purchase]):
    where = (field(Purchase.quantity) > 2) & ~(field(within(Purchase.buyer, Buyer.name)) == "Bo")

    state: State = by(Purchase.state)
    shipped_to: Ref[City] | None = ascending(Purchase.shipped_to, none="first")
    extra: dict[str, int] = shown(Purchase.extra)


class PurchasesOfDay(Index[Purchase]):
    day: datetime = bucket(Purchase.ordered_at, "day")


class GiftsOfCard(Index[Gift]):
    unique = True

    card: str = by(Gift.card)
    giver: Giver | None = shown(Gift.giver)


class GiftsOfGiver(Index[Gift]):
    giver: Giver = by(Gift.giver)


class CustomersByName(Index[Customer]):
    name: str = by(Customer.name)
    city: Home | None = shown(Customer.city)


class CustomersOfRegion(Index[Customer]):
    region: Ref[Region] = by(within(Customer.city, City.region))


class CustomerNames(Index[Customer]):
    unique = True

    name: str = by(Customer.name)
    born: date | None = by(Customer.born, none="first")


class ProductSales(Aggregate[Purchase]):
    product: Sold = by(Purchase.product)
    orders: int = count()
    units: int = total(Purchase.quantity)
    mean_price: Decimal | None = mean(Purchase.price)
    dearest: Decimal | None = greatest(Purchase.price)
    last: datetime | None = greatest(Purchase.ordered_at)
    buyers: list[Ref[Customer]] = newest_values(within(Purchase.buyer, Buyer.ref), by=Purchase.ordered_at, most=3)
    words: list[set[str]] = newest_values(Purchase.words, by=Purchase.ordered_at, most=2)


class EverythingSold(Aggregate[Purchase]):
    orders: int = count()
    scored: int = count(Purchase.score)
    score: float = total(Purchase.score)
    mean_score: float | None = mean(Purchase.score)
    took: timedelta = total(Purchase.took)
    mean_took: timedelta | None = mean(Purchase.took)
    price: Decimal = total(Purchase.price)
    units: Decimal | None = mean(Purchase.quantity)
    first_note: str | None = least(Purchase.note)
    smallest: float | None = least(Purchase.score)
    quickest: timedelta | None = least(Purchase.took)
    open: int = count(where=field(Purchase.state) == State.OPEN)
    large_price: Decimal = total(Purchase.price, where=field(Purchase.quantity) > 2)
    mean_large: Decimal | None = mean(Purchase.price, where=field(Purchase.quantity) > 2)


class SalesOfTown(Aggregate[Purchase]):
    shards = 3

    town: str | None = by(within(Purchase.buyer, Buyer.lives_in), none="last")
    state: State = by(Purchase.state)
    units: int = total(Purchase.quantity)
    first_buyer: str | None = least(within(Purchase.buyer, Buyer.name))
    names: list[str] = newest_values(
        within(Purchase.buyer, Buyer.name), by=Purchase.ordered_at, most=2,
        where=~(field(within(Purchase.buyer, Buyer.name)) == "Bo"),
    )  # fmt: skip
    most: int | None = greatest(Purchase.quantity, where=field(within(Purchase.buyer, Buyer.name)) != "Bo")


class SalesOfRegion(Aggregate[Purchase]):
    region: str = by(within(within(Purchase.shipped_to, City.region), Region.name))
    orders: int = count()
    youngest: date | None = greatest(within(Purchase.buyer, Customer.born))


class SalesOfWeek(Aggregate[Purchase]):
    where = field(Purchase.state) != State.OPEN

    week: datetime = bucket(Purchase.ordered_at, "week")
    orders: int = count()
    price: Decimal = total(Purchase.price)


class TagUse(Aggregate[Purchase]):
    tag: Ref[Tag] = by(each(Purchase.tags))
    uses: int = count()
    most: int | None = greatest(Purchase.quantity)
    newest: list[Ref[City]] = newest_values(Purchase.shipped_to, by=Purchase.ordered_at, most=1)
    scores: list[float] = newest_values(Purchase.score, by=Purchase.changed_at, most=100)


class GiftsGiven(Aggregate[Gift]):
    giver: Giver | None = by(Gift.giver, none="first")
    gifts: int = count()


class ProductsByMean(Index[ProductSales]):
    """Over groups: by a mean and an extremum, which may be None; it shows the copy of the key, which only refers."""

    mean_price: Decimal | None = ascending(ProductSales.mean_price, none="first")
    last: datetime | None = newest(ProductSales.last)
    product: Sold = shown(ProductSales.product)
    dearest: Decimal | None = shown(ProductSales.dearest)
    buyers: list[Ref[Customer]] = shown(ProductSales.buyers)
    words: list[set[str]] = shown(ProductSales.words)


class TownsByUnits(Index[SalesOfTown]):
    """Over groups of which one may have no town."""

    where = field(SalesOfTown.units) != 0

    state: State = by(SalesOfTown.state)
    units: int = descending(SalesOfTown.units)
    town: str | None = by(SalesOfTown.town, none="first", hashed=True)
    first_buyer: str | None = shown(SalesOfTown.first_buyer)
    names: list[str] = shown(SalesOfTown.names)


class WeeksByPrice(Index[SalesOfWeek]):
    price: Decimal = descending(SalesOfWeek.price)
    week: datetime = shown(SalesOfWeek.week)


class WeeksOfMonth(Index[SalesOfWeek]):
    """By buckets of buckets."""

    month: datetime = bucket(SalesOfWeek.week, "month")
    orders: int = descending(SalesOfWeek.orders)
    week: datetime = newest(SalesOfWeek.week)


class Givers(Index[GiftsGiven]):
    giver: Giver | None = by(GiftsGiven.giver, none="last")
    gifts: int = ascending(GiftsGiven.gifts)


MODELS = (Region, City, Customer, Product, Tag, Purchase, Gift)
INDEXES = (
    PurchasesOfBuyer,
    PurchasesOfBuyerName,
    PurchasesOfTown,
    PurchasesOfRegion,
    PurchasesOfBirth,
    PurchasesOfTag,
    PurchasesOfWord,
    PurchasesOfNote,
    PurchasesByMany,
    PurchasesOfBlob,
    LargePurchases,
    PurchasesOfDay,
    GiftsOfCard,
    GiftsOfGiver,
    CustomersByName,
    CustomersOfRegion,
    CustomerNames,
)
AGGREGATES = (ProductSales, EverythingSold, SalesOfTown, SalesOfRegion, SalesOfWeek, TagUse, GiftsGiven)
INDEXES_OVER_GROUPS = (ProductsByMean, TownsByUnits, WeeksByPrice, WeeksOfMonth, Givers)
EVERYTHING = (*MODELS, *INDEXES, *AGGREGATES, *INDEXES_OVER_GROUPS)
