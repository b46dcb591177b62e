"""Compares every purchase, every list and every total of a store with what `recount` makes of the lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from examples.comparing import Compared, all_rows, compare, compare_in_order
from examples.shop import schema
from examples.shop.recount import Expected, Sums, newest_first, recount
from examples.shop.source import Line
from oneread import Database


def check(db: Database, lines: Iterable[Line], renamed: Mapping[str, str] | None = None) -> Iterator[Compared]:
    """Compares everything, one kind after the other; reads the whole store page by page.

    Arguments:
        renamed: names that products were given since, by code.
    """
    expected = recount(lines)
    expected.products.update(renamed or {})
    yield compare(
        "customers: name, country",
        {number: _customer(number, expected) for number in expected.customers},
        {each.number: (each.name, each.country) for each in all_rows(db, schema.Customer)},
    )
    yield compare("products: name", expected.products, {each.code: each.name for each in all_rows(db, schema.Product)})
    yield compare_in_order(
        "purchases: all fields",
        (_purchase(line, expected) for line in expected.lines),
        map(_stored, all_rows(db, schema.Purchase)),
    )
    yield from _lists(db, expected)
    yield from _totals(db, expected)


def _customer(number: int, expected: Expected) -> tuple[str, str]:
    return f"Customer {number}", expected.customers[number]


def _buyer(line: Line, expected: Expected) -> tuple[object, ...] | None:
    return None if line.customer is None else (line.customer, *_customer(line.customer, expected))


def _purchase(line: Line, expected: Expected) -> tuple[object, ...]:
    return (
        line.invoice, line.line, _buyer(line, expected), (line.code, expected.products[line.code]), line.quantity,
        line.unit_price, line.quantity * line.unit_price, line.country, line.at,
    )  # fmt: skip


def _stored(each: schema.Purchase) -> tuple[object, ...]:
    return (
        each.order, each.line, _copied(each.buyer), (*each.product.ref.key, each.product.name), each.quantity,
        each.unit_price, each.amount, each.country, each.ordered_at,
    )  # fmt: skip


def _copied(buyer: schema.Buyer | None) -> tuple[object, ...] | None:
    return None if buyer is None else (*buyer.ref.key, buyer.name, buyer.country)


def _lists(db: Database, expected: Expected) -> Iterator[Compared]:
    """The rows of each list in their order, with what they show."""
    sold = (line for line in expected.lines if line.customer is not None)
    yield compare_in_order(
        "list: purchases of buyers",
        (
            (line.customer, line.at, line.invoice, line.line, line.code, expected.products[line.code], line.quantity,
             line.unit_price)
            for line in newest_first(sold, lambda line: line.customer or 0)
        ),
        (
            (*each.buyer.ref.key, each.ordered_at, *each.source.key, *each.product.ref.key, each.product.name,
             each.quantity, each.unit_price)
            for each in all_rows(db, schema.PurchasesOfBuyer)
        ),
    )  # fmt: skip
    yield compare_in_order(
        "list: purchases of products",
        (
            (line.code, line.at, line.invoice, line.line, _buyer(line, expected), line.quantity)
            for line in newest_first(expected.lines, lambda line: line.code)
        ),
        (
            (*each.product.ref.key, each.ordered_at, *each.source.key, _copied(each.buyer), each.quantity)
            for each in all_rows(db, schema.PurchasesOfProduct)
        ),
    )


def _totals(db: Database, expected: Expected) -> Iterator[Compared]:
    """The numbers of each group."""
    yield compare(
        "products: lines, units, revenue, mean price, dearest",
        {
            code: (sums.orders, sums.units, sums.revenue, sums.prices / sums.orders, sums.dearest)
            for code, sums in expected.of_product.items()
        },
        {
            each.product.ref.key[0]: (each.orders, each.units, each.revenue, each.mean_price, each.dearest)
            for each in all_rows(db, schema.ProductSales)
        },
    )
    yield compare(
        "buyers: lines, units, spent",
        {number: (sums.orders, sums.units, sums.revenue) for number, sums in expected.of_buyer.items()},
        {each.buyer.ref.key[0]: (each.orders, each.units, each.spent) for each in all_rows(db, schema.BuyerTotals)},
    )
    yield compare(
        "months: lines, revenue",
        _money(expected.of_month),
        {each.month: (each.orders, each.revenue) for each in all_rows(db, schema.MonthlyRevenue)},
    )
    yield compare(
        "countries: lines, revenue",
        _money(expected.of_country),
        {each.country: (each.orders, each.revenue) for each in all_rows(db, schema.CountryRevenue)},
    )


def _money(sums: Mapping[str, Sums] | Mapping[datetime, Sums]) -> dict[str | datetime, object]:
    return {key: (each.orders, each.revenue) for key, each in sums.items()}
