"""Dark launch of functions: a new way to answer runs beside the old one and takes over by percent.

The synchronous face is generated from this module. See docs/decisions/0142-dark-launch-of-functions.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

import msgspec

from oneread.database.async_launch import AsyncAnswer, AsyncLaunch, LaunchedSides, as_tuple, stored_difference
from oneread.database.async_list_comparison import AsyncListComparison, AsyncListReads, AsyncPages
from oneread.database.launched_pages import result_forms
from oneread.database.operations import Operations
from oneread.database.view_writes import ViewWrites
from oneread.errors import (
    OnereadError,
)
from oneread.launches.account import DarkAccount
from oneread.launches.dark_tasks import DarkTasks  # async only

# sync only: from oneread.launches.dark_threads import DarkThreads
from oneread.launches.differences import (
    DifferenceKind,
    FoundDifference,
    LaunchDifference,
)
from oneread.launches.keeper import LaunchKeeper
from oneread.launches.options import LaunchOptions
from oneread.launches.reports import ComparedLists, LaunchReport
from oneread.launches.state import LaunchState, LaunchWanted, check_launch_name
from oneread.launches.tracks import LaunchTrack
from oneread.plans.arguments import check_called, check_function, check_pace  # async only

# sync only: from oneread.plans.arguments import check_function, check_pace
from oneread.plans.effects import Sleep
from oneread.plans.plan import Plan
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Observer, Trace

if TYPE_CHECKING:
    from oneread.plans.async_driver import AsyncDriver

P = ParamSpec("P")
R = TypeVar("R")

_WAIT_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.002


class AsyncLaunches:
    """`db.launches`: the launches of a store, of all programs."""

    def __init__(
        self,
        operations: Operations,
        driver: AsyncDriver,
        worker_driver: SyncDriver,
        observers: tuple[Observer, ...],
        page: AsyncPages,
    ) -> None:
        self._driver = driver
        self._page = page
        self._observers = observers
        self._operations = operations
        self._writes = ViewWrites(operations)
        self._stored = operations.launches
        self._ended = False
        self.forms = result_forms(operations.catalog)
        self.dark = DarkTasks(DarkAccount())  # async only
        # sync only: self.dark = DarkThreads(DarkAccount())
        self.keeper = LaunchKeeper(self._stored, worker_driver, self.dark, observers)

    async def report(self, name: str, *, since: datetime | None = None) -> LaunchReport:
        """A launch, and what all programs have counted of it, each up to a minute ago; this one up to now.

        Writes what this program has counted, one transaction; then two scans for each 500 rows and a request. There is
        a row for each process and minute of the last day, and one for each hour of 30 days.

        Arguments:
            name: of the launch.
            since: counts from this instant on; all that are kept unless given.

        Raises:
            UsageError: neither this program nor another has made such a launch.

        Examples:
            ```python
            report = await db.launches.report("top-of-month")
            print(report.compared, report.differ, report.sides["new"].latency(0.95))
            ```
        """
        await self._flush()
        is_known = check_launch_name(name) in self.keeper.tracks
        found = await self._run(self._stored.report(name, since, is_known=is_known))
        return (await self._run(self._writes.reported([found])))[0]

    async def all(self) -> Sequence[LaunchReport]:
        """The reports of all launches, by name. A scan, and for each what `report` costs."""
        await self._flush()
        return await self._run(self._writes.reported(await self._run(self._stored.reports())))

    async def set(
        self,
        name: str,
        *,
        writes: float | None = None,
        shadow: float | None = None,
        reads: float | None = None,
        check: float | None = None,
        options: LaunchOptions | None = None,
        by: str = "",
    ) -> LaunchReport:
        """Changes a launch; every program follows within five seconds. A read, a compare-and-set, and a report.

        `writes` is of a view that replaces another one. Below 100 the view cannot be read; after 100 again, a backfill
        adds what is missing. A change of the schema row, at which a view that was readable is not read any more first,
        for five seconds. Programs follow with their next commit; on a store that changes one row at a time within five
        seconds as well.

        Arguments:
            name: of the launch.
            writes: percentage of the entities for which the new view is written.
            shadow: percentage of the old side's answers for which the new side is read as well, and compared.
            reads: percentage of the keys that the new side answers.
            check: percentage of the new side's answers that are compared with the old side's.
            options: bounds of the dark side, and the guard.
            by: who changes it, for the history.

        Raises:
            InvalidValue: a percentage is not from 0 to 100.
            UsageError: neither this program nor another has made such a launch, or it is finished; or `writes` is
                below 100 for a view that is read, compared, or needed by others.
            NotReady: it is the launch of a view that is still being built.
            Conflict: another program has changed it meanwhile; look again.

        Examples:
            ```python
            await db.launches.set("top-of-month", shadow=5)
            ```
        """
        check_launch_name(name)
        is_read = bool(reads or shadow)
        if writes is not None:
            await self._run(self._writes.change(name, writes, by, is_read=is_read))
        if is_read:
            await self._run(self._writes.check_readable(name))
        wanted, is_known = LaunchWanted(shadow, reads, check, options), name in self.keeper.tracks
        return await self._changed(name, self._stored.set(name, wanted, by, is_known=is_known))

    async def back(self, name: str, *, why: str = "", by: str = "") -> LaunchReport:
        """Gives all reads back to the old side. A read, a compare-and-set, and a report.

        Raises:
            UsageError: no program has called such a launch yet.
            Conflict: another program has changed it meanwhile; look again.
        """
        return await self._changed(name, self._stored.back(name, why, by))

    async def stop(self, name: str, *, by: str = "") -> LaunchReport:
        """Ends the writing of a launched view, and all reads of it: the brake when its rows weigh too much.

        Rows that it has stay until their entities are committed again, or a backfill. `set(name, writes=100)` and a
        backfill bring it back. Costs what `set` costs, twice.

        Raises:
            UsageError: it is not the launch of a view of this schema, or others need the view.
            Conflict: another program has changed it meanwhile; look again.
        """
        self._writes.check_share(check_launch_name(name))
        await self.set(name, shadow=0, reads=0, by=by)
        return await self.set(name, writes=0, by=by)

    async def finish(self, name: str, *, by: str = "") -> LaunchReport:
        """Ends a launch whose new side answers all: nothing is compared, and the old function is not called any more.

        A read, a compare-and-set, and a report. There is no way back: put the new function in place of the launch.

        Raises:
            UsageError: reads are not 100 %, or no program has called such a launch yet.
            Conflict: another program has changed it meanwhile; look again.
        """
        return await self._changed(name, self._stored.finish(name, by))

    async def differences(
        self, name: str, *, kind: DifferenceKind | None = None, limit: int = 50
    ) -> Sequence[LaunchDifference]:
        """Stored differences of a launch, the newest first. One scan for each 500 rows; with `kind`, of all.

        Raises:
            InvalidQuery: the limit is not from 1 to 10,000.
            UsageError: no program has called such a launch yet.

        Examples:
            ```python
            for each in await db.launches.differences("top-of-month", limit=10):
                print(each.kind, each.key, each.old, each.new)
            ```
        """
        return await self._run(self._stored.differences(name, kind, limit))

    async def compare(
        self, name: str, keys: Iterable[tuple[Any, ...]] | None = None, *, pace: float | None = None
    ) -> ComparedLists:
        """Compares whole lists of a view with those of the one that replaces it: what no reader has asked for too.

        Costs a page of both views for each 500 rows, and both once more for lists that differ, after the pause between
        two looks (`LaunchOptions.settle`). Memory holds two lists at a time. Each difference is counted and listed as
        those of reads are. Lists that only the new view has are for `verify` to find.

        Arguments:
            name: of the launch of a view.
            keys: of the lists: the first values of the view's key; all that the old side has unless given.
            pace: lists a second at most.

        Raises:
            UsageError: it is not the launch of a view of this schema.
            NotReady: a view is still being built.
            LimitExceeded: a list has more than 100,000 rows.

        Examples:
            ```python
            found = await db.launches.compare("HomeByScore", pace=100)
            print(found.lists, found.differ, found.keys)
            ```
        """
        what = "whole lists are compared of a view that another replaces"
        pair = self._writes.pair(check_launch_name(name), what)
        check_pace("lists", pace)
        await self._run(self._writes.check_readable(name))
        (state,) = await self._run(self._stored.states([name]))
        settle = (LaunchOptions() if state is None else state.options).settle
        tally = self.keeper.track(name).tally

        def note(key: tuple[Any, ...], found: FoundDifference) -> None:
            tally.differ[found.kind] += 1
            self.keeper.add_differences([stored_difference(self, name, "compare", key, found)])

        reads = AsyncListReads(self._page, self._pause, self._operations.catalog)
        found = await AsyncListComparison(reads, pair, settle, note).run(name, keys, pace)
        await self._flush()
        return msgspec.structs.replace(found, keys=tuple(as_tuple(self.forms.plain(key)) for key in found.keys))

    async def renew(self, track: LaunchTrack, now: float) -> None:
        """Has the state of a launch read again; waits for it where it is older than programs may differ."""
        read_at, until = track.read_at, now + _WAIT_SECONDS
        waits = track.want(now)
        if self._ended:
            return
        with suppress(OnereadError):  # no thread can be started: the last state counts
            self.keeper.wake()
        if not waits:
            return
        while track.read_at == read_at:
            if perf_counter() > until:
                track.gave_up_at = until
                return
            await self._pause(_LOOK_SECONDS)

    async def end(self) -> None:
        """Ends what reads the dark side and writes what was counted."""
        self._ended = True
        try:
            await self.dark.end()
        finally:
            await self._driver.end_in_thread(self.keeper.stop)  # async only
            # sync only: self.keeper.stop()

    async def _pause(self, seconds: float) -> None:
        await self._run(Sleep(seconds).__iter__())

    async def _changed(self, name: str, plan: Plan[LaunchState]) -> LaunchReport:
        state = await self._run(plan)
        track = self.keeper.tracks.get(name)
        if track is not None:
            track.adopt(state, perf_counter())
        return await self.report(name)

    async def _flush(self) -> None:
        if self.keeper.tracks:
            await self._driver.in_thread(self.keeper.flush)  # async only
            # sync only: self.keeper.flush()

    async def _run(self, plan: Plan[R]) -> R:
        return await self._driver.run(plan, Trace(self._observers))


class AsyncLaunchVerbs:
    """The verbs of launches of an open store."""

    _launches: AsyncLaunches

    @property
    def launches(self) -> AsyncLaunches:
        """The launches of this store: reports, differences, and what changes them. No request."""
        return self._launches

    def launch(
        self,
        name: str,
        *,
        old: AsyncAnswer[P, R],
        new: AsyncAnswer[P, R],
        key: Callable[P, object],
        equal: Callable[[R, R], bool] | None = None,
    ) -> AsyncLaunch[P, R]:
        """Launches a new way to answer beside the old one: the result is called as `old` was. No request.

        The old function answers until `db.launches.set(name, reads=...)`; with `shadow=...` the new one is called as
        well, after the answer was given, and both results are compared: pages row by row, others by `equal` or `==`.
        What differs at two looks, two seconds apart, is a difference.

        Costs a request of one row every two seconds, beside the calls, while they come; the first call waits for it. A
        comparison costs what the other function costs, and both once more where they differ.

        Both functions are called in other threads too, and must not change their arguments or results; a result that
        can be read only once, as a generator, cannot be compared.

        Arguments:
            name: of the launch in the store.
            old: the way that answers now.
            new: the way that is to answer.
            key: of a call, with its arguments, what keeps a side: a number, text, or a tuple of such.
            equal: whether two results that are not pages are the same; `==` unless given.

        Raises:
            InvalidValue: the name is not text, empty or too long.
            UsageError: something given is not a function.

        Examples:
            ```python
            async def by_name(country: str) -> list[str]: ...
            ```
        """
        check_launch_name(name)
        for what, function in (("old", old), ("new", new)):
            check_called(what, function)  # async only
            # sync only: check_function(what, function)
        check_function("key", key)
        if equal is not None:
            check_function("equal", equal)
        return AsyncLaunch(self._launches, name, LaunchedSides(old, new, key, equal))
