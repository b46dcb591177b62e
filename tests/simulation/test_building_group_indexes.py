"""Indexes over groups that are added and changed while old and new code write and backfills die, as other views are."""

import os
from decimal import Decimal
from typing import ClassVar

import pytest

from oneread import Index, ascending, by, descending, field, shown
from oneread.evolution.backfill import Backfill
from oneread.transactions.group_sums import GroupSums
from tests.simulation.schema import SalesOfProduct, SalesOfTown, Sold
from tests.simulation.two_schemas import VIEWS, Found, TwoSchemas

SEEDS = int(os.environ.get("ONEREAD_SIM_SEEDS", "30"))


class TownsByRevenue(Index[SalesOfTown]):
    revenue: Decimal = descending(SalesOfTown.revenue)
    town: str = shown(SalesOfTown.town)


class TownsByLargest(Index[SalesOfTown]):
    where = field(SalesOfTown.revenue) > 3

    largest: int | None = ascending(SalesOfTown.largest, none="first")
    newest: list[str] = shown(SalesOfTown.newest)


class ProductsByPrice(Index[SalesOfProduct]):
    dearest: Decimal | None = descending(SalesOfProduct.dearest, none="last")
    purchases: int = descending(SalesOfProduct.purchases)
    product: Sold | None = by(SalesOfProduct.product, none="first")


class WithGroups(TwoSchemas):
    over: ClassVar[dict[type, type]] = {
        TownsByRevenue: SalesOfTown,
        TownsByLargest: SalesOfTown,
        ProductsByPrice: SalesOfProduct,
    }
    views = (*VIEWS, *over)


@pytest.mark.parametrize("start", range(0, SEEDS, 10))
def test_a_backfill_ends_with_everything_right(start):
    for seed in range(start, start + 10):
        WithGroups(seed).run()


def rows_of_former_numbers_stay(patch):
    patch.setattr(Backfill, "_sweep", lambda *_arguments: iter(()))


def groups_are_not_passed_over(patch):
    patch.setattr(Backfill, "_build_rows", lambda *_arguments: iter(()))


def a_row_is_put_and_never_taken_away(patch):
    written = GroupSums.index_writes

    def without_deletes(*given):
        return [(type(writes)(writes.puts), stamp) for writes, stamp in written(*given)]

    patch.setattr(GroupSums, "index_writes", without_deletes)


def the_numbers_before_are_those_behind(patch):
    patch.setattr(GroupSums, "_before", property(lambda _self: {}, lambda _self, _value: None), raising=False)


BROKEN = {
    rows_of_former_numbers_stay: 1,
    groups_are_not_passed_over: 0,
    a_row_is_put_and_never_taken_away: 2,
    the_numbers_before_are_those_behind: 2,
}
"""Rules broken on purpose, each with the first seed that finds it."""


@pytest.mark.parametrize(("broken", "likely"), BROKEN.items(), ids=[each.__name__ for each in BROKEN])
def test_a_broken_rule_is_found(broken, likely, monkeypatch):
    with monkeypatch.context() as patch:
        broken(patch)
        with pytest.raises(Found):
            WithGroups(likely).run()
