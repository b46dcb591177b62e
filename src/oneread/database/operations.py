"""The public verbs as plans.

`async_database` documents what each verb does; "Semantics" of the decisions page says why.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, get_args

import msgspec

from oneread import costs
from oneread.counters.cache_first import CacheFirstPlans
from oneread.counters.counters import CounterPlans
from oneread.database.expiry_sweep import BATCH, BackgroundSweeper, ExpirySweep, SweepSteps, is_awaited, swept_indexes
from oneread.database.log_sweep import LogSweep, Sweep
from oneread.database.marking import Marking
from oneread.database.patches import patching, values_of
from oneread.database.sides import Sides
from oneread.database.store_parts import StoreParts
from oneread.derivations.catalog import Catalog
from oneread.derivations.changes import ChangeResult, Delete, Mode, Patch, Save
from oneread.derivations.derivation import CompiledView
from oneread.derivations.pending_tasks import TaskLag, WaitingTask, oldest_of
from oneread.errors import (
    Corrupt,
    InvalidKey,
    InvalidQuery,
    LimitExceeded,
    NotFound,
    SchemaMismatch,
    StillReferenced,
    UsageError,
)
from oneread.evolution.backfill import Backfill, BackfillOptions
from oneread.evolution.schema import Schema
from oneread.jobs.declared import Job
from oneread.jobs.queued import JobPlans
from oneread.launches.plans import StoredLaunches
from oneread.launches.sweeping import LAUNCH_SWEEP_SECONDS, LaunchSweep
from oneread.models.fields import GENERATED, Marker, uuid7
from oneread.models.references import Copy, Ref
from oneread.models.registry import EntityKind
from oneread.plans.allowance import CURRENT
from oneread.plans.counted import CountedStore
from oneread.plans.effects import Now, Random, Sleep
from oneread.plans.performer import Performer
from oneread.plans.plan import Plan
from oneread.plans.trace import HasCost, RoundCost
from oneread.store.keys import RootKey, kind_part
from oneread.store.limits import GRACE
from oneread.store.requests import Read, Scan
from oneread.store.rows import Row
from oneread.transactions.chores import ChoreRunner
from oneread.transactions.commit import NO_JOBS, Basis, Change, Commit
from oneread.transactions.intents import own_version, pending_key
from oneread.transactions.native import NativeCommitter
from oneread.transactions.outbox import holds_on
from oneread.transactions.root import BODY
from oneread.transactions.tasks import Draining, TaskStepResult
from oneread.transfer.bulk import Batches, BatchOptions

if TYPE_CHECKING:
    from oneread.costs.changed import ChangedCosts
    from oneread.costs.declared import Costs

R = TypeVar("R")

Children: TypeAlias = Literal["refuse", "delete"]
"""What happens to the children of a root that is deleted."""

FoundEntity: TypeAlias = tuple[Any, int]
"""An entity, or the row of a view, and its version; None for an absent one."""

_CLASS_FIRST = "a class comes first, and then what refers to one of its entities: db.get(Customer, purchase.buyer)"
_POLL_SECONDS = 0.02
_HALF = 37
"""Bits of randomness taken at a time; a UUID of version 7 has 74."""


class WorkerMeter(Protocol):
    """What records how the worker of a database does."""

    def note_tasks(self, kind: str, waiting: int, oldest: float) -> None: ...
    def note_behind(self, seconds: float) -> None: ...
    def note_batches(self, batches: int) -> None: ...
    def note_failure(self, error: BaseException) -> None: ...
    def note_job(self, kind: str, outcome: str) -> None: ...


class HeatRecording(Protocol):
    """What records the requests of a database."""

    def measure(self, wrap: Callable[[Mapping[str, Callable[..., Any]]], dict[str, Callable[..., Any]]], /) -> None: ...
    def flush(self) -> None: ...
    def stop(self) -> None: ...


class Operations:
    """The verbs of one open database.

    `parts` are what differs by the kind of store; `committer` commits, `outbox` does the tasks that commits leave, and
    `copies` gives the values of counters to the entities that show them; `apply_later` lets writes return at their
    commit point, where what follows is not part of it. `chores` does what comes again and again; `counters` and
    `cache_counters` and `launches` are those of the store. `marking` marks what members have seen of feeds. `meter`
    records how the worker does, under telemetry; `heat` which keys are requested, where that is recorded. `cursor_key`
    is that of the store that this one was copied from, else empty. `lists` and `logs` belong to the faces: what can be
    paged and watched, by its class. `inline` is that of the `schema`; with `portable` a transaction is of one entity
    group. `grace` is how long removed rows stay on a store that changes one row at a time, in seconds, None for good.
    `before_close` are what the asynchronous face awaits before it closes the store: work that would keep it open.
    """

    def __init__(self, catalog: Catalog, schema: Schema, parts: StoreParts, grace: int | None = GRACE) -> None:
        self.parts = parts
        self.grace = grace
        self.catalog = catalog
        self.fence = parts.fence
        self.sides = Sides(catalog.replaced, parts.fence)
        self.schema = schema
        self.inline = schema.inline
        self.portable = parts.portable
        self.lists: dict[Any, Any] = {}
        self.logs: dict[Any, Any] = {}
        self.committer, self.outbox, self.copies = parts.committer, parts.outbox, parts.copies
        self.apply_later = parts.apply_later
        self.counters = CounterPlans(parts.counters, parts.counter_sweeper, schema.counters, catalog.counters.groups)
        self.cache_counters = CacheFirstPlans(parts.cache_counters, schema.counters.shards)
        self.sweeper = BackgroundSweeper(self._begin_background_sweep)
        self.launches = StoredLaunches(self.committer)
        self.jobs = JobPlans(parts.job_queue, schema.jobs)
        launches = BackgroundSweeper(
            lambda: LaunchSweep(self.launches), name="launches", pause=LAUNCH_SWEEP_SECONDS, first=LAUNCH_SWEEP_SECONDS
        )
        chores = [self.counters.sweeper, self.sweeper, launches, *parts.chores]
        self.chores = ChoreRunner(self.committer, chores, self.outbox.leases)
        self.marking = Marking(catalog, self._find_answering, self.find, self.commit, parts.group_reader)
        self.meter: WorkerMeter | None = None
        self.cursor_key = b""
        self.heat: HeatRecording | None = None
        self.before_close: list[Callable[[], Awaitable[object]]] = []
        # Values for references without a default that are left out, by name.
        self._blank: dict[type, dict[str, Any]] = {
            cls: {each.name: each.blank[0] for each in entity_type.references if each.blank}
            for cls, entity_type in catalog.entity_types.items()
        }
        self._whole = frozenset(
            cls for cls, of in catalog.stored_types.items() if not of.defaults.generated and not self._blank[cls]
        )
        """Classes of entities that the store gives nothing."""

    @property
    def spans_rows(self) -> bool:
        """Whether one commit may change several entities."""
        return self.parts.commits_together

    @cached_property
    def costs(self) -> Costs:
        """The bounds of what the verbs cost."""
        return costs.declared.Costs(self.catalog, self.inline, self.parts.prices)

    def changed_costs(self) -> ChangedCosts:
        """The bounds of what the verbs cost, as they are and with another option of a declaration."""
        return costs.changed.ChangedCosts(self.catalog, self.inline, self.parts.prices)

    def commit(
        self,
        changes: Sequence[Change],
        basis: Basis | None = None,
        beside: Sequence[Callable[[CountedStore], object]] = (),
        jobs: Mapping[bytes, bytes] = NO_JOBS,
    ) -> Plan[list[bytes]]:
        """Commits changes, with jobs and what is done beside them; returns the tasks that this left."""
        commit = Commit(changes, basis=basis, beside=beside)
        commit.jobs = jobs
        tasks = yield from self.committer.commit(commit)
        if self.fence.is_stale:
            yield from self.refresh()
        return tasks

    def begin_sweep(self, batch: int = BATCH, limit: int | None = None) -> Sweep:
        """A sweep of what has expired, of all change logs and launches.

        Raises:
            UsageError: the batch or the limit is out of bounds.
        """
        return self._begin_sweep(LaunchSweep(self.launches), batch, limit)

    def _begin_sweep(self, launches: LaunchSweep | None, batch: int = BATCH, limit: int | None = None) -> Sweep:
        logs = LogSweep(self.catalog, self.committer, batch)
        return Sweep(self._begin_expiry_sweep(batch, limit), logs, launches)

    def _begin_expiry_sweep(self, batch: int = BATCH, limit: int | None = None) -> ExpirySweep:
        sweep = ExpirySweep(self.catalog, self.fence, self.commit, batch, limit)
        sweep.is_together = self.parts.commits_together
        return sweep

    def _begin_background_sweep(self) -> SweepSteps | None:
        """A sweep of what this schema has, if anything; None while an index that it needs is being built."""
        indexes = swept_indexes(self.catalog, self.fence)
        if any(is_awaited(self.catalog, self.fence, view) for view in indexes):
            return None
        if self.catalog.logs:
            return self._begin_sweep(None)
        return self._begin_expiry_sweep() if indexes else None

    def save(
        self, entity: object, mode: Mode = "save", if_version: int | None = None, jobs: Iterable[Job] = ()
    ) -> Plan[tuple[ChangeResult, list[bytes]]]:
        return (yield from self.committed((yield from self._save_of(entity, mode, if_version)), jobs))

    def _save_of(self, entity: object, mode: Mode = "save", if_version: int | None = None) -> Plan[Save]:
        """The change of a save, after the store has given the entity what it may have to."""
        change = self.saving(entity, mode, if_version)
        if change is None:
            change = Save(self.catalog, (yield from self.generated(entity)), mode, if_version)
        return change

    def saving(self, entity: object, mode: Mode, if_version: int | None = None) -> Save | None:
        """The change of a save, which is not committed yet; None where the store may give the entity values."""
        return None if self.is_filled(entity) else Save(self.catalog, entity, mode, if_version)

    def committed(self, change: Save | Patch, jobs: Iterable[Job]) -> Plan[tuple[ChangeResult, list[bytes]]]:
        """Commits one change, with jobs; returns what it wrote, and the tasks that this left."""
        return change.written, (yield from self._commit_with(change, jobs))

    def commit_now(self, driver: Performer, change: Save | Patch) -> HasCost | None:
        """Commits one change without a plan, by compiled code; None, with nothing written, where only a plan can.

        Stepping a plan takes as long as what compiled code does. It is for those who count requests, too.
        """
        commits, committer = driver.at_once, self.committer
        if commits is None or not isinstance(committer, NativeCommitter):
            return None
        if driver.reads is not None or CURRENT.get() is not None:
            return None
        try:
            requests = committer.commit_now(commits, driver.now(), (change,))
        except Corrupt as error:
            driver.name_damaged(error)
            raise
        return None if requests is None else RoundCost(requests)

    def is_filled(self, entity: object) -> bool:
        """Whether the store may give an entity that is to be stored values that were left out."""
        if type(entity) in self._whole:
            return False
        self.catalog.stored_type_of(entity)  # which refuses others
        return True

    def _commit_with(self, change: Change, jobs: Iterable[Job]) -> Plan[list[bytes]]:
        rows = NO_JOBS if type(jobs) is tuple and not jobs else (yield from self.jobs.rows(jobs))
        return (yield from self.commit([change], jobs=rows))

    def batches(self, options: BatchOptions) -> Batches:
        """What gathers the changes of a bulk writer and commits them."""
        return self.parts.new_batches(self.changing, options)

    def changing(self, wanted: tuple[Any, ...]) -> Plan[Change]:
        """The change that a bulk writer commits."""
        verb = wanted[0]
        if verb == "change":
            made: Change = wanted[1]
            return made
        if verb == "patch":
            _verb, model, key, changes = wanted
            return self.patching(model, key, changes)
        if verb == "delete":
            _verb, model, key = wanted
            return Delete(self.catalog, self.root(model, key), None, model)
        return (yield from self._save_of(wanted[1], verb))

    def save_all(self, entities: Sequence[Any]) -> Plan[tuple[list[ChangeResult], list[bytes]]]:
        changes: list[Save] = []
        for entity in entities:
            change = yield from self._save_of(entity)
            changes.append(change)
        tasks = yield from self.commit(changes)
        return [change.written for change in changes], tasks

    def generated(self, entity: Any) -> Plan[Any]:
        """The entity with a generated key where none was given, and with blank references where they were left out."""
        names = self.catalog.stored_type_of(entity).defaults.generated
        blank = self._blank[type(entity)]
        if blank:
            omitted = {name: value for name, value in blank.items() if type(getattr(entity, name)) is Marker}
            if omitted:
                entity = msgspec.structs.replace(entity, **omitted)
        wanting = [name for name in names if getattr(entity, name) == GENERATED] if names else None
        if not wanting:
            return entity
        now = yield from Now()
        high, low = (yield from Random()), (yield from Random())
        bits = (int(high * 2**_HALF) << _HALF) | int(low * 2**_HALF)
        return msgspec.structs.replace(entity, **{name: uuid7(now, bits) for name in wanting})

    def patching(
        self, model: Any, key: tuple[Any, ...], changes: Mapping[str, Any], if_version: int | None = None
    ) -> Patch:
        """The change of a patch, which is not committed yet."""
        patch = Patch(self.catalog, self.root(model, key), patching(model, changes), if_version)
        patch.check = partial(self._check_changes, model, changes)
        return patch

    def _check_changes(self, model: type, changes: Mapping[str, Any]) -> None:
        self.catalog.check_values(model, values_of(changes))

    def patch(
        self,
        model: Any,
        key: tuple[Any, ...],
        changes: Mapping[str, Any],
        if_version: int | None,
        jobs: Iterable[Job] = (),
    ) -> Plan[tuple[ChangeResult, list[bytes]]]:
        return (yield from self.committed(self.patching(model, key, changes, if_version), jobs))

    def upsert(
        self, entity: Any, changes: Mapping[str, Any], jobs: Iterable[Job] = ()
    ) -> Plan[tuple[ChangeResult, list[bytes]]]:
        change = self.upserting((yield from self.generated(entity)), changes)
        return (yield from self.committed(change, jobs))

    def upserting(self, whole: Any, changes: Mapping[str, Any]) -> Patch:
        """The change of an upsert, which is not committed yet; the store has given the entity what it may have."""
        entity_type = self.catalog.type_of(whole)
        kind = entity_type.kind
        if entity_type.numbered is not None and getattr(whole, entity_type.numbered) == GENERATED:
            raise UsageError(
                "upsert names the entity that it may change: give its number, or use create",
                model=type(whole).__name__, field=entity_type.numbered,
            )  # fmt: skip
        patched = patching(type(whole), changes)
        self._check_changes(type(whole), changes)
        entity_type.check_entity(whole)
        return Patch(self.catalog, kind.key(kind.parts(whole)), patched, otherwise=whole)

    def delete(
        self,
        model: Any,
        key: tuple[Any, ...],
        if_version: int | None,
        children: Children = "refuse",
        jobs: Iterable[Job] = (),
    ) -> Plan[list[bytes]]:
        if children not in get_args(Children):
            raise UsageError("children: expected refuse or delete", given=children)
        if children == "delete":
            rows = yield from self.jobs.rows(jobs)
            return (
                yield from self._delete_group(
                    Delete(self.catalog, self.group_root(model, key), if_version, model), rows
                )
            )
        return (yield from self._commit_with(Delete(self.catalog, self.root(model, key), if_version, model), jobs))

    def _delete_group(self, deletion: Delete, jobs: Mapping[bytes, bytes]) -> Plan[list[bytes]]:
        """Deletes a root with its children; once more for those that came since they were listed."""
        deleted: list[bytes] = []
        while True:
            found = yield from self._children(deletion.key)
            changes = [Delete(self.catalog, child) for child in found]
            try:
                return (yield from self.commit([*changes, deletion], jobs=jobs))
            except StillReferenced:
                if found == deleted:  # the same ones: something else refers to the root, or to a child
                    raise
                deleted = found

    def _children(self, root: bytes) -> Plan[list[bytes]]:
        """The children of a root, by the holds on it; raises LimitExceeded when they are too many for one commit."""
        within = holds_on(root)
        found = yield from Scan("views", within, self.inline + 1)
        if len(found) > self.inline:
            raise LimitExceeded(
                "this group is too large to be deleted in one commit; delete children first",
                root=self.catalog.name_of(root),
                limit=self.inline,
            )
        holders = [key[len(within.start) :] for key, _row in found]
        return [key for key in holders if key != root and self.catalog.group_of(key) == root]

    def kind(self, model: Any) -> EntityKind:
        try:
            return self.catalog.kinds[model]
        except (KeyError, TypeError):
            if isinstance(model, (Ref, Copy)):
                raise UsageError(_CLASS_FIRST, given=model) from None
            raise UsageError("not a model of the schema", given=model) from None

    def reading(self, read: Callable[[], Plan[R]]) -> Plan[R]:
        """Runs a read; once more when it met a row of a newer program, after reading what that program has added."""
        try:
            return (yield from read())
        except SchemaMismatch:
            yield from self.refresh()
        return (yield from read())

    def root(self, model: Any, key: tuple[Any, ...]) -> RootKey:
        """The key of the root row of an entity, whose key or reference a call gives."""
        return self.kind(model).key(self.catalog.given_key(model, key))

    def group_root(self, model: Any, key: tuple[Any, ...]) -> RootKey:
        """The key of the root row of an entity group, whose root a call gives."""
        root = self.root(model, key)
        if self.catalog.group_of(root) != root:
            raise UsageError(
                "an entity group is named by its root",
                given=model,
                root=self.catalog.name_of(self.catalog.group_of(root)),
            )
        return root

    def find(self, model: Any, key: tuple[Any, ...], *, fresh: bool = False) -> Plan[FoundEntity]:
        """An entity and its version, or the row of a view; None for an absent one."""
        if type(fresh) is not bool:
            raise InvalidQuery("fresh is True or False", model=model, fresh=fresh)

        def read() -> Plan[FoundEntity]:
            view = self.catalog.views.get(model)
            if view is not None:
                if fresh:
                    raise InvalidQuery("fresh is for entities; a page of a view takes includes=", view=model)
                (found,) = yield from self._find_rows(view, [found_by(view, key)])
                return found, 0
            place = self.root(model, key)
            if fresh and (group := self.catalog.group_of(place)) != place:
                yield from self.outbox.include([pending_key(group, 0)])  # whatever commit waits there
            (row,) = yield from Read("roots", [place])
            return (yield from self._living(place, self._entity(model, place, row)))

        return self.reading(read)

    def _find_rows(self, view: CompiledView, wanted: Sequence[tuple[Any, ...]]) -> Plan[list[Any]]:
        """The rows under these values of a view's key, None for absent ones."""
        if view.cls in self.sides:
            return (yield from self.sides.find_many(view.cls, wanted))
        yield from self.fence.check_readable(view.cls)
        return (yield from view.find_many(wanted))

    def _find_answering(self, view: type) -> Plan[CompiledView]:
        """The view whose rows answer a read of this one. Raises NotReady."""
        if view in self.sides:
            return (yield from self.sides.find_readable(view))
        yield from self.fence.check_readable(view)
        return self.catalog.views[view]

    def _living(self, key: bytes, found: FoundEntity) -> Plan[FoundEntity]:
        """What was read, or None for an entity that has expired."""
        if kind_part(key) not in self.catalog.expiries or found[0] is None:
            return found
        return (None, 0) if self.catalog.is_expired(key, found[0], (yield from Now())) else found

    def _entity(self, model: Any, key: bytes, row: Row | None) -> FoundEntity:
        if row is None or BODY not in row:
            return None, 0
        try:
            entity = self.catalog.layouts_at(key).decode(self.parts.cells.lay(key, row)[BODY].value)
        except Corrupt as error:
            self.catalog.name_damaged(error, "roots", key)
            raise
        return (entity, own_version(row)) if isinstance(entity, model) else (None, 0)

    def get(self, model: Any, key: tuple[Any, ...], *, fresh: bool = False) -> Plan[FoundEntity]:
        """`find`, with NotFound for an absent one."""
        found = yield from self.find(model, key, fresh=fresh)
        if found[0] is None:
            raise NotFound("there is no such entity", model=model, key=key)
        return found

    def get_many(self, model: Any, keys: Sequence[Any]) -> Plan[list[FoundEntity]]:
        """Entities or rows of a view by key in one round trip, None for each absent one."""
        view = self.catalog.views.get(model) if isinstance(model, type) else None
        given = [one_key(model, key) for key in keys]
        if view is not None:
            found = yield from self._find_rows(view, [found_by(view, key) for key in given])
            return [(row, 0) for row in found]
        self.kind(model)
        places: list[bytes] = [self.root(model, key) for key in given]

        def read() -> Plan[list[FoundEntity]]:
            rows = yield from Read("roots", places)
            found = [self._entity(model, key, row) for key, row in zip(places, rows, strict=True)]
            if self.kind(model).prefix not in self.catalog.expiries:
                return found
            now = yield from Now()
            is_expired = self.catalog.is_expired
            return [
                (None, 0) if is_expired(key, each[0], now) else each for key, each in zip(places, found, strict=True)
            ]

        return (yield from self.reading(read))

    def lag(self) -> Plan[dict[str, TaskLag]]:
        """How far the tasks of each kind are behind."""
        return (yield from self.parts.tasks.lags()).kinds

    def behind(self, lag: Mapping[str, TaskLag]) -> Plan[float]:
        """Seconds since the oldest change that a view, copy or total may not show yet; `lag` is that of the tasks."""
        return max(oldest_of(lag), (yield from self.parts.oldest_commit()))

    def waiting(self, limit: int) -> Plan[list[WaitingTask]]:
        """The first tasks that wait."""
        return self.parts.tasks.waiting(limit)

    def backfill(self, options: BackfillOptions) -> Backfill:
        return Backfill(self.catalog, self.parts.building, self.outbox, self.fence.version, options)

    def refresh(self) -> Plan[None]:
        """Reads what other programs changed in the schema, and drops the lists of retired views."""
        yield from self.fence.refresh()
        self._drop_retired()

    def look(self) -> Plan[bool]:
        """`refresh`; and whether this program's worker is to look for what others left: see `Recoverer`."""
        looks = yield from self.parts.recoverer.look()
        self._drop_retired()
        return looks

    def share_tasks(self) -> None:
        """Lets this program's worker look for tasks of others whether or not another one does."""
        self.parts.recoverer.is_helper = True

    def _drop_retired(self) -> None:
        if self.fence.retired:
            self.lists.clear()

    def drain_step(self, batch: int, draining: Draining | None = None) -> Plan[TaskStepResult]:
        """One batch of one task of the outbox, else all counters that entities do not show yet."""
        result = yield from self.outbox.step(batch, draining)
        if not result and (yield from self.copies.copy_all()):
            return TaskStepResult.DONE
        return result

    def drain_or_wait(self, batch: int, draining: Draining | None = None) -> Plan[TaskStepResult]:
        """Like `drain_step`, with a pause when other workers have all of them."""
        result = yield from self.drain_step(batch, draining)
        if result is TaskStepResult.HELD:
            yield from Sleep(_POLL_SECONDS)
        return result

    def free_leases(self) -> Plan[None]:
        """Gives up the work that this program has begun, so that others continue with it at once."""
        yield from self.outbox.free()
        yield from self.chores.free()
        yield from self.parts.recoverer.free()


def found_by(view: CompiledView, key: tuple[Any, ...]) -> tuple[Any, ...]:
    """The key's values by which `get` finds one row; raises InvalidQuery for views with pages only and partial keys."""
    if not view.can_find:
        raise InvalidQuery("get needs a unique index or an aggregate; read a page of this index", view=view.cls)
    values = view.key.flat(key)
    if len(values) != len(view.key.codec.elements):
        raise InvalidQuery("get needs all values of this view's key", view=view.cls, given=key)
    if None in values and getattr(view.cls, "unique", False):
        raise InvalidQuery("None is never unique, so several rows may have it: read a page", view=view.cls, given=key)
    return values


def one_key(model: Any, key: Any) -> tuple[Any, ...]:
    """One of the keys of `get_many`, as `get` takes it."""
    if isinstance(key, (Ref, Copy)):
        return (key,)  # pyright: ignore[reportUnknownVariableType]  callers may be untyped
    if not isinstance(key, tuple):
        raise InvalidKey("get_many takes keys as tuples, or references: [(1,), (2,)]", model=model, key=key)
    return key  # pyright: ignore[reportUnknownVariableType]  callers may be untyped
