"""The asynchronous face: the public verbs, with what they mean and cost.

The synchronous face is generated from this module, so every verb has the same name and types in both. See
docs/design/api.md.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import islice
from sys import maxsize
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar, Unpack, overload

from oneread.database import results
from oneread.database import survey as surveys
from oneread.database.async_attempts import AsyncAttempts
from oneread.database.async_bulk import AsyncBulk
from oneread.database.async_changes import AsyncChangeVerbs
from oneread.database.async_counter_verbs import AsyncCounterVerbs
from oneread.database.async_erasing import AsyncErasureVerbs
from oneread.database.async_feeds import AsyncFeedVerbs
from oneread.database.async_files import AsyncFileVerbs
from oneread.database.async_heat import AsyncHeatVerbs
from oneread.database.async_jobs import AsyncJobVerbs
from oneread.database.async_key_reads import NO_CLASS, AsyncKeyReads
from oneread.database.async_launches import AsyncLaunches, AsyncLaunchVerbs
from oneread.database.async_patching import AsyncPatchVerbs
from oneread.database.async_places import AsyncPlaceVerbs
from oneread.database.async_tasks import AsyncTasks
from oneread.database.async_together import AsyncTogether
from oneread.database.async_transaction import AsyncTransaction
from oneread.database.async_view_launches import resting_finder, view_launches
from oneread.database.cursors import cipher_of
from oneread.database.expiry_sweep import BATCH as SWEEP_BATCH
from oneread.database.expiry_sweep import Swept
from oneread.database.explaining import Explainer
from oneread.database.faces import AsyncFace
from oneread.database.fast_path import LocalPages, finders
from oneread.database.freshness import Freshness, fresh_page, read_token
from oneread.database.lists import (
    K1,
    K2,
    K3,
    K4,
    AnyRows,
    Asked,
    Copied,
    Exact,
    KeyedRows,
    KeyTypes,
    Listed,
    Located,
    listed,
)
from oneread.database.operations import Children, Operations
from oneread.database.pages import BoundQuery, Page, PageOptions, Query, bounds_of, page
from oneread.database.replaced_pages import answering_list, is_continued, launched_key
from oneread.database.results import Outcome, attach_outcome
from oneread.database.sides import CHOSEN
from oneread.database.survey import Survey
from oneread.database.transaction import TransactionWork
from oneread.database.unfinished_commits import MOST_MARKERS
from oneread.database.worker import Worker
from oneread.derivations.changes import ChangeResult, Mode, Patch, Save
from oneread.derivations.pending_tasks import SetAsideHolder, set_aside_holders
from oneread.derivations.views import AnyView
from oneread.errors import InvalidQuery, OnereadError, UsageError
from oneread.evolution.backfill import Backfilled, BackfillOptions
from oneread.heat.hot_spots import HotSpots, hot_spots
from oneread.jobs.declared import Job
from oneread.jobs.running import JobWorker
from oneread.models.expressions import Expression
from oneread.models.model import Model
from oneread.models.references import Copy, Ref
from oneread.plans.arguments import UNCACHED, Age, check_awaitable, check_function, check_iterable  # async only

# sync only: from oneread.plans.arguments import UNCACHED, Age, check_function, check_iterable, check_returned
from oneread.plans.effects import Random, Sleep
from oneread.plans.plan import Plan
from oneread.plans.progress import (
    KEEP,
    MAX_AGE,
    QUIET_SECONDS,
    WAIT_SECONDS,
    Fault,
    OnFault,
    Progress,
    Reporter,
    no_progress,
)
from oneread.plans.retry import backoff
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Cost, Observer, Trace
from oneread.store.engine import LocalReads, Measured, NativeBinding, native_of
from oneread.store.limits import BUDGET, DEFAULT_LIMIT
from oneread.transactions.outbox import BATCH as TASK_BATCH
from oneread.transactions.tasks import Draining, TaskStepResult
from oneread.transfer import checkpoints
from oneread.transfer.bulk import BATCH, BATCH_BYTES, OPEN_TASKS, BatchOptions, Limits, Refusal
from oneread.verify.repair import Repaired
from oneread.verify.verify import Verification, VerifyOptions

if TYPE_CHECKING:
    from oneread.database.moving_verbs import MovingVerbs
    from oneread.plans.async_driver import AsyncDriver

E = TypeVar("E", bound=Model[*tuple[Any, ...]])
M = TypeVar("M", bound=Model[*tuple[Any, ...]])
P = TypeVar("P", bound="Model[*tuple[Any, ...]] | AnyView")
R = TypeVar("R")

Body: TypeAlias = Callable[["AsyncTransaction"], Awaitable[R]]  # async only
# sync only: Body: TypeAlias = Callable[["AsyncTransaction"], R]

SAVE_BATCH = 1000
SCAN_BATCH = 500
ATTEMPTS = 12


class AsyncDatabase(
    AsyncKeyReads,
    AsyncChangeVerbs,
    AsyncCounterVerbs,
    AsyncErasureVerbs,
    AsyncFeedVerbs,
    AsyncFileVerbs,
    AsyncHeatVerbs,
    AsyncJobVerbs,
    AsyncLaunchVerbs,
    AsyncPatchVerbs,
    AsyncPlaceVerbs,
    AsyncTogether,
    AsyncFace,
):
    """An open store under a schema. Get one from `connect_async`.

    Every result knows what it cost (`db.cost(result)`, `page.cost`). Errors are those of `oneread.errors`; their class
    separates usage errors from failures of the store, and shows whether a retry can help.
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
        self._cipher = cipher_of(driver.engine, secret, operations.cursor_key)
        self._observers = observers
        # The fast path makes no requests, so it is off when there are observers.
        engine = driver.engine
        local = engine if isinstance(engine, LocalReads) and not observers else None
        self._finders = {} if local is None else finders(operations, local, driver.now)
        self._pages = None if local is None else LocalPages(local, self._cipher, driver.now)
        self._lists: dict[Any, Listed] = operations.lists
        driver.name_damaged = operations.catalog.name_damaged
        worker_driver = driver.twin(SyncDriver)  # async only
        # sync only: worker_driver = driver
        self._worker_driver = worker_driver
        self._launches = AsyncLaunches(operations, driver, worker_driver, observers, self.page)
        self._view_launches = view_launches(operations.sides, self._launches)
        for view, launch in self._view_launches.items():
            if view in self._finders:
                self._finders[view] = resting_finder(launch, self._finders[view])
        self._moves: MovingVerbs | None = None
        self._job_worker: JobWorker | None = None
        self._worker = Worker(operations, worker_driver, observers) if workers else None
        if self._worker is not None:
            self._worker.wake()

    @property
    def moved(self) -> bool:
        """Whether writes go to the store that `connect_async` was given as `next`; False where it was given none.

        Of a store that changes one row at a time as its last verb found: verbs look once a second.
        """
        return self._moves is not None and self._moves.has_moved

    @property
    def native(self) -> NativeBinding:
        """Whether oneread-native makes the calls of this store, and why: `print(db.native.why, db.native.commits)`.

        No request is made.
        """
        return native_of(self._driver.engine)

    def __repr__(self) -> str:
        catalog = self.operations.catalog
        return (
            f"<{type(self).__name__} {self._driver.engine!r}: {len(catalog.models)} models, {len(catalog.views)} views>"
        )

    @overload
    async def page(self, view: AnyRows[R], *equal: Any, **options: Unpack[PageOptions]) -> Page[R]: ...
    @overload
    async def page(
        self, view: KeyedRows[R, K1, K2, K3, K4], first: K1 = ..., second: K2 = ..., third: K3 = ..., fourth: K4 = ...,
        /, *equal: Any, **options: Unpack[PageOptions],
    ) -> Page[R]: ...  # fmt: skip
    @overload
    async def page(self, view: type[M], *equal: Any, **options: Unpack[PageOptions]) -> Page[M]: ...
    @overload
    async def page(self, view: type[P], **options: Unpack[PageOptions]) -> Page[P]: ...
    async def page(  # noqa: PLR0913 - each option narrows one page; all but the view are optional
        self,
        view: Asked,
        *equal: Any,
        limit: int | None = None,
        cursor: str | None = None,
        backward: bool = False,
        since: Asked = None,
        after: Asked = None,
        until: Asked = None,
        through: Asked = None,
        starts_with: str | bytes | None = None,
        where: Expression | None = None,
        budget: int = BUDGET,
        includes: object = None,
        lag: bool = False,
        max_age: Age = None,
    ) -> Asked:
        """A page of an index, of entities by first parts of their key, or of an aggregate's groups, in stored order.

        Arguments:
            view: what to list.
            equal: values of the first key fields; a reference as its key; `any_of(...)` for several values of one
                field.
            limit: rows of the page, at most the view's `max_limit`; by default 50, or `max_limit` where that is less.
            cursor: `page.next` or `page.previous` of an earlier page.
            backward: without a cursor, the last page of the list.
            since: the next key field is this or greater, in the order of its values whichever way the list is sorted.
            after: it is greater than this.
            until: it is less than this.
            through: it is this or less.
            starts_with: the next key field begins with this text or these bytes.
            where: a condition on the rows; rows that fail it are read all the same, within `budget`.
            budget: rows that may be read beyond `limit`; once they are used up, `page.truncated` is true and
                `page.next` continues.
            includes: what a write returned, or the token of its tasks (`db.tasks(saved).token`): the page shows what
                this write made of the view, even while the commit is not applied yet; of a feed, what it made of the
                member's feed, even while its fan-out waits. The newest `limit` items of a group that the member has
                just joined.
            lag: of a feed, whether `page.lag` is asked for: how many seconds ago the oldest change was that entries may
                still lack, 0.0 if none. With more than 500 tasks in the outbox it is that of the first 500 there, so
                that a page stays bounded; `db.survey().feeds` looks at all. Of groups with a ttl, or a list of them:
                how many seconds ago what still counts, and waits for a sweep, has expired.
            max_age: of a database that was opened with `max_age`: seconds that the page may be old, in place of those;
                0 reads the store, and puts what it finds into the cache. Feeds are never read through a cache, nor is
                a page with `includes` or `lag`.

        Costs one request and at most limit + 1 rows; with `any_of`, that for each value. Where tombstones, other
        variants or `where` leave rows out, up to `budget` rows more, in requests of at most limit + 1 rows. For groups
        of an aggregate, what `get` costs for each `least`, `greatest` and `newest_values` of each group. `includes`
        costs nothing more unless the write left a task about this feed; then one transaction for each: a read of the
        task, and while that waits two reads, a scan and a write of this member's rows. `lag` costs one request, of at
        most 500 of the tasks that wait; with more it is that of the first 500. Of groups it reads one row, or one of
        each range where the aggregate is spread.

        Raises:
            InvalidQuery: the limit is out of bounds, or the view cannot answer this.
            UsageError: `includes` is not what a write of this database returned, or `max_age` is not a number of
                seconds from 0 to 30 days.
            InvalidCursor: the cursor was tampered with or belongs to another page; or `includes` is not a token of
                this store.
            NotReady: the view is still being built.

        Examples:
            ```python
            page = await db.page(PurchasesOfBuyer, 12347, limit=10)
            older = await db.page(PurchasesOfBuyer, 12347, limit=10, cursor=page.next)
            since_december = await db.page(PurchasesOfBuyer, 12347, since=datetime(2010, 12, 1, tzinfo=UTC))
            ```
        """
        try:
            of = self._lists.get(view)
        except TypeError:
            raise UsageError(NO_CLASS, given=view) from None
        bounds = bounds_of(since, after, until, through)
        if of is None and cursor is None and view in self._view_launches:
            of = self._resting_list(view)
        if of is None or (cursor is not None and view in self.operations.sides):
            asked = Query(equal, 1, cursor, backward, bounds, starts_with)
            key = launched_key(self.operations, view, asked) if view in self._view_launches else None
            if key is not None:
                again = partial(  # of the class: what observes a database has put its own verbs on it
                    AsyncDatabase.page, self, view, *equal, limit=limit, backward=backward, since=since, after=after,
                    until=until, through=through, starts_with=starts_with, where=where, budget=budget,
                    includes=includes, lag=lag, max_age=max_age,
                )  # fmt: skip
                launched: Page[Any] = await self._view_launches[view].page(key, again)
                return launched
            of = await self._list(view, asked)
        limit = min(DEFAULT_LIMIT, of.max_limit) if limit is None else limit
        query = Query(equal, limit, cursor, backward, bounds, starts_with, where, budget)
        if includes is not None or lag is not False:
            bound, fresh, trace = (
                BoundQuery(of, query, self._cipher),
                Freshness(self._tasks_of(includes), lag),
                self._trace(),
            )
            plan = self.operations.reading(lambda: fresh_page(self.operations, bound, fresh, trace))
            return await self._driver.run(plan, trace)
        if self._pages is not None and (max_age is None or max_age is UNCACHED):
            found = self._pages.read(of, query)
            if found is not None:
                return found
        trace = self._trace()
        plan = self.operations.reading(lambda: page(of, query, self._cipher, trace))
        return await self._driver.read(plan, trace, max_age)

    def _resting_list(self, view: type) -> Listed | None:
        """The list of a view whose launch has nothing to decide, if it was read before; None otherwise."""
        of: Listed | None = self._lists.get((view, view))
        if of is None or CHOSEN.get() is not None or not self._view_launches[view].page.rests():
            return None
        self.operations.fence.check(view)
        return of

    async def _list(self, view: type, query: Query | None = None) -> Listed:
        """What a model or view is paged by, after a look whether it may be read; of a query, by which side answers."""
        if query is not None and view in self.operations.sides:
            if self.operations.sides.may_change(view):
                waits = self.operations.sides.is_waiting(view)
                at_once = waits and is_continued(self.operations, view, query, self._cipher)
                await self.run(self.operations.sides.look(view, at_once=at_once))
            of = answering_list(self.operations, view, query, self._cipher)
            if query.cursor is None and self.operations.sides.is_settled(view):
                self._lists[view] = of
            return of
        await self.run(self.operations.fence.check_readable(view))
        of = listed(self.operations, view)
        if view not in self.operations.sides:
            self._lists[view] = of
        return of

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
        less; keep `page.next` to continue later. It is never read through a cache.

        Examples:
            ```python
            async for page in db.scan(Purchase):
                print(len(page))
            ```
        """
        rows: int = min(SCAN_BATCH, getattr(view, "max_limit", SCAN_BATCH)) if batch is None else batch
        if type(rows) is not int:
            raise InvalidQuery("a batch is a whole number of rows", view=view, batch=batch)
        while True:
            most = max(BUDGET, rows)
            found = await self.page(view, *equal, limit=rows, cursor=cursor, where=where, budget=most, max_age=UNCACHED)
            yield found
            cursor = found.next
            if cursor is None:
                return

    async def save(self, entity: M, *, if_version: int | None = None, enqueue: Iterable[Job] = ()) -> M:
        """Stores the entity, replacing any previous value, with everything derived from it; returns it as stored.

        Costs one transaction: a read of the fence, of the entity and of what it refers to, a read of the groups it
        counts in, and a write for each table touched; copies of it are changed within the commit up to the schema's
        `inline` bound, more become tasks (`db.tasks`).

        Arguments:
            entity: its copies may be unfilled: `Buyer.of(12347)`.
            if_version: `db.version(entity)` of when it was read; 0 when it must not exist.
            enqueue: jobs that are run once this is committed, and never if it is not; a row more for each, and a
                request more for all.

        Raises:
            InvalidValue: a field does not fit its type, constraint or check; or a job's does not.
            MissingReference: a new reference to an entity that does not exist, or is of another variant.
            AlreadyExists: a unique value is taken, or the stored entity is of another variant; `owner` names the entity
                that has the value or the key.
            Conflict: the stored entity has another version than `if_version`.
            LimitExceeded: the entity is too large, or the store is full.

        Examples:
            ```python
            saved = await db.save(Customer(number=7, name="Bea", country="Norway"))
            await db.save(Customer(number=7, name="Bea", country="Iceland"), if_version=db.version(saved))
            ```
        """
        saved: M = (await self._save(entity, "save", if_version, enqueue)).entity
        self._wake_jobs(enqueue)
        return saved

    async def create(self, entity: M, *, enqueue: Iterable[Job] = ()) -> M:
        """Like `save`, but raises AlreadyExists when the key exists.

        Examples:
            ```python
            await db.create(Customer(number=7, name="Bea", country="Norway"))
            ```
        """
        saved: M = (await self._save(entity, "create", enqueue=enqueue)).entity
        self._wake_jobs(enqueue)
        return saved

    async def get_or_create(self, entity: M) -> tuple[M, bool]:
        """Returns the stored entity of this key, or creates this one; and whether it was created.

        Examples:
            ```python
            customer, created = await db.get_or_create(Customer(number=7, name="Bea", country="Norway"))
            ```
        """
        written = await self._save(entity, "keep")
        return written.entity, written.created

    @overload
    async def delete(
        self,
        model: Exact[R],
        at: Ref[R],
        /,
        *,
        if_version: int | None = None,
        children: Children = "refuse",
        enqueue: Iterable[Job] = (),
    ) -> None: ...
    @overload
    async def delete(
        self,
        model: Copied[E],
        at: Copy[E],
        /,
        *,
        if_version: int | None = None,
        children: Children = "refuse",
        enqueue: Iterable[Job] = (),
    ) -> None: ...
    @overload
    async def delete(
        self,
        model: Located[Any, *KeyTypes],
        /,
        *key: *KeyTypes,
        if_version: int | None = None,
        children: Children = "refuse",
        enqueue: Iterable[Job] = (),
    ) -> None: ...
    async def delete(  # type: ignore[misc]  # mypy: a TypeVarTuple here
        self,
        model: Asked,
        /,
        *key: Asked,
        if_version: int | None = None,
        children: Asked = "refuse",
        enqueue: Iterable[Job] = (),
    ) -> Asked:
        """Deletes an entity and everything derived from it; does nothing when it does not exist.

        Entities that refer to it with on_delete="delete" go with it: up to `inline` in this commit, more as a task.
        Each entity with holders costs a scan and a read more.

        Arguments:
            model: its class, or that of its model.
            *key: the parts of its key, or a reference.
            if_version: `db.version(entity)` of when it was read.
            children: "delete" deletes the children of its entity group in the same commit, up to the schema's `inline`
                bound; a scan more.
            enqueue: as of `save`.

        Raises:
            StillReferenced: others refer to it with on_delete="refuse", or it has children.
            LimitExceeded: it has more children than one commit deletes.

        Examples:
            ```python
            await db.delete(Purchase, "537626", 1)
            ```
        """
        plan = self.operations.delete(model, key, if_version, children, enqueue)
        tasks = await self._driver.run(plan, self._trace())
        self._wake(tasks)
        self._wake_jobs(enqueue)

    async def save_all(self, entities: Iterable[M], *, batch: int = SAVE_BATCH) -> list[M]:
        """Saves entities in transactions of at most `batch`, each all or nothing; returns them as stored.

        A refused entity ends the call: earlier batches are stored, its own and later ones are not. With a portable
        schema, and on a store that changes one row at a time, each entity is a transaction of its own, and the error's
        fact `saved` says how many are stored.

        Examples:
            ```python
            await db.save_all([Customer(number=number, name="Guest", country="Norway") for number in range(5)])
            ```
        """
        if type(batch) is not int or batch < 1:
            raise UsageError("a batch is at least one entity", batch=batch)
        check_iterable(entities, "save_all takes an iterable of entities")
        one_by_one = self.operations.portable
        saved: list[M] = []
        rest = iter(entities)
        while several := list(islice(rest, 1 if one_by_one else min(batch, maxsize))):
            trace = self._trace()
            try:
                written, tasks = await self._driver.run(self.operations.save_all(several), trace)
            except OnereadError as error:
                if one_by_one:
                    error.facts["saved"] = len(saved)
                raise
            self._wake(tasks)
            for each in written:
                attach_outcome(each.entity, Outcome(each.version, trace, tuple(tasks)))
                saved.append(each.entity)
        return saved

    async def _save(
        self, entity: object, mode: Mode, if_version: int | None = None, enqueue: Iterable[Job] = ()
    ) -> ChangeResult:
        change = self.operations.saving(entity, mode, if_version)
        if change is None:
            return await self._write(self.operations.save(entity, mode, if_version, enqueue))
        return await self._commit_one(change, enqueue)

    async def _commit_one(self, change: Save | Patch, enqueue: Iterable[Job]) -> ChangeResult:
        """Commits one change; at once, where the driver may do that and no observer sees its requests."""
        is_alone = enqueue == () and not self._observers
        if is_alone and (cost := self.operations.commit_now(self._driver, change)) is not None:
            attach_outcome(change.written.entity, Outcome(change.written.version, cost))
            return change.written
        return await self._write(self.operations.committed(change, enqueue))

    async def _write(self, plan: Plan[tuple[ChangeResult, list[bytes]]]) -> ChangeResult:
        trace = self._trace()
        written, tasks = await self._driver.run(plan, trace)
        self._wake(tasks)
        attach_outcome(written.entity, Outcome(written.version, trace, tuple(tasks)))
        return written

    async def transact(self, body: Body[R], *, attempts: int = ATTEMPTS) -> R:
        """Runs `body` with a transaction and commits everything it wrote as one; returns what it returned.

        The body runs without locks. The commit checks that every entity it read is unchanged; if not, the body runs
        again after a growing random pause, so it must be safe to repeat.

        Raises:
            Conflict: an entity had changed in each of `attempts` attempts.

        Examples:
            ```python
            async def buy_one_more(tx):
                purchase = await tx.get(Purchase, "537626", 1)
                await tx.patch(Purchase, "537626", 1, quantity=purchase.quantity + 1)


            await db.transact(buy_one_more)
            ```
        """
        if not callable(body):
            raise UsageError("transact takes a function of a transaction", given=body)
        results: list[R] = []
        async for attempt in self._attempts(attempts):
            async with attempt as transaction:
                returned = body(transaction)
                check_awaitable("transact", returned)  # async only
                # sync only: check_returned("transact", returned)
                results = [await returned]
        return results[0]

    @overload
    def group(self, model: Exact[R], at: Ref[R], /, *, attempts: int = ATTEMPTS) -> AsyncAttempts[AsyncTransaction]: ...
    @overload
    def group(
        self, model: Copied[E], at: Copy[E], /, *, attempts: int = ATTEMPTS
    ) -> AsyncAttempts[AsyncTransaction]: ...
    @overload
    def group(
        self, model: Located[Any, *KeyTypes], /, *key: *KeyTypes, attempts: int = ATTEMPTS
    ) -> AsyncAttempts[AsyncTransaction]: ...
    def group(self, model: Asked, /, *key: Asked, attempts: int = ATTEMPTS) -> Asked:  # type: ignore[misc]  # mypy: a TypeVarTuple here
        """A transaction in the entity group of this root: a `transact` whose body is a block.

        Writes the root and its children (`child_of`). Leaving the block commits; if what it read has changed, the loop
        runs the block again after a growing random pause, so it must be safe to repeat. An error leaves the loop, and
        nothing was written. The root need not exist yet: it may be created in the block.

        Costs what `transact` costs.

        Raises:
            Conflict: an entity had changed in each of `attempts` attempts.
            UsageError: a write outside of the group, a root that is a child itself, or an attempt that is not entered.

        Examples:
            ```python
            async for attempt in db.group(Customer, 12347):
                async with attempt as group:
                    await group.patch(Customer, 12347, country="Norway")
            ```
        """
        return self._attempts(attempts, self.operations.group_root(model, key))

    def _attempts(self, attempts: int, group: bytes | None = None) -> AsyncAttempts[AsyncTransaction]:
        def begin() -> tuple[AsyncTransaction, TransactionWork]:
            work = TransactionWork(self.operations, group)
            return AsyncTransaction(self, work), work

        return AsyncAttempts(begin, self._commit, self._pause, attempts)

    async def _commit(self, work: TransactionWork) -> None:
        trace = self._trace()
        tasks = await self._driver.run(work.commit(), trace)
        work.note_outcome(trace, tuple(tasks))
        self._wake(tasks)
        self._wake_jobs(work.jobs)

    async def _pause(self, lost: int) -> None:
        chance = await self.run(Random().__iter__())
        await self.run(Sleep(backoff(lost, chance)).__iter__())

    async def drain(self, *, retry: bool = False) -> int:
        """Runs all tasks of the outbox now; returns how many batches it took.

        Counters are then copied to the fields that show them, too, before their `every` is over.

        Tasks that other workers have begun are left to them, and waited for; those of a worker that died are taken over
        when its lease has ended, 10 seconds after its last batch.

        A holder that cannot be updated is set aside and does not delay others; see `set_aside`. It is tried again when
        it or its source changes.

        Arguments:
            retry: tries every holder that is set aside again first, changed or not.

        Raises:
            StoreError: the store failed; the remaining tasks stay in the outbox.

        Examples:
            ```python
            await db.drain()
            ```
        """
        batches, draining = 0, Draining()
        if retry:
            await self.run(self.operations.outbox.retry())
        while True:
            result = await self.run(self.operations.drain_or_wait(TASK_BATCH, draining))
            if result is TaskStepResult.IDLE:
                return batches
            batches += bool(result)

    async def sweep(
        self, *, batch: int = SWEEP_BATCH, limit: int | None = None, progress: Reporter = no_progress
    ) -> Swept:
        """Deletes the entities that have expired, and removes the rows of indexes that have, in small commits.

        It also removes entries of change logs that watched views do not keep any more, and what launches do not keep.

        A worker does so every 30 seconds (`workers=1`); call this from a job of your own without one. Reads leave out
        what has expired whether or not it was swept; the numbers of groups and totals lose an entity at its sweep. An
        expired entity that others refer to with on_delete="refuse" waits for them. Several sweeps at a time do no harm.

        Costs a scan for each `ttl` of the schema and for each batch, and a commit for each batch: that of a delete, for
        each of its entities. On a store that changes one row at a time each entity is a commit of its own. One scan for
        change logs; where there are some, three requests and for each two more, and a transaction for each batch of
        entries. One scan for launches; for each four more, and three transactions for each hour of the day before.

        Arguments:
            batch: entities of one commit, or entries of a log, from 1 to 1,000.
            limit: ends the sweep when so many entities were deleted, or lost rows; the next one continues. None for no
                limit.
            progress: called after each batch.

        Raises:
            NotReady: what has a `ttl` is built, by a backfill that has not ended, and no other view answers meanwhile.

        Examples:
            ```python
            swept = await db.sweep()
            print(swept.deleted, swept.held)
            ```
        """
        check_function("progress", progress)
        sweep = self.operations.begin_sweep(batch, limit)
        while await self.run(sweep.step()):
            progress(Progress("sweeping what has expired", sweep.done, None))
            self._wake(sweep.tasks)
        return sweep.swept

    def tasks(self, result: object) -> AsyncTasks:
        """The tasks of an operation: `await db.tasks(saved).wait()` returns when every copy is right.

        `result` is what a write returned, or the `token` of its tasks, from another process of the same store too.

        Raises:
            InvalidCursor: not a token of this store.

        Examples:
            ```python
            renamed = await db.patch(Product, "85123A", name="White heart")
            await db.tasks(renamed).wait()
            ```
        """
        return AsyncTasks(self, self.operations.outbox, self._cipher, self._tasks_of(result))

    def _tasks_of(self, result: object) -> tuple[bytes, ...]:
        """The tasks of what a write returned, or of a token of them."""
        if isinstance(result, str):
            return read_token(self._cipher, result)
        return () if result is None else results.tasks_of(result)

    def version(self, entity: object) -> int:
        """The version of an entity that this database returned: milliseconds since 1970 at its last own change.

        For `if_version`. It grows with each save and patch of the entity. Copies that follow their source, totals, a
        backfill and a repair leave it as it is. Costs no request.

        Raises:
            UsageError: not an entity that a database returned.

        Examples:
            ```python
            ada = await db.get(Customer, 12347)
            await db.patch(Customer, 12347, country="Norway", if_version=db.version(ada))
            ```
        """
        return results.version_of(entity)

    def cost(self, result: object) -> Cost:
        """The cost of the operation that returned this: requests, rows, bytes, skipped rows.

        Examples:
            ```python
            purchase = await db.get(Purchase, "537626", 1)
            assert db.cost(purchase).requests == 1
            ```
        """
        return results.cost_of(result)

    @property
    def explain(self) -> Explainer:
        """The verbs, explained: `print(db.explain.page(PurchasesOfBuyer, 12347, limit=10))`. No request is made."""
        return Explainer(self.operations, self._cipher)

    async def run(self, plan: Plan[R]) -> R:
        """Runs one plan; only observers see its cost."""
        return await self._driver.run(plan, Trace(self._observers))

    async def set_aside(self, limit: int | None = None) -> list[SetAsideHolder]:
        """All holders whose copies could not be updated, each with its last error.

        Their copies are stale, and `verify` reports them. One request, and one more for the rows of every 200.

        Arguments:
            limit: the most to list; all unless given.

        Raises:
            UsageError: the limit is not a whole number of 1 or more.
        """
        return await self.run(set_aside_holders(self.operations.catalog, limit))

    async def backfill(
        self,
        *,
        pace: float | None = None,
        progress: Reporter = no_progress,
        fence: bool = False,
        wait: float = WAIT_SECONDS,
        quiet: float = QUIET_SECONDS,
    ) -> Backfilled:
        """Builds added and changed views on live data, and makes them readable once they are complete.

        Visits every entity, deleted ones too, in steps of 200, one transaction each; programs with the previous schema
        may write meanwhile. Once they have been quiet they are fenced off (their writes raise SchemaMismatch), one more
        pass finds what they wrote last, rows of removed views are deleted, and the new views become readable. After a
        stop or crash it resumes where it was; with nothing to do it returns at once.

        Costs a scan for each step, and for those with something to do one transaction: reads of the fence, of the
        position, of the entities and what they refer to, and of the groups they count in, and a write for each table
        touched.

        Arguments:
            pace: entities per second, at most.
            progress: called after each step.
            fence: fences off programs with the previous schema right after the first pass.
            wait: seconds to wait for them to be quiet, at most; then the result is not done and names the last writer.
            quiet: seconds without a write of theirs.

        Raises:
            SchemaMismatch: the store has a newer schema than this program.
            Unsupported: the engine's transactions do not span rows, or the store was opened read-only.

        Examples:
            ```python
            built = await db.backfill(pace=5_000)
            assert built.done
            ```
        """
        options = BackfillOptions(pace, fence, quiet, wait, progress)
        try:
            return await self.run(self.operations.backfill(options).run())
        finally:
            await self.run(self.operations.refresh())

    async def verify(
        self,
        *wanted: type,
        pace: float | None = None,
        max_age: float = MAX_AGE,
        on_fault: OnFault | None = None,
        progress: Reporter = no_progress,
        keep: int = KEEP,
        resume: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109, RUF100 - ends it with what was done
    ) -> Verification:
        """Compares everything derived with the entities, while the store is in use.

        Costs a read of every row once, in requests of 500 rows; rows that differ are read a second time. On a store
        that changes one row at a time rows and what they belong to are read, each once, in requests of 1,000 or 2,000
        rows, and what seems wrong is looked at twice. Memory stays flat.

        Arguments:
            wanted: views and models; everything when none is given. A model includes all that is derived from its
                entities and what they copy, a view its own rows only.
            pace: rows per second at most, so that a store in use keeps its speed.
            max_age: seconds that the snapshot of one model may take, since LMDB cannot reuse freed pages meanwhile.
                What is not done by then is skipped, and the result lists it. No limit where there are no snapshots.
            on_fault: called with every fault, in the thread that does the work.
            progress: called after every batch, in that thread.
            keep: faults that the result holds; all are counted.
            timeout: seconds that the whole call may take; what is not compared by then is skipped, and the result lists
                it. None: as long as it takes.
            resume: `cursor` of an earlier result, or of its last progress: skips the models that were done.

        Raises:
            UsageError: a class is not a view or model of the schema; an option is out of bounds.
            SchemaMismatch: a newer program has changed a model or a view; that program can verify.
            Unavailable: the store does not answer, or nothing was compared within `timeout`.

        Examples:
            ```python
            found = await db.verify()
            assert found.clean
            ```
        """
        options = VerifyOptions(wanted, pace, max_age, on_fault, progress, keep, resume, timeout)
        return await self.run(self.operations.parts.inspector.verify(options))

    async def repair(
        self,
        *wanted: type,
        pace: float | None = None,
        max_age: float = MAX_AGE,
        on_fault: OnFault | None = None,
        progress: Reporter = no_progress,
        keep: int = KEEP,
        timeout: float | None = None,  # noqa: ASYNC109, RUF100 - ends it with what was done
    ) -> Repaired:
        """Repairs everything derived that differs from the entities, while the store is in use.

        Verifies, checks and repairs each fault inside a transaction, and verifies again: at least two verifications
        when something is wrong, and a small transaction for each hundred faults. An entity's own fields never change;
        a fault that cannot be repaired without knowing which side is right stays, and is reported.

        Arguments:
            wanted: views and models; everything when none is given.
            pace: rows per second at most that are verified.
            max_age: seconds that the snapshot of one model may take.
            on_fault: called with every fault that a verification finds.
            progress: called after every batch.
            keep: faults that the result holds.
            timeout: seconds that the whole call may take. What was mended by then is mended; another repair continues.
                None: as long as it takes.

        Raises:
            UsageError: a class is not a view or model of the schema; an option is out of bounds.
            SchemaMismatch: a newer program has changed a model or a view; that program can repair.
            Unsupported: as for `verify`.
            Unavailable: the store does not answer any more, or nothing was verified within `timeout`.

        Examples:
            ```python
            repaired = await db.repair()
            ```
        """
        options = VerifyOptions(wanted, pace, max_age, on_fault, progress, keep, timeout=timeout)
        return await self.run(self.operations.parts.inspector.repair(options))

    async def drop(self, *faults: Fault) -> tuple[Fault, ...]:
        """Removes what cannot be mended: entities that cannot be read, and rows of no model. There is no way back.

        `faults` are of a verification, those with `droppable`. An entity is deleted as by `delete`: the rows that its
        record lists go with it, and copies of it are marked as deleted; `on_delete="refuse"` does not keep it. Each
        costs one transaction that looks again, and removes nothing that is readable by then. Run `repair` before it,
        which may mend more, and after it, which removes what an unreadable record listed.

        Returns those of the faults of which something was removed.

        Raises:
            UsageError: a fault is not droppable; nothing was removed.
            SchemaMismatch: the schema has changed meanwhile.
        """
        return await self.run(self.operations.parts.inspector.drop(faults))

    def bulk(
        self,
        *,
        batch: int = BATCH,
        batch_bytes: int = BATCH_BYTES,
        checkpoint: str | None = None,
        restart: bool = False,
        on_refused: Callable[[Refusal], object] | None = None,
        progress: Reporter = no_progress,
        total: int | None = None,
        max_tasks: int = OPEN_TASKS,
    ) -> AsyncBulk:
        """Writes many entities in bounded batches: `async with db.bulk() as bulk: await bulk.save(entity)`.

        Each batch costs one transaction, as `save_all` does: a read of its entities and of what they refer to, a read
        of the groups they count in, and a write for each table touched; with a checkpoint, a read and a write of its
        row more, and one more transaction at the end.

        On a store that changes one row at a time each change is a commit of its own, and a refused one is left out by
        itself. A page of changes costs a request for each, and some for all of them. With a checkpoint a program that
        is killed does its last batch again: a `create`, an `add` and a save that waits for a number are found by their
        ids, other changes are made twice, which changes nothing.

        Arguments:
            batch: changes of one transaction.
            batch_bytes: bytes that wait for one transaction, about.
            checkpoint: a name under which the last position is stored in the same transaction as its batch. Opened
                again under it, `bulk.position` says where to continue: each change between two positions is stored
                exactly once, whenever the process is killed.
            restart: forgets an earlier position under this name.
            on_refused: called with each refused change and its error; without it, the first one ends the work with its
                error, and the changes before it are stored.
            progress: called after each batch.
            total: the expected number of changes, for progress.
            max_tasks: fan-outs that may wait in the outbox; beyond, the writer runs some of them itself.

        Raises:
            UsageError: a bound is not a whole number above 0.
            InvalidValue: the checkpoint's name is empty or too long.

        Examples:
            ```python
            async with db.bulk() as bulk:
                for number in range(5):
                    await bulk.save(Customer(number=number, name="Guest", country="Norway"))
            ```
        """
        limits = Limits(batch, batch_bytes, max_tasks)
        key = None if checkpoint is None else checkpoints.key_of(checkpoint)
        options = BatchOptions(limits, key, restart, on_refused, progress, total)
        work = self.operations.batches(options)
        return AsyncBulk(self._driver, self.operations, work, Trace(self._observers), self._wake)

    async def survey(
        self, *, exact: bool = False, most: int = MOST_MARKERS, progress: Reporter = no_progress
    ) -> Survey:
        """What the store holds: rows and bytes, views and their states, tasks, and the engine's own figures.

        A few requests. With `exact`, rows and bytes of each model and view as well: every row is read, 2,000 a request.
        On a store that changes one row at a time, also commits that are not finished: at most 1,000 entities are read.
        Of tasks and of unfinished commits at most `most` are counted, 500 and 2,000 a request.

        Arguments:
            exact: whether every row is read.
            most: tasks of each kind, and unfinished commits, that are counted.
            progress: called after each batch of rows.

        Raises:
            UsageError: an option out of bounds.
        """
        if type(most) is not int or most < 1:
            raise UsageError("most: expected a whole number of 1 or more", most=most)
        check_function("progress", progress)
        engine = self._driver.engine
        counted = engine.statistics() if isinstance(engine, Measured) else None
        options = surveys.SurveyOptions(exact, most, progress)
        plan = surveys.survey(self.operations.catalog, self.operations.parts, counted, options)
        return surveys.with_cache(await self.run(plan), self.cache_use)

    def hot_spots(self, limit: int = 10) -> HotSpots:
        """Where this process's writes met those of others, with the declarations that cause it. No request is made.

        On a store that changes one row at a time: the rows for which compare-and-sets were lost most often, by which
        commits began again, and the models and indexes whose new rows all go to one end. Counted since the database
        was opened, in memory that does not grow. Elsewhere there are none: a writer waits for its turn instead.

        Arguments:
            limit: rows that are listed, 1 to 10,000.

        Raises:
            UsageError: a limit out of bounds.

        Examples:
            ```python
            for each in db.hot_spots().rows:
                print(each.row, each.lost, each.advice)
            ```
        """
        return hot_spots(self.operations.catalog, self._driver.hot, limit)

    async def close(self) -> None:
        """Waits for running operations and closes the store; closing twice does nothing."""
        for end in self.operations.before_close:  # async only
            await end()
        await self._launches.end()
        for each in (self._job_worker, self._worker, self.operations.heat):
            if each is not None:
                await self._driver.end_in_thread(each.stop)  # async only
                # sync only: each.stop()
        with suppress(OnereadError):  # the store is gone, or a newer program has it: the leases end by themselves
            await self.run(self.operations.free_leases())
        await self._driver.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
