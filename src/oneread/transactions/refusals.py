"""Which errors refuse one change, which one part of a task, and which end the work: here for both kinds of store.

A part of a task is a holder, a group, a row of a feed, a whole source. Whatever it meets is one of two: its own, and it
is set aside by name while the others go on; or the store's, and the task is tried again. See
docs/decisions/0116-what-a-task-meets.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from oneread.errors import (
    BudgetExceeded,
    Closed,
    Conflict,
    Corrupt,
    LimitExceeded,
    NotUnique,
    OnereadError,
    OutcomeUnknown,
    SchemaMismatch,
    Unavailable,
    UsageError,
)
from oneread.plans.plan import Plan

T = TypeVar("T")

_REFUSALS: Final = (UsageError, LimitExceeded, Conflict)
_NOT_REFUSALS: Final = (BudgetExceeded, Closed, SchemaMismatch)
"""Errors that end the work instead, though some are a kind of those."""

ENDING: Final = (*_NOT_REFUSALS, Unavailable, OutcomeUnknown)
"""Errors against which a smaller batch does not help, and which no part of it causes."""

_OF_ROWS: Final = (Corrupt, NotUnique)
"""What requests raise that is about one row all the same: claims are taken by plans that run together."""


def is_refusal(error: BaseException) -> bool:
    """Whether an error refuses the change that was being decided; any other ends the work."""
    return isinstance(error, _REFUSALS) and not isinstance(error, _NOT_REFUSALS)


def is_of_part(error: BaseException) -> bool:
    """Whether an error that no request raised is of the part of a task that was being done."""
    return isinstance(error, Corrupt) or (is_refusal(error) and not isinstance(error, Conflict))


class PartRefused(Exception):
    """A part of a task cannot be done, for a reason of its own: it is set aside with this error."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def raises_again(step: Callable[[], object], error: Exception) -> bool:
    """Whether a pure step raises an error of another library once more: if not, it came from outside."""
    if isinstance(error, MemoryError):
        return False
    try:
        step()
    except Exception as again:
        if type(again) is type(error):
            return True
        raise
    return False


def tell_apart(attempt: Callable[[], Plan[T]]) -> Plan[T]:
    """Attempts a part of a task that changes one row at a time; its own errors are PartRefused.

    What comes out of a request is the store's, as a full disk or a quota is, unless it is about one row. An error of
    another library may come from outside, as one that a signal handler raises: it is the part's when another attempt
    raises it again.

    Raises:
        PartRefused: it refuses for a reason of its own.
        Exception: anything else, as it was raised.
    """
    before: Exception | None = None
    while True:
        of_requests: list[BaseException] = []
        try:
            done = yield from _noting(attempt(), of_requests)
        except MemoryError:
            raise
        except OnereadError as error:
            if _is_of_part(error, is_of_request=any(error is each for each in of_requests)):
                raise PartRefused(error) from error
            raise
        except Exception as error:
            if any(error is each for each in of_requests) or (before and type(before) is not type(error)):
                raise
            if before is not None:
                raise PartRefused(error) from error
            before = error
        else:
            if before is not None:
                raise before
            return done


def _is_of_part(error: OnereadError, *, is_of_request: bool) -> bool:
    return isinstance(error, _OF_ROWS) if is_of_request else is_of_part(error)


def _noting(plan: Plan[T], raised: list[BaseException]) -> Plan[T]:
    """A plan, and what its requests raise."""
    answer: Any = None
    failure: BaseException | None = None
    while True:
        try:
            asked = plan.send(answer) if failure is None else plan.throw(failure)
        except StopIteration as stop:
            result: T = stop.value
            return result
        answer, failure = None, None
        try:
            answer = yield asked
        except GeneratorExit:
            plan.close()
            raise
        except BaseException as error:  # noqa: BLE001 - the plan may handle it; if not, `throw` raises it again
            failure = error
            raised.append(error)
