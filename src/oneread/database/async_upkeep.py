"""The asynchronous face of long work: what an operator does to a store that is in use.

Knows operations, maintenance plans and a driver. Must not know engines. The synchronous face is generated from this
module. The law is rule 17 of the commit protocol and "Verify and repair of aggregates" of the decisions page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from oneread.database.operations import Operations
from oneread.plans.plan import Plan
from oneread.plans.trace import Observer, Trace

if TYPE_CHECKING:
    from oneread.plans.async_driver import AsyncDriver

R = TypeVar("R")


class AsyncUpkeep:
    """What a database can do besides reading and writing entities."""

    operations: Operations
    _driver: AsyncDriver
    _observers: tuple[Observer, ...]

    async def run(self, plan: Plan[R]) -> R:
        """Drives one plan; its cost is told to observers only."""
        return await self._driver.run(plan, Trace(self._observers))
