"""The demo: a store from nothing, and what every page of it costs, beside what the same page costs as an SQL join.

Knows the shop and its SQL peer. Must not know how a view is kept. Both run in this process on this machine's disk, are
asked turn by turn, and give the same typed values; a figure is the median over many keys. It ends by itself and leaves
the store to play with.
"""

from __future__ import annotations

import shutil
from argparse import Namespace
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any
from urllib.parse import quote

from examples.shop import loading, stores
from examples.shop.mistakes import Mistake
from examples.shop.printing import money, rivals, shown, size, table
from examples.shop.schema import (
    SHOP,
    BuyerTotals,
    MonthlyRevenue,
    Product,
    ProductSales,
    Purchase,
    PurchasesOfBuyer,
    PurchasesOfProduct,
)
from examples.shop.sql import Sql
from examples.shop.verbs import loaded_table, purchases_table
from oneread import Cost, Database, connect
from oneread.plans.trace import Trace

LINES = 100_000
"""Lines that the demo loads when nobody says how many."""

PAGES = 500
"""Pages a figure is the median of."""

PEER = "peer.sqlite3"


def demo(given: Namespace) -> None:
    """Runs all steps."""
    started = perf_counter()
    folder: Path = given.folder
    what = loading.Source(given.data, given.limit, given.seed)
    next(what.lines(), None)  # what is wrong with the data is said before an earlier store goes
    _make_room(folder)
    url = f"lmdb://{quote(folder.as_posix())}"
    print(f"A shop on an embedded store: {what.label} into {url}\n")
    sql = Sql(folder / PEER)
    try:
        with stores.for_loading(url) as db:
            _load(db, sql, what, folder)
            _read(db, sql)
        renamed = _rename(url, sql)
    finally:
        sql.close()
    (folder / PEER).unlink()
    _goodbye(url, renamed, perf_counter() - started)


def _make_room(folder: Path) -> None:
    """An empty folder; an earlier demo's store goes, anything else is left alone."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        if not (folder / "data.mdb").is_file():
            raise Mistake(f"{folder} holds something that is no store; name another with --folder")
        print(f"{folder} is there from an earlier run: it is taken away, and a fresh one loaded")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)


def _load(db: Database, sql: Sql, what: loading.Source, folder: Path) -> None:
    print(
        "1. Load. Every line becomes a purchase with its customer's and its product's fields copied into it, two index rows and four totals."
    )
    loaded = loading.load(db, what)
    started = perf_counter()
    sql.load(loaded.survey, what.lines())
    took = perf_counter() - started
    print(loaded_table(loaded))
    print(
        f"  {size(stores.bytes_on_disk(folder))} with the peer's file; SQLite, normalised, took {took:.1f} s: it has nothing to keep right\n"
    )


def _read(db: Database, sql: Sql) -> None:
    """The pages of the shop, over purchases drawn from all of it."""
    drawn = list(_drawn(db))
    customers = [(each.buyer.ref.key[0],) for each in drawn if each.buyer is not None]
    products = [(each.product.ref.key[0],) for each in drawn]
    _show_purchase(db, sql, [(each.order, each.line) for each in drawn])
    _show_customer(db, sql, customers)
    _show_product(db, sql, products)
    _show_totals(db, sql, customers, products)


def _drawn(db: Database) -> Iterator[Purchase]:
    """PAGES purchases by chance: a few invoices' lines after another, found by the first digits of an order number."""
    chance = Random(1)
    orders = [found[0].order for found in (db.page(Purchase, limit=1), db.page(Purchase, limit=1, backward=True))]
    numbers = [int("".join(filter(str.isdigit, order))) for order in orders]
    for _ in range(PAGES):
        near = str(chance.randint(min(numbers), max(numbers)))
        found = db.page(Purchase, since=near, limit=20) or db.page(Purchase, limit=20)
        yield chance.choice(found.rows)


def _show_purchase(db: Database, sql: Sql, keys: list[tuple[str, int]]) -> None:
    purchase = db.get(Purchase, *keys[0])
    print("2. A purchase, with its customer's name and country and its product's name. It lies in one row.")
    print(f"  db.get(Purchase, {purchase.order!r}, {purchase.line})")
    who = f"{purchase.buyer.name}, {purchase.buyer.country}" if purchase.buyer else "nobody in particular"
    print(
        f"  -> {who}: {purchase.quantity} x {purchase.product.name} at {money(purchase.unit_price)}, {purchase.ordered_at:%Y-%m-%d}"
    )
    times = rivals(keys, lambda order, line: db.get(Purchase, order, line), sql.purchase)
    _cost(db.cost(purchase), times, "SQL: join of 3 tables by primary keys")


def _show_customer(db: Database, sql: Sql, keys: list[tuple[int]]) -> None:
    page = db.page(PurchasesOfBuyer, *keys[0], limit=10)
    print(
        "3. A customer's newest ten. They lie beside each other, each row with what the list shows; the 11th tells that there is a next page."
    )
    print(f"  db.page(PurchasesOfBuyer, {keys[0][0]}, limit=10)")
    print(purchases_table(page))
    times = rivals(keys, lambda number: db.page(PurchasesOfBuyer, number, limit=10), sql.newest_of_customer)
    _cost(page.cost, times, "SQL: index, join with product, limit 10")


def _show_product(db: Database, sql: Sql, keys: list[tuple[str]]) -> None:
    page = db.page(PurchasesOfProduct, *keys[0], limit=10)
    print("4. A product's newest ten, with who bought them.")
    print(f"  db.page(PurchasesOfProduct, {keys[0][0]!r}, limit=10)")
    times = rivals(keys, lambda code: db.page(PurchasesOfProduct, code, limit=10), sql.newest_of_product)
    _cost(page.cost, times, "SQL: index, join with customer, limit 10")


def _show_totals(db: Database, sql: Sql, customers: list[tuple[int]], products: list[tuple[str]]) -> None:
    best = _best_seller(db)
    print("5. Totals. They were added up when the purchases were written; the greatest price costs a request more.")
    print(f"  db.get(ProductSales, {best.product.ref.key[0]!r})")
    print(
        f"  -> {best.orders:,} lines, {best.units:,} units, {money(best.revenue)}; mean price {shown(best.mean_price)}, dearest {shown(best.dearest)}"
    )
    times = rivals(products, lambda code: db.get(ProductSales, code), sql.sales)
    _cost(db.cost(db.get(ProductSales, *best.product.ref.key)), times, "SQL: added up from the product's purchases")
    totals = db.get(BuyerTotals, *customers[0])
    print(f"  db.get(BuyerTotals, {customers[0][0]}) -> {totals.orders:,} lines, {money(totals.spent)}: one row")
    months = db.page(MonthlyRevenue, limit=24)
    print(
        f"  db.page(MonthlyRevenue, limit=24) -> {len(months)} months, {money(sum((each.revenue for each in months), Decimal()))}"
    )
    times = rivals([()] * 5, lambda: db.page(MonthlyRevenue, limit=24), sql.months)
    _cost(months.cost, times, "SQL: added up from all purchases")


def _best_seller(db: Database) -> ProductSales:
    pages = db.scan(ProductSales, batch=1000)
    return max((each for page in pages for each in page), key=lambda each: each.orders)


def _rename(url: str, sql: Sql) -> str:
    """The best seller gets another name; every copy follows. Returns its code."""
    meter = Trace()
    with connect(url, SHOP, observers=(meter.note,)) as db:
        best = _best_seller(db)
        code = best.product.ref.key[0]
        before = db.get(Product, code).name
        name = f"{before} (RENAMED)"
        print(
            f"6. A rename. {code}, {before!r}, stands in {best.orders:,} purchases and in the rows of their buyers' lists."
        )
        print(f"  db.patch(Product, {code!r}, name={name!r})")
        at_first = meter.cost
        started = perf_counter()
        after = db.patch(Product, code, name=name)
        returned = perf_counter()
        tasks = db.tasks(after)
        how = "a task of the outbox, a worker thread does it" if tasks else "within the same commit"
        tasks.wait()
        right = perf_counter()
        spent = Cost(meter.requests - at_first.requests, meter.rows - at_first.rows)
        wrong, looked = _outdated(db, code, name)
    _, theirs = rivals([(code, name)], lambda *_: None, sql.rename)
    rows = [
        ("the commit of the product", db.cost(after).requests, db.cost(after).rows, (returned - started) * 1e6),
        ("until the last copy is right", spent.requests, spent.rows, (right - started) * 1e6),
        ("SQL: one row; the joins go on paying", None, None, theirs),
    ]
    print(f"  -> {best.orders:,} purchases: {how}")
    print(table(("", "requests", "rows", "us"), rows))
    print(f"  looked at all {looked:,} of them afterwards: {wrong} with the old name\n")
    return str(code)


def _outdated(db: Database, code: str, name: str) -> tuple[int, int]:
    """How many copies do not say this name, in purchases and in the rows of buyers' lists; and how many purchases were looked at."""
    wrong = looked = 0
    for page in db.scan(PurchasesOfProduct, code):
        found = db.get_many(Purchase, [each.source.key for each in page])
        wrong += sum(each is None or each.product.name != name for each in found)
        looked += len(found)
    buyers = {
        each.buyer.ref.key for page in db.scan(PurchasesOfProduct, code) for each in page if each.buyer is not None
    }
    for buyer in buyers:
        rows = (each for page in db.scan(PurchasesOfBuyer, *buyer) for each in page)
        wrong += sum(each.product.ref.key == (code,) and each.product.name != name for each in rows)
    return wrong, looked


def _cost(cost: Cost, times: tuple[float, float], peer: str) -> None:
    """What a page cost here, and what its join takes."""
    ours, theirs = times
    rows: list[tuple[Any, ...]] = [("oneread", cost.requests, cost.rows, ours), (peer, None, None, theirs)]
    print(table(("", "requests", "rows", "us"), rows) + f"\n  {theirs / ours:.1f} x\n")


def _goodbye(url: str, code: str, seconds: float) -> None:
    shell = "python -m examples.shop"
    print(f"Done in {seconds:.0f} s. The store stays. With the environment active (. .venv/bin/activate), try:")
    print(f"  {shell} report --db {url}")
    print(f"  {shell} rename --db {url} {code} 'A NEW NAME'")
    print(f"  {shell} page --db {url} --limit 5 13085")
    print(
        "  python -i -c \"from oneread import *; from examples.shop.schema import *; db = connect('"
        + url
        + "', SHOP)\""
    )
