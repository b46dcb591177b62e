"""What a backfill does in its own way on a store that changes one row at a time, whose commits leave tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oneread.derivations.derivation import CompiledView
from oneread.derivations.group_indexes import IndexedGroups
from oneread.feeds.feed_view import FeedView
from oneread.feeds.large_groups import LargeGroups
from oneread.plans.plan import Plan
from oneread.store.rows import RowRange
from oneread.transactions.commit import BatchCommitter, Commit
from oneread.transactions.system_rows import Swap


class TaskBuilding:
    """A `Building`. Each commit leaves its task, and what a task puts is right whenever it comes.

    So of feeds only what left no task is to follow: the rows that older code removed, of a part that is built, and all
    memberships where both parts were there before.
    """

    def __init__(self, committer: BatchCommitter) -> None:
        self.committer = committer

    def commit(self, commit: Commit) -> Plan[None]:
        if commit.changes:
            refused = (yield from self.committer.commit_batch(commit.changes, stops=True)).refused
            if refused:
                commit.is_deciding = True
                raise refused[min(refused)]
        yield from self.committer.commit(Commit((), commit.swaps))

    def follow_groups_of(self, aggregates: Sequence[bytes]) -> Plan[None]:
        return self.committer.follow_groups_of(aggregates)

    def index_groups(self, indexed: IndexedGroups, groups: Sequence[bytes], swaps: Sequence[Swap]) -> Plan[None]:  # noqa: ARG002 - part of the contract
        return self.committer.index_groups(groups, swaps)

    def former_entries(self, prefixes: Iterable[bytes]) -> Iterable[bytes]:  # noqa: ARG002 - as above
        return ()

    def counted_groups(self, feed: FeedView) -> LargeGroups | None:  # noqa: ARG002 - as above
        """None: the number of members is not stored."""
        return None

    def removed_rows(self, parts: Sequence[CompiledView]) -> Sequence[RowRange]:
        return [RowRange.under(each.prefix) for each in parts]

    def passes_over(self, parts: Sequence[CompiledView]) -> bool:
        return not parts
