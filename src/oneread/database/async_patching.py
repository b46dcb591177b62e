"""The verbs that change fields, on the asynchronous face: `patch` and `upsert`.

The synchronous face is generated from this module.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from oneread.database.async_transaction import UNGIVEN
from oneread.database.lists import Asked, Copied, Exact, KeyTypes, Located
from oneread.database.operations import Operations
from oneread.database.patches import own_version, take_changes, take_only_changes
from oneread.derivations.changes import ChangeResult, Patch, Save
from oneread.jobs.declared import Job
from oneread.models.expressions import FieldChange
from oneread.models.model import Model
from oneread.models.references import Copy, Ref
from oneread.plans.plan import Plan

E = TypeVar("E", bound=Model[*tuple[Any, ...]])
M = TypeVar("M", bound=Model[*tuple[Any, ...]])
R = TypeVar("R")


class AsyncPatchVerbs:
    """The verbs of an open store that change fields of an entity."""

    operations: Operations

    if TYPE_CHECKING:

        async def _commit_one(self, change: Save | Patch, enqueue: Iterable[Job]) -> ChangeResult: ...
        async def _write(self, plan: Plan[tuple[ChangeResult, list[bytes]]]) -> ChangeResult: ...
        def _wake_jobs(self, jobs: object) -> None: ...

    async def upsert(self, entity: M, /, *given: FieldChange, enqueue: Iterable[Job] = (), **changes: Asked) -> M:
        """Creates the entity, or changes these fields of the stored one; `enqueue` as of `save`.

        `db.upsert(Visit(page="/", count=1), count=add(1))`, or `field(Visit.count).add(1)` as of `patch`. Raises
        AlreadyExists when another variant has the key.

        Examples:
            ```python
            await db.upsert(Customer(number=7, name="Bea", country="Norway"), country="Norway")
            ```
        """
        take_only_changes(type(entity), given, changes)
        if self.operations.is_filled(entity):
            saved: M = (await self._write(self.operations.upsert(entity, changes, enqueue))).entity
        else:
            saved = (await self._commit_one(self.operations.upserting(entity, changes), enqueue)).entity
        self._wake_jobs(enqueue)
        return saved

    @overload
    async def patch(
        self,
        model: Exact[R],
        at: Ref[R],
        /,
        *given: FieldChange,
        if_version: int | None = UNGIVEN,
        enqueue: Iterable[Job] = (),
        **changes: Asked,
    ) -> R: ...
    @overload
    async def patch(
        self,
        model: Copied[E],
        at: Copy[E],
        /,
        *given: FieldChange,
        if_version: int | None = UNGIVEN,
        enqueue: Iterable[Job] = (),
        **changes: Asked,
    ) -> E: ...
    @overload
    async def patch(
        self,
        model: Located[R, *KeyTypes],
        /,
        *given: *tuple[*KeyTypes, FieldChange, FieldChange, FieldChange, FieldChange],
        if_version: int | None = UNGIVEN,
        enqueue: Iterable[Job] = (),
        **changes: Asked,
    ) -> R: ...
    @overload
    async def patch(
        self,
        model: Located[R, *KeyTypes],
        /,
        *given: *tuple[*KeyTypes, FieldChange, FieldChange, FieldChange],
        if_version: int | None = UNGIVEN,
        enqueue: Iterable[Job] = (),
        **changes: Asked,
    ) -> R: ...
    @overload
    async def patch(
        self,
        model: Located[R, *KeyTypes],
        /,
        *given: *tuple[*KeyTypes, FieldChange, FieldChange],
        if_version: int | None = UNGIVEN,
        enqueue: Iterable[Job] = (),
        **changes: Asked,
    ) -> R: ...
    @overload
    async def patch(
        self,
        model: Located[R, *KeyTypes],
        /,
        *given: *tuple[*KeyTypes, FieldChange],
        if_version: int | None = UNGIVEN,
        enqueue: Iterable[Job] = (),
        **changes: Asked,
    ) -> R: ...
    @overload
    async def patch(
        self,
        model: Located[R, *KeyTypes],
        /,
        *given: *KeyTypes,
        if_version: int | None = UNGIVEN,
        enqueue: Iterable[Job] = (),
        **changes: Asked,
    ) -> R: ...
    async def patch(  # type: ignore[misc]  # mypy: a TypeVarTuple here
        self,
        model: Asked,
        /,
        *given: Asked,
        if_version: int | None = UNGIVEN,
        enqueue: Iterable[Job] = (),
        **changes: Asked,
    ) -> Asked:
        """Changes fields of one entity; None clears one.

        By name, `quantity=2`, or as changes behind the key that type checkers know: `field(Purchase.quantity).to(2)`,
        and with `.add(n)`, `.append(x)` and `.remove(x)` in the place of `.to(value)`. Any number of them; behind the
        parts of a key type checkers know four, and any number behind a reference.

        `add(n)`, `append(x)` and `remove(x)` apply to the stored value. A field called `if_version` is changed by
        `if_version=set_to(value)`. `enqueue` as of `save`.

        Costs what `save` costs; derived data changes only where these fields matter.

        Raises:
            NotFound: there is no such entity.
            InvalidValue: a field is not one that `model` declares, part of the key, changed twice, or does not take the
                value.

        Examples:
            ```python
            await db.patch(Product, "85123A", name="White heart")
            await db.patch(Purchase, "537626", 1, quantity=add(4))
            await db.patch(Purchase, "537626", 1, field(Purchase.quantity).add(4))
            ```
        """
        version = own_version(model, changes, if_version)
        change = self.operations.patching(model, take_changes(model, given, changes), changes, version)
        entity = (await self._commit_one(change, enqueue)).entity
        self._wake_jobs(enqueue)
        return entity
