"""How long to wait before trying again: exponential backoff with full jitter.

Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015 ("full jitter": a uniform share of an
exponentially growing, capped bound). `docs/decisions/0003-retry-arithmetic.md` says why this line is ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from oneread.errors import Conflict
from oneread.plans.effects import Random, Sleep
from oneread.plans.plan import Plan

T = TypeVar("T")

ATTEMPTS: Final = 30
"""Times that a change of one row is tried while others change the row."""

FIRST_SECONDS: Final = 0.002
LONGEST_SECONDS: Final = 1.0


def backoff(attempt: int, chance: float) -> float:
    """Seconds to wait after attempt number `attempt` (from 0) failed; `chance` is uniform in [0, 1)."""
    return chance * min(LONGEST_SECONDS, FIRST_SECONDS * 2.0**attempt)


def retrying(attempts: int, plan: Callable[[], Plan[T]]) -> Plan[T]:
    """Runs a new plan while it raises Conflict, at most `attempts` times; the last Conflict is raised."""
    for attempt in range(attempts - 1):
        try:
            return (yield from plan())
        except Conflict:
            yield from Sleep(backoff(attempt, (yield from Random())))
    return (yield from plan())
