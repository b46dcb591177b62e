"""The demo: a store from nothing, and what every page of it costs, beside what the same page costs as an SQL join.

Both run in this process on this machine's disk, are asked turn by turn, and give the same typed values; a figure is the
median over many keys. It ends by itself and leaves the store to play with.
"""

from __future__ import annotations

import shlex
import shutil
import threading
from argparse import Namespace
from collections.abc import Callable, Iterator
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
from oneread.store.requests import Request

LINES = 100_000
"""Lines that the demo loads by default."""

LINES_OF_ONE_ROW = 5_000
"""The same, into a store that changes one row at a time: each line is ten requests there."""

PAGES = 500
"""Pages a figure is the median of."""

PEER = "peer"
MARK = "made-by-the-demo"
"""The file that says that a folder may be taken away again."""


def demo(given: Namespace) -> None:
    """Runs all steps."""
    started = perf_counter()
    folder: Path = given.folder
    url = f"lmdb://{quote(folder.as_posix())}" if given.db is None else _named(given.db)
    is_one_row = given.db is not None and _changes_one_row(url)  # what is wrong with it is said before anything goes
    what = loading.Source(given.data, given.limit or (LINES_OF_ONE_ROW if is_one_row else LINES), given.seed)
    next(what.lines(), None)  # and what is wrong with the data
    _make_room(folder)
    print(f"A shop on {'a store that changes one row at a time' if is_one_row else 'an embedded store'}: ", end="")
    print(f"{what.label} into {url}\n")
    sql = Sql(folder / PEER)
    try:
        with stores.for_loading(url) as db:
            _load(db, sql, what, _size(url, folder))
            customer = _read(db, sql)
        renamed = _rename(url, sql)
    finally:
        sql.close()
        shutil.rmtree(folder / PEER)
    _goodbye(url, customer, renamed, perf_counter() - started)


def _changes_one_row(url: str) -> bool:
    with stores.for_loading(url) as db:
        return not db.operations.spans_rows


def _named(url: str) -> str:
    """A URL that can be opened again: a memory store without a name is given one."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}demo{rest}" if scheme == "memory" and rest[:1] in ("", "?") else url


def _make_room(folder: Path) -> None:
    """An empty folder; an earlier demo's store goes, anything else is left alone."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        if not (folder / MARK).is_file():
            raise Mistake(f"{folder} holds something that no demo made; name another with --folder")
        print(f"{folder} is there from an earlier run: it is taken away, and a fresh one loaded")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).touch()


def _size(url: str, folder: Path) -> Callable[[], str]:
    """What the demo says of how much the store takes."""
    if url.startswith("lmdb:"):
        return lambda: f"{size(stores.bytes_on_disk(folder))} on disk"
    return lambda: "All of it is in memory" if url.startswith("memory:") else "All of it is on a server"


def _load(db: Database, sql: Sql, what: loading.Source, said: Callable[[], str]) -> None:
    print("1. Load. A line becomes a purchase that carries its customer's and its product's fields,")
    spans_rows = db.operations.spans_rows
    print("   two rows of lists, and its part in four kinds of totals; a", end=" ")
    print("transaction for each 1,000." if spans_rows else "commit of several requests for each.")
    loaded = loading.load(db, what)
    where = said()
    started = perf_counter()
    sql.load(loaded.survey, what.lines())
    took = perf_counter() - started
    print(loaded_table(loaded))
    print(f"  {where}. The same in SQL, normalised and indexed: {took:.1f} s, {size(sql.bytes_on_disk())}:")
    print("  it keeps nothing right when it is written, and joins and adds up when it is read.\n")


def _read(db: Database, sql: Sql) -> int:
    """The pages of the shop, over purchases drawn from all of it. Returns one of the customers."""
    drawn = sorted(_drawn(db), key=lambda each: each.buyer is None)  # one with a buyer is the first to be shown
    customers: list[tuple[int]] = [(each.buyer.ref.key[0],) for each in drawn if each.buyer is not None]
    if not customers:
        raise Mistake("none of these lines has a customer; take more of them with --limit")
    products = [(each.product.ref.key[0],) for each in drawn]
    _show_purchase(db, sql, [(each.order, each.line) for each in drawn])
    _show_customer(db, sql, customers)
    _show_product(db, sql, products)
    _show_totals(db, sql, customers)
    _show_months(db, sql)
    return customers[0][0]


def _drawn(db: Database) -> Iterator[Purchase]:
    """PAGES purchases by chance, each from among the 20 that follow a number drawn from the range of order numbers."""
    chance = Random(1)
    orders = [found[0].order for found in (db.page(Purchase, limit=1), db.page(Purchase, limit=1, backward=True))]
    numbers = [int("".join(filter(str.isdigit, order))) for order in orders]
    for _ in range(PAGES):
        near = str(chance.randint(min(numbers), max(numbers)))
        found = db.page(Purchase, since=near, limit=20).rows or db.page(Purchase, limit=20).rows
        yield chance.choice(found)


def _show_purchase(db: Database, sql: Sql, keys: list[tuple[str, int]]) -> None:
    purchase = db.get(Purchase, *keys[0])
    who = f"{purchase.buyer.name}, {purchase.buyer.country}" if purchase.buyer else "no customer"
    print("2. A purchase, with its customer's name and country and its product's name: all of it is one row.")
    print(f"  db.get(Purchase, {purchase.order!r}, {purchase.line})")
    print(f"  -> {who}, {purchase.ordered_at:%Y-%m-%d}:", end=" ")
    print(f"{purchase.quantity} x {purchase.product.name} at {money(purchase.unit_price)}")
    times = rivals(keys, lambda order, line: db.get(Purchase, order, line), sql.purchase)
    _cost(db.cost(purchase), times, 3, "SQL: join of three tables by their primary keys")


def _show_customer(db: Database, sql: Sql, keys: list[tuple[int]]) -> None:
    page = db.page(PurchasesOfBuyer, *keys[0], limit=10)
    print("3. A customer's newest ten: they lie side by side, each with what the list shows. One row more is read,")
    print("   to know whether there is a next page.")
    print(f"  db.page(PurchasesOfBuyer, {keys[0][0]}, limit=10)")
    print(purchases_table(page))
    times = rivals(keys, lambda number: db.page(PurchasesOfBuyer, number, limit=10), sql.newest_of_customer)
    _cost(page.cost, times, 3 * len(page), "SQL: index, purchase and product of each row")


def _show_product(db: Database, sql: Sql, keys: list[tuple[str]]) -> None:
    page = db.page(PurchasesOfProduct, *keys[0], limit=10)
    print("4. A product's newest ten, with who bought them.")
    print(f"  db.page(PurchasesOfProduct, {keys[0][0]!r}, limit=10)")
    times = rivals(keys, lambda code: db.page(PurchasesOfProduct, code, limit=10), sql.newest_of_product)
    _cost(page.cost, times, 3 * len(page), "SQL: index, purchase and customer of each row")


def _show_totals(db: Database, sql: Sql, customers: list[tuple[int]]) -> None:
    best = _best_seller(db)
    code = best.product.ref.key[0]
    print("5. Totals, of the best seller: they were made when its purchases were written. The greatest price is the")
    print("   one number that costs a request more.")
    print(f"  db.get(ProductSales, {code!r})")
    print(f"  -> {best.orders:,} lines, {best.units:,} units, {money(best.revenue)};", end=" ")
    print(f"mean price {_short(best.mean_price)}, dearest {shown(best.dearest)}")
    times = rivals([(code,)] * 50, lambda code: db.get(ProductSales, code), sql.sales)
    _cost(db.cost(db.get(ProductSales, code)), times, 2 * best.orders, "SQL: added up from its purchases")
    totals = db.get(BuyerTotals, *customers[0])
    cost = db.cost(totals)
    print(f"  db.get(BuyerTotals, {customers[0][0]})")
    print(f"  -> {totals.orders:,} lines, {money(totals.spent)}: {cost.requests} request, {cost.rows} row\n")


def _show_months(db: Database, sql: Sql) -> None:
    page = db.page(MonthlyRevenue, limit=24)
    print("6. Revenue of each month.")
    print("  db.page(MonthlyRevenue, limit=24)")
    print(table(("month", "lines", "revenue"), [(f"{each.month:%Y-%m}", each.orders, each.revenue) for each in page]))
    times = rivals([()] * 5, lambda: db.page(MonthlyRevenue, limit=24), sql.months)
    _cost(page.cost, times, sum(each.orders for each in page), "SQL: added up from all purchases")


def _short(number: Decimal | None) -> str:
    return "" if number is None else f"{number:.4f}"


def _best_seller(db: Database) -> ProductSales:
    pages = db.scan(ProductSales, batch=1000)
    return max((each for page in pages for each in page), key=lambda each: each.orders)


def _rename(url: str, sql: Sql) -> str:
    """The best seller gets another name, and every copy follows. Returns its code."""
    meter = _WorkersMeter()
    with connect(url, SHOP, observers=(meter,), workers=1) as db:
        best = _best_seller(db)
        code: str = best.product.ref.key[0]
        before = db.get(Product, code).name
        name = f"{before} (RENAMED)"
        print(f"7. A rename. {code}, {before}, stands in {best.orders:,} purchases and in their buyers' lists.")
        print(f"  db.patch(Product, {code!r}, name={name!r})")
        started = perf_counter()
        after = db.patch(Product, code, name=name)
        returned = perf_counter()
        tasks = db.tasks(after)
        by_worker = bool(tasks)  # else the thread does other jobs meanwhile
        within = "within the commit" if db.operations.spans_rows else "before the call returns"
        how = "by a task that a worker thread does" if by_worker else within
        tasks.wait()
        right = perf_counter()
        cost, later = db.cost(after), meter.trace.cost if by_worker else Cost()
        wrong, looked = _outdated(db, code, name)
    _, theirs = rivals([(code, name)], lambda *_: None, sql.rename)
    costs: list[tuple[Any, ...]] = [
        ("oneread: until the call returns", cost.requests, cost.rows, (returned - started) * 1e6),
        (f"oneread: until the last copy is right, {how}", *_together(cost, later), (right - started) * 1e6),
        ("SQL: one row; it is every page that pays", 1, 1, theirs),
    ]
    print(table(HEAD, costs))
    print(f"  Looked at {looked:,} copies afterwards, in purchases and lists: {wrong} with another name.\n")
    return code


class _WorkersMeter:
    """Counts what other threads ask of the store: the worker's share of a rename, without the waiting for it."""

    def __init__(self) -> None:
        self.trace = Trace()
        self._own = threading.get_ident()

    def __call__(self, request: Request[Any], answer: Any) -> None:
        if threading.get_ident() != self._own:
            self.trace.note(request, answer)


def _together(one: Cost, other: Cost) -> tuple[int, int]:
    return one.requests + other.requests, one.rows + other.rows


def _outdated(db: Database, code: str, name: str) -> tuple[int, int]:
    """How many copies of a product's name say something else, and how many were looked at."""
    copies: list[str] = []
    buyers: set[tuple[Any, ...]] = set()
    for page in db.scan(PurchasesOfProduct, code):
        copies.extend(each.product.name for each in db.get_many(Purchase, [row.source.key for row in page]) if each)
        buyers.update(row.buyer.ref.key for row in page if row.buyer is not None)
    for buyer in buyers:
        lists = (row for page in db.scan(PurchasesOfBuyer, *buyer) for row in page)
        copies.extend(row.product.name for row in lists if row.product.ref.key == (code,))
    return sum(copy != name for copy in copies), len(copies)


HEAD = ("", "requests", "rows", "us")


def _cost(cost: Cost, times: tuple[float, float], touched: int, peer: str) -> None:
    """What a page cost here, and what it costs as SQL: there, a row is an index entry or a row of a table."""
    ours, theirs = times
    rows: list[tuple[Any, ...]] = [("oneread", cost.requests, cost.rows, ours), (peer, 1, touched, theirs)]
    print(f"{table(HEAD, rows)}\n")


def _goodbye(url: str, customer: int, code: str, seconds: float) -> None:
    shell = "python -m examples.shop"
    if url.startswith(("lmdb:", "memory:")):
        print(
            "Both lie in this machine's memory and no request crosses a network: no join is cheaper than here. What a"
        )
    else:
        print("SQL's tables lie in this machine's memory, and every request of the store crosses a network. What a")
    print("page asks for, `requests` and `rows`, is the same wherever the store is.")
    if url.startswith("memory:"):
        print(f"Done in {seconds:.0f} s. The store was in memory and ends with this program.")
        return
    print(f"Done in {seconds:.0f} s. The store stays. With the environment active (. .venv/bin/activate), try:")
    quoted = shlex.quote(url)
    print(f"  {shell} report --db {quoted}")
    print(f"  {shell} rename --db {quoted} {code} 'A NEW NAME'")
    print(f"  {shell} page --db {quoted} --limit 5 {customer}")
    print(
        "  python -i -c \"from oneread import *; from examples.shop.schema import *; db = connect('"
        + url
        + "', SHOP)\""
    )
