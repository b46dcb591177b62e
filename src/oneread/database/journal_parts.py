"""What the verbs are done with on a store that changes one row at a time; loaded when one is opened.

See docs/decisions/0074-one-row-at-a-time.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from oneread.counters.cache_committer import CacheFirstCommitter
from oneread.counters.shard_copying import ShardCopier, show_counter
from oneread.counters.shard_counters import ShardCounters
from oneread.counters.shard_sweep import ShardSweeper
from oneread.counters.shard_tokens import ShardTokens
from oneread.database.expiry_sweep import BackgroundSweeper
from oneread.database.group_overlay import GroupOverlay
from oneread.database.patches import may_repeat
from oneread.database.purge import Purge
from oneread.database.recoverer import Recoverer
from oneread.database.store_parts import ListedRows, OpenedSchema, StoreParts
from oneread.database.unfinished_commits import oldest_commit, unfinished_commits
from oneread.database.verifying import Inspector
from oneread.derivations.aggregates import AggregateView
from oneread.derivations.catalog import Catalog
from oneread.derivations.compiled_schema import ROW_FORM
from oneread.derivations.copy_cells import LaidCopies
from oneread.derivations.derivation import CompiledView
from oneread.derivations.emitted_record import RecordedPointers
from oneread.derivations.following_changes import followers
from oneread.derivations.one_row import refuse_unsupported
from oneread.derivations.pending_tasks import PendingTasks
from oneread.evolution.leased_fence import LeasedFence
from oneread.evolution.schema import Schema
from oneread.evolution.task_building import TaskBuilding
from oneread.feeds.cell_following import RowFeeds, row_feeds_of
from oneread.feeds.entry_cells import entry, is_entry
from oneread.feeds.feed_view import FeedView
from oneread.feeds.place_merging import row_group_reader
from oneread.jobs.queue import JobQueue
from oneread.store.limits import ROW_HOLDERS
from oneread.store.requests import Found
from oneread.store.rows import VALUE
from oneread.transactions.chores import Chore
from oneread.transactions.copy_cells import CopyCells
from oneread.transactions.group_shards import GroupShards, SpreadGroups
from oneread.transactions.journal import Journal
from oneread.transactions.journal_commits import RowCommitter
from oneread.transactions.move_positions import OF_MARKS
from oneread.transactions.outbox import GROUP_TASKS
from oneread.transactions.pipeline import DeclaredViews
from oneread.transactions.versioned_tasks import RowTaskRunner
from oneread.transfer.bulk import Batches, BatchOptions, MakeChange
from oneread.transfer.single_bulk import SingleBatches
from oneread.verify.by_looks import by_looks


class RowStore:
    """A `StoreKind`: the store changes one row at a time. `clock` is never set, in seconds."""

    form = ROW_FORM

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()

    def check(self, schema: Schema) -> None:
        refuse_unsupported(schema.unstored())

    def parts(self, catalog: Catalog, schema: Schema, opened: OpenedSchema, grace: int | None) -> StoreParts:
        fence = LeasedFence(catalog, *opened, self._began)
        fence.clock = self._clock
        return _row_parts(catalog, fence, schema.inline, grace)


def _row_parts(catalog: Catalog, fence: LeasedFence, inline: int, grace: int | None) -> StoreParts:
    """The parts; `inline` is the schema's, `grace` how long removed rows stay, in seconds, None for good."""
    cells = LaidCopies(catalog)
    committer, feeds = _new_committer(catalog, fence, inline, cells)
    gate = committer.journal.gate
    tasks = RowTaskRunner(committer, standing=fence.standing, writes_alone=fence.writes_alone)
    return StoreParts(
        fence=fence,
        commits_together=False,
        portable=True,
        committer=committer,
        outbox=tasks,
        new_overlay=partial(GroupOverlay, committer),
        own_writes=feeds,
        counters=ShardCounters(gate=gate),
        counter_sweeper=ShardSweeper(),
        cache_counters=CacheFirstCommitter(committer, gate),
        tokens=ShardTokens(gate),
        copies=ShardCopier(committer, catalog.counters),
        building=TaskBuilding(committer),
        inspector=Inspector(catalog, by_looks(catalog, cells, committer)),
        new_batches=partial(_new_batches, committer),
        cells=cells,
        chores=[] if grace is None else [_purge_chore(catalog, grace)],
        apply_later=committer.completion.apply_later,
        group_reader=row_group_reader,
        rows_of=partial(_rows_of, cells),
        recoverer=Recoverer(committer, fence, tasks.leases),
        prices="row",
        reads_of_save=_reads_of_save,
        job_queue=JobQueue(committer, comes_late=True, gate=gate),
        tasks=PendingTasks(catalog, [GROUP_TASKS]),
        unfinished_commits=unfinished_commits,
        oldest_commit=oldest_commit,
        log_positions=OF_MARKS,
    )


def _new_committer(
    catalog: Catalog, fence: LeasedFence, inline: int, cells: CopyCells
) -> tuple[RowCommitter, RowFeeds]:
    """The committer, and the feeds whose entries follow from its commits."""
    journal = Journal(catalog.name_of, fence.clock)
    journal.lease = journal.gate.lease = fence

    def clock() -> float:
        return journal.clock()

    feeds = row_feeds_of(catalog, clock)
    views = DeclaredViews(
        followers=followers(catalog)._replace(cells=cells),
        recorded=RecordedPointers(catalog.group_of),
        claim_facts=catalog.claim_facts,
        inline=min(inline, ROW_HOLDERS),
        feeds=feeds,
        shards=GroupShards(catalog.shards),
        read_counter=show_counter,
    )
    return RowCommitter(journal, views), feeds


def _new_batches(committer: RowCommitter, make: MakeChange, options: BatchOptions) -> Batches:
    return SingleBatches(make, committer, options, may_repeat)


def _rows_of(cells: CopyCells, view: CompiledView | None) -> ListedRows:
    if view is None:
        return ListedRows(entry=partial(_lay, cells))
    if isinstance(view, AggregateView):
        return ListedRows(_has_value, groups=SpreadGroups(view.shards, view.group_row))
    if isinstance(view, FeedView):
        merged = row_group_reader(view)
        return ListedRows(is_entry, merged, entry if merged is None else None)
    return ListedRows()


def _lay(cells: CopyCells, found: Found) -> Found:
    """A root row with the copied values that are in cells beside its document."""
    key, row = found
    return key, cells.lay(key, row)


def _has_value(found: Found) -> bool:
    """Whether a group has entities; the rows of one that had some are never removed."""
    return VALUE in found[1]


def _reads_of_save(own: str, sources: Sequence[str]) -> list[list[str]]:
    """The entity, and then those it refers to."""
    others = [each for each in dict.fromkeys(sources) if each != own]
    return [[own], others] if others else [[own]]


def _purge_chore(catalog: Catalog, grace: int) -> Chore:
    """What removes, now and then, the rows that were removed longer ago than the grace."""
    begin = partial(Purge, catalog, RecordedPointers(), grace)
    return BackgroundSweeper(begin, name="purge", pause=grace / 4)
