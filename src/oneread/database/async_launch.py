"""One launch: which of two functions answers a call, and what is compared in the dark.

The synchronous face is generated from this module. See docs/decisions/0142-dark-launch-of-functions.md.
"""

from __future__ import annotations

import logging
from asyncio import CancelledError, timeout  # async only
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, copy_context
from datetime import UTC, datetime
from functools import partial
from random import random
from time import perf_counter
from typing import Any, Final, Generic, NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar

from oneread.errors import (
    BudgetExceeded,
    NotReady,
    SchemaMismatch,
    StoreError,
    Unsupported,
    UsageError,
)
from oneread.launches.account import IS_DARK, TimedAllowance
from oneread.launches.dark_tasks import DarkTasks  # async only

# sync only: from oneread.launches.dark_threads import DarkThreads
from oneread.launches.differences import (
    FoundDifference,
    LaunchDifference,
    ResultForms,
    SideOutcome,
    at_both_looks,
    compare_outcomes,
    unchanged,
)
from oneread.launches.keeper import LaunchKeeper
from oneread.launches.options import LaunchOptions
from oneread.launches.sides import STICKY, UNSET
from oneread.launches.tallies import BOUNDS, SideTally, latency_bucket
from oneread.launches.tracks import LaunchTrack
from oneread.plans.allowance import CURRENT, Allowance, leave

P = ParamSpec("P")
R = TypeVar("R")

AsyncAnswer: TypeAlias = Callable[P, Awaitable[R]]  # async only
# sync only: AsyncAnswer: TypeAlias = Callable[P, R]
AsyncAsked: TypeAlias = Callable[[], Awaitable[Any]]  # async only
# sync only: AsyncAsked: TypeAlias = Callable[[], Any]
AsyncLook: TypeAlias = Callable[[], Coroutine[Any, Any, Any]]  # async only
# sync only: AsyncLook: TypeAlias = Callable[[], Any]

_LOOKS_BEHIND: Final = 15
"""How often it is looked whether a new side has followed; it is late then."""
_UNREADABLE: Final = (NotReady, Unsupported, SchemaMismatch)
"""Errors with which the new side cannot answer at all."""

_log = logging.getLogger(__name__)
_CANCELLED: Final = (CancelledError, GeneratorExit)  # async only
# sync only: _CANCELLED: Final = ()


class AsyncLaunchHost(Protocol):
    """What a launch needs of the launches of its database."""

    keeper: LaunchKeeper
    forms: ResultForms
    dark: DarkTasks  # async only
    # sync only: dark: DarkThreads

    async def renew(self, track: LaunchTrack, now: float) -> None: ...


class LaunchedCall(NamedTuple):
    """One call that both sides answer: arguments, how it was answered, and what that took."""

    options: LaunchOptions
    context: Context
    given: tuple[Any, ...]
    named: dict[str, Any]
    is_new: bool
    outcome: SideOutcome
    took: Allowance
    spent: list[float]
    """Seconds of each dark read so far."""

    @property
    def waiting(self) -> int:
        """How many calls may wait for a dark read."""
        return self.options.waiting

    @property
    def in_flight(self) -> int:
        """How many dark reads there may be at a time."""
        return self.options.in_flight

    @property
    def left(self) -> float:
        """Seconds that dark reads of this call still have."""
        return self.options.deadline - sum(self.spent)


class AsyncFollowing(NamedTuple):
    """Of a new side that follows the old one: where the old one is, and whether the new one has followed to there.

    Without a position, whether it follows still.
    """

    position: AsyncAsked
    has_passed: Callable[[Any], Awaitable[bool]]  # async only
    # sync only: has_passed: Callable[[Any], bool]


class AsyncDarkAnswer(NamedTuple):
    """What a function answered in the dark in time, or what it raised; and what that took."""

    result: Any
    failure: BaseException | None
    seconds: float
    took: Allowance


class LaunchedSides(NamedTuple, Generic[P, R]):
    """What `launch` is given; and how a new side is waited for that follows the old one."""

    old: AsyncAnswer[P, R]
    new: AsyncAnswer[P, R]
    key: Callable[P, object]
    equal: Callable[[R, R], bool] | None
    following: AsyncFollowing | None = None


class AsyncLaunch(Generic[P, R]):
    """Two functions of one signature, called as the old one was: `await top("2026-11", limit=5)`.

    See `AsyncDatabase.launch`.
    """

    def __init__(self, launches: AsyncLaunchHost, name: str, sides: LaunchedSides[P, R]) -> None:
        self._launches = launches
        self._track = launches.keeper.track(name)
        self._old, self._new, self._key, self._equal, self._following = sides
        self._misused: dict[str, Exception] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._track.name!r}>"

    @property
    def name(self) -> str:
        """The name of the launch."""
        return self._track.name

    def rests(self) -> bool:
        """Whether the old side answers all, as far as is known, and nothing is compared: counts one answer then."""
        track = self._track
        if not track.is_plain or perf_counter() >= track.due:
            return False
        track.tally.old.answered += 1
        return True

    async def __call__(self, *given: P.args, **named: P.kwargs) -> R:
        """Answers by one of the two functions, and returns or raises what it does.

        What the new one raises is raised only where it is a UsageError; else the old one answers.
        """
        track = self._track
        started = perf_counter()
        if started >= track.due:
            await self._launches.renew(track, started)
        if not track.is_plain:
            return await self._answer(started, given, named)
        result = await self._old(*given, **named)
        seconds = perf_counter() - started
        tally = track.tally.old  # counted as `note_answer` does, since nothing else is done for most calls
        tally.answered += 1
        tally.answers[bisect_right(BOUNDS, seconds)] += 1
        if self._launches.keeper.meter is not None:
            self._note_metered(seconds, is_new=False)
        return result

    def _note_answer(self, started: float, *, is_new: bool) -> None:
        seconds = perf_counter() - started
        tally = self._track.tally
        (tally.new if is_new else tally.old).note_answer(seconds)
        self._note_metered(seconds, is_new=is_new)

    def _note_metered(self, seconds: float, *, is_new: bool) -> None:
        meter = self._launches.keeper.meter
        if meter is not None:
            meter.note_launch_answer(self._track.name, "new" if is_new else "old", seconds)

    async def _answer(self, started: float, given: tuple[Any, ...], named: dict[str, Any]) -> R:
        track = self._track
        is_new = self._is_new(given, named)
        if IS_DARK.get():
            return await (self._new if is_new else self._old)(*given, **named)
        state = track.state
        if state is None or not random() < (track.check if is_new else track.shadow):
            return await self._answer_alone(started, given, named, is_new=is_new)
        context = copy_context()
        took = Allowance((None, None, None), outer=CURRENT.get())
        call = LaunchedCall(state.options, context, given, named, is_new, SideOutcome(), took, [])
        failed = track.tally.new.failed
        try:
            CURRENT.set(took)
            result = await self._answer_alone(started, given, named, is_new=is_new)
        except Exception as error:
            self._compare_later(call._replace(outcome=SideOutcome(error=type(error))))
            raise
        finally:
            leave(took)
        if not is_new or track.tally.new.failed == failed:  # else the old side has answered instead
            self._compare_later(call._replace(outcome=SideOutcome(result)))
        return result

    def _is_new(self, given: tuple[Any, ...], named: dict[str, Any]) -> bool:
        """Whether the new side answers; the old one does where the key cannot be had."""
        track = self._track
        if track.is_finished or not track.buckets:
            return track.is_finished
        key = STICKY.get()
        if key is None:
            return False
        try:
            return track.is_new(self._key(*given, **named) if key is UNSET else key)
        except Exception as error:  # noqa: BLE001 - of the user's function
            self._note_misuse("key", error)
            return False

    def _note_misuse(self, what: str, error: Exception) -> None:
        """Counts that `key` or `equal` has raised, and logs it the first time."""
        if self._misused.setdefault(what, error) is error:
            failure = UsageError(
                "a function of a launch has raised; the old side answers", launch=self.name, given=what
            )
            failure.__cause__ = error
            _log.error("%s", failure, exc_info=failure)
        self._track.tally.new.failed += 1

    async def _answer_alone(self, started: float, given: tuple[Any, ...], named: dict[str, Any], *, is_new: bool) -> R:
        """Answers by one side; by the old one where the new one fails."""
        if is_new and not self._track.is_finished:
            try:
                result = await self._new(*given, **named)
            except Exception as error:
                if isinstance(error, UsageError) and not isinstance(error, _UNREADABLE):
                    raise
                self._note_failure(error)
                is_new = False
                result = await self._old(*given, **named)
        else:
            result = await (self._new if is_new else self._old)(*given, **named)
        self._note_answer(started, is_new=is_new)
        return result

    def _note_failure(self, error: Exception) -> None:
        """Counts that the new side could not answer."""
        track = self._track
        track.tally.new.failed += 1
        if isinstance(error, _UNREADABLE):
            track.refuse(f"{type(error).__name__}: {error.message}")
            _log.warning("launch %s: the old side answers in this process: %s", track.name, error)

    def _compare_later(self, call: LaunchedCall) -> None:
        if not self._launches.dark.offer(call, partial(self._look, call)):
            self._track.tally.dropped += 1

    async def _look(self, call: LaunchedCall) -> None:
        """The first look: reads the other side, and compares."""
        outcome = await self._read(call, is_new=not call.is_new)
        if outcome is None:
            return
        tally = self._track.tally
        side = tally.new if call.is_new else tally.old
        _note_cost(side, call.took)
        found = self._compare(call.outcome, outcome) if not call.is_new else self._compare(outcome, call.outcome)
        if found == []:
            tally.compared += 1
        elif found and self._following is None:
            self._later(call, partial(self._look_again, call, found))
        elif found and self._following is not None:
            position = await self._ask(call, self._following.position)
            if position is not None:
                self._later(call, partial(self._look_behind, call, self._following, position, _LOOKS_BEHIND))

    def _later(self, call: LaunchedCall, look: AsyncLook) -> None:
        if not self._launches.dark.offer_later(call, look, call.options.settle):
            self._track.tally.dropped += 1

    async def _look_again(self, call: LaunchedCall, before: list[FoundDifference]) -> None:
        """The second look: reads both sides; what is there at both looks is a difference."""
        old = await self._read(call, is_new=False)
        new = None if old is None else await self._read(call, is_new=True)
        found = None if old is None or new is None else self._compare(old, new)
        if found is not None:
            self._note(call, at_both_looks(before, found))

    async def _look_behind(self, call: LaunchedCall, following: AsyncFollowing, position: Any, looks: int) -> None:
        """The second look at a new side that follows: behind what it may have lacked at the first one.

        It reads the old side behind the new one. So what the old side shows now as it did when it answered was not
        changed in between, and the new side has it; what was changed does not count.
        """
        passed = await self._ask(call, partial(following.has_passed, position))
        if passed:
            new = await self._read(call, is_new=True)
            old = None if new is None else await self._read(call, is_new=False)
            if old is None or new is None:
                return
            passed = await self._ask(call, partial(following.has_passed, None))  # else it may have been ahead
            if passed:
                before, found = self._compare(call.outcome, new), self._compare(old, new)
                if before is not None and found is not None:
                    self._note(call, unchanged(before, found))
                return
        if passed is None:
            return
        if looks > 1:
            self._later(call, partial(self._look_behind, call, following, position, looks - 1))
        else:
            self._track.tally.late += 1

    def _note(self, call: LaunchedCall, found: list[FoundDifference]) -> None:
        """Counts what was compared at two looks, and has its differences stored."""
        tally = self._track.tally
        tally.compared += 1
        if not found:
            tally.settled += 1
            return
        tally.differing += 1
        for each in found:
            tally.differ[each.kind] += 1
            if each.kind == "failed":
                (tally.old if each.new is None else tally.new).failed += 1
        self._launches.keeper.add_differences([self._difference(call, each) for each in found])

    async def _read(self, call: LaunchedCall, *, is_new: bool) -> SideOutcome | None:
        """How a side answers, in the dark; None where that cannot be compared, which is counted."""
        tally = self._track.tally
        side = tally.new if is_new else tally.old
        function = self._new if is_new else self._old
        answer = await self._answer_dark(call, partial(function, *call.given, **call.named))
        if answer is None:
            return None
        if isinstance(answer.failure, StoreError):
            side.failed += 1
            return None
        side.dark[latency_bucket(answer.seconds)] += 1
        if len(call.spent) == 1:
            _note_cost(side, answer.took)
        return SideOutcome(answer.result, None if answer.failure is None else type(answer.failure))

    async def _ask(self, call: LaunchedCall, function: AsyncAsked) -> Any:
        """What a function says in the dark about the sides; None where it cannot, which is counted."""
        answer = await self._answer_dark(call, function)
        if answer is None or answer.failure is None:
            return None if answer is None else answer.result
        self._track.tally.dropped += 1
        return None

    async def _answer_dark(self, call: LaunchedCall, function: AsyncAsked) -> AsyncDarkAnswer | None:
        """What a function answers within the bounds of a dark read; None beyond them, which is counted."""
        tally = self._track.tally
        began, left = perf_counter(), call.left
        allowance = TimedAllowance(call.options.requests, call.options.rows, began + left)
        CURRENT.set(allowance)
        IS_DARK.set(True)
        result: Any = None
        failure: BaseException | None = None
        try:
            # sync only: result = function()
            async with timeout(left):  # async only
                result = await function()
        except _CANCELLED:
            raise
        except BaseException as error:  # noqa: BLE001 - a user's function may raise whatever it likes
            failure = error
        seconds = perf_counter() - began
        call.spent.append(seconds)
        if seconds > left:
            tally.late += 1
            return None
        if isinstance(failure, BudgetExceeded):
            tally.dropped += 1
            return None
        return AsyncDarkAnswer(result, failure, seconds, allowance)

    def _compare(self, old: SideOutcome, new: SideOutcome) -> list[FoundDifference] | None:
        """What differs; None where `equal` raises."""
        try:
            return compare_outcomes(old, new, self._equal, self._launches.forms)
        except Exception as error:  # noqa: BLE001 - of the user's function
            self._note_misuse("equal", error)
            return None

    def _difference(self, call: LaunchedCall, found: FoundDifference) -> LaunchDifference:
        try:
            key = self._key(*call.given, **call.named)
        except Exception:  # noqa: BLE001 - it was counted when the call was answered
            key = ()
        verb = getattr(self._old, "__name__", type(self._old).__name__)
        return stored_difference(self._launches, self.name, verb, key, found)


def stored_difference(
    launches: AsyncLaunchHost, name: str, verb: str, key: Any, found: FoundDifference
) -> LaunchDifference:
    """A difference as it is stored."""
    plain = launches.forms.plain
    return LaunchDifference(
        launch=name,
        at=datetime.now(UTC),
        process=launches.keeper.name,
        verb=verb,
        key=as_tuple(plain(key)),
        kind=found.kind,
        row=as_tuple(plain(found.row)),
        place=found.place,
        old=plain(found.old),
        new=plain(found.new),
        fields=found.fields,
    )


def as_tuple(key: Any) -> tuple[Any, ...]:
    """The parts of a key in its JSON form."""
    return tuple(key) if isinstance(key, list | tuple) else (key,)


def _note_cost(side: SideTally, took: Allowance) -> None:
    side.requests += took.requests
    side.rows += took.rows
    side.bytes += took.bytes
