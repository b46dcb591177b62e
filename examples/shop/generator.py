"""Makes up invoices of the shape and with the dirt of the online-retail data, for where that set is not at hand.

The same seed gives the same lines. Like the real ones: 68 orders a day, a few products and customers that all
meets and a long tail, three lines of ten without a customer, and dirt in about the real proportions. Unlike them: the
best seller has 1.7 % of the lines (really 0.4 %), so that its rename has many copies to reach at any size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import accumulate
from random import Random
from typing import NamedTuple, TypeAlias

Row: TypeAlias = tuple[str, str, str | None, int, datetime, Decimal, int | None, str]
"""Invoice, code, description, quantity, instant, price of a unit, customer, country."""

LINES = 541_909
"""The default numbers, as in the real data."""

PRODUCTS, CUSTOMERS = 4_000, 4_300
FIRST_CUSTOMER = 12_346
OPENING = datetime(2010, 12, 1, 8, 0, tzinfo=UTC)
INVOICES_A_DAY, SECONDS_A_DAY = 68, 9 * 3600

COLOURS = (
    "RED", "WHITE", "BLUE", "PINK", "GREEN", "IVORY", "BLACK", "SILVER",
    "GOLD", "CREAM", "PURPLE", "ORANGE", "YELLOW", "BROWN", "GREY", "TURQUOISE",
)  # fmt: skip
STYLES = (
    "RETROSPOT", "HANGING", "VINTAGE", "POLKADOT", "ENAMEL", "GLASS", "WOODEN", "METAL",
    "PAISLEY", "FELT", "CERAMIC", "WICKER", "ZINC", "PAPER", "REGENCY", "FELTCRAFT",
)  # fmt: skip
THINGS = (
    "HEART", "T-LIGHT HOLDER", "LUNCH BAG", "CAKESTAND", "BUNTING", "MUG", "LANTERN", "JAM JAR",
    "DOORMAT", "BIRD", "CUSHION COVER", "ALARM CLOCK", "TEA TOWEL", "NECKLACE", "PHOTO FRAME", "STAR",
)  # fmt: skip
COUNTRIES = ("United Kingdom", "Germany", "France", "EIRE", "Spain", "Netherlands", "Belgium", "Switzerland", "Iceland")
COUNTRY_SHARES = (90, 2, 2, 2, 1, 1, 1, 0.5, 0.5)
REMARKS = ("damaged", "?", "check", "thrown away", "lost??", "wet/rusty", "sold as set on dotcom")
EXTRAS = (("POST", "POSTAGE", "18.00"), ("M", "Manual", "12.75"), ("m", "Manual", "2.55"), ("D", "Discount", "27.50"))


class Goods(NamedTuple):
    """A product: what it is called at first and later on, and what a unit costs."""

    code: str
    names: tuple[str, ...]
    price: Decimal


def rows(seed: int) -> Iterator[Row]:
    """Lines without end, in the order of time."""
    chance = Random(seed)
    shelf = _Shelf(chance)
    people = _People(chance)
    number = 0
    while True:
        yield from _invoice(chance, shelf, people, number)
        number += 1


def _invoice(chance: Random, shelf: _Shelf, people: _People, number: int) -> Iterator[Row]:
    """One order and, now and then, a cancellation of one of its lines or a write-off, as invoices of their own."""
    name, at = str(536_365 + 3 * number), _instant(number)
    customer, country = people.one(chance)
    size = _size(chance, anonymous=customer is None)
    row: Row | None = None
    for _ in range(size):
        if row is not None and chance.random() < 0.01:
            yield row  # an exact repeat: the line has no key of its own
            continue
        goods = shelf.one(chance)
        text = goods.names[number // 300 % len(goods.names)]
        quantity = max(1, round(chance.lognormvariate(1.4, 1.1)))
        row = (
            name,
            goods.code,
            f" {text} " if chance.random() < 0.21 else text,
            quantity,
            at,
            goods.price,
            customer,
            country,
        )
        yield row
    if row is not None and chance.random() < 0.3:
        yield (f"C{536_366 + 3 * number}", row[1], row[2], -chance.randint(1, row[3]), at, row[5], customer, country)
    if chance.random() < 0.1:
        remark = chance.choice(REMARKS) if chance.random() < 0.4 else None
        count = chance.choice((-1, -12, -3, 40))
        yield (str(536_367 + 3 * number), shelf.one(chance).code, remark, count, at, Decimal("0.0"), None, COUNTRIES[0])
    if number % 2_000 == 1_999:
        yield (f"A{number}", "B", "Adjust bad debt", 1, at, Decimal("-11062.06"), None, COUNTRIES[0])


def _instant(number: int) -> datetime:
    day, place = divmod(number, INVOICES_A_DAY)
    seconds = place * SECONDS_A_DAY // INVOICES_A_DAY
    return OPENING + timedelta(days=day + day // 6, minutes=seconds // 60)  # closed on one day of seven


def _size(chance: Random, *, anonymous: bool) -> int:
    """Lines of an order: median 10 with a customer; the few without one are long."""
    return min(1_100, max(1, round(chance.lognormvariate(math.log(60 if anonymous else 10), 1.0))))


def _weights(count: int, shift: float) -> list[float]:
    """Zipf's law as Mandelbrot put it: the k-th of them is met in proportion to 1 / (k + shift)."""
    return list(accumulate(1 / (place + shift) for place in range(1, count + 1)))


class _Shelf:
    def __init__(self, chance: Random) -> None:
        kinds = [f"{colour} {style} {thing}" for colour in COLOURS for style in STYLES for thing in THINGS]
        chance.shuffle(kinds)
        self._goods = [self._made(chance, place, kinds[place]) for place in range(PRODUCTS)]
        self._goods[60:60] = [Goods(code, (name,), Decimal(price)) for code, name, price in EXTRAS]
        self._weights = _weights(len(self._goods), 9)

    @staticmethod
    def _made(chance: Random, place: int, name: str) -> Goods:
        """One in five has a code that differs from another's only by case; one in twenty changes its name in time."""
        digits = 20_000 + place // 2 * 7
        code = f"{digits}{'Aa'[place % 2]}" if place % 10 < 2 else f"{digits}{'' if place % 2 else 'B'}"
        names = (name, f"{name} NEW DESIGN") if chance.random() < 0.05 else (name,)
        return Goods(code, names, Decimal(max(19, round(chance.lognormvariate(5.3, 0.9)))).scaleb(-2))

    def one(self, chance: Random) -> Goods:
        return chance.choices(self._goods, cum_weights=self._weights)[0]


class _People:
    def __init__(self, chance: Random) -> None:
        self._numbers = list(range(FIRST_CUSTOMER, FIRST_CUSTOMER + CUSTOMERS))
        chance.shuffle(self._numbers)
        self._homes = dict(zip(self._numbers, chance.choices(COUNTRIES, COUNTRY_SHARES, k=CUSTOMERS), strict=True))
        self._weights = _weights(CUSTOMERS, 20)

    def one(self, chance: Random) -> tuple[int | None, str]:
        """Who orders and from where; one in two hundred has moved since the last order."""
        if chance.random() < 0.08:
            return None, chance.choices(COUNTRIES, COUNTRY_SHARES)[0]
        number = chance.choices(self._numbers, cum_weights=self._weights)[0]
        if chance.random() < 0.005:
            self._homes[number] = chance.choice(COUNTRIES)
        return number, self._homes[number]
