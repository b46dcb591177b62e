"""P8: what get, page and save cost as the store grows, beside the floor's own growth; requests and rows must not grow.

A counter read and a feed page belong here too; they have no rows before counters and feeds exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchmarks.benchmark import Benchmark
from benchmarks.cases.reads import gets, sampled
from benchmarks.cases.saves import saver
from benchmarks.context import Context
from benchmarks.measure import Ratio, Round, Series, each, interleaved
from benchmarks.rows import SHOWN, Goal, Row, Subject
from benchmarks.workloads.ours import purchase
from benchmarks.workloads.shop_schema import Purchase, PurchasesOfBuyer
from benchmarks.workloads.stores import Stores
from benchmarks.workloads.writers import as_it_is

GROWTH = Goal(1.2)
CONSTANT = Goal(1, "<=", "figure")
Pair = tuple[Round, Round]


def growth(context: Context) -> Sequence[Row]:
    sizes = context.sizes
    stores = {size: context.stores_of(size) for size in sizes.growth}
    rows: list[Row] = []
    for name, pair in WORK.items():
        pairs = {size: pair(context, there) for size, there in stores.items()}
        rows += _grown(name, stores, pairs, sizes.rounds)
    return [*rows, _requests(stores)]


def _grown(name: str, stores: Mapping[int, Stores], pairs: Mapping[int, Pair], rounds: int) -> list[Row]:
    contenders = {f"{who} {size}": run for size, pair in pairs.items() for who, run in zip(WHO, pair, strict=True)}
    series = interleaved(contenders, rounds=rounds)
    least, most = min(stores), max(stores)
    data = stores[least].shop.data
    rows = [
        Subject("P8", data, size).slower(
            f"{name}, {size:,} rows", series[f"oneread {size}"], series[f"floor {size}"], peer="floor", goal=SHOWN
        )
        for size in stores
    ]
    mine = series[f"oneread {most}"].over(series[f"oneread {least}"])
    theirs = series[f"floor {most}"].over(series[f"floor {least}"])
    ratio = _by_round(series, least, most)
    named = f"growth of {name}, {least:,} to {most:,} rows"
    subject = Subject("P8", data, most)
    rows.append(subject.row(named, "x", mine.median, "floor's growth", theirs.median, ratio, GROWTH, rounds=rounds))
    return rows


def _by_round(series: Mapping[str, Series], least: int, most: int) -> Ratio:
    mine = [a / b for a, b in zip(series[f"oneread {most}"].seconds, series[f"oneread {least}"].seconds, strict=True)]
    theirs = [a / b for a, b in zip(series[f"floor {most}"].seconds, series[f"floor {least}"].seconds, strict=True)]
    return Series(tuple(mine)).over(Series(tuple(theirs)))


def _gets(context: Context, stores: Stores) -> Pair:
    keys = gets(sampled(stores.shop.lines[: stores.size], context.sizes.reads))
    return each(stores.db.get, [(Purchase, *key) for key in keys]), each(stores.floor.get, keys)


def _pages(context: Context, stores: Stores) -> Pair:
    buyers = [(line.customer,) for line in sampled(stores.shop.lines[: stores.size], context.sizes.reads)]

    def newest_ten(buyer: int) -> object:
        return stores.db.page(PurchasesOfBuyer, buyer, limit=10).rows

    return each(newest_ten, buyers), each(stores.floor.page, buyers)


def _saves(context: Context, stores: Stores) -> Pair:
    sizes = context.sizes
    lines = stores.take(sizes.saves * (sizes.rounds + 1))
    return (
        saver(iter(lines), sizes.saves, stores.db.save, purchase),
        saver(iter(lines), sizes.saves, stores.floor.save, as_it_is),
    )


def _requests(stores: Mapping[int, Stores]) -> Row:
    """How many times as many requests and rows the largest store's reads need: 1, or the read is not bounded."""
    costs = {size: _cost(there) for size, there in stores.items()}
    least, most = costs[min(costs)], costs[max(costs)]
    grown = max(large / small for small, large in zip(least, most, strict=True))
    subject = Subject("P8", stores[max(stores)].shop.data, max(stores))
    return subject.alone("growth of requests and rows of get and page", grown, unit="x", goal=CONSTANT)


def _cost(stores: Stores) -> tuple[int, ...]:
    """Requests and rows of a get and of a full page."""
    busiest = max(_bought(stores).items(), key=lambda item: item[1])[0]
    line = next(line for line in stores.shop.lines if line.customer == busiest)
    got = stores.db.cost(stores.db.get(Purchase, line.invoice, line.line))
    page = stores.db.page(PurchasesOfBuyer, busiest, limit=10).cost
    return got.requests, got.rows, page.requests, page.rows


def _bought(stores: Stores) -> Mapping[int, int]:
    bought: dict[int, int] = {}
    for line in stores.shop.lines[: stores.size]:
        if line.customer is not None:
            bought[line.customer] = bought.get(line.customer, 0) + 1
    return bought


WHO = ("oneread", "floor")
WORK: dict[str, Callable[[Context, Stores], Pair]] = {"get": _gets, "page of 10": _pages, "save": _saves}
BENCHMARKS = (
    Benchmark(
        "P8",
        "growth of get, page and save with the store, against the floor's own growth",
        f"{GROWTH} the floor's; requests and rows constant",
        growth,
    ),
)
