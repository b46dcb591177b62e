"""What a plan requested of the store: the one place where costs, logs, metrics and tests see requests.

See "Nothing is fetched that you did not ask for" of the API page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from oneread.plans.allowance import CURRENT, NOTHING, Allowance
from oneread.store.engine import Requests
from oneread.store.requests import CheckAndMutate, Increment, Mutate, Read, Replace, Request, Scan
from oneread.store.rows import Row

Observer: TypeAlias = Callable[[Request[Any], Any], None]
"""Called with every request and its answer, in the order in which they were made."""


class Cost(msgspec.Struct, frozen=True):
    """What a result cost.

    Arguments:
        requests: store requests made.
        rows: rows asked for by key, returned by scans, and written.
        bytes: bytes of keys and values read and written.
        skipped: rows that were read and not shown (tombstones, rows that a condition leaves out).
        rounds: requests that waited for the answer of another one: round trips, if independent requests are made at the
            same time. A transaction over several rows is one.
    """

    requests: int = 0
    rows: int = 0
    bytes: int = 0
    skipped: int = 0
    rounds: int = 0


class HasCost(Protocol):
    """Something with a cost: a trace, or a read of the fast path."""

    @property
    def cost(self) -> Cost: ...


class RoundCost:
    """The cost of requests that took one round, counted when it is asked for."""

    __slots__ = ("_requests",)

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    @property
    def cost(self) -> Cost:
        rows, sizes = zip(*self._requests, strict=True)
        return Cost(len(rows), sum(rows), sum(sizes), 0, 1)


class Trace:
    """Counts what one operation requests of the store, calls observers, and keeps within the budget.

    The budget is that of the thread or task which makes the trace, in whatever thread its requests run. No request is
    made after `deadline`, in seconds of `elapsed`.
    """

    __slots__ = (
        "_begun", "_reserved", "_whole", "allowance", "bytes", "deadline", "observers",
        "overlapped", "requests", "rows", "skipped",
    )  # fmt: skip

    def __init__(self, observers: tuple[Observer, ...] = (), deadline: float | None = None) -> None:
        self.requests = 0
        self.rows = 0
        self.bytes = 0
        self.skipped = 0
        # Requests that took no round of their own. Rounds are not counted one by one: most requests are one.
        self.overlapped = 0
        self.observers = observers
        self.allowance: Allowance | None = CURRENT.get()
        self.deadline = deadline
        self._whole = True
        self._reserved = False
        self._begun = NOTHING

    def admit(self, request: Request[Any]) -> None:
        """Raises BudgetExceeded before a request that would exceed the budget, with what others have under way."""
        if self.allowance is None or self._reserved:
            return
        self.release()  # of a request that failed
        rows, size = _size_before(request)
        self.allowance.begin(1, rows, size)
        self._begun = (1, rows, size)

    def reserve(self, requests: int, rows: int) -> None:
        """Raises BudgetExceeded when the budget has not so much left; from now on nothing is refused.

        What was reserved is under way until `release`.
        """
        if self.allowance is not None:
            self.release()
            self.allowance.begin(requests, rows, 0)
            self._begun = (requests, rows, 0)
        self._reserved = True

    @property
    def is_watched(self) -> bool:
        """Whether each request is seen, or may be refused, before the next one."""
        return self.allowance is not None or bool(self.observers)

    def release(self) -> None:
        """Nothing of this trace is under way any more."""
        begun, self._begun = self._begun, NOTHING
        if begun is not NOTHING and self.allowance is not None:
            self.allowance.end(begun)

    def note(self, request: Request[Any], answer: Any) -> None:
        """Counts one answered request; BudgetExceeded when it exceeds the budget."""
        rows, size = _MEASURES[type(request)](request, answer)
        self.show(request, answer)
        self.count(rows, size)

    def show(self, request: Request[Any], answer: Any) -> None:
        """Shows one answered request to the observers."""
        for observer in self.observers:
            observer(request, answer)

    def count(self, rows: int, size: int) -> None:
        """Counts one request; BudgetExceeded when it exceeds the budget."""
        self.requests += 1
        self.rows += rows
        self.bytes += size
        if self.allowance is None:
            return
        begun = self._begun
        if self._reserved:  # what is counted leaves less of what was reserved
            counted = (min(1, begun[0]), min(rows, begun[1]), 0) if begun is not NOTHING else NOTHING
            self._begun = (begun[0] - counted[0], begun[1] - counted[1], 0) if begun is not NOTHING else NOTHING
            self.allowance.count(1, rows, size, counted)
        elif self._whole:
            self._begun = NOTHING
            self.allowance.charge(1, rows, size, begun)
        else:
            self.allowance.begin(1, rows, size)
            self._begun = (self.requests, self.rows, self.bytes)

    def count_round(self, requests: Requests) -> None:
        """Counts requests that took one round."""
        for rows, size in requests:
            self.count(rows, size)
        self._overlap(len(requests) - 1)

    def branch(self) -> Trace:
        """A trace for requests that are made at the same time as others; `join` adds its counts to this one."""
        branch = Trace(self.observers, self.deadline)
        branch.allowance, branch._whole, branch._reserved = self.allowance, self._whole, self._reserved
        return branch

    def join(self, branches: Sequence[Trace]) -> None:
        """Adds the counts of branches, which have charged the budget: as many rounds as the longest of them has."""
        for each in branches:
            self._add(each)
        self._overlap(sum([each.rounds for each in branches]) - max([each.rounds for each in branches], default=0))

    def add(self, part: Trace) -> None:
        """Adds the counts of a finished part, which was one round."""
        self._add(part)
        if self.allowance is not None:
            begun, part._begun = part._begun, NOTHING
            self.allowance.count(part.requests, part.rows, part.bytes, begun)
        if part.requests:
            self._overlap(part.rounds - 1)

    def _add(self, other: Trace) -> None:
        self.requests += other.requests
        self.rows += other.rows
        self.bytes += other.bytes
        self.skipped += other.skipped
        self.overlapped += other.overlapped

    def _overlap(self, rounds: int) -> None:
        """Takes back rounds that were counted one after the other."""
        self.overlapped += rounds
        if self.allowance is not None:
            self.allowance.overlap(rounds)

    def part(self) -> Trace:
        """A trace for a part that may run again: added to this one, and to the budget, when the part succeeds."""
        part = Trace(self.observers)
        part.allowance, part._whole = self.allowance, False
        return part

    @property
    def rounds(self) -> int:
        """Requests that waited for the answer of another one."""
        return self.requests - self.overlapped

    @property
    def cost(self) -> Cost:
        return Cost(self.requests, self.rows, self.bytes, self.skipped, self.requests - self.overlapped)


def bytes_of(rows: Iterable[Row | None]) -> int:
    """Bytes of all values; plain loops, because most rows have one cell."""
    size = 0
    for row in rows:
        if row is not None:
            for cell in row.values():
                size += len(cell.value)
    return size


def bytes_of_found(found: Iterable[tuple[bytes, Row | None]]) -> int:
    """Bytes of the keys and values of rows that a scan found, or that are stored or removed."""
    size = 0
    for key, row in found:
        size += len(key)
        if row is not None:
            for cell in row.values():
                size += len(cell.value)
    return size


def _size_before(request: Request[Any]) -> tuple[int, int]:
    """The rows and bytes that are known of a request before it is answered."""
    if type(request) is Read:
        return len(request.keys), 0
    return (0, 0) if type(request) is Scan else _MEASURES[type(request)](request, None)


_MEASURES: dict[type[Request[Any]], Callable[[Any, Any], tuple[int, int]]] = {
    Read: lambda asked, answer: (len(asked.keys), bytes_of(answer)),
    Scan: lambda _asked, answer: (len(answer), bytes_of_found(answer)),
    Mutate: lambda asked, _answer: (
        len(asked.rows),
        sum([len(row.key) for row in asked.rows]) + bytes_of([row.puts for row in asked.rows]),
    ),
    CheckAndMutate: lambda asked, _answer: (1, len(asked.mutation.key) + bytes_of([asked.mutation.puts])),
    Increment: lambda asked, _answer: (1, len(asked.key) + 8),
    Replace: lambda asked, _answer: (len(asked.rows), bytes_of_found(asked.rows.items())),
}
