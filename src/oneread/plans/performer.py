"""What both drivers share: running a function inside a transaction, or a plan inside a snapshot.

See "Plans" of the architecture page.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from oneread.errors import Closed, Corrupt, Unavailable, Unsupported, UsageError
from oneread.plans.arguments import UNCACHED, Age, check_max_age
from oneread.plans.clock import wall_clock
from oneread.plans.counted import CompiledReads, CountedStore, SingleRequests
from oneread.plans.effects import Atomically, Compiled, Now, Separately, Sleep, Snapshot
from oneread.plans.hot_keys import HotKeys
from oneread.plans.plan import Plan, drive
from oneread.plans.trace import Trace
from oneread.store.cache import Cache
from oneread.store.engine import CompiledCommits, Engine, RowReads, RowTransaction, Snapshots, read_by
from oneread.store.requests import Read, Request, Scan

if TYPE_CHECKING:
    from oneread.plans.read_cache import ReadCache

LAST_MILLISECOND: Final = 253_402_300_799_999
"""The last of the year 9999: the last instant that fields and generated keys can hold."""

T = TypeVar("T")
P = TypeVar("P", bound="Performer")


def elapsed() -> float:
    """Seconds of a clock that is never set, and that runs on while the machine sleeps, where there is such a clock."""
    boottime: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boottime is None else time.clock_gettime(boottime)


class Performer:
    """One engine with the clock (milliseconds since 1970), the chance (uniform in [0, 1)) and the timeout of its plans.

    A transaction that waits `timeout` seconds for its turn raises Unavailable. `cache` is beside the engine, if any;
    `reads` reads through it, and renews what is written.
    """

    reads: ReadCache | None = None
    at_once: CompiledCommits | None = None
    """The engine, where compiled code may commit in the caller's thread, which waits for that."""

    def __init__(
        self,
        engine: Engine,
        clock: Callable[[], int] = wall_clock,
        chance: Callable[[], float] = random.random,
        timeout: float = 30.0,
        cache: Cache | None = None,
    ) -> None:
        self.engine = engine
        self.clock = clock
        self.chance = chance
        self.timeout = timeout
        self.cache = cache
        self.hot = HotKeys()
        self._spans_rows = engine.capabilities.spans_rows
        self.commits = engine if isinstance(engine, CompiledCommits) else None
        self.name_damaged: Callable[[Corrupt], None] = _leave_unnamed

    def admit(self, request: Request[Any], trace: Trace) -> None:
        """Raises before a request that may not be made.

        Raises:
            BudgetExceeded: it would exceed the budget.
            Unavailable: the operation has taken too long.
        """
        if trace.deadline is not None:
            self.time_left(trace)
        if trace.allowance is not None:
            trace.admit(request)

    def deadline(self) -> float | None:
        """When an operation that begins now must have ended; None where only a transaction's turn is waited for."""
        return None if self._spans_rows else elapsed() + self.timeout

    def time_left(self, trace: Trace) -> float:
        """The seconds that an operation still has; raises Unavailable when there are none."""
        left = float("inf") if trace.deadline is None else trace.deadline - elapsed()
        if left <= 0:
            raise Unavailable("the store did not answer in time; try again", timeout=self.timeout)
        return left

    def answer_cached(self, request: Request[Any]) -> Any:
        """The answer of the cache; UsageError where the database has none."""
        return self.open_cache().answer(request)

    def open_cache(self) -> Cache:
        if self.cache is None:
            raise UsageError('this database has no cache; connect(url, schema, cache="memcached://HOST:11211")')
        return self.cache

    def now(self) -> int:
        """The clock's time; Unavailable when it is not one that a row can be stamped with."""
        now = self.clock()
        if type(now) is not int or not 0 <= now <= LAST_MILLISECOND:
            raise Unavailable(
                "the clock does not show whole milliseconds between the years 1970 and 9999; correct it", clock=now
            )
        return now

    def twin(self, kind: type[P]) -> P:
        """Another driver of the same engine, with the same clock, chance, timeout and cache."""
        twin = kind(self.engine, self.clock, self.chance, self.timeout, self.cache)
        twin.reads, twin.hot, twin.name_damaged = self.reads, self.hot, self.name_damaged
        return twin

    def following(self, plan: Plan[T]) -> Plan[T]:
        """The plan; where reads come from the cache, with new numbers there for what it writes."""
        return plan if self.reads is None else self.reads.write(plan)

    def cached(self, plan: Plan[T], max_age: Age, *, fresh: bool = False) -> Plan[T]:
        """A plan that reads, through the cache if there is one for reads. Raises UsageError for a wrong `max_age`."""
        if fresh is True:
            max_age = 0.0
        if max_age is None:
            return plan if self.reads is None or not self.reads.max_age else self.reads.read(plan, self.reads.max_age)
        if max_age is UNCACHED:
            return plan
        age = check_max_age(max_age)
        return plan if self.reads is None else self.reads.read(plan, age)

    def transact(self, effect: Atomically[T], trace: Trace) -> T:
        """Runs the function in one engine transaction; of repeated attempts only the last is counted.

        Or lets compiled code do it, where no observer sees requests one by one.
        """
        if effect.compiled is not None and self.commits is not None and not trace.is_watched:
            done = effect.compiled(self.commits, self.now())
            if done is not None:
                trace.count_round(done[1])
                return done[0]
        parts: list[Trace] = []

        def attempt(rows: RowTransaction) -> tuple[T, Trace]:
            for failed in parts:
                failed.release()
            parts.append(part := trace.part())
            return effect.run(CountedStore(rows, self.now, self.chance, part)), part

        try:
            result, part = self.engine.transaction(attempt, self.timeout)
            trace.add(part)
        finally:
            for ended in parts:
                ended.release()
        return result

    def separately(self, effect: Separately[T], trace: Trace) -> T:
        """Runs the function outside of transactions."""
        return effect.run(CountedStore(SingleRequests(self.engine), self.now, self.chance, trace))

    def look(self, effect: Snapshot[T], trace: Trace, stop: threading.Event) -> T:
        """Runs the plan against one moment of the store; raises Closed soon after `stop` is set."""

        def attempt(rows: RowReads) -> T:
            def perform(asked: Any) -> Any:
                if stop.is_set():
                    raise Closed("the snapshot was cancelled")
                if type(asked) is Read or type(asked) is Scan:
                    answered = read_by(rows, asked)
                    trace.note(asked, answered)
                    return answered
                if type(asked) is Compiled:
                    return asked.run(CompiledReads(rows, trace))
                if type(asked) is Now:
                    return self.now()
                if type(asked) is Sleep:
                    stop.wait(asked.seconds)
                    return None
                raise Unsupported("a plan inside a snapshot may request reads and time", asked=type(asked).__name__)

            return drive(effect.plan(), perform)

        if not (self.engine.capabilities.snapshot and isinstance(self.engine, Snapshots)):
            raise Unsupported("this engine has no snapshots of the whole store")
        return self.engine.snapshot(attempt)


def _leave_unnamed(error: Corrupt) -> None:
    """Leaves the error of a row as it is: of a driver that knows no schema."""
