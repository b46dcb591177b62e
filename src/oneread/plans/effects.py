"""What a plan may request besides rows: time, chance, concurrency, a function in a transaction, a plan in a snapshot.

See "Plans" of the architecture page.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from oneread.plans.counted import CompiledReads, CountedStore
from oneread.plans.plan import Plan
from oneread.store.engine import CompiledCommits, Requests
from oneread.store.requests import Answer

T = TypeVar("T")


class Effect(msgspec.Struct, Generic[Answer], frozen=True, gc=False):
    """A base of effects: a plan yields one and is sent its answer."""

    def __iter__(self) -> Generator[Any, Any, Answer]:
        answer: Answer = yield self
        return answer


class Now(Effect[int], frozen=True, gc=False):
    """The database's clock: whole milliseconds since 1970."""


class Sleep(Effect[None], frozen=True, gc=False):
    """Waits for that many seconds."""

    seconds: float


class Random(Effect[float], frozen=True, gc=False):
    """A number from 0 (included) to 1 (excluded)."""


class Together(Effect["list[T]"], Generic[T], frozen=True, gc=False):
    """Several independent plans, in parallel where the driver can: one round trip.

    Answers their results in the same order.
    """

    plans: Sequence[Plan[T]]


class Reserve(Effect[None], frozen=True, gc=False):
    """Keeps so many requests and rows of the budget for what follows; raises BudgetExceeded where it has not so much.

    What the plan requests from now on is counted, and never refused: a commit that is made must be completed.
    """

    requests: int
    rows: int


class Snapshot(Effect[T], Generic[T], frozen=True, gc=False):
    """A plan that reads ONE moment of the store; only on engines whose `capabilities.snapshot` is true.

    `plan` makes it. It may yield `Read`, `Scan`, `Compiled`, `Now` and `Sleep`, nothing else. It should be
    short: while it runs, the store keeps what that moment needs.
    """

    plan: Callable[[], Plan[T]]


class Compiled(Effect[T], Generic[T], frozen=True, gc=False):
    """A function of what compiled code reads; only inside of a `Snapshot`."""

    run: Callable[[CompiledReads], T]


class Atomically(Effect[T], Generic[T], frozen=True, gc=False):
    """A function of a `CountedStore` inside ONE engine transaction; only on engines whose transactions span rows.

    It is called again for each attempt, because a transaction that shared a failing commit runs again, and so does one
    that was decided on rows that have changed. It reads and decides first and writes last.
    """

    run: Callable[[CountedStore], T]
    compiled: Callable[[CompiledCommits, int], tuple[T, Requests] | None] | None = None
    """Does the same by compiled code, at a time: the result, and its requests.

    None, with nothing written, where only the function can.
    """


class Separately(Effect[T], Generic[T], frozen=True, gc=False):
    """A function of a `CountedStore` outside of transactions: each of its reads is a request by itself.

    For what is decided before a transaction by the functions that decide in it.
    """

    run: Callable[[CountedStore], T]
