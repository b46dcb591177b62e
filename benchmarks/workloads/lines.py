"""The lines of a shop's invoices: the demo's, real or made up, repeated where the real ones are too few.

The real data are found through --data, the environment variable ONEREAD_DATA, or beside the repository; without them
similar ones are made up from a seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import count, islice
from pathlib import Path

from examples.shop import source
from examples.shop.source import Line

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"
A_YEAR = timedelta(weeks=54)
"""How much later a repetition of the data happens: they span 53 weeks."""


@dataclass(frozen=True)
class Shop:
    """What is loaded: customers (name, country) and products (name) by key, and the lines in their order."""

    data: str
    customers: dict[int, tuple[str, str]]
    products: dict[str, str]
    lines: list[Line]


def data_folder(named: Path | None) -> Path | None:
    """The folder of data sets: the named one, the environment's, the one beside the repository; None makes data up."""
    return named or source.default_folder() or (BESIDE if BESIDE.is_dir() else None)


def shop(folder: Path | None, limit: int) -> Shop:
    """The first `limit` lines, repeated a year later each time where the data have fewer, with who is in them."""
    found = list(lines(folder, limit))
    customers, products = catalogue(found)
    return Shop(source.label(folder), customers, products, found)


def lines(folder: Path | None, limit: int) -> Iterator[Line]:
    """The first `limit` lines of the data in a folder; None makes them up, without end."""
    return source.lines(None, limit=limit) if folder is None else islice(_repeated(folder), limit)


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
    yield from source.lines(folder)
    for lap in count(1):
        for line in source.lines(folder):
            yield line._replace(invoice=f"{line.invoice}/{lap}", at=line.at + lap * A_YEAR)
