"""The lines of a shop's invoices: the real ones of the online-retail data set, repeated where more are needed.

Knows the data set's columns. Must not know stores. The real data are found through --data, the environment variable
ONEREAD_DATA, or beside the repository; none of them is part of it.
"""

from __future__ import annotations

import csv
import gzip
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

FILE = Path("online-retail") / "online-retail.csv.gz"
BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"
A_YEAR = timedelta(weeks=54)
"""How much later a repetition of the data happens: they span 53 weeks."""


class Line(NamedTuple):
    """One line of one invoice; `line` counts from 1 within it."""

    invoice: str
    line: int
    code: str
    description: str | None
    quantity: int
    at: datetime
    unit_price: Decimal
    customer: int | None
    country: str


@dataclass(frozen=True)
class Shop:
    """What is loaded: customers (name, country) and products (name) by key, and the lines in their order."""

    data: str
    customers: dict[int, tuple[str, str]]
    products: dict[str, str]
    lines: list[Line]


def find_data(folder: Path | None) -> Path:
    """The folder of data sets.

    Raises:
        FileNotFoundError: it is not there; the message says how to name it.
    """
    named = folder or (Path(os.environ["ONEREAD_DATA"]) if "ONEREAD_DATA" in os.environ else BESIDE)
    if not (named / FILE).is_file():
        raise FileNotFoundError(f"no {FILE} in the data folder; name another with --data or ONEREAD_DATA")
    return named


def shop(folder: Path | None, limit: int) -> Shop:
    """The first `limit` lines, repeated a year later each time where the data have fewer, with who is in them."""
    found = list(lines(folder, limit))
    customers, products = catalogue(found)
    return Shop("online-retail", customers, products, found)


def lines(folder: Path | None, limit: int) -> Iterator[Line]:
    return islice(_repeated(find_data(folder)), limit)


def catalogue(found: Iterable[Line]) -> tuple[dict[int, tuple[str, str]], dict[str, str]]:
    """Customers (name, country) and products (name) of the lines, sorted; the latest country and description stand."""
    countries: dict[int, str] = {}
    names: dict[str, str] = {}
    for line in found:
        if line.customer is not None:
            countries[line.customer] = line.country
        name = (line.description or "").strip()
        names[line.code] = name or names.get(line.code, line.code)
    customers = {number: (f"Customer {number}", country) for number, country in sorted(countries.items())}
    return customers, dict(sorted(names.items()))


def _repeated(folder: Path) -> Iterator[Line]:
    lap = 0
    while True:
        for line in _lines(folder):
            if lap:
                yield line._replace(invoice=f"{line.invoice}/{lap}", at=line.at + lap * A_YEAR)
            else:
                yield line
        lap += 1


def _lines(folder: Path) -> Iterator[Line]:
    met: Counter[str] = Counter()
    price, moment = cache(Decimal), cache(lambda text: datetime.fromisoformat(text).replace(tzinfo=UTC))
    with gzip.open(folder / FILE, "rt", encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        next(rows)
        for invoice, code, description, quantity, at, unit_price, customer, country in rows:
            met[invoice] += 1
            yield Line(
                invoice, met[invoice], code, description or None, int(quantity), moment(at), price(unit_price),
                int(customer) if customer else None, country,
            )  # fmt: skip
