"""The verb that makes several reads in one round trip, on the asynchronous face.

The synchronous face is generated from this module.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from oneread.plans.arguments import check_function

if TYPE_CHECKING:
    from oneread.plans.async_driver import AsyncDriver

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
R = TypeVar("R")

MakeRead: TypeAlias = Callable[[], Awaitable[R]]  # async only
# sync only: MakeRead: TypeAlias = Callable[[], R]
"""A function that makes a read."""


class AsyncTogether:
    """The verb `together` of an open store."""

    _driver: AsyncDriver

    @overload
    async def together(self, first: MakeRead[A], second: MakeRead[B], /) -> tuple[A, B]: ...
    @overload
    async def together(self, first: MakeRead[A], second: MakeRead[B], third: MakeRead[C], /) -> tuple[A, B, C]: ...
    @overload
    async def together(
        self, first: MakeRead[A], second: MakeRead[B], third: MakeRead[C], fourth: MakeRead[D], /
    ) -> tuple[A, B, C, D]: ...
    @overload
    async def together(self, *reads: MakeRead[Any]) -> tuple[Any, ...]: ...
    async def together(self, *reads: MakeRead[Any]) -> tuple[Any, ...]:
        """The results of several reads, made at the same time where the store takes time to answer: one round trip.

        For a page that shows several lists. Each read costs what it costs by itself, and its result says so. Where an
        answer takes microseconds, as on LMDB, they are made one after the other. Of the errors that reads raise, the
        first in their order is raised.

        Arguments:
            reads: functions without arguments that make them.

        Raises:
            UsageError: one of them is not a function.

        Examples:
            ```python
            customer, recent = await db.together(
                lambda: db.get(Customer, 12347),
                lambda: db.page(PurchasesOfBuyer, 12347, limit=10),
            )
            ```
        """
        for each in reads:
            check_function("reads", each)
        return tuple(await self._driver.gather(reads))
