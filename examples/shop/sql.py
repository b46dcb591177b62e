"""The same shop in SQLite of the standard library, normalised: what each page costs there as a join.

Every table has its primary key, and purchases an index for each list in the list's own order, so that no page sorts.
Money is whole thousandths of a pound: SQLite has no exact decimals, and prices have up to three. What is returned has
the types that the models have: Decimal and aware datetime.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

from examples.shop.cleaning import Survey
from examples.shop.source import Line

TABLES = """
CREATE TABLE customer (number INTEGER PRIMARY KEY, name TEXT NOT NULL, country TEXT NOT NULL);
CREATE TABLE product (code TEXT PRIMARY KEY, name TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE purchase (
    invoice TEXT NOT NULL, line INTEGER NOT NULL, customer INTEGER REFERENCES customer,
    product TEXT NOT NULL REFERENCES product,
    quantity INTEGER NOT NULL, thousandths INTEGER NOT NULL, country TEXT NOT NULL, at INTEGER NOT NULL,
    PRIMARY KEY (invoice, line)
) WITHOUT ROWID;
CREATE INDEX purchase_of_customer ON purchase (customer, at DESC, invoice, line);
CREATE INDEX purchase_of_product ON purchase (product, at DESC, invoice, line);
"""
PURCHASE = """
SELECT p.invoice, p.line, c.number, c.name, c.country, g.code, g.name, p.quantity, p.thousandths, p.country, p.at
FROM purchase p JOIN product g ON g.code = p.product LEFT JOIN customer c ON c.number = p.customer
WHERE p.invoice = ? AND p.line = ?
"""
NEWEST_OF_CUSTOMER = """
SELECT p.invoice, p.line, p.at, g.code, g.name, p.quantity, p.thousandths
FROM purchase p JOIN product g ON g.code = p.product
WHERE p.customer = ? ORDER BY p.at DESC, p.invoice, p.line LIMIT 10
"""
NEWEST_OF_PRODUCT = """
SELECT p.invoice, p.line, p.at, c.number, c.name, p.quantity
FROM purchase p LEFT JOIN customer c ON c.number = p.customer
WHERE p.product = ? ORDER BY p.at DESC, p.invoice, p.line LIMIT 10
"""
SALES_OF_PRODUCT = """
SELECT count(*), sum(quantity), sum(quantity * thousandths), sum(thousandths), max(thousandths)
FROM purchase WHERE product = ?
"""
MONTHS = """
SELECT strftime('%Y-%m', at, 'unixepoch'), count(*), sum(quantity * thousandths) FROM purchase GROUP BY 1 ORDER BY 1
"""
BATCH = 10_000


class Sql:
    """An open database of the peer, in a folder of its own that it makes."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._file = folder / "shop.sqlite3"
        self._connection = sqlite3.connect(self._file)
        self._connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;")

    def load(self, survey: Survey, lines: Iterable[Line]) -> None:
        """Makes the tables and fills them, in transactions of 10,000 lines."""
        with self._connection as connection:
            connection.executescript(TABLES)
            customers = ((each.number, each.name, each.country) for each in survey.customers.values())
            connection.executemany("INSERT INTO customer VALUES (?, ?, ?)", customers)
            products = ((each.code, each.name) for each in survey.products.values())
            connection.executemany("INSERT INTO product VALUES (?, ?)", products)
        rest = iter(lines)
        while several := list(islice(rest, BATCH)):
            with self._connection as connection:
                connection.executemany("INSERT INTO purchase VALUES (?, ?, ?, ?, ?, ?, ?, ?)", map(_row, several))
        self._connection.execute("ANALYZE")

    def purchase(self, invoice: str, line: int) -> tuple[Any, ...]:
        """One purchase: a join of three tables."""
        *found, price, country, at = self._connection.execute(PURCHASE, (invoice, line)).fetchone()
        return (*found, _pounds(price), country, _instant(at))

    def newest_of_customer(self, number: int) -> list[tuple[Any, ...]]:
        """A customer's ten newest purchases with the products' names."""
        found = self._connection.execute(NEWEST_OF_CUSTOMER, (number,))
        return [(invoice, line, _instant(at), *rest, _pounds(price)) for invoice, line, at, *rest, price in found]

    def newest_of_product(self, code: str) -> list[tuple[Any, ...]]:
        """A product's ten newest purchases with the customers' names."""
        found = self._connection.execute(NEWEST_OF_PRODUCT, (code,))
        return [(invoice, line, _instant(at), *rest) for invoice, line, at, *rest in found]

    def sales(self, code: str) -> tuple[Any, ...]:
        """What became of a product, added up from its purchases: lines, units, revenue, mean and greatest price."""
        lines, units, revenue, prices, dearest = self._connection.execute(SALES_OF_PRODUCT, (code,)).fetchone()
        return lines, units, _pounds(revenue), _pounds(prices) / lines, _pounds(dearest)

    def months(self) -> list[tuple[str, int, Decimal]]:
        """Revenue month by month, added up from all purchases."""
        return [(month, lines, _pounds(revenue)) for month, lines, revenue in self._connection.execute(MONTHS)]

    def rename(self, code: str, name: str) -> None:
        """One row: the joins find the new name from then on."""
        with self._connection as connection:
            connection.execute("UPDATE product SET name = ? WHERE code = ?", (name, code))

    def bytes_on_disk(self) -> int:
        """What its file takes."""
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return self._file.stat().st_size

    def close(self) -> None:
        self._connection.close()


def _row(line: Line) -> tuple[Any, ...]:
    return (
        line.invoice, line.line, line.customer, line.code, line.quantity, int(line.unit_price * 1000), line.country,
        int(line.at.timestamp()),
    )  # fmt: skip


def _pounds(thousandths: int) -> Decimal:
    return Decimal(thousandths).scaleb(-3)


def _instant(at: int) -> datetime:
    return datetime.fromtimestamp(at, UTC)
