"""Verbs that last: their requests are recorded one by one, and a pass over rows leaves an axis of keys.

What a pass reads whole is counted on the way. See docs/decisions/0144-heat.md and docs/decisions/0146-the-doctor.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, Final, Protocol, TypeAlias

from oneread.errors import OnereadError
from oneread.heat.axis import AxisPlaces, count_rows, store_axes
from oneread.heat.cells import HeatPlace, place_of
from oneread.plans.trace import Observer
from oneread.plans.verbs import declaration_of
from oneread.store.requests import Request, Scan
from oneread.store.rows import RowRange, Table

PASSES: Final = ("verify", "repair", "backfill", "dump", "dump_csv")
"""Verbs that pass over all rows of models and views."""
OBSERVED: Final = (
    "bulk", "cache_counter", "cache_counters", "changes", "changes_cursor", "counter_batch", "drop", "drop_jobs",
    "group", "jobs", "retry_jobs", "run_jobs", "set_aside", "survey", "sweep", "tasks",
)  # fmt: skip
"""Other verbs that last, or whose results make requests later."""

_log = logging.getLogger(__name__)

MakeObserver: TypeAlias = Callable[[str, str], Observer]
"""Makes an observer of the requests of a verb, and of the model or view that it is about."""
AxesByPlace: TypeAlias = "dict[HeatPlace, AxisPlaces]"


class Passing(Protocol):
    """A database of either face."""

    _observers: tuple[Observer, ...]

    def run(self, plan: Any) -> Any: ...


class AxisPass:
    """Observes the requests of a pass; `counted` has what it has read from the first row to the last.

    A page of a scan costs microseconds, however many rows it has; what is read again is not counted again.
    """

    def __init__(self) -> None:
        self.counted: AxesByPlace = {}
        self._under_way: dict[tuple[Table, RowRange], AxesByPlace] = {}
        """What was counted of scans that go on, by what they read next."""

    def note(self, request: Request[Any], answer: Any) -> None:
        """Observes a request."""
        if type(request) is not Scan or request.reverse or request.table == "system":
            return
        table, within = request.table, request.range
        places = self._under_way.pop((table, within), None)
        if places is None:
            place = place_of(table, within.start)
            if place in self.counted or within != RowRange.under(place.prefix):
                return
            places = {}
        count_rows(places, table, answer)
        if len(answer) == request.limit:
            self._under_way[table, within.behind(answer[-1][0])] = places
        else:
            self.counted |= places


def _twin(database: Passing, *observers: Observer) -> Any:
    found = object.__new__(type(database))
    vars(found).update(vars(database), _observers=(*database._observers, *observers))  # noqa: SLF001 - of either face
    return found


def observed_verbs(database: Passing, observer: MakeObserver) -> Mapping[str, Callable[..., Any]]:
    """The other verbs of this database that last, whose requests are observed, by name."""
    return {name: _observed(database, name, observer) for name in OBSERVED}


def _observed(database: Passing, name: str, observer: MakeObserver) -> Callable[..., Any]:
    verb = getattr(type(database), name)

    @wraps(verb)
    def observed(*given: Any, **named: Any) -> Any:
        return verb(_twin(database, observer(name, declaration_of(given) or "")), *given, **named)

    return observed


def passing_verbs(database: Passing, observer: MakeObserver | None = None) -> Mapping[str, Callable[..., Any]]:
    """The verbs of this database that pass over rows, each of which leaves an axis where it succeeds, by name."""
    return {name: _passing(database, name, observer) for name in PASSES}


def _passing(database: Passing, name: str, observer: MakeObserver | None) -> Callable[..., Any]:
    verb, by = getattr(type(database), name), name.partition("_")[0]

    def twin(passed: AxisPass) -> Any:
        return _twin(database, passed.note, *([] if observer is None else [observer(by, "")]))

    if iscoroutinefunction(verb):

        @wraps(verb)
        async def passing_async(*given: Any, **named: Any) -> Any:
            passed = AxisPass()
            found = await verb(twin(passed), *given, **named)
            try:
                await database.run(store_axes(passed.counted, by))
            except OnereadError:
                _note_failure()
            return found

        return passing_async

    @wraps(verb)
    def passing(*given: Any, **named: Any) -> Any:
        passed = AxisPass()
        found = verb(twin(passed), *given, **named)
        try:
            database.run(store_axes(passed.counted, by))
        except OnereadError:
            _note_failure()
        return found

    return passing


def _note_failure() -> None:
    _log.warning("could not store how the rows are spread over their keys", exc_info=True)
