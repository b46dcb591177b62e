"""The verbs that show heat: which keys programs read and write, and when."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeVar

from oneread.database.operations import Operations
from oneread.heat.axis import HeatAxis, read_axes
from oneread.heat.cells import HeatPlace
from oneread.heat.counts import RANGES
from oneread.heat.doctor import HeatFinding, check_up, find_all, recorded_loads
from oneread.heat.doctor_rules import RULES
from oneread.heat.map import (
    HeatMap,
    HeatMeasure,
    HeatOperation,
    HeatOptions,
    HotKey,
    SlowCall,
    build_map,
    check_class,
    check_limit,
    heat_query,
    hot_keys_of,
    slow_calls_of,
)
from oneread.heat.rows import HeatRows, read_heat_rows, spans_of
from oneread.plans.plan import Plan
from oneread.plans.trace import Observer, Trace

if TYPE_CHECKING:
    from oneread.plans.async_driver import AsyncDriver

R = TypeVar("R")

_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)


class AsyncHeatVerbs:
    """The verbs of an open store that show heat."""

    operations: Operations
    _driver: AsyncDriver
    _observers: tuple[Observer, ...]

    async def _show(self, plan: Plan[R]) -> R:
        """The result of a plan, after what this process has recorded until now is stored."""
        recorder = self.operations.heat
        if recorder is not None:
            await self._driver.in_thread(recorder.flush)  # async only
            # sync only: recorder.flush()
        return await self._driver.run(plan, Trace(self._observers))

    async def _compute(self, work: Callable[[], R]) -> R:
        """The result of pure computing, which may take a second: no event loop waits for it."""
        return await self._driver.in_thread(work)  # async only
        # sync only: return work()

    async def heat(
        self,
        *,
        last: timedelta = timedelta(hours=6),
        until: datetime | None = None,
        operation: HeatOperation = "all",
        measure: HeatMeasure = "requests",
        declared: type | None = None,
        ranges: int = RANGES,
    ) -> HeatMap:
        """Which ranges of keys were read and written, when, and by which verbs, of all programs that record heat.

        Programs record with `connect(..., heat=1.0)`, or a part of their time. Minutes are kept for 6 hours, 10
        minutes for a day, hours for 14 days; the map has the finest of these that `last` is within. Costs a scan of
        each, some hundred rows at most, and one more; where this program records, a put before.

        Arguments:
            last: how far back the map goes, a minute to 14 days.
            until: its end; now unless given.
            operation: what is shown: all requests, reads, writes, or compare-and-sets that were lost.
            measure: of what: requests, each counted where it begins; rows; bytes; or seconds of calls, divided evenly
                among the requests of each. Of `lost` the number alone.
            declared: one model or view; all unless given.
            ranges: of each declaration, at most.

        Raises:
            UsageError: an option out of bounds.

        Examples:
            ```python
            for place, a_second in (await db.heat(operation="write")).hottest(3):
                print(place.declared, place.first, a_second)
            ```
        """
        query = heat_query(self._driver.now(), HeatOptions(last, until, operation, measure, declared, ranges))
        rows, axes = await self._show(_with_axes(query.since, query.until))
        return await self._compute(lambda: build_map(self.operations.catalog, spans_of(rows), axes, query))

    async def hot_keys(self, declared: type, *, limit: int = 10, last: timedelta = _HOUR) -> list[HotKey]:
        """The keys of a model or view that were asked for most often, of all programs that record heat.

        None where these were opened with `heat_keys=False`. Costs what `heat` costs.

        Arguments:
            declared: the model or view.
            limit: keys that are listed, 1 to 10,000; no more than 64 are kept of a time.
            last: how far back, a minute to 14 days.

        Raises:
            UsageError: an option out of bounds, or not a class.

        Examples:
            ```python
            for each in await db.hot_keys(Customer, limit=3):
                print(each.key, each.a_second)
            ```
        """
        check_class(declared)
        now = self._driver.now()
        query = heat_query(now, HeatOptions(last))
        rows, catalog = await self._show(read_heat_rows(query.since, query.until)), self.operations.catalog
        return await self._compute(lambda: hot_keys_of(catalog, spans_of(rows), declared, limit, now))

    async def slow_calls(self, *, last: timedelta = _HOUR, limit: int = 50) -> list[SlowCall]:
        """The slowest calls, of all programs that record heat: at most 16 of each row that is kept.

        Costs what `heat` costs. No keys are kept of them.

        Arguments:
            last: how far back, a minute to 14 days.
            limit: calls that are listed, 1 to 10,000.

        Raises:
            UsageError: an option out of bounds.

        Examples:
            ```python
            for each in await db.slow_calls(limit=3):
                print(each.verb, each.declared, each.seconds, each.rows)
            ```
        """
        check_limit(limit)
        now = self._driver.now()
        query = heat_query(now, HeatOptions(last))
        rows = await self._show(read_heat_rows(query.since, query.until))
        since = now - last // timedelta(milliseconds=1)
        return await self._compute(lambda: slow_calls_of(spans_of(rows), since, limit))

    async def doctor(self, *, last: timedelta = _DAY) -> list[HeatFinding]:
        """What to declare otherwise, by what programs that record heat have recorded; the most severe first.

        Costs what `heat` costs, and a row for each counter that has lost compare-and-sets; and the time to compile the
        schema again for each finding, some ten milliseconds. Empty where nothing was recorded.

        Arguments:
            last: how far back, a minute to 14 days.

        Raises:
            UsageError: an option out of bounds.

        Examples:
            ```python
            for finding in await db.doctor():
                print(finding.severity, finding.declared, finding.what)
                print(finding.change)
            ```
        """
        driver, operations = self._driver, self.operations
        query = heat_query(driver.now(), HeatOptions(last))
        rows, axes = await self._show(_with_axes(query.since, query.until))
        recorded = await self._compute(lambda: recorded_loads(operations.catalog, rows, axes))
        of_store = operations.changed_costs(), operations.counters, driver.engine.capabilities
        checkup = await driver.run(check_up(*of_store, driver.hot, recorded), Trace(self._observers))
        return await self._compute(lambda: find_all(checkup, RULES))


def _with_axes(since: int, until: int) -> Plan[tuple[HeatRows, Mapping[HeatPlace, HeatAxis]]]:
    return (yield from read_heat_rows(since, until)), (yield from read_axes())
