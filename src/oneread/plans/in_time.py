"""Plans that end in time.

`in_time` sends no write once its time is over: what purging relies on (rule P1 of the commit protocol). `in_whole_time`
asks for nothing any more.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from oneread.errors import Unavailable, UsageError
from oneread.plans.effects import Now, Random, Reserve, Sleep, Snapshot, Together
from oneread.plans.performer import elapsed
from oneread.plans.plan import Plan
from oneread.store.requests import CheckAndMutate, Mutate

T = TypeVar("T")

_WRITES: Final = frozenset({Mutate, CheckAndMutate})
_AT_ONCE: Final = frozenset({Now, Random, Reserve, Together, Snapshot})
"""What nothing is waited for, or is asked for part by part."""

_NOT_DONE: Final = "this was not done within its timeout; give it more seconds"
_TOO_LATE: Final = "this took too long, so that its writes are not sent any more; try again"


class OutOfTime(Unavailable):
    """A whole call takes longer than its `timeout`."""


def in_time(plan: Plan[T], clock: Callable[[], float], seconds: float) -> Plan[T]:
    """A plan whose writes are all sent within so many seconds from now, by a clock that is never set.

    The first write that comes later is not sent: Unavailable is raised in its place, inside the plan.
    """
    end = clock() + seconds

    def refuse(asked: Any) -> Any:
        if type(asked) in _WRITES and clock() > end:
            raise Unavailable(_TOO_LATE)
        return asked

    return (yield from _until(plan, refuse))


def in_whole_time(plan: Plan[T], timeout: float | None) -> Plan[T]:
    """A plan that asks for nothing more once so many seconds have passed: OutOfTime is raised inside it instead.

    A request that is under way then is waited for. The plan raises Unavailable where it does not end with what it has.

    Raises:
        UsageError: this is not a number of seconds greater than 0.
    """
    if timeout is None:
        return plan
    if type(timeout) not in (int, float) or not timeout > 0:
        raise UsageError("expected a number greater than 0", option="timeout", value=timeout)
    return _until_end(plan, timeout)


def _until_end(plan: Plan[T], timeout: float) -> Plan[T]:
    end = elapsed() + min(timeout, sys.float_info.max)  # an int may be more than a float holds

    def refuse(asked: Any) -> Any:
        left = end - elapsed()
        if left <= 0 and type(asked) not in _AT_ONCE:
            raise OutOfTime(_NOT_DONE, timeout=timeout)
        return Sleep(min(asked.seconds, left)) if type(asked) is Sleep else asked

    try:
        return (yield from _until(plan, refuse))
    except OutOfTime as error:
        raise Unavailable(error.message, **error.facts) from None


def _until(plan: Plan[T], refuse: Callable[[Any], Any]) -> Plan[T]:
    """A plan of which each effect passes through `refuse`, which may change it or raise."""
    steps = iter(plan)
    answer: Any = None
    failure: BaseException | None = None
    while True:
        try:
            asked = steps.send(answer) if failure is None else steps.throw(failure)
        except StopIteration as stop:
            result: T = stop.value
            return result
        answer, failure = None, None
        try:
            answer = yield _with_parts(refuse(asked), refuse)
        except GeneratorExit:
            steps.close()
            raise
        except BaseException as error:  # noqa: BLE001 - the plan may handle it; if not, `throw` raises it again
            failure = error


def _with_parts(asked: Any, refuse: Callable[[Any], Any]) -> Any:
    """An effect with the plans in it passing through `refuse` as well."""
    if type(asked) is Together:
        return Together([_until(each, refuse) for each in asked.plans])
    if type(asked) is Snapshot:

        def plan() -> Plan[Any]:
            return _until(asked.plan(), refuse)

        return msgspec.structs.replace(asked, plan=plan)
    return asked
