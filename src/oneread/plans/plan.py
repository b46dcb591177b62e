"""A plan: a generator that yields requests and effects, is sent their answers, and returns its result.

A plan cleans up in `finally` without yielding, and reads and decides before it writes. See "Plans" of the architecture
page.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

Plan: TypeAlias = Generator[Any, Any, T]
"""Yields `store.requests.Request` or `plans.effects.Effect`, is sent its answer, returns T."""


def drive(plan: Plan[T], perform: Callable[[Any], Any]) -> T:
    """Steps a plan to its end; an error of `perform` is raised inside the plan, at its `yield`."""
    try:
        asked = next(plan)
        while True:
            try:
                answer = perform(asked)
            except BaseException as failure:  # noqa: BLE001 - the plan may handle it; if not, `throw` raises it again
                asked = plan.throw(failure)
            else:
                asked = plan.send(answer)
    except StopIteration as stop:
        result: T = stop.value
        return result
