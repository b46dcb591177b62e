"""Adding up in the process: many adds become one transaction, after a time, a number of adds, or at the end.

What a process adds up is lost when it is killed: that of the last `seconds`, of at most about `size` adds. What was
flushed is counted once: a flush whose outcome is unknown is repeated with its token. See docs/explanation/counters.md.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import islice
from types import TracebackType
from typing import Final, Self

from oneread.counters.committer import ANY_COUNTER, Once
from oneread.counters.rows import TOKEN_BYTES, CounterSettings
from oneread.counters.wanted import Add, check_amount, check_name
from oneread.errors import Closed, LimitExceeded, OnereadError
from oneread.store.uninterrupted import run_uninterrupted

SECONDS: Final = 1.0
SIZE: Final = 100_000
MOST_NAMES: Final = 1_000_000
"""Counters that may wait: more are refused while the store takes none."""
IN_ONE: Final = 1000
"""Counters added to in one transaction."""

_log = logging.getLogger(__name__)

CommitPart = Callable[[Sequence[Add], Once], object]
"""Commits one part of a flush, in the thread that flushes."""

Blocking = Callable[[Callable[[], None]], Awaitable[None]]
"""Runs a function that blocks, beside the event loop."""


class _Flag:
    """Wakes the thread that waits for it.

    An Event has a lock that a signal handler's exception may leave locked: here each step is one of C.
    """

    __slots__ = ("_unset",)

    def __init__(self) -> None:
        self._unset = threading.Lock()
        self._unset.acquire()

    def set(self) -> None:
        with suppress(RuntimeError):  # it was set
            self._unset.release()

    def take(self, seconds: float = -1) -> None:
        """Waits until it is set, or so long, and clears it."""
        self._unset.acquire(timeout=seconds)

    def clear(self) -> None:
        self._unset.acquire(blocking=False)


class CounterBatch:
    """Adds up in the process: `with db.counter_batch() as batch: batch.add("views:42")`.

    `add` never waits for the store. A thread flushes when the oldest add has waited for `seconds`, and when `size` adds
    wait; leaving the block flushes the rest. May be used by many threads at once.
    """

    def __init__(
        self, commit: CommitPart, declared: CounterSettings, once_for: float, seconds: float, size: int
    ) -> None:
        self._commit = commit
        self._declared = declared
        self._once_for = once_for
        self._seconds = seconds
        self._size = size
        self._lock = threading.Lock()
        self._waiting: dict[str, int] = {}
        self._adds = 0
        self._closed = False
        self._full = _Flag()
        self._some = _Flag()
        self._flushing = threading.Lock()
        self._starting = threading.Lock()
        self._taken: dict[str, int] = {}  # of what waited, what is in no part yet
        self._parts: list[tuple[Sequence[Add], Once]] = []
        self._thread: threading.Thread | None = None
        _OPEN.add(self)

    def __repr__(self) -> str:
        return f"<CounterBatch: {self._adds} adds of {len(self._waiting)} counters wait>"

    @property
    def waiting(self) -> int:
        """Adds that wait in the process and are lost if it is killed now; those being flushed are not among them."""
        return self._adds

    def add(self, name: str, amount: int = 1) -> None:
        """Adds to a counter with the next flush. No request; under a microsecond.

        Raises:
            InvalidKey: the name is not text, empty or too long.
            InvalidValue: the amount is not a whole number of 64 bits.
            LimitExceeded: a million counters wait, because the store takes none.
            Closed: the batch was closed before this call.
        """
        if amount is not _ONE and (type(amount) is not int or not _LEAST <= amount <= _MOST):
            check_amount(amount)
        try:
            with self._lock:
                try:
                    self._waiting[name] += amount
                except KeyError:
                    self._add_first(name, amount)
                self._adds = adds = self._adds + 1
        except TypeError:  # not hashable
            check_name(name)
            raise
        if adds == self._size:
            self._full.set()

    def _add_first(self, name: str, amount: int) -> None:
        """Adds to a counter for which nothing waits: all adds of a closed batch, and the first after each flush."""
        if self._closed:
            raise Closed("this batch of counters was closed before this call")
        check_name(name)
        if len(self._waiting) >= MOST_NAMES:
            raise LimitExceeded("too many counters wait for a flush; see the log for why", waiting=len(self._waiting))
        if not self._waiting:
            self._wake()
        self._waiting[name] = amount

    def flush(self) -> None:
        """Stores what waits; returns when it is counted. One transaction for every 1,000 counters.

        Raises:
            OnereadError: what the store raised. Nothing is forgotten: the next flush continues, and counts nothing
                twice.
        """
        with self._flushing:
            self._split()  # of a flush that failed: first, so that adds of the same counters are added up meanwhile
            self._store()
            with self._lock:
                self._taken, self._waiting, self._adds = self._waiting, {}, 0
                self._lower_full()
            self._split()
            self._store()

    def close(self) -> None:
        """Flushes, and ends the thread; closing twice does nothing.

        Raises:
            OnereadError: the store did not take the last adds. `flush` tries them again.
        """
        with self._lock:
            self._closed = True
        self._full.set()
        self._some.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        _OPEN.discard(self)
        self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _store(self) -> None:
        while self._parts:
            adds, once = self._parts[0]
            self._commit(adds, once)
            del self._parts[0]

    def _split(self) -> None:
        """Makes parts of what was taken, each with a token of its own: it stays the same until the part is stored.

        They are kept in one step: where this is interrupted, the next flush finds what was taken.
        """
        adds = (Add(check_name(name), amount, self._declared) for name, amount in self._taken.items() if amount)
        parts = list(self._parts)
        while part := list(islice(adds, IN_ONE)):
            parts.append((part, Once(ANY_COUNTER, os.urandom(TOKEN_BYTES), self._once_for)))
        self._parts, self._taken = parts, {}

    def _wake(self) -> None:
        """Starts the clock of the oldest add that waits, and the thread with the first of all."""
        self._some.set()
        if self._thread is None:
            run_uninterrupted(self._start)

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="oneread-counters", daemon=True)
                thread.start()
                self._thread = thread

    def _lower_full(self) -> None:
        """Clears what a number of adds has set, and not what `close` sets; holding the lock."""
        if not self._closed:
            self._full.clear()

    def _is_closed(self) -> bool:
        return self._closed

    def _run(self) -> None:
        while True:
            self._some.take()
            self._full.take(self._seconds)
            if self._is_closed():
                return
            try:
                self.flush()
            except Exception as failure:  # noqa: BLE001 - the thread continues whatever a flush raises
                self._some.set()
                level = logging.WARNING if isinstance(failure, OnereadError) else logging.ERROR
                _log.log(level, "could not store what counters were added; trying again", exc_info=failure)
                with self._lock:
                    self._lower_full()  # not at once
            if self._adds:
                self._some.set()

    def forget(self) -> None:
        """Drops what waits. Done in the child of a fork: it is the parent's to store, and its thread is not here."""
        self._lock, self._flushing, self._starting = threading.Lock(), threading.Lock(), threading.Lock()
        self._full, self._some = _Flag(), _Flag()
        self._waiting, self._taken, self._adds, self._parts, self._thread = {}, {}, 0, [], None


class AsyncCounterBatch(CounterBatch):
    """Adds up in the process: `async with db.counter_batch() as batch: batch.add("views:42")`.

    As `CounterBatch`; leaving the block lets other tasks run while it flushes. `flush` and `close` block.
    """

    def __init__(
        self,
        commit: CommitPart,
        declared: CounterSettings,
        once_for: float,
        seconds: float,
        size: int,
        run: Blocking,
    ) -> None:
        super().__init__(commit, declared, once_for, seconds, size)
        self._run_blocking = run

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._run_blocking(self.close)


_ONE: Final = 1
"""What most adds add: CPython has one object for it, which needs no check."""
_MOST: Final = (1 << 63) - 1
_LEAST: Final = -(1 << 63)
_OPEN: weakref.WeakSet[CounterBatch] = weakref.WeakSet()


def _forget_all() -> None:
    for batch in list(_OPEN):
        batch.forget()


os.register_at_fork(after_in_child=_forget_all)
