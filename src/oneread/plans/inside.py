"""Runs a plan inside a function of a `CountedStore`: for plans that are run outside of transactions too."""

from __future__ import annotations

from typing import Any, TypeVar

from oneread.errors import Unsupported
from oneread.plans.counted import CountedStore
from oneread.plans.effects import Now, Random
from oneread.plans.plan import Plan, drive
from oneread.store.engine import read_by
from oneread.store.requests import Read, Scan

T = TypeVar("T")


def run_plan(store: CountedStore, plan: Plan[T]) -> T:
    """Runs a plan that requests reads, time and chance; Unsupported when it requests something else."""

    def perform(asked: Any) -> Any:
        kind = type(asked)
        if kind is Read or kind is Scan:
            return read_by(store, asked)
        if kind is Now:
            return store.now()
        if kind is Random:
            return store.chance()
        raise Unsupported("a plan inside a transaction may request reads, time and chance", asked=kind.__name__)

    return drive(plan, perform)
