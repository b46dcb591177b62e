"""What every peer of the shop takes and answers, so that tests can compare them; prices as integers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Final, Protocol

from benchmarks.workloads.lines import Shop
from examples.shop.source import Line

PAGE: Final = 10
TENTHS_OF_PENCE: Final = Decimal(1000)

PurchaseRow = tuple[str, int, int | None, str | None, str | None, str, str, int, Decimal, datetime]
"""order, line, customer, its name, its country, code, the product's name, quantity, unit price, when."""

BoughtRow = tuple[datetime, str, int, str, str, int]
"""when, order, line, code, the product's name, quantity."""


class ShopPeer(Protocol):
    """A store of the shop's lines with every view of P3; `load` takes new lines in bulk."""

    def stock(self, shop: Shop) -> None: ...

    def load(self, shop: Shop, batch: Sequence[Line], /) -> None: ...

    def save(self, line: Line) -> object: ...

    def settle(self) -> None:
        """Leaves it as it is after a while in use: statistics are taken, logs are applied."""
        ...

    def size(self) -> int:
        """Bytes, of its file or of its memory."""
        ...


def tenths_of_pence(price: Decimal) -> int:
    return int(price * TENTHS_OF_PENCE)


def price_of(tenths: int) -> Decimal:
    return Decimal(tenths).scaleb(-3)
