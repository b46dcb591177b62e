"""What the verbs are done with on a store that changes one row at a time; loaded when one is opened.

See docs/decisions/0074-one-row-at-a-time.md.
"""

from __future__ import annotations

from functools import partial

from oneread.counters.cache_committer import CacheFirstCommitter
from oneread.counters.row_copying import RowCounterCopier, show_counter
from oneread.counters.row_counters import RowCounters
from oneread.counters.row_sweep import RowTokenSweeper
from oneread.database.group_overlay import GroupOverlay
from oneread.database.purge import Purge
from oneread.database.recoverer import Recoverer
from oneread.database.store_parts import StoreParts
from oneread.derivations.catalog import Catalog
from oneread.derivations.changes import followers
from oneread.derivations.copy_cells import LaidCopies
from oneread.derivations.emitted_record import RecordedPointers
from oneread.evolution.fence import Fence
from oneread.evolution.leased_fence import LeasedFence
from oneread.feeds.row_following import row_feeds_of
from oneread.feeds.row_merging import row_group_reader
from oneread.store.limits import ROW_HOLDERS
from oneread.transactions.group_shards import GroupShards
from oneread.transactions.row_pages import PagesCommitter
from oneread.transactions.row_tasks import RowTaskRunner


def row_parts(catalog: Catalog, fence: Fence, inline: int, grace: int | None) -> StoreParts:
    """The parts; `inline` is the schema's, `grace` how long removed rows stay, in seconds, None for good."""

    def clock() -> float:
        return committer.clock()

    cells, feeds = LaidCopies(catalog), row_feeds_of(catalog, clock)
    follow = followers(catalog)._replace(cells=cells)
    committer = PagesCommitter(
        catalog.name_of, follow, RecordedPointers(catalog.group_of), min(inline, ROW_HOLDERS), catalog.claim_facts
    )
    assert isinstance(fence, LeasedFence), "a commit of one row cannot read the fence"
    committer.lease, committer.clock = fence, fence.clock
    committer.feeds, committer.shards = feeds, GroupShards(catalog.shards)
    committer.read_counter = show_counter
    tasks = RowTaskRunner(committer, standing=fence.standing, writes_alone=fence.writes_alone)
    return StoreParts(
        committer,
        tasks,
        partial(GroupOverlay, committer),
        feeds,
        RowCounters(),
        RowTokenSweeper(),
        CacheFirstCommitter(committer),
        RowCounterCopier(committer, catalog.counters),
        cells,
        None if grace is None else partial(Purge, catalog, RecordedPointers(), grace),
        committer.apply_later,
        row_group_reader,
        Recoverer(committer, fence, tasks.leases),
    )
