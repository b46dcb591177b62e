"""What the verbs are done with on a store that changes one row at a time; loaded when one is opened.

See docs/decisions/0074-one-row-at-a-time.md.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from oneread.database.group_overlay import GroupOverlay
from oneread.database.overlays import NewOverlay
from oneread.derivations.catalog import Catalog
from oneread.derivations.emitted_record import RecordedPointers
from oneread.evolution.fence import Fence
from oneread.evolution.leased_fence import LeasedFence
from oneread.feeds.row_following import RowFeeds, row_feeds_of
from oneread.store.limits import ROW_HOLDERS
from oneread.transactions.commit import FollowChanges
from oneread.transactions.group_shards import GroupShards
from oneread.transactions.row_rollups import TotalsCommitter
from oneread.transactions.row_tasks import RowTaskRunner


class RowParts(NamedTuple):
    """The parts of `Operations` that such a store has instead of others."""

    committer: TotalsCommitter
    outbox: RowTaskRunner
    new_overlay: NewOverlay
    feeds: RowFeeds


def row_parts(catalog: Catalog, fence: Fence, follow: FollowChanges, inline: int) -> RowParts:
    """Makes the parts; `inline` is the schema's."""
    committer = TotalsCommitter(
        catalog.name_of, follow, RecordedPointers(catalog.group_of), min(inline, ROW_HOLDERS), catalog.claim_facts
    )
    assert isinstance(fence, LeasedFence), "a commit of one row cannot read the fence"
    committer.lease, committer.clock = fence, fence.clock
    committer.feeds = feeds = row_feeds_of(catalog)
    committer.shards = GroupShards(catalog.shards)
    return RowParts(
        committer, RowTaskRunner(committer, standing=fence.standing), partial(GroupOverlay, committer), feeds
    )
