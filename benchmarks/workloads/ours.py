"""oneread's side of the shop: the entities of its lines, and a store full of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.promises import Durability
from benchmarks.workloads.lines import Shop
from benchmarks.workloads.shop_schema import SHOP, Buyer, Customer, Product, Purchase, Sold
from examples.shop.source import Line
from oneread import Database, connect

BATCH = 5_000
"""Purchases in one transaction of a load, ours and the floor's alike."""


def opened(path: Path, durability: Durability = "none") -> Database:
    return connect(f"lmdb://{path}?durability={durability}", SHOP)


def purchase(line: Line) -> Purchase:
    return Purchase(
        order=line.invoice,
        line=line.line,
        buyer=None if line.customer is None else Buyer.of(line.customer),
        product=Sold.of(line.code),
        quantity=line.quantity,
        unit_price=line.unit_price,
        ordered_at=line.at,
    )


def stock(db: Database, shop: Shop) -> None:
    """Saves the shop's customers and products."""
    people = [Customer(number=number, name=name, country=country) for number, (name, country) in shop.customers.items()]
    goods = [Product(code=code, name=name) for code, name in shop.products.items()]
    db.save_all(people, batch=BATCH)
    db.save_all(goods, batch=BATCH)


def load(db: Database, batch: Sequence[Line]) -> None:
    """Writes a batch of purchases in bulk, whose entities are made on the way as a loader would."""
    with db.bulk(batch=BATCH) as bulk:
        for line in batch:
            bulk.save(purchase(line))
