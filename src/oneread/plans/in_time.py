"""A plan that sends no write once its time is over: what purging relies on (rule P1 of the commit protocol)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from oneread.errors import Unavailable
from oneread.plans.effects import Together
from oneread.plans.plan import Plan
from oneread.store.requests import CheckAndMutate, Mutate

T = TypeVar("T")

_WRITES: Final = frozenset({Mutate, CheckAndMutate})


def in_time(plan: Plan[T], clock: Callable[[], float], seconds: float) -> Plan[T]:
    """A plan whose writes are all sent within so many seconds from now, by a clock that is never set.

    The first write that comes later is not sent: Unavailable is raised in its place, inside the plan.
    """
    return (yield from _until(plan, clock, clock() + seconds))


def _until(plan: Plan[T], clock: Callable[[], float], end: float) -> Plan[T]:
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
        if type(asked) in _WRITES and clock() > end:
            failure = Unavailable("this took too long, so that its writes are not sent any more; try again")
            continue
        if type(asked) is Together:
            asked = Together([_until(each, clock, end) for each in asked.plans])
        try:
            answer = yield asked
        except GeneratorExit:
            steps.close()
            raise
        except BaseException as error:  # noqa: BLE001 - the plan may handle it; if not, `throw` raises it again
            failure = error
