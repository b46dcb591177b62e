"""Bounds of reading the groups that entities and indexes show, the same on every store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from oneread.costs.bounds import BoundBuilder, Line
from oneread.costs.entity_costs import EntityCosts
from oneread.derivations.rollups import ShownAggregate

Groups: TypeAlias = tuple[ShownAggregate, int]
"""So many groups of an aggregate."""


def add_groups(total: BoundBuilder, costs: EntityCosts, request: str, of: Groups, requests: int) -> None:
    """Reads groups, and the first rows of each extremum that is shown, behind rows that the commit has changed."""
    shown, groups = of
    sums = costs.views[shown.view][0]
    rows = groups * sums.form.shards
    total.add(request, Line("read counts groups shown", shown.name, rows, sums.value, requests))
    add_extrema(total, costs, request, of, shown.extrema)


def add_extrema(total: BoundBuilder, costs: EntityCosts, request: str, of: Groups, names: Sequence[str]) -> None:
    """Scans for the first rows of these extrema of groups, behind rows that the commit has changed."""
    shown, groups = of
    for cost in costs.views[shown.view]:
        name = cost.form.name
        if name in names:
            rows = groups * (cost.form.first + 2 * cost.rows)
            total.add(f"{request} {name}", Line(f"scan views {cost.form.one}", name, rows, cost.row, groups))
