"""Where the lines of the shop's invoices come from: the online-retail data set, or a generator that makes similar ones.

The file's times are UK local time; `at` is the instant (Europe/London to UTC, the earlier one where clocks went back).
"""

from __future__ import annotations

import csv
import gzip
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from examples.shop import generator
from examples.shop.mistakes import Mistake

FILE = "online-retail.csv.gz"
VARIABLE = "ONEREAD_DATA"
"""The environment variable that names the folder of data sets."""

HEADER = ["InvoiceNo", "StockCode", "Description", "Quantity", "InvoiceDate", "UnitPrice", "CustomerID", "Country"]


class Line(NamedTuple):
    """One line of one invoice, as it was found.

    Arguments:
        line: counts from 1 within the invoice: the data give a line no key.
        description: as written, surrounding blanks included; None where there is none.
        quantity: negative for what was taken back.
        at: the instant, in UTC.
        customer: None for a sale without a customer.
    """

    invoice: str
    line: int
    code: str
    description: str | None
    quantity: int
    at: datetime
    unit_price: Decimal
    customer: int | None
    country: str


def lines(folder: Path | None, *, limit: int | None = None, seed: int = 7) -> Iterator[Line]:
    """The lines in the order of time: of the real data in `folder`, or made up where it is None.

    Arguments:
        folder: holds online-retail.csv.gz, itself or in a folder online-retail.
        limit: the first so many; None for all.
        seed: chooses what is made up; the same seed gives the same lines, and a smaller limit the first of them.

    Raises:
        Mistake: the folder does not hold the file, or the file is not what it should be.
    """
    found = _numbered(generator.rows(seed)) if folder is None else _read(located(folder))
    return islice(found, generator.LINES if folder is None and limit is None else limit)


def located(folder: Path) -> Path:
    """The data file in a folder.

    Raises:
        Mistake: there is none.
    """
    for place in (folder / FILE, folder / "online-retail" / FILE):
        if place.is_file():
            return place
    raise Mistake(f"no {FILE} in {folder}: name its folder with --data, or leave --data out to have data made up")


def default_folder() -> Path | None:
    """The folder that the environment names; None when it names none, and data are made up."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else None


def label(folder: Path | None, seed: int = 7) -> str:
    """What a load from there is called in the store."""
    return "online-retail" if folder is not None else f"generated with seed {seed}"


def _numbered(rows: Iterator[generator.Row]) -> Iterator[Line]:
    met: Counter[str] = Counter()
    for row in rows:
        met[row[0]] += 1
        yield Line(row[0], met[row[0]], *row[1:])


def _read(path: Path) -> Iterator[Line]:
    met: Counter[str] = Counter()
    number, price = 1, cache(Decimal)
    instant = _london()
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            rows = csv.reader(file)
            if next(rows, None) != HEADER:
                raise Mistake(f"{path} has other columns than online-retail: {', '.join(HEADER)}")
            for number, row in enumerate(rows, 2):  # noqa: B007 - the error message below names it
                invoice, code, description, quantity, at, unit_price, customer, country = row
                met[invoice] += 1
                yield Line(
                    invoice, met[invoice], code, description or None, int(quantity), instant(at), price(unit_price),
                    int(customer) if customer else None, country,
                )  # fmt: skip
    except (ValueError, InvalidOperation) as error:
        raise Mistake(f"{path}, line {number} is not a line of online-retail: {error}") from error
    except (EOFError, OSError, zlib.error) as error:
        raise Mistake(f"{path} cannot be read behind line {number}: {error}") from error


def _london() -> Callable[[str], datetime]:
    """Reads a UK local time as an instant. Few of them differ, so each is computed once."""
    try:
        zone = ZoneInfo("Europe/London")
    except ZoneInfoNotFoundError as error:
        raise Mistake("this machine has no time zones: install the Python package tzdata") from error
    return cache(lambda text: datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC))
