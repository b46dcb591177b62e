"""The verbs that erase an entity, on the asynchronous face.

The synchronous face is generated from this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from oneread.database.erasing import EntityErasure, receipts
from oneread.database.erasures import Erasing, Erasure
from oneread.database.lists import Asked, Copied, Exact, KeyTypes, Located
from oneread.database.operations import Operations
from oneread.errors import InvalidQuery
from oneread.models.model import Model
from oneread.models.references import Copy, Ref
from oneread.plans.plan import Plan
from oneread.plans.trace import Observer, Trace
from oneread.store.limits import MAX_LIMIT

if TYPE_CHECKING:
    from oneread.plans.async_driver import AsyncDriver

E = TypeVar("E", bound=Model[*tuple[Any, ...]])
R = TypeVar("R")
T = TypeVar("T")


class AsyncErasureVerbs:
    """The verbs of an open store that erase an entity, and show what was erased."""

    operations: Operations
    _driver: AsyncDriver
    _observers: tuple[Observer, ...]

    async def _erasing(self, plan: Plan[T]) -> T:
        return await self._driver.run(plan, Trace(self._observers))

    @overload
    async def erase(self, model: Exact[R], at: Ref[R], /) -> Erasure: ...
    @overload
    async def erase(self, model: Copied[E], at: Copy[E], /) -> Erasure: ...
    @overload
    async def erase(self, model: Located[Any, *KeyTypes], /, *key: *KeyTypes) -> Erasure: ...
    async def erase(self, model: Asked, /, *key: Asked) -> Asked:  # type: ignore[misc]  # mypy: a TypeVarTuple here
        """Erases an entity: deletes it without last values, and clears all copies of it, whatever refers to it.

        Copies that others have of it become None where they may be None, and else an empty value of their type;
        holders with on_delete="delete" are erased with it, and so are the children of its entity group. References
        stay, also those with on_delete="refuse". Counters that it shows are deleted; reports, differences of launches
        and actions of consoles that name it or have a text of it are removed. Its row says that it was erased, so that
        a load of an older dump leaves it out; `save` of a new entity under the key is allowed, and ends that.

        Does all tasks of the store, and returns when everything has followed. A receipt is kept in the store. What was
        interrupted is continued by a worker, or by the same call: each step may be done again.

        Costs the requests of a delete, of a commit for each child and of a task for the holders; three scans of what
        reports, launches and consoles have noted; five requests for the receipt. On a store that changes one row at a
        time a commit more for each holder.

        Arguments:
            model: its class, or that of its model.
            *key: the parts of its key, or a reference.

        Returns:
            The receipt. Its `done` is None where holders could not follow: they are set aside, and it is to be erased
            again when what they refuse was corrected.

        Raises:
            InvalidKey: the key has other parts than declared, or the reference is to another class.
            Unavailable: the store did not answer; erase it again.

        Examples:
            ```python
            receipt = await db.erase(Customer, 12347)
            print(receipt.holders, receipt.done, [kept.what for kept in receipt.kept])
            ```
        """
        return await self._erasing(self._erasure_of(model, key).run())

    @overload
    async def plan_erasure(self, model: Exact[R], at: Ref[R], /) -> Erasing: ...
    @overload
    async def plan_erasure(self, model: Copied[E], at: Copy[E], /) -> Erasing: ...
    @overload
    async def plan_erasure(self, model: Located[Any, *KeyTypes], /, *key: *KeyTypes) -> Erasing: ...
    async def plan_erasure(self, model: Asked, /, *key: Asked) -> Asked:  # type: ignore[misc]  # mypy: a TypeVarTuple here
        """What `erase` would do, and what keeps bytes behind it; changes nothing.

        Costs a read of one row, a scan of those who refer to it, and a scan of its children; a scan more for each 500
        rows of these.

        Arguments:
            model: its class, or that of its model.
            *key: the parts of its key, or a reference.

        Raises:
            InvalidKey: the key has other parts than declared, or the reference is to another class.

        Examples:
            ```python
            print((await db.plan_erasure(Customer, 12347)).holders)
            ```
        """
        return await self._erasing(self._erasure_of(model, key).plan())

    async def erasures(self, *, limit: int = MAX_LIMIT) -> list[Erasure]:
        """The receipts of what was erased, by model and key. Costs one request, and a row for each.

        Arguments:
            limit: how many, 1 to 1,000.

        Raises:
            InvalidQuery: the limit is out of bounds.
            Corrupt: a receipt cannot be read.

        Examples:
            ```python
            print([each for each in await db.erasures() if each.done is None])
            ```
        """
        if type(limit) is not int or not 0 < limit <= MAX_LIMIT:
            raise InvalidQuery("the limit of receipts is a whole number", limit=limit, least=1, most=MAX_LIMIT)
        return await self._erasing(receipts(limit))

    def _erasure_of(self, model: Any, key: tuple[Any, ...]) -> EntityErasure:
        return EntityErasure(self.operations, self._driver.engine.capabilities, model, key)
