"""Maintenance: long plans over a whole store that can be stopped and gone on with.

Knows the catalog, commits and rows. Must not know faces or engines. The modules named here are imported when they are
first asked for: a program that reads and writes shall not wait for what verifies and backfills.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oneread.maintenance import backfill, csv_dump, dump, migrate, repair, survey, verify, waiting

__all__ = ["backfill", "csv_dump", "dump", "migrate", "repair", "survey", "verify", "waiting"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(name)
    return import_module(f"{__name__}.{name}")
