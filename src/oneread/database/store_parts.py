"""What the verbs are done with: the parts that differ by what a store changes at once.

Here are those of stores whose transactions span rows. `row_parts` has the others, and is loaded when a store that
changes one row at a time is opened.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from oneread.counters.cache_committer import CacheFirstCommitter
from oneread.counters.committer import CounterCommitter, NativeCounters
from oneread.counters.copying import CounterCopier, NativeCopier
from oneread.counters.sweep import TokenSweeper
from oneread.database.expiry_sweep import SweepSteps
from oneread.database.overlays import NewOverlay, SpanningOverlay
from oneread.derivations.catalog import Catalog
from oneread.derivations.changes import followers
from oneread.evolution.fence import Fence
from oneread.feeds.feed_view import FeedView
from oneread.feeds.following import FeedFollower, FeedHandler, follower_of
from oneread.feeds.merging import LargeGroupReader, large_group_reader
from oneread.feeds.own_writes import OwnWrites
from oneread.transactions.commit import BatchCommitter
from oneread.transactions.copy_cells import NO_CELLS, CopyCells
from oneread.transactions.jobs import PeriodicJob
from oneread.transactions.native import NativeCommitter
from oneread.transactions.outbox import FEED, FOLLOW
from oneread.transactions.tasks import FollowHandler, OutboxRunner, TaskHandler, TaskRunner
from oneread.transactions.unit_of_work import UnitOfWork

if TYPE_CHECKING:
    from oneread.database.recoverer import Recoverer
    from oneread.feeds.row_following import RowFeeds


class StoreParts(NamedTuple):
    """The parts of `Operations` that differ by the kind of store."""

    committer: NativeCommitter | BatchCommitter
    outbox: OutboxRunner
    new_overlay: NewOverlay
    own_writes: OwnWrites | RowFeeds
    counters: CounterCommitter
    counter_sweeper: PeriodicJob
    cache_counters: CacheFirstCommitter
    copies: CounterCopier
    cells: CopyCells = NO_CELLS
    begin_purge: Callable[[], SweepSteps] | None = None
    """Begins a purge of what was removed; None where removed rows are gone."""
    apply_later: Callable[[], None] = lambda: None
    """Lets writes return at their commit point, where what follows is not part of it: the worker applies it."""
    group_reader: Callable[[FeedView], LargeGroupReader | None] = large_group_reader
    """Makes what merges the large groups of a feed into pages; None if it has none."""
    recoverer: Recoverer | None = None
    """The lease by which one worker looks for what other programs left; None where each of them looks."""


def native_parts(catalog: Catalog, fence: Fence, inline: int, *, portable: bool) -> StoreParts:
    """The parts for a store whose transactions span rows; `inline` and `portable` are the schema's."""
    feeds = follower_of(catalog, inline)
    new_unit = partial(
        UnitOfWork,
        name_of=catalog.name_of,
        claim_facts=catalog.claim_facts,
        logs=catalog.logged,
        follower=feeds,
    )
    follow = followers(catalog)._replace(of_views=feeds, logs=catalog.logged)
    committer = NativeCommitter(catalog.name_of, fence, follow, inline, new_unit)
    handlers: dict[str, TaskHandler] = {
        FOLLOW: FollowHandler(catalog.source),
        FEED: FeedHandler(FeedFollower((), inline) if feeds is None else feeds),
    }
    counters = NativeCounters(committer)
    return StoreParts(
        committer=committer,
        outbox=TaskRunner(committer, handlers, standing=fence.standing),
        new_overlay=partial(SpanningOverlay, committer, catalog, portable=portable),
        own_writes=OwnWrites(committer, feeds),
        counters=counters,
        counter_sweeper=TokenSweeper(committer, counters),
        cache_counters=CacheFirstCommitter(committer),
        copies=NativeCopier(committer, catalog.counters),
    )
