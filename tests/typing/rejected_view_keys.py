"""Keys of views of other types than the view says: both type checkers report each marked line, and no other."""

from datetime import UTC, datetime

from oneread import Aggregate, AsyncDatabase, Copy, Database, Feed, Index, Key, Model, Page, Ref, by, count, newest, on


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


class OfReference(Index[Purchase, Ref[Customer] | Buyer, datetime]):
    buyer: Buyer = by(Purchase.buyer)
    ordered_at: datetime = newest(Purchase.ordered_at)


class CustomerOfName(Index[Customer, str]):
    unique = True

    name: str = by(Customer.name)


class Sales(Aggregate[Purchase, int]):
    buyer: Buyer = by(Purchase.buyer)
    orders: int = count()


class Home(Feed[Purchase, int]):
    joined = on(Purchase.buyer, Following.buyer)

    who: int = by(Following.who)
    ordered_at: datetime = newest(Purchase.ordered_at)


class TooMany(Index[Purchase, int, int, int, int, int]):  # rejected
    buyer: Buyer = by(Purchase.buyer)


NOW = datetime(2026, 5, 1, tzinfo=UTC)


def wrong(db: Database, bought: Purchase) -> None:
    db.page(OfBuyer, "x")  # rejected
    db.page(OfBuyer, bought.buyer)  # rejected
    db.page(OfBuyer, 1, limit="x")  # rejected
    db.page(OfBuyer, 1, lmit=1)  # rejected
    db.page(OfReference, 1)  # rejected
    db.page(OfReference, bought.ref())  # rejected
    db.page(OfReference, bought.buyer, 1)  # rejected
    db.page(OfReference, 1, NOW)  # rejected
    db.page(CustomerOfName, 1)  # rejected
    db.page(Sales, "1")  # rejected
    db.page(Home, "1")  # rejected
    db.get(Sales, "1")  # rejected
    db.get(Sales, bought.ref())  # rejected
    db.get(Untyped, object())  # rejected
    db.find(CustomerOfName, 1)  # rejected
    db.exists(CustomerOfName, 1)  # rejected
    db.get_many(Sales, [("x",)])  # rejected
    page: Page[Untyped] = db.page(OfBuyer, 1)  # rejected
    print(page)


async def wrong_async(db: AsyncDatabase) -> None:
    await db.page(OfBuyer, "x")  # rejected
    await db.get(Sales, "1")  # rejected
