"""SQLite through the standard sqlite3 module: in process as we are, without a server, and denormalised by an expert.

Rows of a purchase hold what they show of others, two covering indexes answer the pages, and the sums are upserted in
the transaction of the save. Tables are WITHOUT ROWID, so a purchase is found by one descent; prices and times are
integers. Statements are prepared once a connection (sqlite3 keeps them by their text). A save inserts: it neither
replaces nor takes back, and `dearest` is right while nothing is deleted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from benchmarks.peers.promises import Durability
from benchmarks.peers.shop_rows import PAGE, BoughtRow, PurchaseRow, price_of, tenths_of_pence
from benchmarks.workloads.lines import Shop
from benchmarks.workloads.times import EPOCH, instant, microseconds
from examples.shop.source import Line

TABLES: Final = """
CREATE TABLE IF NOT EXISTS customer (number INTEGER PRIMARY KEY, name TEXT NOT NULL, country TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS product (code TEXT PRIMARY KEY, name TEXT NOT NULL, description TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS purchase (
    order_number TEXT, line INTEGER, customer INTEGER, customer_name TEXT, country TEXT, code TEXT NOT NULL,
    product_name TEXT NOT NULL, quantity INTEGER NOT NULL, unit_price INTEGER NOT NULL, ordered_at INTEGER NOT NULL,
    PRIMARY KEY (order_number, line)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS bought ON purchase (
    customer, ordered_at DESC, order_number, line, code, product_name, quantity) WHERE customer IS NOT NULL;
CREATE INDEX IF NOT EXISTS sold ON purchase (code, ordered_at DESC, order_number, line, quantity, unit_price);
CREATE TABLE IF NOT EXISTS product_sales (
    code TEXT PRIMARY KEY, orders INTEGER NOT NULL, units INTEGER NOT NULL, prices INTEGER NOT NULL,
    dearest INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS buyer_sales (
    customer INTEGER PRIMARY KEY, orders INTEGER NOT NULL, units INTEGER NOT NULL, prices INTEGER NOT NULL,
    dearest INTEGER NOT NULL);
"""
SETTINGS: Final = ("journal_mode = WAL", "mmap_size = 2147418112", "cache_size = -262144", "temp_store = MEMORY")
LEVELS: Final[dict[Durability, str]] = {"none": "NORMAL", "group": "FULL"}
PATIENCE_SECONDS: Final = 60.0

GET: Final = "SELECT * FROM purchase WHERE order_number = ? AND line = ?"
BOUGHT: Final = f"""
SELECT ordered_at, order_number, line, code, product_name, quantity FROM purchase
WHERE customer = ? ORDER BY ordered_at DESC, order_number, line LIMIT {PAGE}"""
SOLD: Final = """
SELECT ordered_at, order_number, line, quantity, unit_price FROM purchase
WHERE code = ? ORDER BY ordered_at DESC, order_number, line LIMIT ?"""
PRODUCT: Final = "SELECT code, name, description FROM product WHERE code = ?"
PRODUCT_SALES: Final = "SELECT orders, units, prices, dearest FROM product_sales WHERE code = ?"
KEEP: Final = """
INSERT INTO purchase SELECT ?1, ?2, c.number, c.name, c.country, d.code, d.name, ?5, ?6, ?7
FROM product d LEFT JOIN customer c ON c.number = ?3 WHERE d.code = ?4"""
SUMS: Final = """DO UPDATE SET orders = orders + excluded.orders, units = units + excluded.units,
prices = prices + excluded.prices, dearest = max(dearest, excluded.dearest)"""
COUNT_PRODUCT: Final = f"INSERT INTO product_sales VALUES (?, ?, ?, ?, ?) ON CONFLICT (code) {SUMS}"
COUNT_BUYER: Final = f"INSERT INTO buyer_sales VALUES (?, ?, ?, ?, ?) ON CONFLICT (customer) {SUMS}"
LOAD: Final = "INSERT INTO purchase VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


class Sqlite:
    """The shop in an SQLite file, through one connection, which any thread may use while no other does.

    Arguments:
        path: the file, made when absent.
        durability: `none` is WAL with synchronous=NORMAL, `group` with synchronous=FULL.
    """

    def __init__(self, path: Path, durability: Durability = "none") -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.connection = sqlite3.connect(path, isolation_level=None, timeout=PATIENCE_SECONDS, check_same_thread=False)
        for setting in (*SETTINGS, f"synchronous = {LEVELS[durability]}"):
            self.connection.execute(f"PRAGMA {setting}")
        self.connection.executescript(TABLES)
        self._execute = self.connection.cursor().execute

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.connection.close()

    def get(self, order: str, line: int) -> PurchaseRow:
        found: Any = self._execute(GET, (order, line)).fetchone()
        if found is None:
            raise KeyError(order, line)
        return (*found[:8], price_of(found[8]), instant(found[9]))

    def page(self, customer: int) -> list[BoughtRow]:
        """The customer's newest purchases: one range of the covering index."""
        return [
            (EPOCH + timedelta(microseconds=at), order, line, code, name, units)
            for at, order, line, code, name, units in self._execute(BOUGHT, (customer,))
        ]

    def product(self, code: str) -> tuple[str, str, str | None]:
        found: tuple[str, str, str | None] = self._execute(PRODUCT, (code,)).fetchone()
        return found

    def product_sales(self, code: str) -> tuple[int, int, int, int]:
        """Orders, units, and the sum and the greatest of the prices, in tenths of a penny."""
        found: tuple[int, int, int, int] = self._execute(PRODUCT_SALES, (code,)).fetchone()
        return found

    def sold(self, code: str, limit: int) -> list[tuple[int, str, int, int, int]]:
        """A product's newest purchases: when, order, line, quantity, tenths of a penny."""
        return self._execute(SOLD, (code, limit)).fetchall()

    def save(self, line: Line) -> None:
        """Writes a new purchase, its index rows and its sums in one transaction."""
        self.save_all((line,))

    def save_all(self, lines: Sequence[Line]) -> None:
        """Writes purchases of several writers in one transaction."""
        execute = self._execute
        execute("BEGIN IMMEDIATE")
        try:
            for line in lines:
                code, buyer, units, price = line.code, line.customer, line.quantity, tenths_of_pence(line.unit_price)
                at = microseconds(line.at)
                execute(KEEP, (line.invoice, line.line, buyer, code, units, price, at))
                execute(COUNT_PRODUCT, (code, 1, units, price, price))
                if buyer is not None:
                    execute(COUNT_BUYER, (buyer, 1, units, price, price))
        except BaseException:
            execute("ROLLBACK")
            raise
        execute("COMMIT")

    def rename(self, code: str, name: str) -> int:
        """Gives a product a new name, in its denormalised rows as well; answers how many there are."""
        self._execute("BEGIN IMMEDIATE")
        self._execute("UPDATE product SET name = ? WHERE code = ?", (name, code))
        renamed = self._execute("UPDATE purchase SET product_name = ? WHERE code = ?", (name, code)).rowcount
        self._execute("COMMIT")
        return renamed

    def names_shown(self, code: str) -> set[str]:
        """What purchases of a product call it."""
        return {name for (name,) in self._execute("SELECT product_name FROM purchase WHERE code = ?", (code,))}

    def stock(self, shop: Shop) -> None:
        with self.connection:
            self._execute("BEGIN IMMEDIATE")
            people = [(number, *given) for number, given in shop.customers.items()]
            self.connection.executemany("INSERT INTO customer VALUES (?, ?, ?)", people)
            self.connection.executemany("INSERT INTO product VALUES (?, ?, NULL)", shop.products.items())

    def load(self, shop: Shop, batch: Sequence[Line]) -> None:
        """Inserts a batch of new purchases: rows sorted, and each sum upserted once."""
        rows: list[tuple[Any, ...]] = []
        products: dict[str, list[int]] = {}
        buyers: dict[int, list[int]] = {}
        for line in batch:
            name, country = (None, None) if line.customer is None else shop.customers[line.customer]
            price = tenths_of_pence(line.unit_price)
            rows.append((
                line.invoice, line.line, line.customer, name, country, line.code, shop.products[line.code],
                line.quantity, price, microseconds(line.at),
            ))  # fmt: skip
            _count(products, line.code, line.quantity, price)
            if line.customer is not None:
                _count(buyers, line.customer, line.quantity, price)
        many = self.connection.executemany
        with self.connection:
            self._execute("BEGIN IMMEDIATE")
            many(LOAD, sorted(rows, key=lambda row: row[:2]))
            many(COUNT_PRODUCT, [(code, *products[code]) for code in sorted(products)])
            many(COUNT_BUYER, [(buyer, *buyers[buyer]) for buyer in sorted(buyers)])

    def settle(self) -> None:
        """Statistics for the planner, and all of the log in the file, as after a while in use."""
        self.connection.execute("ANALYZE")
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def size(self) -> int:
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return self.path.stat().st_size

    def packed(self, path: Path) -> int:
        """Writes a copy without free space and answers its bytes."""
        self.connection.execute("VACUUM INTO ?", (str(path),))
        return path.stat().st_size


def _count(sums: dict[Any, list[int]], group: str | int, units: int, price: int) -> None:
    found = sums.get(group)
    if found is None:
        sums[group] = [1, units, price, price]
    else:
        found[0] += 1
        found[1] += units
        found[2] += price
        found[3] = max(found[3], price)
