"""Groups: the direct path of `get` for aggregates, for engines where a read takes microseconds.

A test proves that this and `Operations.find` answer alike, and cost alike. See "Plans" of the architecture page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from oneread.database.operations import Operations
from oneread.database.results import Outcome, attach_outcome
from oneread.derivations.derivation import CompiledView, LocalFind
from oneread.plans.allowance import CURRENT
from oneread.plans.trace import Cost
from oneread.store.engine import Engine

GroupReader: TypeAlias = Callable[[tuple[Any, ...]], Any]
"""A group's values to its row; None where it takes a plan to know, or to say what is wrong."""


def groups(operations: Operations, engine: Engine) -> dict[type, GroupReader]:
    """The direct path of each view that has one, for engines that are local."""
    found = {cls: (view, view.local_find(engine)) for cls, view in operations.catalog.views.items()}
    return {cls: _group(view, find, operations) for cls, (view, find) in found.items() if find is not None}


class _Read:
    """What was read for one group, counted."""

    __slots__ = ("cost",)

    def __init__(self, requests: int, rows: int, size: int) -> None:
        self.cost = Cost(requests, rows, size)


def _group(view: CompiledView, find: LocalFind, operations: Operations) -> GroupReader:
    cls, flat, width = view.cls, view.key.flat, len(view.key.codec.elements)
    readable, allowed = operations.fence.is_readable, CURRENT.get
    requests = sum(form.found is not None for form in view.forms())

    def group(key: tuple[Any, ...]) -> Any:
        values = flat(key)
        if len(values) != width or not readable(cls):
            return None
        row, rows, size = find(values)
        allowance = allowed()
        if allowance is not None:
            allowance.charge(requests, rows, size)
        attach_outcome(row, Outcome(0, _Read(requests, rows, size)))
        return row

    return group
