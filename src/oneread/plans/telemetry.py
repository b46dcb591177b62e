"""Telemetry: a span, a duration and counts for each verb, by OpenTelemetry if installed, and by logging.

Imported only when a database is opened with `telemetry=True`. Keys, values and cursors are never recorded: they may be
personal, and each distinct value would make a time series. Names are those of OpenTelemetry's conventions for database
clients. See docs/decisions/0015-telemetry.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from oneread.errors import OnereadError, UsageError
from oneread.plans.allowance import CURRENT, Allowance, leave

if TYPE_CHECKING:
    from oneread.store.cache import CacheUse


def _installed(name: str) -> Any:
    """A module of opentelemetry-api; None when it is not installed, which is logged when a database is opened."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        return None


_TRACE: Final = _installed("opentelemetry.trace")
_METRICS: Final = _installed("opentelemetry.metrics")

SYSTEM: Final = "oneread"
SLOW_SECONDS: Final = 0.1
"""A verb that takes longer is logged as a warning."""
BOUNDS: Final = (0.00001, 0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10)
"""Seconds; those of the conventions, and two below for engines in this process."""

_COUNTERS: Final = (
    ("requests", "{request}", "Requests made to the store."),
    ("rounds", "{round}", "Requests that waited for the answer of another one."),
    ("rows", "{row}", "Rows asked for by key, returned by scans, and written."),
    ("bytes", "By", "Bytes of keys and values read and written."),
)
"""What each verb costs: name, unit and description."""

_CACHE_COUNTERS: Final = {
    "hits": "Rows and ranges that the cache answered.",
    "misses": "Rows and ranges that the cache lacked.",
    "failures": "Requests that the cache did not answer.",
}

_LAUNCH_COUNTERS: Final = {
    "reads": "Calls of a launch, by the side that answered.",
    "compared": "Results of both sides that were compared.",
    "differences": "What they answered differently at two looks, by kind.",
    "dropped": "Results that were not compared, since too much was under way or took too long.",
    "failed": "Errors that one side raised and the other did not.",
}
"""What is counted of launches; `oneread.launch.name` says of which."""

_LOG: Final = logging.getLogger("oneread")
_UNLIMITED: Final = (None, None, None)


class Telemetry:
    """Measures the verbs of one database; `namespace` is the scheme and path of its URL, without options."""

    def __init__(self, namespace: str) -> None:
        self._common = {"db.system.name": SYSTEM, "db.namespace": namespace}
        self._tracer: Any = None
        if _TRACE is None:
            _LOG.warning("telemetry: opentelemetry-api is not installed; only log records are written")
            return
        self._tracer = _TRACE.get_tracer("oneread")
        self._meter = meter = _METRICS.get_meter("oneread")
        self._durations = meter.create_histogram(
            "db.client.operation.duration",
            unit="s",
            description="Duration of database client operations.",
            explicit_bucket_boundaries_advisory=BOUNDS,
        )
        self._counters = {
            name: meter.create_counter(f"oneread.{name}", unit=unit, description=text) for name, unit, text in _COUNTERS
        }
        self._waiting = meter.create_gauge(
            "oneread.tasks.waiting", unit="{task}", description="Tasks in the outbox, of all programs."
        )
        self._oldest = meter.create_gauge(
            "oneread.tasks.oldest", unit="s", description="How old the oldest change is that tasks still copy."
        )
        self._behind = meter.create_gauge(
            "oneread.behind", unit="s", description="Age of the oldest change that views, copies or totals may lack."
        )
        self._lost = meter.create_counter(
            "oneread.lost_swaps", unit="{swap}", description="Compare-and-sets that others' changes came before."
        )
        self._batches = meter.create_counter(
            "oneread.worker.batches", unit="{batch}", description="Batches of tasks that this program has done."
        )
        self._failures = meter.create_counter(
            "oneread.worker.failures", unit="{failure}", description="Steps of this program's worker that failed."
        )
        self._jobs = meter.create_counter(
            "oneread.jobs", unit="{job}", description="Runs of jobs by this program, by class and what became of them."
        )
        self._measure_launches(meter)

    def _measure_launches(self, meter: Any) -> None:
        self._launches = {
            name: meter.create_counter(f"oneread.launch.{name}", unit="{read}", description=text)
            for name, text in _LAUNCH_COUNTERS.items()
        }
        self._launch_durations = meter.create_histogram(
            "oneread.launch.duration",
            unit="s",
            description="Duration of answers, by side.",
            explicit_bucket_boundaries_advisory=BOUNDS,
        )
        self._state_age = meter.create_gauge(
            "oneread.launch.state_age", unit="s", description="How long ago this program read the state of a launch."
        )

    def note_tasks(self, kind: str, waiting: int, oldest: float) -> None:
        """Records how far the tasks of one kind are behind."""
        if self._tracer is not None:
            about = self._common | {"oneread.task.kind": kind}
            self._waiting.set(waiting, about)
            self._oldest.set(oldest, about)

    def note_behind(self, seconds: float) -> None:
        """Records how far views, copies and totals may be behind."""
        if self._tracer is not None:
            self._behind.set(seconds, self._common)

    def note_lost(self, declared: str, kind: str) -> None:
        """Records a compare-and-set that was lost, of a row that a declaration causes."""
        if self._tracer is not None:
            self._lost.add(1, self._common | {"oneread.declared": declared, "oneread.row.kind": kind})

    def note_batches(self, batches: int) -> None:
        """Records batches of tasks that the worker has done."""
        if self._tracer is not None:
            self._batches.add(batches, self._common)

    def note_failure(self, error: BaseException) -> None:
        """Records a step of the worker that failed."""
        if self._tracer is not None:
            self._failures.add(1, self._common | {"error.type": type(error).__name__})

    def note_job(self, kind: str, outcome: str) -> None:
        """Records what became of a job that was run: done, failed or set_aside."""
        if self._tracer is not None:
            self._jobs.add(1, self._common | {"oneread.job.kind": kind, "oneread.job.outcome": outcome})

    def note_launch(self, name: str, counts: Sequence[tuple[str, dict[str, str], int]], age: float) -> None:
        """Records what was counted of a launch since the last time, and how old its state is, in seconds."""
        if self._tracer is not None:
            about = self._common | {"oneread.launch.name": name}
            self._state_age.set(age, about)
            for counter, which, count in counts:
                if count:
                    self._launches[counter].add(count, about | which)

    def note_launch_answer(self, name: str, side: str, seconds: float) -> None:
        """Records how long one side of a launch took to answer."""
        if self._tracer is not None:
            about = self._common | {"oneread.launch.name": name, "oneread.launch.side": side}
            self._launch_durations.record(seconds, about)

    def watch_cache(self, use: Callable[[], CacheUse | None]) -> None:
        """Records, whenever metrics are collected, what the program's reads have had of its cache."""
        if self._tracer is None:
            return
        for name, text in _CACHE_COUNTERS.items():

            def look(_options: object, name: str = name) -> list[Any]:
                return [_METRICS.Observation(getattr(use(), name), self._common)]

            self._meter.create_observable_counter(f"oneread.cache.{name}", [look], unit="{request}", description=text)

    def watch_commits(self, made: Callable[[], Mapping[str, int]]) -> None:
        """Records, whenever metrics are collected, how the program's transactions were committed."""
        if self._tracer is None:
            return

        def look(_options: object) -> list[Any]:
            return [
                _METRICS.Observation(count, self._common | {"oneread.commit.way": way}) for way, count in made().items()
            ]

        self._meter.create_observable_counter(
            "oneread.commits", [look], unit="{commit}", description="Transactions that ended well, by how."
        )

    @contextmanager
    def verb(self, name: str, collection: str | None) -> Generator[None]:
        """Records the block: its duration, its requests to the store, and how it ended."""
        about = self._common | {"db.operation.name": name}
        if collection is not None:
            about["db.collection.name"] = collection
        spent = Allowance(_UNLIMITED, outer=CURRENT.get())
        called = name if collection is None else f"{name} {collection}"
        started = perf_counter()
        failure: BaseException | None = None
        try:
            CURRENT.set(spent)
            if self._tracer is None:
                yield
            else:
                with self._tracer.start_as_current_span(
                    called,
                    kind=_TRACE.SpanKind.CLIENT,
                    attributes=about,
                    record_exception=False,
                    set_status_on_exception=False,
                ) as span:
                    try:
                        yield
                    except BaseException as error:
                        span.set_attribute("error.type", type(error).__name__)
                        if _is_fault(error):
                            span.set_status(_TRACE.StatusCode.ERROR, _message_of(error))
                        raise
                    finally:
                        span.set_attributes(_measured(spent))
        except BaseException as error:
            failure = error
            raise
        finally:
            leave(spent)
            self._record(called, about, spent, perf_counter() - started, failure)

    def _record(
        self, called: str, about: dict[str, str], spent: Allowance, seconds: float, failure: BaseException | None
    ) -> None:
        if self._tracer is not None:
            ended = about if failure is None else about | {"error.type": type(failure).__name__}
            self._durations.record(seconds, ended)
            for name, counter in self._counters.items():
                counter.add(getattr(spent, name), about)
        fault = failure is not None and _is_fault(failure)
        level = logging.WARNING if fault or seconds >= SLOW_SECONDS else logging.DEBUG
        if _LOG.isEnabledFor(level):
            _LOG.log(
                level,
                "%s: %.6f s, %d requests, %d rows, %d bytes%s",
                called,
                seconds,
                spent.requests,
                spent.rows,
                spent.bytes,
                "" if failure is None else f", {type(failure).__name__}",
            )


def _measured(spent: Allowance) -> dict[str, int]:
    return {f"oneread.{name}": getattr(spent, name) for name in ("requests", "rounds", "rows", "bytes")}


def _is_fault(error: BaseException) -> bool:
    """Whether an operator should look: usage errors and cancelled calls are not faults."""
    return isinstance(error, Exception) and not isinstance(error, UsageError)


def _message_of(error: BaseException) -> str:
    """The static message of an error; its facts may hold keys and values."""
    return error.message if isinstance(error, OnereadError) else type(error).__name__
