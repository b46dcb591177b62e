"""What both drivers share: stepping a plan, and running a sub-plan inside one transaction or one snapshot.

See "Plans" of the architecture page.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from oneread.errors import Closed, Unavailable, Unsupported
from oneread.plans.effects import Atomically, Now, Random, Sleep, Snapshot
from oneread.plans.plan import Plan
from oneread.plans.trace import Trace
from oneread.store.engine import Answerer, Engine, Snapshots
from oneread.store.requests import REQUESTS, Read, Scan

LAST_MILLISECOND: Final = 253_402_300_799_999
"""The last of the year 9999: of what instants and generated keys can hold."""

T = TypeVar("T")
P = TypeVar("P", bound="Performer")


def wall_clock() -> int:
    """Whole milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def drive(plan: Plan[T], perform: Callable[[Any], Any]) -> T:
    """Steps a plan to its end; an error of `perform` is raised inside the plan, where it was asked for."""
    try:
        asked = next(plan)
        while True:
            try:
                answer = perform(asked)
            except BaseException as failure:  # noqa: BLE001 - the plan decides what a failure means; what it lets through goes on up
                asked = plan.throw(failure)
            else:
                asked = plan.send(answer)
    except StopIteration as stop:
        result: T = stop.value
        return result


class Performer:
    """One engine with the clock, the chance and the patience its plans see.

    Arguments:
        engine: answers the requests.
        clock: whole milliseconds since 1970.
        chance: uniform numbers in [0, 1).
        timeout: seconds a transaction waits for its turn before it raises Unavailable.
    """

    def __init__(
        self,
        engine: Engine,
        clock: Callable[[], int] = wall_clock,
        chance: Callable[[], float] = random.random,
        timeout: float = 30.0,
    ) -> None:
        self.engine = engine
        self.clock = clock
        self.chance = chance
        self.timeout = timeout

    def now(self) -> int:
        """What the clock shows.

        Raises:
            Unavailable: no time that a row can be stamped with.
        """
        now = self.clock()
        if type(now) is not int or not 0 <= now <= LAST_MILLISECOND:
            raise Unavailable(
                "the clock shows no whole milliseconds between the years 1970 and 9999; set it right", clock=now
            )
        return now

    def twin(self, kind: type[P]) -> P:
        """Another driver of the same engine, with the same clock, chance and patience."""
        return kind(self.engine, self.clock, self.chance, self.timeout)

    def transact(self, effect: Atomically[T], trace: Trace) -> T:
        """Runs the sub-plan in one engine transaction; an attempt that is run again is counted once."""

        def attempt(answer: Answerer) -> tuple[T, Trace]:
            part = trace.part()

            def perform(asked: Any) -> Any:
                if type(asked) in REQUESTS:
                    answered = answer(asked)
                    part.note(asked, answered)
                    return answered
                if type(asked) is Now:
                    return self.now()
                if type(asked) is Random:
                    return self.chance()
                raise Unsupported(
                    "a plan inside a transaction asks only for rows, time and chance", asked=type(asked).__name__
                )

            return drive(effect.plan(), perform), part

        result, part = self.engine.transaction(attempt, self.timeout)
        trace.add(part)
        return result

    def look(self, effect: Snapshot[T], trace: Trace, stop: threading.Event) -> T:
        """Runs the sub-plan against one moment of the store; ends with Closed soon after `stop` is set."""

        def attempt(answer: Answerer) -> T:
            def perform(asked: Any) -> Any:
                if stop.is_set():
                    raise Closed("the snapshot was cancelled")
                if type(asked) is Read or type(asked) is Scan:
                    answered = answer(asked)
                    trace.note(asked, answered)
                    return answered
                if type(asked) is Now:
                    return self.now()
                if type(asked) is Sleep:
                    stop.wait(asked.seconds)
                    return None
                raise Unsupported("a plan inside a snapshot asks only for reads and time", asked=type(asked).__name__)

            return drive(effect.plan(), perform)

        if not (self.engine.capabilities.snapshot and isinstance(self.engine, Snapshots)):
            raise Unsupported("this engine has no snapshots of the whole store")
        return self.engine.snapshot(attempt)
