"""The whole face, used as it is meant: every public verb, both ways, with the type that an editor shows."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, assert_type
from uuid import UUID

from msgspec import Meta

from oneread import (
    CREATED,
    GENERATED,
    UPDATED,
    Aggregate,
    AsyncDatabase,
    AsyncTransaction,
    Changes,
    Copy,
    Cost,
    Database,
    Index,
    Key,
    Model,
    Page,
    Ref,
    RowChange,
    Schema,
    Transaction,
    add,
    any_of,
    append,
    ascending,
    bucket,
    by,
    connect,
    connect_async,
    count,
    descending,
    each,
    expires,
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
from oneread.costs.bounds import Bound
from oneread.costs.declared import of as costs_of


class Customer(Model[int]):
    number: Key[int]
    name: str
    country: str


class Product(Model[str]):
    code: Key[str]
    name: str
    description: str | None = None


class Buyer(Copy[Customer]):
    name: str
    country: str


class Sold(Copy[Product]):
    on_delete = "refuse"

    name: str


class Tag(Model[str]):
    word: Key[str]


class Purchase(Model[str, int]):
    order: Key[str]
    line: Key[int]
    buyer: Buyer | None
    note: str | None = None
    product: Sold
    quantity: int
    unit_price: Decimal
    weight: float | None = None
    taken: timedelta | None = None
    ordered_at: datetime
    tags: Annotated[list[Ref[Tag]], Meta(max_length=20)] = []  # noqa: RUF012 - msgspec makes each its own
    made_at: datetime = CREATED
    changed_at: datetime = UPDATED


class Gift(Purchase):
    card: str


class Visit(Model[UUID]):
    id: Key[UUID] = GENERATED
    page: str
    product: Ref[Product] | None = reference(on_delete="refuse", missing_ok=True)
    seen: int = 0


class Line(Model[UUID, int]):
    child_of = Visit
    id: Key[UUID]
    number: Key[int] = GENERATED
    text: str


class Stay(Model[UUID, int]):
    child_of = "Visit"
    id: Key[UUID]
    number: Key[int] = GENERATED


class Loose(Model):
    id: Key[int]


class Token(Model[str]):
    text: Key[str]
    expires_at: datetime | None = None
    ttl = expires("expires_at")


class PurchasesOfBuyer(Index[Purchase]):
    watched = timedelta(hours=1)

    buyer: Buyer = by(Purchase.buyer)
    ordered_at: datetime = newest(Purchase.ordered_at)
    product: Sold = shown(Purchase.product)
    quantity: int = shown(Purchase.quantity)


class RecentPurchases(Index[Purchase]):
    ttl = expires(Purchase.ordered_at, after=timedelta(days=7))
    ordered_at: datetime = newest(Purchase.ordered_at)


class RecentTokens(Index[Token]):
    ttl = expires(Token.expires_at, after=timedelta(days=1))
    text: str = by(Token.text)


class PurchasesOfCountry(Index[Purchase]):
    country: str = by(within(Purchase.buyer, Buyer.country))
    ordered_at: datetime = newest(Purchase.ordered_at)


class BigPurchases(Index[Purchase]):
    where = (field(Purchase.quantity) > 100) & ~field(Purchase.note).is_none()

    note: str | None = by(Purchase.note, none="last")
    unit_price: Decimal = descending(Purchase.unit_price)
    weight: float = ascending(Purchase.weight)
    ordered_at: datetime = oldest(Purchase.ordered_at)


class PurchasesOfTag(Index[Purchase]):
    tag: Ref[Tag] = by(each(Purchase.tags))


class ProductOfName(Index[Product]):
    unique = True

    name: str = by(Product.name, hashed=True)


class ProductSales(Aggregate[Purchase]):
    product: Sold = by(Purchase.product)
    orders: int = count()
    noted: int = count(Purchase.note)
    units: int = total(Purchase.quantity)
    turnover: Decimal = total(Purchase.unit_price)
    weight: float = total(Purchase.weight)
    taken: timedelta = total(Purchase.taken)
    mean_units: Decimal | None = mean(Purchase.quantity)
    mean_price: Decimal | None = mean(Purchase.unit_price)
    mean_weight: float | None = mean(Purchase.weight)
    mean_taken: timedelta | None = mean(Purchase.taken)
    dearest: Decimal | None = greatest(Purchase.unit_price)
    first: datetime | None = least(Purchase.ordered_at)
    large: int = count(where=field(Purchase.quantity) > 9)
    large_units: int = total(Purchase.quantity, where=field(Purchase.quantity) > 9)
    mean_large: Decimal | None = mean(Purchase.quantity, where=field(Purchase.quantity) > 9)
    last_large: datetime | None = greatest(Purchase.ordered_at, where=field(Purchase.quantity) > 9)


class SalesOfMonth(Aggregate[Purchase]):
    month: datetime = bucket(Purchase.ordered_at, "month")
    orders: int = count()


shop = Schema(
    Customer,
    Product,
    Tag,
    Purchase,
    Gift,
    Visit,
    Loose,
    Token,
    RecentPurchases,
    RecentTokens,
    PurchasesOfBuyer,
    PurchasesOfCountry,
    BigPurchases,
    PurchasesOfTag,
    ProductOfName,
    ProductSales,
    SalesOfMonth,
    inline=500,
)

NOW = datetime(2010, 12, 7, 14, 57, tzinfo=UTC)
ADA = Customer(number=12347, name="Ada", country="Iceland")
HEART = Product(code="85123A", name="White heart")
BOUGHT = Purchase(
    order="537626",
    line=1,
    buyer=Buyer.of(12347),
    product=Sold.of("85123A"),
    quantity=6,
    unit_price=Decimal("2.55"),
    ordered_at=NOW,
    tags=[Tag.at("red"), Tag(word="heart").ref()],
)

assert_type(Purchase.at("537626", 1), Ref[Purchase])
assert_type(BOUGHT.ref(), Ref[Purchase])
assert_type(Buyer.of(12347), Buyer)
assert_type(BOUGHT.product.name, str)
assert_type(BOUGHT.product.ref, Ref[Product])
assert_type(BOUGHT.product.deleted, bool)


def reading(db: Database) -> None:
    purchase = db.get(Purchase, "537626", 1)
    assert_type(purchase, Purchase)
    assert_type(purchase.product.name, str)
    assert_type(purchase.buyer, Buyer | None)
    assert_type(db.get(Gift, "537626", 1).card, str)
    assert_type(db.find(Purchase, "537626", 1), Purchase | None)
    assert_type(db.exists(Purchase, "537626", 1), bool)
    assert_type(db.get_many(Product, [("85123A",), ("22423",)]), list[Product | None])
    assert_type(db.get(ProductSales, "85123A"), ProductSales)
    assert_type(db.get(ProductSales, "85123A").mean_price, Decimal | None)
    assert_type(db.get(ProductOfName, "White heart").source, Ref[Product])
    assert_type(db.get(Loose, 1), Loose)
    assert_type(db.cost(purchase), Cost)
    assert_type(db.cost(purchase).requests, int)
    assert_type(db.version(purchase), int)


def bounds(schema: Schema) -> None:
    costs = costs_of(schema)
    assert_type(costs.get(Purchase), Bound)
    assert_type(costs.page(Purchase, limit=10), Bound)
    assert_type(costs.page(PurchasesOfBuyer), Bound)
    assert_type(costs.save(Purchase), Bound)
    assert_type(costs.patch(Purchase, "quantity", carriers=3), Bound)
    assert_type(costs.delete(Customer), Bound)
    assert_type(costs.changes(Purchase), Bound)
    assert_type(costs.following(Purchase).holders, int)


def listing(db: Database) -> None:
    page = db.page(PurchasesOfBuyer, 12347, limit=10)
    assert_type(page, Page[PurchasesOfBuyer])
    assert_type(page[0], PurchasesOfBuyer)
    assert_type(page.rows[0].product.name, str)
    assert_type(page[0].source, Ref[Purchase])
    assert_type(page.next, str | None)
    assert_type(page.previous, str | None)
    assert_type(page.truncated, bool)
    assert_type(page.cost, Cost)
    assert_type(len(page), int)
    assert_type([row.quantity for row in page], list[int])
    db.page(PurchasesOfBuyer, 12347, cursor=page.next, limit=10)
    db.page(PurchasesOfBuyer, 12347, backward=True, since=NOW, until=NOW)
    db.page(PurchasesOfCountry, any_of("France", "Iceland"), budget=10)
    db.page(PurchasesOfBuyer, 12347, where=field(PurchasesOfBuyer.quantity) >= 2)
    assert_type(db.page(Purchase, "537626"), Page[Purchase])
    assert_type(db.page(Product, starts_with="85"), Page[Product])
    assert_type(db.page(SalesOfMonth), Page[SalesOfMonth])
    for changes in db.changes(PurchasesOfBuyer, 12347, cursor=db.changes_cursor(PurchasesOfBuyer), since=NOW, wait=1):
        assert_type(changes, Changes[PurchasesOfBuyer])
        for change in changes:
            assert_type(change, RowChange[PurchasesOfBuyer])
            assert_type(change.row, PurchasesOfBuyer | None)
            assert_type(change.map(lambda row: row.quantity), RowChange[int])
    for logged in db.changes(Purchase, "537626", cursor=db.changes_cursor(Purchase)):
        assert_type(logged, Changes[Purchase])
        assert_type([change.row for change in logged], list[Purchase | None])
    for batch in db.scan(Purchase, batch=100):
        assert_type(batch, Page[Purchase])


def writing(db: Database) -> None:
    saved = db.save(BOUGHT)
    assert_type(saved, Purchase)
    assert_type(db.create(HEART), Product)
    assert_type(db.get_or_create(ADA), tuple[Customer, bool])
    assert_type(db.upsert(Visit(page="/", product=None, seen=1), seen=add(1)), Visit)
    assert_type(db.patch(Product, "85123A", name="White heart", description=None), Product)
    assert_type(db.patch(Purchase, "537626", 1, quantity=add(1), if_version=db.version(saved)), Purchase)
    db.patch(Purchase, "537626", 1, tags=append(Tag.at("red")))
    db.patch(Purchase, "537626", 1, tags=remove(Tag.at("red")))
    assert_type(db.save_all([ADA, Customer(number=1, name="x", country="y")], batch=10), list[Customer])
    db.delete(Purchase, "537626", 1, if_version=3)
    assert_type(db.drain(), int)
    tasks = db.tasks(saved)
    assert_type(tasks.done(), bool)
    assert_type(bool(tasks), bool)
    tasks.wait(timeout=1.0)


def grouped(db: Database) -> None:
    visit = UUID(int=7)
    for attempt in db.group(Visit, visit, attempts=3):
        with attempt as group:
            assert_type(group, Transaction)
            assert_type(group.create(Line(id=visit, text="a")), Line)
            assert_type(group.get(Customer, 12347, unchecked=True), Customer)
    for attempt in db.group(Visit, Visit.at(visit)):
        with attempt as group:
            group.delete(Line, visit, 1)
    db.delete(Visit, visit, children="delete")


def together(db: Database) -> None:
    def body(tx: Transaction) -> int:
        purchase = tx.get(Purchase, "537626", 1)
        assert_type(purchase, Purchase)
        assert_type(tx.find(Customer, 12347), Customer | None)
        assert_type(tx.save(ADA), Customer)
        assert_type(tx.create(HEART), Product)
        assert_type(tx.patch(Purchase, "537626", 1, quantity=add(1)), Purchase)
        tx.delete(Product, "22423")
        return purchase.quantity

    assert_type(db.transact(body), int)
    assert_type(db.transact(lambda tx: tx.get(Product, "85123A").name, attempts=3), str)


def opening() -> None:
    with connect("lmdb:///var/lib/shop", shop, cursor_secret=b"s" * 32, workers=0, timeout=5.0) as db:
        assert_type(db, Database)
    connect("memory://", shop).close()


async def asynchronously() -> None:
    async with connect_async("lmdb:///var/lib/shop", shop) as db:
        assert_type(db, AsyncDatabase)
        assert_type(await db.get(Purchase, "537626", 1), Purchase)
        assert_type(await db.find(Purchase, "537626", 1), Purchase | None)
        assert_type(await db.exists(Customer, 12347), bool)
        assert_type(await db.get_many(Product, [("85123A",)]), list[Product | None])
        assert_type(await db.page(PurchasesOfBuyer, 12347, limit=10), Page[PurchasesOfBuyer])
        assert_type(await anext(db.changes(PurchasesOfBuyer)), Changes[PurchasesOfBuyer])
        assert_type(await db.changes_cursor(PurchasesOfBuyer), str)
        async for batch in db.scan(Purchase):
            assert_type(batch, Page[Purchase])
        saved = await db.save(BOUGHT)
        assert_type(saved, Purchase)
        assert_type(await db.create(HEART), Product)
        assert_type(await db.get_or_create(ADA), tuple[Customer, bool])
        assert_type(await db.upsert(ADA, name="Ada"), Customer)
        assert_type(await db.patch(Product, "85123A", name="x"), Product)
        assert_type(await db.save_all([ADA]), list[Customer])
        await db.delete(Purchase, "537626", 1)
        assert_type(await db.drain(), int)
        assert_type(await db.tasks(saved).done(), bool)
        await db.tasks(saved).wait()
        assert_type(db.version(saved), int)
        assert_type(db.cost(saved), Cost)

        async for attempt in db.group(Visit, UUID(int=7)):
            async with attempt as group:
                assert_type(group, AsyncTransaction)

        async def body(tx: AsyncTransaction) -> int:
            assert_type(await tx.find(Purchase, "537626", 1), Purchase | None)
            assert_type(await tx.save(ADA), Customer)
            assert_type(await tx.create(HEART), Product)
            assert_type(await tx.patch(Purchase, "537626", 1, quantity=add(1)), Purchase)
            await tx.delete(Product, "22423")
            return (await tx.get(Purchase, "537626", 1)).quantity

        assert_type(await db.transact(body), int)
