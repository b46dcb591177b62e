"""Requests whose answers are lost: made again while that does no harm, with a pause, and not for ever."""

from __future__ import annotations

from typing import Final, TypeVar

from oneread.errors import OutcomeUnknown, Unavailable
from oneread.plans.effects import Random, Sleep
from oneread.plans.plan import Plan
from oneread.plans.retry import backoff
from oneread.store.requests import Request

T = TypeVar("T")

LOOKS: Final = 30
"""Times that a request is made whose answer is lost, with pauses between them."""

_TRIES: Final = 3
"""The same before a commit point, without pauses."""

NOT_COMMITTED: Final = "the store does not answer; nothing was written; try again"
_LEFT: Final = "the store does not answer; what is left is done later"


def until_answered(request: Request[T]) -> Plan[T]:
    """A request that does no harm when it is made twice. Raises Unavailable: its answers are lost."""
    lost = 0
    while True:
        try:
            return (yield from request)
        except OutcomeUnknown:
            lost += 1
            yield from pause_for_answer(lost)


def pause_for_answer(lost: int, message: str = _LEFT) -> Plan[None]:
    """Pauses after so many lost answers, before whatever is tried next. Raises Unavailable: they are too many."""
    if lost >= LOOKS:
        raise Unavailable(message)
    yield from Sleep(backoff(lost - 1, (yield from Random())))


def surely(request: Request[T]) -> Plan[T]:
    """A request before the commit point, which may be made twice.

    Raises:
        Unavailable: its answers are lost. Nothing is committed.
    """
    for _ in range(_TRIES - 1):
        try:
            return (yield from request)
        except OutcomeUnknown:
            continue
    try:
        return (yield from request)
    except OutcomeUnknown as failure:
        raise Unavailable(NOT_COMMITTED) from failure
