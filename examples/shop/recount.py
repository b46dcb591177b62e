"""Adds up the shop's lines again in plain Python: what every purchase, list and total has to show.

Nothing here imports oneread. It is written to be obviously right: one pass over the lines, and a sort for each list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple, TypeVar

from examples.shop.source import Line

K = TypeVar("K", int, str, datetime)


class Sums(NamedTuple):
    """What some lines come to. `dearest` is the greatest price, `prices` the sum of all of them."""

    orders: int = 0
    units: int = 0
    revenue: Decimal = Decimal()
    prices: Decimal = Decimal()
    dearest: Decimal | None = None

    def with_line(self, line: Line) -> Sums:
        price = line.unit_price
        return Sums(
            self.orders + 1,
            self.units + line.quantity,
            self.revenue + line.quantity * price,
            self.prices + price,
            price if self.dearest is None else max(self.dearest, price),
        )


class Expected(NamedTuple):
    """What a store must show of these lines.

    Arguments:
        lines: in the order of their keys.
        customers: the country of each, by number.
        products: the name of each, by code.
    """

    lines: list[Line]
    customers: dict[int, str]
    products: dict[str, str]
    of_product: dict[str, Sums]
    of_buyer: dict[int, Sums]
    of_month: dict[datetime, Sums]
    of_country: dict[str, Sums]


def recount(lines: Iterable[Line]) -> Expected:
    """Everything that `check` compares with a store."""
    found = list(lines)
    products = {line.code: line.code for line in found}
    products |= {line.code: name for line in found if line.unit_price > 0 and (name := _name(line))}
    return Expected(
        sorted(found, key=_key),
        {line.customer: line.country for line in found if line.customer is not None},
        products,
        _added_up(found, lambda line: line.code),
        _added_up((line for line in found if line.customer is not None), lambda line: line.customer or 0),
        _added_up(found, lambda line: line.at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)),
        _added_up(found, lambda line: line.country),
    )


def newest_first(lines: Iterable[Line], group: Callable[[Line], K]) -> Iterator[Line]:
    """The lines of each group together, the groups in their order, each newest first; those of one time by key."""
    ordered = sorted(lines, key=_key)
    ordered.sort(key=lambda line: line.at, reverse=True)
    ordered.sort(key=group)
    return iter(ordered)


def _key(line: Line) -> tuple[str, int]:
    return line.invoice, line.line


def _name(line: Line) -> str:
    """A description with single blanks inside, and none around it."""
    return " ".join((line.description or "").split())


def _added_up(lines: Iterable[Line], group: Callable[[Line], K]) -> dict[K, Sums]:
    sums: dict[K, Sums] = {}
    for line in lines:
        key = group(line)
        sums[key] = sums.get(key, Sums()).with_line(line)
    return sums
