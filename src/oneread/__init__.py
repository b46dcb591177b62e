"""oneread: every page is one bounded read, and the library keeps every duplicate right.

The public names; each stands where its room is, and is loaded when it is first asked for. See docs/design/api.md and
docs/decisions/0088-names-are-loaded-when-asked-for.md.
"""

import oneread.starting  # noqa: F401  # pyright: ignore[reportUnusedImport]  # isort: skip - first: from here on a Ctrl-C ends a command without a traceback

from importlib import import_module
from typing import TYPE_CHECKING, Final

from oneread.connect import connect, connect_async, migration  # at once: else the module would hide its function

if TYPE_CHECKING:
    from oneread.copying.copies import compare_stores, copy_store
    from oneread.copying.moves import Move, move
    from oneread.counters.batch import AsyncCounterBatch, CounterBatch
    from oneread.counters.rows import WindowSize
    from oneread.counters.wanted import CounterRules
    from oneread.database._sync.bulk import Bulk
    from oneread.database._sync.cache_counters import CacheCounter
    from oneread.database._sync.counters import Counter, TransactionCounter
    from oneread.database._sync.database import Database
    from oneread.database._sync.launch import Launch
    from oneread.database._sync.launches import Launches
    from oneread.database._sync.transaction import Transaction
    from oneread.database.async_bulk import AsyncBulk
    from oneread.database.async_cache_counters import AsyncCacheCounter
    from oneread.database.async_counters import AsyncCounter, AsyncTransactionCounter
    from oneread.database.async_database import AsyncDatabase
    from oneread.database.async_launch import AsyncLaunch
    from oneread.database.async_launches import AsyncLaunches
    from oneread.database.async_transaction import AsyncTransaction
    from oneread.database.marking import Unread
    from oneread.database.page_json import to_json
    from oneread.database.pages import Page, any_of
    from oneread.database.patches import add, append, remove, set_to
    from oneread.database.places import EntityPlaces, EntityVersions, Holder, LeftTask, RawCell, ShownNumber, ShownPlace
    from oneread.database.watching import Changes, RowChange
    from oneread.derivations.replacing import at_once
    from oneread.derivations.rules import (
        ascending,
        bucket,
        by,
        count,
        descending,
        greatest,
        least,
        mean,
        newest,
        newest_values,
        oldest,
        on,
        shown,
        total,
    )
    from oneread.derivations.views import Aggregate, Feed, Index
    from oneread.evolution.schema import Schema
    from oneread.feeds.marks import Marks
    from oneread.heat.doctor import HeatFinding
    from oneread.heat.map import HeatCause, HeatMap, HeatRange, HotKey, SlowCall
    from oneread.jobs.declared import Job
    from oneread.jobs.handlers import JobHandlers, JobRun
    from oneread.jobs.queued import QueuedJob
    from oneread.jobs.running import JobsDone
    from oneread.launches.differences import LaunchDifference
    from oneread.launches.options import LaunchGuard, LaunchOptions
    from oneread.launches.reports import LaunchReport
    from oneread.launches.sides import sticky
    from oneread.models.evolving import renamed, retyped
    from oneread.models.expiry import expires
    from oneread.models.expressions import field
    from oneread.models.fields import CREATED, GENERATED, UPDATED, counter, reference, rollup
    from oneread.models.model import Key, Model
    from oneread.models.paths import each, within
    from oneread.models.personal import Personal
    from oneread.models.references import Copy, Ref
    from oneread.plans.trace import Cost, Observer
    from oneread.transfer.bulk import Refusal

__version__: str

_PLACES: Final = {
    "oneread.copying.copies": "compare_stores copy_store",
    "oneread.copying.moves": "Move move",
    "oneread.counters.batch": "AsyncCounterBatch CounterBatch",
    "oneread.counters.rows": "WindowSize",
    "oneread.counters.wanted": "CounterRules",
    "oneread.database._sync.bulk": "Bulk",
    "oneread.database._sync.cache_counters": "CacheCounter",
    "oneread.database._sync.counters": "Counter TransactionCounter",
    "oneread.database._sync.database": "Database",
    "oneread.database._sync.launch": "Launch",
    "oneread.database._sync.launches": "Launches",
    "oneread.database._sync.transaction": "Transaction",
    "oneread.database.async_bulk": "AsyncBulk",
    "oneread.database.async_cache_counters": "AsyncCacheCounter",
    "oneread.database.async_counters": "AsyncCounter AsyncTransactionCounter",
    "oneread.database.async_database": "AsyncDatabase",
    "oneread.database.async_launch": "AsyncLaunch",
    "oneread.database.async_launches": "AsyncLaunches",
    "oneread.database.async_transaction": "AsyncTransaction",
    "oneread.database.marking": "Unread",
    "oneread.database.page_json": "to_json",
    "oneread.database.pages": "Page any_of",
    "oneread.database.patches": "add append remove set_to",
    "oneread.database.places": "EntityPlaces EntityVersions Holder LeftTask RawCell ShownNumber ShownPlace",
    "oneread.database.watching": "Changes RowChange",
    "oneread.derivations.replacing": "at_once",
    "oneread.derivations.rules": "ascending bucket by count descending greatest least mean newest newest_values oldest"
    " on shown total",
    "oneread.derivations.views": "Aggregate Feed Index",
    "oneread.evolution.schema": "Schema",
    "oneread.feeds.marks": "Marks",
    "oneread.heat.doctor": "HeatFinding",
    "oneread.heat.map": "HeatCause HeatMap HeatRange HotKey SlowCall",
    "oneread.jobs.declared": "Job",
    "oneread.jobs.handlers": "JobHandlers JobRun",
    "oneread.jobs.queued": "QueuedJob",
    "oneread.jobs.running": "JobsDone",
    "oneread.launches.differences": "LaunchDifference",
    "oneread.launches.options": "LaunchGuard LaunchOptions",
    "oneread.launches.reports": "LaunchReport",
    "oneread.launches.sides": "sticky",
    "oneread.models.evolving": "renamed retyped",
    "oneread.models.expiry": "expires",
    "oneread.models.expressions": "field",
    "oneread.models.fields": "CREATED GENERATED UPDATED counter reference rollup",
    "oneread.models.model": "Key Model",
    "oneread.models.paths": "each within",
    "oneread.models.personal": "Personal",
    "oneread.models.references": "Copy Ref",
    "oneread.plans.trace": "Cost Observer",
    "oneread.transfer.bulk": "Refusal",
}
"""The public names of each module, which is imported when one of them is first asked for."""

_MODULES: Final = {name: module for module, names in _PLACES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name == "__version__":  # looked up when it is asked for: reading the metadata of packages is slow
        return import_module("importlib.metadata").version("oneread")
    if name not in _MODULES:
        raise AttributeError(f"module 'oneread' has no attribute {name!r}")
    found: object = getattr(import_module(_MODULES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "CREATED",
    "GENERATED",
    "UPDATED",
    "Aggregate",
    "AsyncBulk",
    "AsyncCacheCounter",
    "AsyncCounter",
    "AsyncCounterBatch",
    "AsyncDatabase",
    "AsyncLaunch",
    "AsyncLaunches",
    "AsyncTransaction",
    "AsyncTransactionCounter",
    "Bulk",
    "CacheCounter",
    "Changes",
    "Copy",
    "Cost",
    "Counter",
    "CounterBatch",
    "CounterRules",
    "Database",
    "EntityPlaces",
    "EntityVersions",
    "Feed",
    "HeatCause",
    "HeatFinding",
    "HeatMap",
    "HeatRange",
    "Holder",
    "HotKey",
    "Index",
    "Job",
    "JobHandlers",
    "JobRun",
    "JobsDone",
    "Key",
    "Launch",
    "LaunchDifference",
    "LaunchGuard",
    "LaunchOptions",
    "LaunchReport",
    "Launches",
    "LeftTask",
    "Marks",
    "Model",
    "Move",
    "Observer",
    "Page",
    "Personal",
    "QueuedJob",
    "RawCell",
    "Ref",
    "Refusal",
    "RowChange",
    "Schema",
    "ShownNumber",
    "ShownPlace",
    "SlowCall",
    "Transaction",
    "TransactionCounter",
    "Unread",
    "WindowSize",
    "add",
    "any_of",
    "append",
    "ascending",
    "at_once",
    "bucket",
    "by",
    "compare_stores",
    "connect",
    "connect_async",
    "copy_store",
    "count",
    "counter",
    "descending",
    "each",
    "expires",
    "field",
    "greatest",
    "least",
    "mean",
    "migration",
    "move",
    "newest",
    "newest_values",
    "oldest",
    "on",
    "reference",
    "remove",
    "renamed",
    "retyped",
    "rollup",
    "set_to",
    "shown",
    "sticky",
    "to_json",
    "total",
    "within",
]
