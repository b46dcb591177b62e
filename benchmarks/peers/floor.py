"""The floor: what an expert writes by hand with py-lmdb and msgspec for the shop's pages and nothing else.

It keeps the same nine rows for a purchase, uses the same settings of LMDB as the LMDB engine (the performance page),
and takes every short cut that one page allows: keys of fixed width, the page's columns in the index row, existing rows
read once. It knows no schema, cursor, limit, validation, clock or error of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import lmdb
import msgspec

from benchmarks.peers.promises import Durability
from benchmarks.peers.shop_rows import TENTHS_OF_PENCE
from benchmarks.workloads.lines import Shop
from benchmarks.workloads.times import EPOCH, MICROSECOND
from examples.shop.source import Line

FULL: Final = (1 << 63) - 1

number4 = struct.Struct(">I").pack
number8 = struct.Struct(">Q").pack


class Customer(msgspec.Struct, array_like=True, frozen=True, gc=False):
    name: str
    country: str


class Product(msgspec.Struct, array_like=True, frozen=True, gc=False):
    name: str


class Purchase(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The row of a purchase, what it shows of its customer and its product included."""

    customer: int | None
    customer_name: str | None
    country: str | None
    code: str
    product_name: str
    quantity: int
    unit_price: Decimal
    at: datetime


class Bought(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A covering index row: a customer's purchase."""

    at: datetime
    order: str
    line: int
    code: str
    product_name: str
    quantity: int


class Sold(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A covering index row: a product's purchase."""

    at: datetime
    order: str
    line: int
    quantity: int
    unit_price: Decimal


class Sales(msgspec.Struct, array_like=True, gc=False):
    """An aggregate's row; the mean is divided on read."""

    orders: int = 0
    units: int = 0
    prices: Decimal = Decimal()

    def add(self, purchase: Purchase, sign: int) -> None:
        self.orders += sign
        self.units += sign * purchase.quantity
        self.prices += sign * purchase.unit_price


encode = msgspec.msgpack.Encoder().encode
decode_customer = msgspec.msgpack.Decoder(Customer).decode
decode_product = msgspec.msgpack.Decoder(Product).decode
decode_purchase = msgspec.msgpack.Decoder(Purchase).decode
decode_bought = msgspec.msgpack.Decoder(Bought).decode
decode_sales = msgspec.msgpack.Decoder(Sales).decode


def purchase_key(order: str, line: int) -> bytes:
    return b"p" + order.encode() + b"\0" + number4(line)


def groups_of(purchase: Purchase) -> list[bytes]:
    """The keys of the product and of the customer, which are those of their aggregates as well."""
    product = b"d" + purchase.code.encode() + b"\0"
    return [product] if purchase.customer is None else [product, b"c" + number4(purchase.customer)]


def view_rows(order: str, line: int, purchase: Purchase) -> dict[bytes, bytes]:
    """The back-references, index rows and extremum rows of a purchase, without what its aggregates count."""
    tail = purchase_key(order, line)
    newest = number8(FULL - (purchase.at - EPOCH) // MICROSECOND)
    dearest = number8(FULL - int(purchase.unit_price * TENTHS_OF_PENCE))
    rows: dict[bytes, bytes] = {}
    for group in groups_of(purchase):
        rows[b"r" + group + tail] = b""
        rows[b"x" + group + dearest + tail] = b""
        if group[0] == ord("c"):
            shown: object = Bought(purchase.at, order, line, purchase.code, purchase.product_name, purchase.quantity)
        else:
            shown = Sold(purchase.at, order, line, purchase.quantity, purchase.unit_price)
        rows[b"i" + group + newest + tail] = encode(shown)
    return rows


class Floor:
    """The shop in an LMDB of its own.

    Arguments:
        path: a folder, made when absent.
        durability: `none` survives the process being killed, `group` a power failure, as in the LMDB engine.
    """

    def __init__(self, path: Path, durability: Durability = "none") -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.env = lmdb.open(
            str(path), map_size=1 << 40, max_dbs=4, max_readers=1024, writemap=False,
            sync=durability == "group", metasync=durability == "group",
        )  # fmt: skip
        self.roots = self.env.open_db(b"roots")
        self.views = self.env.open_db(b"views")
        self.counts = self.env.open_db(b"counts")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.env.close()

    def size(self) -> int:
        return (Path(self.env.path()) / "data.mdb").stat().st_size

    def get(self, order: str, line: int) -> Purchase:
        with self.env.begin(db=self.roots) as transaction:
            stored = transaction.get(b"p" + order.encode() + b"\0" + number4(line))
        if stored is None:
            raise KeyError(order, line)
        return decode_purchase(stored)

    def page(self, customer: int, limit: int = 10) -> list[Bought]:
        """The customer's newest purchases: one range of covering rows."""
        prefix = b"ic" + number4(customer)
        found: list[Bought] = []
        with self.env.begin(db=self.views) as transaction:
            cursor = transaction.cursor()
            if cursor.set_range(prefix):
                for key, value in islice(cursor.iternext(), limit):
                    if not key.startswith(prefix):
                        break
                    found.append(decode_bought(value))
        return found

    def save(self, line: Line) -> Purchase:
        """Writes a purchase and its nine rows in one transaction."""
        with self.env.begin(write=True) as transaction:
            return self.write(transaction, line)

    def save_all(self, lines: Sequence[Line]) -> None:
        """Writes purchases of several writers in one transaction."""
        with self.env.begin(write=True) as transaction:
            for line in lines:
                self.write(transaction, line)

    def write(self, transaction: Any, line: Line) -> Purchase:
        roots, counts, views = self.roots, self.counts, self.views
        get, put = transaction.get, transaction.put
        key = purchase_key(line.invoice, line.line)
        old = get(key, db=roots)
        product = decode_product(get(b"d" + line.code.encode() + b"\0", db=roots))
        if line.customer is None:
            name = country = None
        else:
            customer = decode_customer(get(b"c" + number4(line.customer), db=roots))
            name, country = customer.name, customer.country
        new = Purchase(
            line.customer, name, country, line.code, product.name, line.quantity, line.unit_price, line.at
        )  # fmt: skip
        if old is not None:
            self._retract(transaction, line.invoice, line.line, decode_purchase(old))
        put(key, encode(new), db=roots)
        for group in groups_of(new):
            stored = get(group, db=counts)
            sales = decode_sales(stored) if stored else Sales()
            sales.add(new, 1)
            put(group, encode(sales), db=counts)
        for row, value in view_rows(line.invoice, line.line, new).items():
            put(row, value, db=views)
        return new

    def _retract(self, transaction: Any, order: str, line: int, old: Purchase) -> None:
        for group in groups_of(old):
            sales = decode_sales(transaction.get(group, db=self.counts))
            sales.add(old, -1)
            transaction.put(group, encode(sales), db=self.counts)
        for row in view_rows(order, line, old):
            transaction.delete(row, db=self.views)

    def rename(self, code: str, name: str) -> int:
        """Gives a product a new name, in its purchases and their index rows as well; answers how many there are."""
        prefix = b"rd" + code.encode() + b"\0"
        with self.env.begin(write=True) as transaction:
            transaction.put(prefix[1:], encode(Product(name)), db=self.roots)
            cursor = transaction.cursor(db=self.views)
            tails: list[bytes] = []
            if cursor.set_range(prefix):
                for key in cursor.iternext(values=False):
                    if not key.startswith(prefix):
                        break
                    tails.append(key[len(prefix) :])
            for tail in tails:
                old = decode_purchase(transaction.get(tail, db=self.roots) or b"")
                new = msgspec.structs.replace(old, product_name=name)
                transaction.put(tail, encode(new), db=self.roots)
                order, line = tail[1:-5].decode(), int.from_bytes(tail[-4:], "big")
                for row, value in view_rows(order, line, new).items():
                    if row.startswith(b"ic"):
                        transaction.put(row, value, db=self.views)
        return len(tails)

    def stock(self, shop: Shop) -> None:
        """Puts the shop's customers and products."""
        rows = [(b"c" + number4(number), encode(Customer(*given))) for number, given in shop.customers.items()]
        rows += [(b"d" + code.encode() + b"\0", encode(Product(name))) for code, name in shop.products.items()]
        with self.env.begin(write=True) as transaction:
            transaction.cursor(db=self.roots).putmulti(sorted(rows))

    def settle(self) -> None:
        """LMDB has nothing to settle."""

    def load(self, shop: Shop, batch: Sequence[Line]) -> None:
        """Puts a batch of new purchases: rows sorted, and each aggregate read and written once."""
        roots: list[tuple[bytes, bytes]] = []
        views: list[tuple[bytes, bytes]] = []
        totals: dict[bytes, Sales] = {}
        with self.env.begin(write=True) as transaction:
            for line in batch:
                name, country = (None, None) if line.customer is None else shop.customers[line.customer]
                new = Purchase(
                    line.customer, name, country, line.code, shop.products[line.code], line.quantity,
                    line.unit_price, line.at,
                )  # fmt: skip
                roots.append((purchase_key(line.invoice, line.line), encode(new)))
                views.extend(view_rows(line.invoice, line.line, new).items())
                for group in groups_of(new):
                    sales = totals.get(group)
                    if sales is None:
                        stored = transaction.get(group, db=self.counts)
                        sales = totals[group] = decode_sales(stored) if stored else Sales()
                    sales.add(new, 1)
            transaction.cursor(db=self.roots).putmulti(sorted(roots))
            transaction.cursor(db=self.views).putmulti(sorted(views))
            counted = sorted((group, encode(sales)) for group, sales in totals.items())
            transaction.cursor(db=self.counts).putmulti(counted)
