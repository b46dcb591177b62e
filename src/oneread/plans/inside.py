"""Runs a plan inside a function of a `CountedStore`: for plans that are run outside of transactions too.

Inside, no compare-and-set is lost, no answer is late, and no other program comes between two requests. A plan that is
only for stores whose transactions span rows may replace whole rows as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from oneread.errors import Unsupported
from oneread.plans.counted import CountedStore
from oneread.plans.effects import Now, Random, Together
from oneread.plans.plan import Plan, drive
from oneread.store.engine import read_by
from oneread.store.requests import CheckAndMutate, Mutate, Read, Replace, Scan

T = TypeVar("T")


def run_plan(store: CountedStore, plan: Plan[T]) -> T:
    """Runs a plan that requests rows, time and chance; Unsupported when it requests something else, a wait say."""

    def perform(asked: Any) -> Any:
        kind = type(asked)
        if kind not in _PERFORMED:
            raise Unsupported("a plan inside a transaction may request rows, time and chance", asked=kind.__name__)
        return _PERFORMED[kind](store, asked)

    return drive(plan, perform)


def _together(store: CountedStore, asked: Together[Any]) -> list[Any]:
    """One after the other: they ask no server."""
    return [run_plan(store, each) for each in asked.plans]


_PERFORMED: Final[dict[type[Any], Callable[[CountedStore, Any], Any]]] = {
    Read: read_by,
    Scan: read_by,
    Replace: lambda store, asked: store.replace(asked.table, asked.rows),
    Mutate: CountedStore.mutate,
    CheckAndMutate: CountedStore.check_and_mutate,
    Together: _together,
    Now: lambda store, _asked: store.now(),
    Random: lambda store, _asked: store.chance(),
}
