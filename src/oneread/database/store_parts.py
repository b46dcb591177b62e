"""What the verbs are done with: the parts that differ by what a store changes at once.

Here are those of stores whose transactions span rows. `journal_parts` has the others, and is loaded when a store that
changes one row at a time is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from oneread.counters.cache_committer import CacheFirstCommitter
from oneread.counters.committer import CounterCommitter, NativeCounters
from oneread.counters.copying import CounterCopier, NativeCopier
from oneread.counters.kept_tokens import KeptTokens, NativeTokens
from oneread.counters.sweep import TokenSweeper
from oneread.database.overlays import NewOverlay, SpanningOverlay
from oneread.database.unfinished_commits import UnfinishedCommits
from oneread.database.verifying import Inspector
from oneread.derivations.catalog import Catalog
from oneread.derivations.compiled_schema import SPANNING_FORM, StoredForm
from oneread.derivations.derivation import CompiledView
from oneread.derivations.following_changes import followers
from oneread.derivations.pending_tasks import PendingTasks
from oneread.evolution.building import Building, NativeBuilding
from oneread.evolution.fence import Fence
from oneread.evolution.schema import Schema
from oneread.feeds.feed_view import FeedView
from oneread.feeds.following import FeedFollower, FeedHandler, follower_of
from oneread.feeds.merging import LargeGroupReader, large_group_reader
from oneread.feeds.own_writes import OwnWrites
from oneread.jobs.queue import JobQueue
from oneread.plans.plan import Plan
from oneread.store.requests import Found
from oneread.transactions.chores import Chore
from oneread.transactions.commit import BatchCommitter
from oneread.transactions.copy_cells import NO_CELLS, CopyCells
from oneread.transactions.group_shards import SpreadGroups
from oneread.transactions.move_positions import OF_ENTRIES, LogPositions
from oneread.transactions.native import NativeCommitter
from oneread.transactions.outbox import FEED, FOLLOW
from oneread.transactions.task_batches import FollowHandler, TaskHandler, TaskRunner
from oneread.transactions.tasks import OutboxRunner
from oneread.transactions.unit_of_work import UnitOfWork
from oneread.transfer.bulk import Batches, BatchOptions, MakeChange, NativeBatches
from oneread.verify.in_snapshots import in_snapshots

if TYPE_CHECKING:
    from oneread.costs.bounds import Span
    from oneread.database.recoverer import Recoverer
    from oneread.feeds.cell_following import RowFeeds

NewBatches: TypeAlias = Callable[[MakeChange, BatchOptions], Batches]
"""Begins to gather the changes of a bulk writer, which the first argument makes."""


class OpenedSchema(NamedTuple):
    """What is known of a store's schema when it is opened."""

    version: int
    """That of this program's schema."""
    fence: bytes
    building: frozenset[type]
    """The views that are not readable yet."""


class ListedRows(NamedTuple):
    """How the rows of a list are stored; the fields are those of `Listed`."""

    is_shown: Callable[[Found], bool] | None = None
    merged: LargeGroupReader | None = None
    entry: Callable[[Found], Found] | None = None
    groups: SpreadGroups | None = None


class StoreParts(NamedTuple):
    """The parts of `Operations` that differ by the kind of store."""

    fence: Fence
    commits_together: bool
    """Whether one commit may change several entities; elsewhere each entity, or entity group, is one."""
    portable: bool
    """Whether a transaction is of one entity group."""
    committer: NativeCommitter | BatchCommitter
    outbox: OutboxRunner
    new_overlay: NewOverlay
    own_writes: OwnWrites | RowFeeds
    counters: CounterCommitter
    counter_sweeper: Chore
    cache_counters: CacheFirstCommitter
    tokens: KeptTokens
    copies: CounterCopier
    building: Building
    inspector: Inspector
    new_batches: NewBatches
    recoverer: EachRecovers | Recoverer
    """Says whether this worker is to look for what other programs left."""
    group_reader: Callable[[FeedView], LargeGroupReader | None]
    """Makes what merges the large groups of a feed into pages; None if it has none."""
    rows_of: Callable[[CompiledView | None], ListedRows]
    """Those of a view, or of the entities of a model."""
    prices: Span
    """Whose numbers a cost is made of."""
    reads_of_save: Callable[[str, Sequence[str]], list[list[str]]]
    """The root rows that a save reads, of the entity and of those it refers to, by request."""
    job_queue: JobQueue
    tasks: PendingTasks
    unfinished_commits: Callable[[int, int], Plan[UnfinishedCommits | None]]
    """Counts those that are not finished, so many a request and in all; None where no commit stays so."""
    oldest_commit: Callable[[], Plan[float]]
    """Seconds since the oldest of them began; 0 for none."""
    log_positions: LogPositions
    """What the log of a store that is moved holds."""
    cells: CopyCells = NO_CELLS
    chores: Sequence[Chore] = ()
    """What comes again and again, besides sweeps."""
    apply_later: Callable[[], None] = lambda: None
    """Lets writes return at their commit point, where what follows is not part of it: the worker applies it."""


class StoreKind(Protocol):
    """How stores of one kind are opened; made before anything of the store is read."""

    @property
    def form(self) -> StoredForm: ...

    def check(self, schema: Schema) -> None:
        """Raises Unsupported for a declaration that such stores do not keep."""
        ...

    def parts(self, catalog: Catalog, schema: Schema, opened: OpenedSchema, grace: int | None) -> StoreParts:
        """The parts of one store; `grace` is how long removed rows stay, in seconds, None for good."""
        ...


class EachRecovers:
    """In place of a `Recoverer`: each worker looks, since other programs leave tasks and nothing else."""

    is_helper = False

    def __init__(self, fence: Fence) -> None:
        self._fence = fence

    def look(self) -> Plan[bool]:
        """One request, one row."""
        yield from self._fence.refresh()
        return True

    def stand_back(self) -> None:
        """Nothing: no worker waits for another one."""

    def free(self) -> Plan[None]:
        """Nothing, likewise."""
        yield from ()


def _rows_of(view: CompiledView | None) -> ListedRows:
    """All as it is shown."""
    return ListedRows(merged=large_group_reader(view) if isinstance(view, FeedView) else None)


def _reads_of_save(own: str, sources: Sequence[str]) -> list[list[str]]:
    """All in one request."""
    return [list(dict.fromkeys([own, *sources]))]


def _no_commits(_batch: int, _most: int) -> Plan[None]:
    yield from ()


def _no_seconds() -> Plan[float]:
    yield from ()
    return 0.0


class SpanningStore:
    """A `StoreKind`: the transactions of the store span rows."""

    form = SPANNING_FORM

    def check(self, schema: Schema) -> None:
        """Nothing: such stores keep whatever can be declared."""

    def parts(self, catalog: Catalog, schema: Schema, opened: OpenedSchema, grace: int | None) -> StoreParts:  # noqa: ARG002 - removed rows are gone
        return _native_parts(catalog, Fence(catalog, *opened), schema.inline, portable=schema.portable)


def _native_parts(catalog: Catalog, fence: Fence, inline: int, *, portable: bool) -> StoreParts:
    """The parts; `inline` and `portable` are the schema's."""
    feeds = follower_of(catalog, inline)
    committer = _new_committer(catalog, fence, inline, feeds)
    handlers: dict[str, TaskHandler] = {
        FOLLOW: FollowHandler(catalog.source),
        FEED: FeedHandler(FeedFollower((), inline) if feeds is None else feeds),
    }
    counters = NativeCounters(committer)
    return StoreParts(
        fence=fence,
        commits_together=True,
        portable=portable,
        committer=committer,
        outbox=TaskRunner(committer, handlers, standing=fence.standing),
        new_overlay=partial(SpanningOverlay, committer, catalog, portable=portable),
        own_writes=OwnWrites(committer, feeds),
        counters=counters,
        counter_sweeper=TokenSweeper(committer, counters),
        cache_counters=CacheFirstCommitter(committer),
        tokens=NativeTokens(committer),
        copies=NativeCopier(committer, catalog.counters),
        building=NativeBuilding(committer),
        inspector=Inspector(catalog, in_snapshots(catalog, committer)),
        new_batches=partial(_new_batches, committer),
        recoverer=EachRecovers(fence),
        prices="rows",
        reads_of_save=_reads_of_save,
        job_queue=JobQueue(committer, comes_late=False),
        tasks=PendingTasks(catalog),
        unfinished_commits=_no_commits,
        oldest_commit=_no_seconds,
        log_positions=OF_ENTRIES,
        group_reader=large_group_reader,
        rows_of=_rows_of,
    )


def _new_committer(catalog: Catalog, fence: Fence, inline: int, feeds: FeedFollower | None) -> NativeCommitter:
    new_unit = partial(
        UnitOfWork,
        name_of=catalog.name_of,
        claim_facts=catalog.claim_facts,
        logs=catalog.logged,
        follower=feeds,
    )
    follow = followers(catalog)._replace(of_views=feeds, logs=catalog.logged)
    return NativeCommitter(catalog.name_of, fence, follow, inline, new_unit)


def _new_batches(committer: NativeCommitter, make: MakeChange, options: BatchOptions) -> Batches:
    return NativeBatches(make, committer, options)
