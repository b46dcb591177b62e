"""The asynchronous face of bulk writing: many changes in bounded batches.

The synchronous face is generated from this module. See docs/decisions/0025-bulk-batches-and-checkpoints.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from oneread.database.faces import AsyncFace
from oneread.database.lists import Asked, Copied, Exact, KeyTypes, Located
from oneread.database.operations import Operations
from oneread.database.patches import take_changes
from oneread.errors import UsageError
from oneread.models.expressions import FieldChange
from oneread.models.model import Model
from oneread.models.references import Copy, Ref
from oneread.plans.plan import Plan
from oneread.plans.trace import Cost, Trace
from oneread.transactions.commit import Change
from oneread.transfer.bulk import Batches, ChangeSizes, Tally, WantedChange, weight
from oneread.transfer.checkpoints import Position, check_position
from oneread.transfer.restore import RestoreEntity

if TYPE_CHECKING:
    from oneread.plans.async_driver import AsyncDriver

E = TypeVar("E", bound=Model[*tuple[Any, ...]])
R = TypeVar("R")


class AsyncBulk(AsyncFace):
    """Writes many entities: `async with db.bulk() as bulk: await bulk.save(entity)`.

    Changes wait until a batch is full, and the call that fills it returns when the batch is stored: a caller is
    never ahead by more than one batch. Leaving the block stores the rest; leaving it by an exception does not. For one
    thread or task at a time.

    Within a batch each change sees those before it, as in `save_all`. Nothing is returned for an entity, since it is
    stored later.
    """

    def __init__(
        self,
        driver: AsyncDriver,
        operations: Operations,
        work: Batches,
        trace: Trace,
        wake: Callable[[Sequence[bytes]], None],
    ) -> None:
        self._driver = driver
        self._operations = operations
        self._work = work
        self._trace = trace
        self._wake = wake
        self._sizes = ChangeSizes(operations.catalog)
        self._state = "new"

    def __repr__(self) -> str:
        tally = self.tally
        return f"<{type(self).__name__}: {tally.stored} stored, {tally.refused} refused, {tally.waiting} waiting>"

    @property
    def position(self) -> Position | None:
        """The last position that is stored, by this run or an earlier one; None before the first."""
        return self._work.reached.position

    @property
    def finished(self) -> bool:
        """Whether the work under this checkpoint is complete, and nothing was stored since."""
        return self._work.reached.finished

    @property
    def tally(self) -> Tally:
        """Changes stored, refused and waiting, and transactions committed, by this run."""
        return self._work.tally

    @property
    def cost(self) -> Cost:
        """What all batches together cost so far."""
        return self._trace.cost

    async def save(self, entity: Any, *, position: Position | None = None, as_stored: bool = False) -> None:
        """Stores the entity, as the database's `save` does.

        Arguments:
            entity: its copies may be unfilled: `Buyer.of(12347)`.
            position: how far the source has been read with this change; stored in the same transaction.
            as_stored: the entity keeps its number of a sequence and its CREATED and UPDATED stamps, as one that is
                copied from another store: a dump that is loaded does so by itself. Later numbers are above it. Copies
                and totals follow from this store, and the version is new.

        Raises:
            OnereadError: what the database's `save` raises for any entity of the batch that this call fills, unless
                `on_refused` takes it. Changes before the refused one are stored.
        """
        if self._state != "open":
            self._check()
        given = ("change", RestoreEntity(self._operations.catalog, entity)) if as_stored else ("save", entity)
        if self._work.add(given, self._sizes.of(entity), position):
            await self.flush()

    async def create(self, entity: Any, *, position: Position | None = None) -> None:
        """Like `save`, but an entity whose key exists is refused with AlreadyExists."""
        await self._add(("create", entity), self._sizes.of(entity), position)

    @overload
    async def patch(self, model: Exact[R], at: Ref[R], /, *given: FieldChange, **changes: Asked) -> None: ...
    @overload
    async def patch(self, model: Copied[E], at: Copy[E], /, *given: FieldChange, **changes: Asked) -> None: ...
    @overload
    async def patch(
        self,
        model: Located[Any, *KeyTypes],
        /,
        *given: *tuple[*KeyTypes, FieldChange, FieldChange, FieldChange, FieldChange],
        **changes: Asked,
    ) -> None: ...
    @overload
    async def patch(
        self,
        model: Located[Any, *KeyTypes],
        /,
        *given: *tuple[*KeyTypes, FieldChange, FieldChange, FieldChange],
        **changes: Asked,
    ) -> None: ...
    @overload
    async def patch(
        self, model: Located[Any, *KeyTypes], /, *given: *tuple[*KeyTypes, FieldChange, FieldChange], **changes: Asked
    ) -> None: ...
    @overload
    async def patch(
        self, model: Located[Any, *KeyTypes], /, *given: *tuple[*KeyTypes, FieldChange], **changes: Asked
    ) -> None: ...
    @overload
    async def patch(self, model: Located[Any, *KeyTypes], /, *given: *KeyTypes, **changes: Asked) -> None: ...
    async def patch(self, model: Asked, /, *given: Asked, **changes: Asked) -> Asked:  # type: ignore[misc]  # mypy: a TypeVarTuple here
        """Changes fields of one entity, as the database's `patch` does; `reached` gives a position."""
        key = take_changes(model, given, changes)
        await self._add(("patch", model, key, changes), weight((key, changes)))

    @overload
    async def delete(self, model: Exact[R], at: Ref[R], /, *, position: Position | None = None) -> None: ...
    @overload
    async def delete(self, model: Copied[E], at: Copy[E], /, *, position: Position | None = None) -> None: ...
    @overload
    async def delete(
        self, model: Located[Any, *KeyTypes], /, *key: *KeyTypes, position: Position | None = None
    ) -> None: ...
    async def delete(self, model: Asked, /, *key: Asked, position: Position | None = None) -> Asked:  # type: ignore[misc]  # mypy: a TypeVarTuple here
        """Deletes an entity, as the database's `delete` does."""
        await self._add(("delete", model, key), weight(key), position)

    async def apply(self, change: Change, size: int, *, position: Position | None = None) -> None:
        """Stores a prepared change of about `size` bytes, as loading a dump does."""
        await self._add(("change", change), size, position)

    async def _add(self, given: WantedChange, size: int, position: Position | None = None) -> None:
        self._check()
        if self._work.add(given, size, position):
            await self.flush()

    async def reached(self, position: Position) -> None:
        """Records how far the source has been read, with every change so far."""
        check_position(position)
        self._check()
        if self._work.mark(position):
            await self.flush()

    async def flush(self) -> None:
        """Stores the waiting changes now; with a checkpoint, those up to the last position."""
        self._check()
        self._state = "storing"
        await self._stored(self._work.committed())
        await self._run(self._work.settled())
        self._state = "open"

    def _check(self) -> None:
        if self._state != "open":
            raise UsageError(_STATES[self._state])

    async def _stored(self, plan: Plan[list[bytes]]) -> None:
        tasks = await self._run(plan)
        if tasks:
            self._wake(tasks)
            await self._run(self._work.apply_backpressure(self._operations.drain_or_wait))

    async def _run(self, plan: Plan[R]) -> R:
        return await self._driver.run(plan, self._trace)

    async def __aenter__(self) -> Self:
        if self._state != "new":
            raise UsageError("a bulk writer is used once; call db.bulk() for another")
        await self._run(self._work.opened())
        self._state = "open"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._check()
            self._state = "storing"
            await self._stored(self._work.finished())
        self._state = "ended"


_STATES = {
    "new": "this bulk writer is not open; use it in a with block",
    "storing": "this bulk writer is in use by another task, or failed and cannot be reused",
    "ended": "this bulk writer is closed; call db.bulk() for another",
}
