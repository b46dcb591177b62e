"""PostgreSQL through psycopg 3: what one would pick instead, used as its friends would use it.

Statements are prepared; each save is one statement, thus one round trip and one transaction. `purchase` is normalised,
for reads that join and for saves and renames of one row; `sold` is the same denormalised, with covering indexes and two
tables of sums.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, LiteralString

import psycopg

from benchmarks.workloads.lines import Shop
from examples.shop.source import Line
from tools.servers.postgres import postgres_server

SERVER: Final = {"shared_buffers": "512MB", "max_wal_size": "8GB", "max_connections": "64", "jit": "off"}

TABLES: Final = """
CREATE TABLE customer (number int PRIMARY KEY, name text NOT NULL, country text NOT NULL);
CREATE TABLE product (code text PRIMARY KEY, name text NOT NULL);
CREATE TABLE purchase (
    order_number text, line int, customer int REFERENCES customer, code text NOT NULL REFERENCES product,
    quantity int NOT NULL, unit_price numeric NOT NULL, ordered_at timestamptz NOT NULL,
    PRIMARY KEY (order_number, line));
CREATE INDEX ON purchase (customer, ordered_at DESC, order_number, line);
CREATE INDEX ON purchase (code, ordered_at DESC, order_number, line);
CREATE TABLE sold (
    order_number text, line int, customer int, customer_name text, country text, code text NOT NULL,
    product_name text NOT NULL, quantity int NOT NULL, unit_price numeric NOT NULL, ordered_at timestamptz NOT NULL,
    PRIMARY KEY (order_number, line));
CREATE INDEX ON sold (customer, ordered_at DESC, order_number, line) INCLUDE (code, product_name, quantity);
CREATE INDEX ON sold (code, ordered_at DESC, order_number, line) INCLUDE (quantity, unit_price);
CREATE TABLE product_sales (
    code text PRIMARY KEY, orders bigint NOT NULL, units bigint NOT NULL, prices numeric NOT NULL,
    dearest numeric NOT NULL);
CREATE TABLE buyer_sales (
    customer int PRIMARY KEY, orders bigint NOT NULL, units bigint NOT NULL, prices numeric NOT NULL,
    dearest numeric NOT NULL);
CREATE UNLOGGED TABLE arriving (
    order_number text, line int, customer int, code text, quantity int, unit_price numeric, ordered_at timestamptz);
"""

GET: Final = """
SELECT p.order_number, p.line, p.customer, c.name, c.country, p.code, d.name, p.quantity, p.unit_price, p.ordered_at
FROM purchase p JOIN product d USING (code) LEFT JOIN customer c ON c.number = p.customer
WHERE p.order_number = %s AND p.line = %s
"""
PAGE: Final = """
SELECT p.ordered_at, p.order_number, p.line, p.code, d.name, p.quantity
FROM purchase p JOIN product d USING (code) WHERE p.customer = %s
ORDER BY p.ordered_at DESC, p.order_number, p.line LIMIT 10
"""
GET_ONE_TABLE: Final = "SELECT * FROM sold WHERE order_number = %s AND line = %s"
PAGE_ONE_TABLE: Final = """
SELECT ordered_at, order_number, line, code, product_name, quantity FROM sold WHERE customer = %s
ORDER BY ordered_at DESC, order_number, line LIMIT 10
"""
SIZE: Final = "SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest(%s::text[]) AS name"
NORMALISED: Final = ("purchase", "customer", "product")
DENORMALISED: Final = ("sold", "customer", "product", "product_sales", "buyer_sales")
SUMS: Final = """orders = {0}.orders + excluded.orders, units = {0}.units + excluded.units,
prices = {0}.prices + excluded.prices, dearest = greatest({0}.dearest, excluded.dearest)"""
INSERT: Final = "INSERT INTO purchase VALUES (%s, %s, %s, %s, %s, %s, %s)"
KEEP: Final = """
INSERT INTO sold
SELECT %(order)s, %(line)s, c.number, c.name, c.country, d.code, d.name, %(quantity)s, %(price)s, %(at)s
FROM product d LEFT JOIN customer c ON c.number = %(customer)s::int WHERE d.code = %(code)s"""
COUNT_PRODUCT: Final = f"""
INSERT INTO product_sales VALUES (%(code)s, 1, %(quantity)s, %(price)s, %(price)s)
ON CONFLICT (code) DO UPDATE SET {SUMS.format("product_sales")}"""
COUNT_BUYER: Final = f"""
INSERT INTO buyer_sales SELECT %(customer)s::int, 1, %(quantity)s, %(price)s::numeric, %(price)s::numeric
WHERE %(customer)s::int IS NOT NULL ON CONFLICT (customer) DO UPDATE SET {SUMS.format("buyer_sales")}"""
SAVE: Final = f"WITH kept AS ({KEEP}), counted AS ({COUNT_PRODUCT}) {COUNT_BUYER}"
FROM_ARRIVING: Final = (
    """INSERT INTO sold SELECT a.order_number, a.line, a.customer, c.name, c.country, a.code, d.name, a.quantity,
    a.unit_price, a.ordered_at
    FROM arriving a JOIN product d USING (code) LEFT JOIN customer c ON c.number = a.customer""",
    f"""INSERT INTO product_sales
    SELECT code, count(*), sum(quantity), sum(unit_price), max(unit_price) FROM arriving GROUP BY code
    ON CONFLICT (code) DO UPDATE SET {SUMS.format("product_sales")}""",
    f"""INSERT INTO buyer_sales
    SELECT customer, count(*), sum(quantity), sum(unit_price), max(unit_price) FROM arriving
    WHERE customer IS NOT NULL GROUP BY customer ON CONFLICT (customer) DO UPDATE SET {SUMS.format("buyer_sales")}""",
    "TRUNCATE arriving",
)


@contextmanager
def postgres() -> Generator[str]:
    """A private server with the shop's empty tables; yields its DSN."""
    with postgres_server(SERVER) as dsn:
        with psycopg.connect(dsn) as connection:
            connection.execute(TABLES)
        yield dsn


class Postgres:
    """One connection, in autocommit: a statement is a transaction.

    Arguments:
        dsn: where the server is.
        durable: waits for the disk at each commit (synchronous_commit).
    """

    def __init__(self, dsn: str, *, durable: bool = False) -> None:
        self.connection = psycopg.connect(dsn, autocommit=True, prepare_threshold=0)
        self.connection.execute(f"SET synchronous_commit = {'on' if durable else 'off'}")
        self._cursor = self.connection.cursor()

    def close(self) -> None:
        self.connection.close()

    def get(self, order: str, line: int) -> tuple[Any, ...] | None:
        return self._cursor.execute(GET, (order, line)).fetchone()

    def get_from_one_table(self, order: str, line: int) -> tuple[Any, ...] | None:
        return self._cursor.execute(GET_ONE_TABLE, (order, line)).fetchone()

    def page(self, customer: int) -> list[tuple[Any, ...]]:
        return self._cursor.execute(PAGE, (customer,)).fetchall()

    def page_from_one_table(self, customer: int) -> list[tuple[Any, ...]]:
        return self._cursor.execute(PAGE_ONE_TABLE, (customer,)).fetchall()

    def save(self, line: Line) -> None:
        """The whole work as one statement, which takes one round trip."""
        self._cursor.execute(SAVE, _named(line))

    def save_step_by_step(self, line: Line) -> None:
        """The same work as a transaction of three statements, as an application would send them."""
        values = _named(line)
        with self.connection.transaction():
            for statement in (KEEP, COUNT_PRODUCT, COUNT_BUYER):
                self._cursor.execute(statement, values)

    def save_normalised(self, line: Line) -> None:
        """One row, as where reads join and count: nothing is copied, nothing is added up."""
        self._cursor.execute(INSERT, _columns(line))

    def rename_normalised(self, code: str, name: str) -> None:
        """One row, as where reads join."""
        self._cursor.execute("UPDATE product SET name = %s WHERE code = %s", (name, code))

    def rename(self, code: str, name: str) -> int:
        """Gives a product a new name, in its denormalised rows as well; answers how many there are."""
        with self.connection.transaction():
            self._cursor.execute("UPDATE product SET name = %s WHERE code = %s", (name, code))
            return self._cursor.execute("UPDATE sold SET product_name = %s WHERE code = %s", (name, code)).rowcount

    def names_shown(self, code: str) -> set[str]:
        """What purchases of a product call it, in the denormalised table."""
        return {name for (name,) in self._cursor.execute("SELECT product_name FROM sold WHERE code = %s", (code,))}

    def stock(self, shop: Shop) -> None:
        with self.connection.transaction():
            self._copy("customer", ((number, *given) for number, given in shop.customers.items()))
            self._copy("product", shop.products.items())

    def load(self, _shop: Shop, batch: Sequence[Line]) -> None:
        """COPY into a table of arrivals, and SQL that builds the denormalised rows and the sums from it."""
        with self.connection.transaction():
            self._copy("arriving", map(_columns, batch))
            for statement in FROM_ARRIVING:
                self._cursor.execute(statement)

    def load_normalised(self, batch: Sequence[Line]) -> None:
        with self.connection.transaction():
            self._copy("purchase", map(_columns, batch))

    def settle(self) -> None:
        """Statistics and visibility as a server that has been up for a while has them."""
        self.connection.execute("VACUUM ANALYZE")

    def size(self, tables: Sequence[str] = DENORMALISED) -> int:
        """Bytes of these tables and their indexes."""
        found = self._cursor.execute(SIZE, (list(tables),)).fetchone()
        assert found is not None
        return int(found[0])

    def _copy(self, table: LiteralString, rows: Any) -> None:
        with self._cursor.copy(f"COPY {table} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)


def _columns(line: Line) -> tuple[str, int, int | None, str, int, Decimal, datetime]:
    return line.invoice, line.line, line.customer, line.code, line.quantity, line.unit_price, line.at


def _named(line: Line) -> dict[str, object]:
    return {
        "order": line.invoice,
        "line": line.line,
        "customer": line.customer,
        "code": line.code,
        "quantity": line.quantity,
        "price": line.unit_price,
        "at": line.at,
    }
