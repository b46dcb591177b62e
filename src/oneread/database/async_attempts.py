"""The asynchronous face of attempts: a transaction whose body is a block that can be run again.

The synchronous face is generated from this module. See docs/decisions/0051-entity-groups-and-sequences.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Generic, Self, TypeAlias, TypeVar

from oneread.database.faces import AsyncFace
from oneread.database.transaction import TransactionWork
from oneread.errors import Conflict, UsageError

T = TypeVar("T")

CommitWork: TypeAlias = Callable[[TransactionWork], Awaitable[None]]  # async only
PauseAfter: TypeAlias = Callable[[int], Awaitable[None]]  # async only
# sync only: CommitWork: TypeAlias = Callable[[TransactionWork], None]
# sync only: PauseAfter: TypeAlias = Callable[[int], None]

_NOT_ENTERED = "an attempt was not entered: write `with attempt as group:` in the loop"


class AsyncAttempts(AsyncFace, Generic[T]):
    """The attempts of one transaction: `async for attempt in db.group(...)`.

    Ends after the attempt that committed, or that was left by an error. `begin` makes a transaction and the work behind
    it, `pause` waits after a lost attempt, numbered from 0.
    """

    def __init__(
        self, begin: Callable[[], tuple[T, TransactionWork]], commit: CommitWork, pause: PauseAfter, attempts: int
    ) -> None:
        if type(attempts) is not int or attempts < 1:
            raise UsageError("a transaction needs at least one attempt", attempts=attempts)
        self._begin = begin
        self._commit = commit
        self._pause = pause
        self._left = attempts
        self._lost = 0
        self._is_open = False
        self._is_done = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AsyncAttempt[T]:
        if self._is_open:
            self._is_done = True
            raise UsageError(_NOT_ENTERED)
        if self._is_done:
            raise StopAsyncIteration
        if self._lost:
            await self._pause(self._lost - 1)
        self._is_open = True
        return AsyncAttempt(self, *self._begin())

    async def end(self, work: TransactionWork, error: BaseException | None) -> bool:
        """Ends the open attempt; the next one follows if it is lost to a Conflict, unless it was the last.

        Returns whether the error that left the attempt ends with it.
        """
        self._is_open, self._is_done = False, True
        self._left -= 1
        if error is not None:
            is_lost = work.abort() and isinstance(error, Conflict) and self._left > 0
        else:
            is_lost = False
            try:
                await self._commit(work)
            except Conflict:
                if not self._left:
                    raise
                is_lost = True
        if is_lost:
            self._lost += 1
            self._is_done = False
        return is_lost and error is not None


class AsyncAttempt(AsyncFace, Generic[T]):
    """One attempt of a transaction: `async with attempt as group`. Leaving the block commits, unless by an error."""

    def __init__(self, attempts: AsyncAttempts[T], transaction: T, work: TransactionWork) -> None:
        self._attempts = attempts
        self._transaction = transaction
        self._work = work
        self._is_new = True

    async def __aenter__(self) -> T:
        if not self._is_new:
            raise UsageError("an attempt is entered once; the loop gives the next one")
        self._is_new = False
        return self._transaction

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return await self._attempts.end(self._work, error)
