"""The asynchronous face: the public verbs, with what they mean and cost.

The synchronous face is generated from this module, so every verb has the same name and types in both. See
docs/design/api.md.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from itertools import islice
from sys import maxsize
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeVar

from msgspec import UNSET
from typing_extensions import TypeVarTuple

from oneread.database import results
from oneread.database.async_upkeep import AsyncUpkeep
from oneread.database.cursors import cipher_of
from oneread.database.groups import groups
from oneread.database.lists import Listed, listed
from oneread.database.operations import Operations
from oneread.database.pages import Page, Query, direct, page
from oneread.database.patches import own_version
from oneread.database.points import points
from oneread.database.results import Outcome, attach_outcome
from oneread.database.transaction import TransactionWork
from oneread.database.worker import Worker
from oneread.derivations.changes import ChangeResult
from oneread.derivations.views import View
from oneread.errors import Conflict, InvalidQuery, NotFound, Unavailable, UsageError
from oneread.models.expressions import Expression
from oneread.models.model import Model
from oneread.models.references import Ref
from oneread.plans.effects import Random, Sleep
from oneread.plans.retry import backoff
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Cost, Observer, Trace
from oneread.store.limits import BUDGET, DEFAULT_LIMIT
from oneread.transactions.outbox import BATCH

if TYPE_CHECKING:
    from oneread.plans.async_driver import AsyncDriver

M = TypeVar("M", bound=Model[*tuple[Any, ...]])
P = TypeVar("P", bound="Model[*tuple[Any, ...]] | View[Any]")
R = TypeVar("R")
T_co = TypeVar("T_co", covariant=True)
Ks = TypeVarTuple("Ks")

Body: TypeAlias = Callable[["AsyncTransaction"], Awaitable[R]]  # async only
# sync only: Body: TypeAlias = Callable[["AsyncTransaction"], R]

SAVE_BATCH = 1000
SCAN_BATCH = 500
ATTEMPTS = 12
POLL_SECONDS = 0.005

_NONE: Any = UNSET
"""No version given: None may be meant for a field called `if_version`."""

_NO_CLASS = "this is no class of the schema"


class Located(Protocol[T_co, *Ks]):
    """A class whose rows are found by a key of types Ks; model and view classes fit it."""

    def _located(self, *key: *Ks) -> Ref[T_co]: ...


def _check_iterable(given: object, text: str) -> None:
    if not isinstance(given, Iterable):
        raise UsageError(text, given=given)


class AsyncTasks:
    """The tasks that an operation left for the worker: fan-outs too big for its commit."""

    def __init__(self, database: AsyncDatabase, keys: tuple[bytes, ...]) -> None:
        self._database = database
        self._keys = keys

    def __bool__(self) -> bool:
        return bool(self._keys)

    async def done(self) -> bool:
        """Whether every copy is right by now. One request, and one for each task that has ended.

        Raises:
            StaleCopies: the tasks have ended, and holders that could not follow are set aside; they are named.
        """
        if self._keys:
            ended: bool = await self._database.run(self._database.operations.outbox.have_ended(self._keys))
            self._keys = () if ended else self._keys
        return not self._keys

    async def wait(self, timeout: float = 60.0) -> None:  # noqa: ASYNC109, RUF100 - gives up waiting, cancels nothing
        """Returns when every copy is right.

        Raises:
            StaleCopies: holders that could not follow are set aside; they are named.
            Unavailable: not within `timeout` seconds; the tasks stay in the outbox and are gone on with.
        """
        left = timeout  # counted in pauses: the database's clock may stand still
        while not await self.done():
            if left <= 0:
                raise Unavailable("the tasks are not done yet", left=len(self._keys), timeout=timeout)
            await self._database.run(Sleep(POLL_SECONDS).__iter__())
            left -= POLL_SECONDS


class AsyncTransaction:
    """The verbs inside `transact`.

    Reads see what was written before, and nothing is in the store until the body returns.
    """

    def __init__(self, database: AsyncDatabase, work: TransactionWork) -> None:
        self._database = database
        self._work = work

    async def get(self, model: Located[R, *Ks], *key: *Ks) -> R:
        """Like the database's `get`, for entities."""
        found: R = await self._database.run(self._work.get(model, key))
        return found

    async def find(self, model: Located[R, *Ks], *key: *Ks) -> R | None:
        """Like the database's `find`, for entities."""
        found: R | None = await self._database.run(self._work.find(model, key))
        return found

    async def save(self, entity: M, *, if_version: int | None = None) -> M:
        """Like the database's `save`."""
        saved: M = await self._database.run(self._work.save(entity, "save", if_version))
        return saved

    async def create(self, entity: M) -> M:
        """Like the database's `create`."""
        saved: M = await self._database.run(self._work.save(entity, "create", None))
        return saved

    async def patch(self, model: Located[R, *Ks], /, *key: *Ks, if_version: int | None = _NONE, **changes: Any) -> R:
        """Like the database's `patch`."""
        patched: R = await self._database.run(
            self._work.patch(model, key, changes, own_version(model, changes, if_version))
        )
        return patched

    async def delete(self, model: Located[Any, *Ks], *key: *Ks, if_version: int | None = None) -> None:
        """Like the database's `delete`."""
        await self._database.run(self._work.delete(model, key, if_version))


class AsyncDatabase(AsyncUpkeep):
    """An open store under a schema. Get one from `connect_async`.

    Every result says what it cost (`db.cost(result)`, `page.cost`). Errors are those of `oneread.errors`; each class
    says whose fault it is and whether trying again can help.
    """

    def __init__(
        self,
        driver: AsyncDriver,
        operations: Operations,
        *,
        secret: bytes | None = None,
        workers: int = 0,
        observers: tuple[Observer, ...] = (),
    ) -> None:
        self._driver = driver
        self.operations = operations
        self._cipher = cipher_of(driver.engine, secret)
        self._observers = observers
        # The direct path makes no request that an observer could be told of.
        self._local = driver.engine.capabilities.local and not observers
        self._points = points(operations.catalog, driver.engine) if self._local else {}
        self._groups = groups(operations, driver.engine) if self._local else {}
        self._lists: dict[Any, Listed] = operations.lists
        hands = driver.twin(SyncDriver)  # async only
        # sync only: hands = driver
        self._worker = Worker(operations, hands, observers) if workers else None
        if self._worker is not None:
            self._worker.wake()

    async def get(self, model: Located[R, *Ks], *key: *Ks) -> R:
        """The entity with this key, the group of an aggregate, or the row of a unique index.

        Costs one request and one row; for an aggregate, one request and row more for each `least` and `greatest`. An
        empty group is not an error: counts and totals are 0, the rest None.

        Raises:
            NotFound: there is none.
            InvalidKey: the key has other parts than declared.
            NotReady: the view is still being built.
        """
        try:
            point = self._points.get(model)  # type: ignore[call-overload]
        except TypeError:
            raise UsageError(_NO_CLASS, given=model) from None
        if point is None:
            group = self._groups.get(model)  # type: ignore[call-overload]
            row: R | None = None if group is None else group(key)
            if row is not None:
                return row
            trace = Trace(self._observers)
            read: R = self._told(await self._driver.run(self.operations.get(model, key), trace), trace)
            return read
        entity: R | None = point(key)
        if entity is None:
            raise NotFound("there is no such entity", model=model, key=key)
        return entity

    async def find(self, model: Located[R, *Ks], *key: *Ks) -> R | None:
        """Like `get`, but None when there is none."""
        try:
            point = self._points.get(model)  # type: ignore[call-overload]
        except TypeError:
            raise UsageError(_NO_CLASS, given=model) from None
        if point is not None:
            found: R | None = point(key)
            return found
        group = self._groups.get(model)  # type: ignore[call-overload]
        row: R | None = None if group is None else group(key)
        if row is not None:
            return row
        trace = Trace(self._observers)
        entity, version = await self._driver.run(self.operations.find(model, key), trace)
        return None if entity is None else self._told((entity, version), trace)

    def _told(self, found: tuple[Any, int], trace: Trace) -> Any:
        entity, version = found
        attach_outcome(entity, Outcome(version, trace))
        return entity

    async def exists(self, model: Located[Any, *Ks], *key: *Ks) -> bool:
        """Whether there is such an entity. One request, one row."""
        return await self.find(model, *key) is not None

    async def get_many(self, model: type[M], keys: Iterable[tuple[Any, ...]]) -> list[M | None]:
        """Entities by key, in the order of `keys`, None for each that is absent. One request, a row for each key."""
        _check_iterable(keys, "get_many takes keys as tuples: [(1,), (2,)]")
        trace = Trace(self._observers)
        found = await self._driver.run(self.operations.get_many(model, list(keys)), trace)
        return [None if entity is None else self._told((entity, version), trace) for entity, version in found]

    async def page(  # noqa: PLR0913 - each option narrows one page; all but the view are optional
        self,
        view: type[P],
        *equal: Any,
        limit: int | None = None,
        cursor: str | None = None,
        backward: bool = False,
        since: Any = None,
        until: Any = None,
        starts_with: str | bytes | None = None,
        where: Expression | None = None,
        budget: int = BUDGET,
    ) -> Page[P]:
        """A page of an index, of entities by first parts of their key, or of an aggregate's groups, in stored order.

        Arguments:
            view: what to list.
            equal: values of the first key fields; a reference as its key; `any_of(...)` for several values of one
                field.
            limit: rows of the page, at most the view's `max_limit`; by default 50, or `max_limit` where that is less.
            cursor: `page.next` or `page.previous` of the page before.
            backward: without a cursor, the last page of the list.
            since: the next key field is at least this.
            until: the next key field is below this.
            starts_with: the next key field begins with this text or these bytes.
            where: a condition on the rows; what it leaves out is read all the same, within `budget`.
            budget: rows that may be read beyond `limit`; when they are used up, `page.truncated` is true and
                `page.next` goes on.

        Costs one request and at most limit + 1 rows; with `any_of`, that for each value; with tombstones or `where`, up
        to `budget` rows more. For groups of an aggregate, one request and row more for each `least` and `greatest` of
        each group.

        Raises:
            InvalidQuery: the limit is out of bounds, or the view cannot answer this.
            InvalidCursor: the cursor was tampered with or belongs to another page.
            NotReady: the view is still being built.
        """
        try:
            of = self._lists.get(view)
        except TypeError:
            raise UsageError(_NO_CLASS, given=view) from None
        if of is None:
            await self.run(self.operations.fence.check_readable(view))
            of = self._lists[view] = listed(self.operations, view)
        limit = min(DEFAULT_LIMIT, of.max_limit) if limit is None else limit
        query = Query(equal, limit, cursor, backward, since, until, starts_with, where, budget)
        if self._local:
            found = direct(self._driver.engine, of, query, self._cipher)
            if found is not None:
                return found
        trace = Trace(self._observers)
        return await self._driver.run(page(of, query, self._cipher, trace), trace)

    async def scan(
        self,
        view: type[P],
        *equal: Any,
        batch: int | None = None,
        cursor: str | None = None,
        where: Expression | None = None,
    ) -> AsyncIterator[Page[P]]:
        """All rows of a list, page by page, from a cursor on: `async for page in db.scan(Purchase)`.

        Each page costs what `page` costs with `limit=batch`, by default 500 or the view's `max_limit` where that is
        less; keep `page.next` to go on later.
        """
        rows: int = min(SCAN_BATCH, getattr(view, "max_limit", SCAN_BATCH)) if batch is None else batch
        if type(rows) is not int:
            raise InvalidQuery("a batch is a whole number of rows", view=view, batch=batch)
        while True:
            found = await self.page(view, *equal, limit=rows, cursor=cursor, where=where, budget=max(BUDGET, rows))
            yield found
            cursor = found.next
            if cursor is None:
                return

    async def save(self, entity: M, *, if_version: int | None = None) -> M:
        """Lets an entity stand as given, as a whole, and everything derived from it; returns it as it will be read.

        Costs one transaction: a read of the fence, of the entity and of what it refers to, a read of the groups it
        counts in, and a write for each table touched; copies of it are changed within the commit up to the schema's
        `inline` bound, more become tasks (`db.tasks`).

        Arguments:
            entity: its copies may be unfilled: `Buyer.of(12347)`.
            if_version: `db.version(entity)` of when it was read; 0 when it must not exist.

        Raises:
            InvalidValue: a field does not fit its type, constraint or check.
            MissingReference: a new reference to nothing.
            AlreadyExists: a unique value is taken; `owner` says by whom.
            Conflict: it has another version than `if_version`.
            LimitExceeded: too large, or no room in the store.
        """
        trace = Trace(self._observers)
        saved: M = self._written(await self._driver.run(self.operations.save(entity, "save", if_version), trace), trace)
        return saved

    async def create(self, entity: M) -> M:
        """Like `save`, but raises AlreadyExists when there is one with this key."""
        trace = Trace(self._observers)
        saved: M = self._written(await self._driver.run(self.operations.save(entity, "create"), trace), trace)
        return saved

    async def get_or_create(self, entity: M) -> tuple[M, bool]:
        """The entity that is there under this one's key, or this one, created; and whether it was."""
        trace = Trace(self._observers)
        outcome = await self._driver.run(self.operations.save(entity, "keep"), trace)
        return self._written(outcome, trace), outcome[0].created

    async def upsert(self, entity: M, /, **changes: Any) -> M:
        """Creates the entity, or changes these fields of the one that is there.

        `db.upsert(Visit(page="/", count=1), count=add(1))`.
        """
        trace = Trace(self._observers)
        saved: M = self._written(await self._driver.run(self.operations.upsert(entity, changes), trace), trace)
        return saved

    async def patch(self, model: Located[R, *Ks], /, *key: *Ks, if_version: int | None = _NONE, **changes: Any) -> R:
        """Changes fields of one entity; None clears one.

        `add(n)`, `append(x)` and `remove(x)` work on the value that is there. A field that is called `if_version` is
        changed by `if_version=set_to(value)`.

        Costs what `save` costs; derived data changes only where these fields matter.

        Raises:
            NotFound: there is none.
            InvalidValue: a field is unknown, part of the key, or does not take the value.
        """
        trace = Trace(self._observers)
        plan = self.operations.patch(model, key, changes, own_version(model, changes, if_version))
        patched: R = self._written(await self._driver.run(plan, trace), trace)
        return patched

    async def delete(self, model: Located[Any, *Ks], *key: *Ks, if_version: int | None = None) -> None:
        """Takes an entity away with everything derived from it; quiet when there is none.

        Raises:
            StillReferenced: others refer to it with on_delete="refuse".
        """
        tasks = await self._driver.run(self.operations.delete(model, key, if_version), Trace(self._observers))
        self._wake(tasks)

    async def save_all(self, entities: Iterable[M], *, batch: int = SAVE_BATCH) -> list[M]:
        """Saves entities in transactions of at most `batch`, each whole or not at all.

        Returns them as they will be read.

        An entity that is refused ends the call: the batches before its own are stored, its own and those behind it are
        not.
        """
        if type(batch) is not int or batch < 1:
            raise UsageError("a batch holds at least one entity", batch=batch)
        _check_iterable(entities, "save_all takes entities: a list, or whatever else can be gone through")
        saved: list[M] = []
        rest = iter(entities)
        while several := list(islice(rest, min(batch, maxsize))):
            trace = Trace(self._observers)
            written, tasks = await self._driver.run(self.operations.save_all(several), trace)
            self._wake(tasks)
            saved.extend(self._outcome(each, trace, tasks) for each in written)
        return saved

    def _written(self, outcome: tuple[ChangeResult, list[bytes]], trace: Trace) -> Any:
        written, tasks = outcome
        self._wake(tasks)
        return self._outcome(written, trace, tasks)

    def _outcome(self, written: ChangeResult, trace: Trace, tasks: Sequence[bytes]) -> Any:
        attach_outcome(written.entity, Outcome(written.version, trace, tuple(tasks)))
        return written.entity

    async def transact(self, body: Body[R], *, attempts: int = ATTEMPTS) -> R:
        """Runs `body` with a transaction and commits everything it wrote as one; returns what it returned.

        The body reads and decides outside of any lock; at the commit all entities that it read must be as it saw them,
        else it is run again from the start, after a growing random pause: so it must not do anything that cannot be
        done twice.

        Raises:
            Conflict: others were faster `attempts` times.
        """
        if not callable(body):
            raise UsageError("a transaction is given a function that takes it", given=body)
        if type(attempts) is not int or attempts < 1:
            raise UsageError("a transaction is attempted at least once", attempts=attempts)
        attempt = 0
        while True:
            work = TransactionWork(self.operations)
            result = await body(AsyncTransaction(self, work))
            trace = Trace(self._observers)
            try:
                tasks = await self._driver.run(work.commit(), trace)
            except Conflict:
                attempt += 1
                if attempt >= attempts:
                    raise
                chance = await self.run(Random().__iter__())
                await self.run(Sleep(backoff(attempt - 1, chance)).__iter__())
                continue
            work.tell(trace, tuple(tasks))
            self._wake(tasks)
            return result

    async def drain(self, *, retry: bool = False) -> int:
        """Does all tasks of the outbox here and now; returns how many batches it took.

        A holder that cannot follow its source is set aside and holds up no other; see `set_aside`. It is tried again
        when it or the source has changed.

        Arguments:
            retry: what is set aside is tried again first, whether it has changed or not.

        Raises:
            StoreError: the store could not do it; what is left stays in the outbox.
        """
        batches = 0
        if retry:
            await self.run(self.operations.outbox.retry())
        while await self.run(self.operations.drain_step(BATCH)):
            batches += 1
        return batches

    def tasks(self, result: object) -> AsyncTasks:
        """What an operation left for the worker: `await db.tasks(saved).wait()` returns when every copy is right."""
        return AsyncTasks(self, results.tasks_of(result))

    def version(self, entity: object) -> int:
        """The version of an entity that this database returned: milliseconds since 1970, growing with each commit.

        For `if_version`.
        """
        return results.version_of(entity)

    def cost(self, result: object) -> Cost:
        """What the operation that returned this cost: requests, rows, bytes, skipped rows."""
        return results.cost_of(result)

    async def close(self) -> None:
        """Waits for what is under way and lets go of the store. Closing twice is quiet."""
        if self._worker is not None:
            await self._driver.in_thread(self._worker.stop)  # async only
            # sync only: self._worker.stop()
        await self._driver.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
