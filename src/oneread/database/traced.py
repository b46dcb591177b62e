"""Telemetry around the verbs of a database, synchronous or asynchronous.

A database without telemetry is left as it is, so it pays nothing. See docs/decisions/0015-telemetry.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from oneread.database.operations import Operations
from oneread.heat.hot_spots import cause_of
from oneread.plans.telemetry import Telemetry
from oneread.plans.verbs import COUNTER_VERBS, VERBS, declaration_of
from oneread.store.rows import Table

if TYPE_CHECKING:
    from oneread.store.cache import CacheUse
    from oneread.store.engine import NativeBinding

D = TypeVar("D", bound="Traceable")


class Traceable(Protocol):
    """A database of either face."""

    operations: Operations

    @property
    def cache_use(self) -> CacheUse | None: ...

    @property
    def native(self) -> NativeBinding: ...


def trace_verbs(database: D, telemetry: Telemetry) -> D:
    """Measures every verb of one database, and its worker; returns the same database."""
    database.operations.meter = telemetry
    if database.cache_use is not None:
        telemetry.watch_cache(lambda: database.cache_use)
    telemetry.watch_commits(lambda: database.native.commits)
    database._launches.keeper.meter = telemetry  # type: ignore[attr-defined]  # noqa: SLF001 - of either face
    catalog = database.operations.catalog

    def note_lost(table: Table, key: bytes) -> None:
        cause = cause_of(catalog, table, key)
        if cause is not None:
            telemetry.note_lost(cause.declared, cause.kind)

    database._driver.hot.when_lost = note_lost  # type: ignore[attr-defined]  # noqa: SLF001 - of either face
    plain = {name: getattr(database, name) for name in (*VERBS, "counter")}
    vars(database).update(measured_verbs(plain, telemetry))
    if database.operations.heat is not None:
        database.operations.heat.measure(lambda verbs: measured_verbs(verbs, telemetry))
    return database


def measured_verbs(verbs: Mapping[str, Callable[..., Any]], telemetry: Telemetry) -> dict[str, Callable[..., Any]]:
    """Verbs of a database, `counter` among them, each around the one given."""
    make = verbs["counter"]

    @wraps(make)
    def counter(*given: Any, **named: Any) -> Any:
        made = make(*given, **named)
        for name in COUNTER_VERBS:
            setattr(made, name, _traced(f"counter_{name}", getattr(made, name), telemetry))
        return made

    return {name: _traced(name, verbs[name], telemetry) for name in VERBS} | {"counter": counter}


def _traced(name: str, verb: Callable[..., Any], telemetry: Telemetry) -> Callable[..., Any]:
    if iscoroutinefunction(verb):

        @wraps(verb)
        async def traced_async(*given: Any, **named: Any) -> Any:
            with telemetry.verb(name, declaration_of(given)):
                return await verb(*given, **named)

        return traced_async

    @wraps(verb)
    def traced(*given: Any, **named: Any) -> Any:
        with telemetry.verb(name, declaration_of(given)):
            return verb(*given, **named)

    return traced
