"""costs: what a page and a save should take by the numbers of this machine, against what they take.

The numbers are measured in the same run, by what `oneread numbers` does, in a small store of another schema.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.benchmark import Benchmark
from benchmarks.cases.reads import gets, sampled
from benchmarks.cases.saves import saver
from benchmarks.context import Context
from benchmarks.measure import Series, each, interleaved
from benchmarks.rows import Goal, Row, Subject
from benchmarks.workloads.ours import purchase
from benchmarks.workloads.shop_schema import SHOP, ProductSales, Purchase, PurchasesOfBuyer
from oneread import connect
from oneread.cli import calibration
from oneread.costs import declared
from oneread.costs.bounds import Bound
from oneread.costs.numbers import FORMAT, MachineNumbers, this_machine

WITHIN = Goal(1.5, "<=", "figure", "x")
"""Predicted against measured, whichever is greater over the other."""

SECONDS = 5.0


def numbers(context: Context) -> MachineNumbers:
    """The numbers of a store like those that are measured."""
    url = f"lmdb://{context.folder('numbers')}?durability=none"
    with connect(url, calibration.SCHEMA, workers=0) as db:
        taken = calibration.measure(db, SECONDS if context.sizes.reads > 100 else 0.0)
    return MachineNumbers(FORMAT, "lmdb?durability=none", this_machine(), taken)


def predicted(context: Context) -> Sequence[Row]:
    stores, sizes = context.stores, context.sizes
    bounds = declared.of(SHOP)
    lines = stores.take(sizes.saves * (sizes.rounds + 1))
    some = sampled(stores.shop.lines[: stores.size], sizes.reads)
    db = stores.db
    before = numbers(context)
    series = interleaved(
        {
            "get": each(db.get, [(Purchase, *key) for key in gets(some)]),
            "page of 10": each(
                lambda buyer: db.page(PurchasesOfBuyer, buyer, limit=10).rows, [(line.customer,) for line in some]
            ),
            "group with an extremum": each(db.get, [(ProductSales, line.code) for line in some]),
            "save of a purchase": saver(iter(lines), sizes.saves, db.save, purchase),
        },
        rounds=sizes.rounds,
    )
    asked = {
        "get": bounds.get(Purchase),
        "page of 10": bounds.page(PurchasesOfBuyer, limit=10),
        "group with an extremum": bounds.get(ProductSales),
        "save of a purchase": bounds.create(Purchase),
    }
    subject = Subject("costs", stores.shop.data, stores.size)
    return [_row(subject, name, series[name], before, bound) for name, bound in asked.items()]


def _row(subject: Subject, name: str, taken: Series, before: MachineNumbers, bound: Bound) -> Row:
    ratio = before.predicted(bound) / taken.median
    off = max(ratio, 1 / ratio)
    what = f"{name}: predicted {before.predicted(bound) * 1e6:,.0f} us, measured {taken.median * 1e6:,.0f} us"
    return subject.alone(what, off, unit="x", goal=WITHIN, rounds=len(taken.seconds))


BENCHMARKS = (
    Benchmark("costs", "what the measured numbers predict, against what is measured", f"within {WITHIN}", predicted),
)
