"""Costs: what an operation may ask of a store, from the declarations alone; budgets; and what that takes in time.

The modules named here are imported when they are first asked for, since most programs are never explained. See
docs/explanation/costs.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oneread.costs import changed, declared

__all__ = ["changed", "declared"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(name)
    return import_module(f"{__name__}.{name}")
