"""What is made of the dirt in the lines, and how much of each kind there was.

The decisions, each with its reason, are listed in README.md; the rule in one sentence: every line is kept and counts in
every total, so that sums agree with the file to the penny, and nothing is invented.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator

import msgspec

from examples.shop.schema import Buyer, Customer, Product, Purchase, Sold
from examples.shop.source import Line

OPEN_INVOICES = 200
"""Invoices whose lines are remembered, to tell repeats: an invoice's lines lie together or nearly so."""


class Dirt(msgspec.Struct):
    """How many lines (or codes, or customers, where a name says so) were of each kind. One line can be of several."""

    lines: int = 0
    no_customer: int = 0
    no_description: int = 0
    blanks: int = 0
    remarks: int = 0
    exact_repeats: int = 0
    cancellations: int = 0
    negative_quantities: int = 0
    adjustments: int = 0
    zero_prices: int = 0
    negative_prices: int = 0
    codes_with_several_names: int = 0
    codes_never_named: int = 0
    codes_differing_by_case: int = 0
    customers_who_moved: int = 0


MEANINGS: dict[str, str] = {
    "lines": "all of them kept",
    "no_customer": "buyer is None: in no customer's list and totals, in all others",
    "no_description": "the product's name comes from other lines",
    "blanks": "around and inside descriptions, made single",
    "remarks": "'damaged', '?': at price 0, another text than the name; not taken for a name",
    "exact_repeats": "kept: each is a line of its own",
    "cancellations": "invoice C...: negative, so totals go down",
    "negative_quantities": "those, and stock written off",
    "adjustments": "invoice A...: bad debt, kept as any other line",
    "zero_prices": "kept: they move units and no money",
    "negative_prices": "kept: the amount is negative",
    "codes_with_several_names": "the newest at which it was sold for money stands",
    "codes_never_named": "never sold for money: the code is the name",
    "codes_differing_by_case": "kept apart",
    "customers_who_moved": "the newest country stands; each purchase keeps its own",
}


class Survey(msgspec.Struct):
    """Who and what the lines are about, and their dirt."""

    customers: dict[int, Customer]
    products: dict[str, Product]
    dirt: Dirt


def survey(lines: Iterable[Line]) -> Survey:
    """Reads all lines once. Memory grows with customers, products and their names, not with lines."""
    watch = _Watch()
    for line in lines:
        watch.see(line)
    return watch.result()


def purchases(lines: Iterable[Line]) -> Iterator[Purchase]:
    """Each line as the purchase that is stored; copies are filled by `save`."""
    for line in lines:
        yield Purchase(
            order=line.invoice,
            line=line.line,
            buyer=None if line.customer is None else Buyer.of(line.customer),
            product=Sold.of(line.code),
            quantity=line.quantity,
            unit_price=line.unit_price,
            amount=line.quantity * line.unit_price,
            country=line.country,
            ordered_at=line.at,
        )


def name_in(description: str | None) -> str:
    """A description without the blanks around it, and with single ones inside; empty where there is none."""
    return " ".join((description or "").split())


class _Watch:
    """Counts, and remembers what is needed to name products and customers."""

    def __init__(self) -> None:
        self._dirt = Dirt()
        self._countries: dict[int, set[str]] = {}
        self._country: dict[int, str] = {}
        self._names: dict[
            str, dict[str, None]
        ] = {}  # by code, the newest last: what it was called when it was sold for money
        self._free: dict[str, dict[str, int]] = {}  # by code, how often each text stood at price 0
        self._open: OrderedDict[str, set[tuple[object, ...]]] = OrderedDict()

    def see(self, line: Line) -> None:
        self._count(line)
        self._name(line)
        self._repeat(line)
        if line.customer is not None:
            self._country[line.customer] = line.country
            self._countries.setdefault(line.customer, set()).add(line.country)

    def _count(self, line: Line) -> None:
        dirt = self._dirt
        dirt.lines += 1
        dirt.no_customer += line.customer is None
        dirt.cancellations += line.invoice.startswith("C")
        dirt.adjustments += line.invoice.startswith("A")
        dirt.negative_quantities += line.quantity < 0
        dirt.zero_prices += line.unit_price == 0
        dirt.negative_prices += line.unit_price < 0

    def _name(self, line: Line) -> None:
        names = self._names.setdefault(line.code, {})
        name = name_in(line.description)
        self._dirt.blanks += line.description is not None and line.description != name
        if not name:
            self._dirt.no_description += 1
        elif line.unit_price > 0:
            names.pop(name, None)
            names[name] = None
        else:
            free = self._free.setdefault(line.code, {})
            free[name] = free.get(name, 0) + 1

    def _repeat(self, line: Line) -> None:
        seen = self._open.get(line.invoice)
        if seen is None:
            seen = self._open[line.invoice] = set()
            if len(self._open) > OPEN_INVOICES:
                self._open.popitem(last=False)
        facts = (line.code, line.description, line.quantity, line.at, line.unit_price, line.customer, line.country)
        self._dirt.exact_repeats += facts in seen
        seen.add(facts)

    def result(self) -> Survey:
        dirt = self._dirt
        dirt.remarks = sum(
            times
            for code, texts in self._free.items()
            for text, times in texts.items()
            if text not in self._names[code]
        )
        dirt.codes_with_several_names = sum(len(names) > 1 for names in self._names.values())
        dirt.codes_never_named = sum(not names for names in self._names.values())
        dirt.codes_differing_by_case = len(self._names) - len({code.casefold() for code in self._names})
        dirt.customers_who_moved = sum(len(met) > 1 for met in self._countries.values())
        customers = {
            number: Customer(number=number, name=f"Customer {number}", country=country)
            for number, country in sorted(self._country.items())
        }
        products = {
            code: Product(code=code, name=next(reversed(names), code)) for code, names in sorted(self._names.items())
        }
        return Survey(customers, products, dirt)
