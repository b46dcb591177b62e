"""Views that say the types of their keys, in every verb that finds rows by them; views that do not, take any."""

from datetime import UTC, datetime
from typing import Any, TypeVar, assert_type

from oneread import (
    Aggregate,
    AsyncDatabase,
    Copy,
    Database,
    Feed,
    Index,
    Key,
    Model,
    Page,
    Ref,
    Schema,
    any_of,
    at_once,
    by,
    count,
    descending,
    newest,
    on,
    shown,
)
from oneread.derivations.views import View


class Customer(Model[int]):
    number: Key[int]
    name: str


class Buyer(Copy[Customer]):
    name: str


class Purchase(Model[str, int]):
    order: Key[str]
    line: Key[int]
    buyer: Buyer
    country: str
    city: str
    note: str | None = None
    ordered_at: datetime


class Following(Model[int, int]):
    who: Key[int]
    whom: Key[int]
    buyer: Ref[Customer]


class Untyped(Index[Purchase]):
    buyer: Buyer = by(Purchase.buyer)


class OfBuyer(Index[Purchase, int]):
    buyer: Buyer = by(Purchase.buyer)
    ordered_at: datetime = newest(Purchase.ordered_at)


class OfBuyerByAny(Index[Purchase, int | Ref[Customer] | Buyer, datetime]):
    buyer: Buyer = by(Purchase.buyer)
    ordered_at: datetime = newest(Purchase.ordered_at)


class OfReference(Index[Purchase, Ref[Customer]]):
    replaces = at_once(Untyped)
    buyer: Buyer = by(Purchase.buyer)


class OfPlace(Index[Purchase, str, str, datetime]):
    country: str = by(Purchase.country)
    city: str = by(Purchase.city)
    ordered_at: datetime = newest(Purchase.ordered_at)


class OfNote(Index[Purchase, str | None]):
    note: str | None = by(Purchase.note, none="last")


class CustomerOfName(Index[Customer, str]):
    unique = True

    name: str = by(Customer.name)


class Sales(Aggregate[Purchase, int]):
    buyer: Buyer = by(Purchase.buyer)
    orders: int = count()


class Best(Index[Sales, int]):
    orders: int = descending(Sales.orders)


class Home(Feed[Purchase, int]):
    joined = on(Purchase.buyer, Following.buyer)
    marks = True

    who: int = by(Following.who)
    ordered_at: datetime = newest(Purchase.ordered_at)
    city: str = shown(Purchase.city)


SHOP = Schema(
    Customer, Purchase, Following, Untyped, OfBuyer, OfBuyerByAny, OfReference, OfPlace, OfNote, CustomerOfName, Sales,
    Best, Home,
)  # fmt: skip
NOW = datetime(2026, 5, 1, tzinfo=UTC)
V = TypeVar("V", bound=View[Any])
P = TypeVar("P", bound="Model[*tuple[Any, ...]] | View[Any]")


def of_any_view(db: Database, view: type[V], *equal: Any) -> Page[V]:
    return db.page(view, *equal)


def of_any_class(db: Database, view: type[P], *equal: Any) -> Page[P]:
    return db.page(view, *equal)


def of_any_index(db: Database, view: type[Index[Any]]) -> int:
    return len(db.page(view, 1))


def reading(db: Database, bought: Purchase, keys: list[tuple[int, ...]], given: object) -> None:
    assert_type(db.page(Untyped), Page[Untyped])
    assert_type(db.page(Untyped, "x", 1, NOW, 2, 3, 4), Page[Untyped])
    assert_type(db.page(Untyped, given), Page[Untyped])
    assert_type(db.page(OfBuyer), Page[OfBuyer])
    assert_type(db.page(view=OfBuyer, limit=3), Page[OfBuyer])
    assert_type(db.page(OfBuyer, 1, limit=3, since=NOW), Page[OfBuyer])
    assert_type(db.page(OfBuyer, any_of(1, 2), NOW), Page[OfBuyer])
    assert_type(db.page(OfBuyerByAny, 1), Page[OfBuyerByAny])
    assert_type(db.page(OfBuyerByAny, bought.buyer), Page[OfBuyerByAny])
    assert_type(db.page(OfBuyerByAny, bought.buyer.ref, NOW), Page[OfBuyerByAny])
    assert_type(db.page(OfReference, Customer.at(1)), Page[OfReference])
    assert_type(db.page(OfPlace), Page[OfPlace])
    assert_type(db.page(OfPlace, "France"), Page[OfPlace])
    assert_type(db.page(OfPlace, "France", "Paris"), Page[OfPlace])
    assert_type(db.page(OfPlace, "France", "Paris", NOW), Page[OfPlace])
    assert_type(db.page(OfNote, None), Page[OfNote])
    assert_type(db.page(Sales, 1), Page[Sales])
    assert_type(db.page(Best, 3), Page[Best])
    assert_type(db.page(Home, 1), Page[Home])
    assert_type(db.page(Purchase, "537626"), Page[Purchase])
    assert_type(db.get(Sales, 1), Sales)
    assert_type(db.get(Sales, Sales.at(1)), Sales)
    assert_type(db.find(CustomerOfName, "Ada"), CustomerOfName | None)
    assert_type(db.exists(CustomerOfName, "Ada"), bool)
    assert_type(db.get_many(Sales, [(1,), (2,)]), list[Sales | None])
    assert_type(db.get_many(Untyped, keys), list[Untyped | None])
    for page in db.scan(OfBuyer, 1):
        assert_type(page, Page[OfBuyer])
    db.changes_cursor(OfBuyer)
    db.mark(Home, 1, seen=True)


async def reading_async(db: AsyncDatabase) -> None:
    assert_type(await db.page(OfBuyer, 1), Page[OfBuyer])
    assert_type(await db.get(Sales, 1), Sales)
    assert_type(await db.find(CustomerOfName, "Ada"), CustomerOfName | None)
    assert_type(await db.get_many(Sales, [(1,)]), list[Sales | None])
