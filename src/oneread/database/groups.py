"""Groups: the direct path of `get` for aggregates, for engines where a read takes microseconds.

Knows aggregates and two methods of the engine. Must not know plans: stepping generators would cost more than the reads.
A test proves that this and `Operations.find` answer alike, and cost alike. The law is "Plans" of the architecture page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from oneread.database.operations import Operations
from oneread.database.results import Outcome, attach_outcome
from oneread.derivations.aggregates import AggregateView
from oneread.encoding.ranges import prefix_range
from oneread.plans.allowance import CURRENT
from oneread.plans.trace import Cost
from oneread.store.engine import Engine
from oneread.store.rows import RowRange
from oneread.transactions.deltas import decode_amounts
from oneread.transactions.unit_of_work import VALUE

GroupReader: TypeAlias = Callable[[tuple[Any, ...]], Any]
"""A group's values to its row; None where it takes a plan to know, or to say what is wrong."""


def groups(operations: Operations, engine: Engine) -> dict[type, GroupReader]:
    """The direct path of each aggregate, for engines that are local."""
    return {cls: _group(view, operations, engine) for cls, view in operations.catalog.aggregates.items()}


class _Read:
    """What was read for one group, counted."""

    __slots__ = ("cost",)

    def __init__(self, requests: int, rows: int, size: int) -> None:
        self.cost = Cost(requests, rows, size)


def _group(view: AggregateView, operations: Operations, engine: Engine) -> GroupReader:
    cls, prefix, flat, encode = view.cls, view.prefix, view.key.flat, view.key.codec.encode
    width = len(view.key.codec.elements)
    readable, fetch, column, allowed = operations.fence.is_readable, engine.point, engine.column, CURRENT.get
    requests = 1 + len(view.extrema)

    def group(key: tuple[Any, ...]) -> Any:
        values = flat(key)
        if len(values) != width or not readable(cls):
            return None
        place = encode(values)
        cell = fetch("counts", prefix + place, VALUE)
        rows, size, packed = 1, 0, None
        if cell is not None:
            packed = cell.value
            size = len(packed)
        extrema: dict[str, Any] = {}
        for each in view.extrema:
            start, stop = prefix_range(each.prefix + place)
            found = column("views", RowRange(start, stop or b""), 1, VALUE)
            extrema[each.field] = None
            for there, value in found:
                extrema[each.field] = view.extremum_value(each, value)
                rows += 1
                size += len(there) + len(value)
        allowance = allowed()
        if allowance is not None:
            allowance.charge(requests, rows, size)
        row = view.instance(values, decode_amounts(packed), extrema)
        attach_outcome(row, Outcome(0, _Read(requests, rows, size)))
        return row

    return group
