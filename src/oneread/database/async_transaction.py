"""The asynchronous face of transactions: the verbs inside `transact` and `group`.

The synchronous face is generated from this module. See docs/design/api.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypeVar, overload

from msgspec import UNSET

from oneread.counters.rows import WindowSize
from oneread.database.async_counters import AsyncPlanRunner, AsyncTransactionCounter
from oneread.database.lists import Asked, Copied, Exact, KeyTypes, Located
from oneread.database.patches import own_version, take_changes
from oneread.database.transaction import TransactionWork
from oneread.derivations.views import AnyFeed
from oneread.feeds.marks import Marks
from oneread.jobs.declared import Job
from oneread.models.expressions import FieldChange
from oneread.models.model import Model
from oneread.models.references import Copy, Ref

E = TypeVar("E", bound=Model[*tuple[Any, ...]])
M = TypeVar("M", bound=Model[*tuple[Any, ...]])
F = TypeVar("F", bound="AnyFeed")
R = TypeVar("R")

UNGIVEN: Any = UNSET
"""No version given: None may be meant for a field called `if_version`."""


class AsyncTransaction:
    """The verbs inside `transact`.

    Reads see what was written before, and nothing is in the store until the body returns.
    """

    def __init__(self, runner: AsyncPlanRunner, work: TransactionWork) -> None:
        self._runner = runner
        self._work = work

    @overload
    async def get(self, model: Exact[R], at: Ref[R], /, *, unchecked: bool = False) -> R: ...
    @overload
    async def get(self, model: Copied[E], at: Copy[E], /, *, unchecked: bool = False) -> E: ...
    @overload
    async def get(self, model: Located[R, *KeyTypes], /, *key: *KeyTypes, unchecked: bool = False) -> R: ...
    async def get(self, model: Asked, /, *key: Asked, unchecked: bool = False) -> Asked:  # type: ignore[misc]  # mypy: a TypeVarTuple here
        """Like the database's `get`, for entities.

        An `unchecked` one is read as it is now, and may have changed when the transaction commits; a portable schema
        reads entities of other groups only so.
        """
        return await self._runner.run(self._work.get(model, key, unchecked=unchecked))

    @overload
    async def find(self, model: Exact[R], at: Ref[R], /, *, unchecked: bool = False) -> R | None: ...
    @overload
    async def find(self, model: Copied[E], at: Copy[E], /, *, unchecked: bool = False) -> E | None: ...
    @overload
    async def find(self, model: Located[R, *KeyTypes], /, *key: *KeyTypes, unchecked: bool = False) -> R | None: ...
    async def find(self, model: Asked, /, *key: Asked, unchecked: bool = False) -> Asked:  # type: ignore[misc]  # mypy: a TypeVarTuple here
        """Like the database's `find`, for entities; `unchecked` as of `get`."""
        return await self._runner.run(self._work.find(model, key, unchecked=unchecked))

    async def save(self, entity: M, *, if_version: int | None = None) -> M:
        """Like the database's `save`."""
        saved: M = await self._runner.run(self._work.save(entity, "save", if_version))
        return saved

    async def create(self, entity: M) -> M:
        """Like the database's `create`."""
        saved: M = await self._runner.run(self._work.save(entity, "create", None))
        return saved

    @overload
    async def patch(
        self, model: Exact[R], at: Ref[R], /, *given: FieldChange, if_version: int | None = UNGIVEN, **changes: Asked
    ) -> R: ...
    @overload
    async def patch(
        self, model: Copied[E], at: Copy[E], /, *given: FieldChange, if_version: int | None = UNGIVEN, **changes: Asked
    ) -> E: ...
    @overload
    async def patch(
        self,
        model: Located[R, *KeyTypes],
        /,
        *given: *tuple[*KeyTypes, FieldChange, FieldChange, FieldChange, FieldChange],
        if_version: int | None = UNGIVEN,
        **changes: Asked,
    ) -> R: ...
    @overload
    async def patch(
        self,
        model: Located[R, *KeyTypes],
        /,
        *given: *tuple[*KeyTypes, FieldChange, FieldChange, FieldChange],
        if_version: int | None = UNGIVEN,
        **changes: Asked,
    ) -> R: ...
    @overload
    async def patch(
        self,
        model: Located[R, *KeyTypes],
        /,
        *given: *tuple[*KeyTypes, FieldChange, FieldChange],
        if_version: int | None = UNGIVEN,
        **changes: Asked,
    ) -> R: ...
    @overload
    async def patch(
        self,
        model: Located[R, *KeyTypes],
        /,
        *given: *tuple[*KeyTypes, FieldChange],
        if_version: int | None = UNGIVEN,
        **changes: Asked,
    ) -> R: ...
    @overload
    async def patch(
        self, model: Located[R, *KeyTypes], /, *given: *KeyTypes, if_version: int | None = UNGIVEN, **changes: Asked
    ) -> R: ...
    async def patch(self, model: Asked, /, *given: Asked, if_version: int | None = UNGIVEN, **changes: Asked) -> Asked:  # type: ignore[misc]  # mypy: a TypeVarTuple here
        """Like the database's `patch`."""
        version = own_version(model, changes, if_version)
        return await self._runner.run(self._work.patch(model, take_changes(model, given, changes), changes, version))

    @overload
    async def delete(self, model: Exact[R], at: Ref[R], /, *, if_version: int | None = None) -> None: ...
    @overload
    async def delete(self, model: Copied[E], at: Copy[E], /, *, if_version: int | None = None) -> None: ...
    @overload
    async def delete(
        self, model: Located[Any, *KeyTypes], /, *key: *KeyTypes, if_version: int | None = None
    ) -> None: ...
    async def delete(self, model: Asked, /, *key: Asked, if_version: int | None = None) -> Asked:  # type: ignore[misc]  # mypy: a TypeVarTuple here
        """Like the database's `delete`."""
        await self._runner.run(self._work.delete(model, key, if_version))

    async def enqueue(self, job: Job, *, delay: timedelta | None = None) -> str:
        """Enqueues a job that is run once this transaction is committed, and never if it is not; returns its token.

        A row more, and a request more for all jobs of a transaction. See the database's `enqueue`.

        Raises:
            UsageError: the job's class is not in the schema, or the delay is not from 0 to 3,650 days.
            InvalidValue: a field of the job does not fit its type.
            LimitExceeded: the job is too large.
        """
        return await self._runner.run(self._work.enqueue(job, delay))

    async def mark(
        self,
        feed: type[F],
        *member: Any,
        seen: F | bool | None = None,
        read: F | bool | None = None,
        back: bool = False,
    ) -> Marks:
        """Like the database's `mark`; what is newest, for True, is read as it is now."""
        return await self._runner.run(self._work.mark(feed, member, {"seen": seen, "read": read}, back=back))

    def counter(
        self, name: str, *, shards: int | None = None, keep: Mapping[WindowSize, int] | None = None
    ) -> AsyncTransactionCounter:
        """Like the database's `counter`; it can be added to, and is read before or after the transaction.

        Not in a portable schema.
        """
        plans = self._work.operations.counters
        return AsyncTransactionCounter(self._work, plans, name, plans.declared(shards, keep))
