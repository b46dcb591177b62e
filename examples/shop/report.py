"""The report: what came in by month and country, and who and what stands at the top.

The months and countries are one page each. Best products and best customers are an operator's question, not a page's:
groups lie in the order of their key, so all of them are read, a thousand at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import nlargest
from typing import Any, TypeVar

from examples.shop.printing import table, timed
from examples.shop.schema import BuyerTotals, CountryRevenue, Customer, MonthlyRevenue, Product, ProductSales
from oneread import Cost, Database

V = TypeVar("V", ProductSales, BuyerTotals)

TOP = 10
GROUPS_OF_A_PAGE = 1000


def report(db: Database) -> Iterator[str]:
    """The report, a block of text at a time."""
    yield _months(db)
    yield _countries(db)
    yield _products(db)
    yield _customers(db)


def _months(db: Database) -> str:
    page, took = timed(lambda: db.page(MonthlyRevenue, limit=100))
    rows = [(f"{each.month:%Y-%m}", each.orders, each.revenue) for each in page]
    return _block("Revenue by month", ("month", "lines", "revenue"), rows, page.cost, took)


def _countries(db: Database) -> str:
    page, took = timed(lambda: db.page(CountryRevenue, limit=100))
    best = nlargest(TOP, page, key=lambda each: each.revenue)
    rows = [(each.country, each.orders, each.revenue) for each in best]
    return _block(
        f"The first {len(best)} of {len(page)} countries", ("country", "lines", "revenue"), rows, page.cost, took
    )


def _products(db: Database) -> str:
    (groups, cost), took = timed(lambda: _all(db, ProductSales))
    best = nlargest(TOP, groups, key=lambda each: each.revenue)
    names = _names(db, Product, [each.product.ref.key for each in best])
    rows = [
        (each.product.ref.key[0], name, each.orders, each.units, each.revenue, each.dearest)
        for each, name in zip(best, names, strict=True)
    ]
    head = ("code", "product", "lines", "units", "revenue", "dearest")
    return _block(f"The first {len(best)} of {len(groups):,} products", head, rows, cost, took)


def _customers(db: Database) -> str:
    (groups, cost), took = timed(lambda: _all(db, BuyerTotals))
    best = nlargest(TOP, groups, key=lambda each: each.spent)
    names = _names(db, Customer, [each.buyer.ref.key for each in best])
    rows = [(name, each.orders, each.units, each.spent) for each, name in zip(best, names, strict=True)]
    head = ("customer", "lines", "units", "spent")
    return _block(f"The first {len(best)} of {len(groups):,} customers", head, rows, cost, took)


def _all(db: Database, view: type[V]) -> tuple[list[V], Cost]:
    """All groups of a view, page by page, and what they cost together."""
    groups: list[V] = []
    requests = rounds = rows = size = 0
    for page in db.scan(view, batch=GROUPS_OF_A_PAGE):
        groups.extend(page)
        requests, rounds = requests + page.cost.requests, rounds + page.cost.rounds
        rows, size = rows + page.cost.rows, size + page.cost.bytes
    return groups, Cost(requests, rows, size, rounds=rounds)


def _names(db: Database, model: type[Customer | Product], keys: list[tuple[Any, ...]]) -> list[str]:
    return [
        entity.name if entity is not None else str(key)
        for key, entity in zip(keys, db.get_many(model, keys), strict=True)
    ]


def _block(title: str, head: tuple[str, ...], rows: Sequence[tuple[object, ...]], cost: Cost, took: float) -> str:
    requests = "1 request" if cost.requests == 1 else f"{cost.requests:,} requests"
    line = f"{title}: {requests}, {cost.rows:,} rows, {took / 1000:,.2f} ms"
    return f"{line}\n{table(head, rows)}\n"
