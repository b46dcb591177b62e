"""Telemetry around the verbs of a database, synchronous or asynchronous.

A database without telemetry is left as it is, so it pays nothing. See docs/decisions/0015-telemetry.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from oneread.database.hot_spots import cause_of
from oneread.database.operations import Operations
from oneread.plans.telemetry import Telemetry
from oneread.store.rows import Table

if TYPE_CHECKING:
    from oneread.store.cache import CacheUse

D = TypeVar("D", bound="Traceable")


class Traceable(Protocol):
    """A database of either face."""

    operations: Operations

    @property
    def cache_use(self) -> CacheUse | None: ...


VERBS: Final = (
    "get", "find", "get_many", "page", "together",
    "save", "create", "get_or_create", "upsert", "patch", "delete", "save_all",
    "transact", "drain", "counters", "mark", "marks", "unread",
)  # fmt: skip
"""The verbs that are measured: `exists` calls find, `scan` calls page."""
COUNTER_VERBS: Final = ("add", "read", "look", "windows", "shards", "settings", "configure", "delete")
"""The verbs of a counter that are measured, as `counter_add` and so on. Its name is not recorded."""


def trace_verbs(database: D, telemetry: Telemetry) -> D:
    """Measures every verb of one database, and its worker; returns the same database."""
    database.operations.meter = telemetry
    if database.cache_use is not None:
        telemetry.watch_cache(lambda: database.cache_use)
    database._launches.keeper.meter = telemetry  # type: ignore[attr-defined]  # noqa: SLF001 - of either face
    catalog = database.operations.catalog

    def note_lost(table: Table, key: bytes) -> None:
        cause = cause_of(catalog, table, key)
        if cause is not None:
            telemetry.note_lost(cause.declared, cause.kind)

    database._driver.hot.when_lost = note_lost  # type: ignore[attr-defined]  # noqa: SLF001 - of either face
    for name in VERBS:
        setattr(database, name, _traced(name, getattr(database, name), telemetry))
    make: Callable[..., Any] = database.counter  # type: ignore[attr-defined]  # of either face

    @wraps(make)
    def counter(*given: Any, **named: Any) -> Any:
        made = make(*given, **named)
        for name in COUNTER_VERBS:
            setattr(made, name, _traced(f"counter_{name}", getattr(made, name), telemetry))
        return made

    database.counter = counter  # type: ignore[attr-defined]
    return database


def _traced(name: str, verb: Callable[..., Any], telemetry: Telemetry) -> Callable[..., Any]:
    if iscoroutinefunction(verb):

        @wraps(verb)
        async def traced_async(*given: Any, **named: Any) -> Any:
            with telemetry.verb(name, _collection(given)):
                return await verb(*given, **named)

        return traced_async

    @wraps(verb)
    def traced(*given: Any, **named: Any) -> Any:
        with telemetry.verb(name, _collection(given)):
            return verb(*given, **named)

    return traced


def _collection(given: tuple[Any, ...]) -> str | None:
    """The name of the model or view that a verb is about."""
    first = given[0] if given else None
    kind = first if isinstance(first, type) else type(first)
    return kind.__name__ if hasattr(kind, "reserved_names") else None
