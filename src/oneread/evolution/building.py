"""What a backfill does in another way on each kind of store; `task_building` has that of stores of one row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Protocol

from oneread.derivations.derivation import CompiledView
from oneread.derivations.group_indexes import IndexedGroups
from oneread.feeds.entries import Entries
from oneread.feeds.feed_view import FeedView
from oneread.feeds.large_groups import LargeGroups, large_groups_of
from oneread.plans.plan import Plan
from oneread.store.rows import RowRange
from oneread.transactions.commit import Commit, Committer
from oneread.transactions.native import NativeCommitter
from oneread.transactions.system_rows import Swap


class Building(Protocol):
    """How views are built in one store. What `committer` can do on every store, a backfill asks of it."""

    @property
    def committer(self) -> Committer: ...

    def commit(self, commit: Commit) -> Plan[None]:
        """Commits changes together, or in pages; raises what refuses the first that is refused."""
        ...

    def follow_groups_of(self, aggregates: Sequence[bytes]) -> Plan[None]:
        """Gives what shows groups of these aggregates, by prefix, the numbers that older programs have left."""
        ...

    def index_groups(self, indexed: IndexedGroups, groups: Sequence[bytes], swaps: Sequence[Swap]) -> Plan[None]:
        """Writes the index rows of some groups as they are now, and swaps system rows.

        Raises:
            GroupRefused: an index cannot show one of them.
        """
        ...

    def former_entries(self, prefixes: Iterable[bytes]) -> Iterable[bytes]:
        """Of the prefixes of a feed, those whose rows are removed before it is built."""
        ...

    def counted_groups(self, feed: FeedView) -> LargeGroups | None:
        """The large groups of a feed whose members are to be counted; None for none."""
        ...

    def removed_rows(self, parts: Sequence[CompiledView]) -> Sequence[RowRange]:
        """Where rows of items and memberships may be that older programs removed, and of which entries remain."""
        ...

    def passes_over(self, parts: Sequence[CompiledView]) -> bool:
        """Whether the entries of a feed are built by a pass over memberships, where these of its parts are built."""
        ...


class NativeBuilding:
    """That of stores whose transactions span rows.

    What commits have written of a feed meanwhile is removed first: it is of some memberships and items only.
    """

    def __init__(self, committer: NativeCommitter) -> None:
        self.committer = committer

    def commit(self, commit: Commit) -> Plan[None]:
        yield from self.committer.commit(commit)

    def follow_groups_of(self, aggregates: Sequence[bytes]) -> Plan[None]:  # noqa: ARG002 - part of the contract
        """Nothing: what shows a group follows in the commit that changes it."""
        yield from ()

    def index_groups(self, indexed: IndexedGroups, groups: Sequence[bytes], swaps: Sequence[Swap]) -> Plan[None]:
        return self.committer.together(partial(indexed.write_rows, groups=groups), swaps)

    def former_entries(self, prefixes: Iterable[bytes]) -> Iterable[bytes]:
        return prefixes

    def counted_groups(self, feed: FeedView) -> LargeGroups | None:
        return large_groups_of(Entries(feed))

    def removed_rows(self, parts: Sequence[CompiledView]) -> Sequence[RowRange]:  # noqa: ARG002 - as above
        """None: removed rows are not kept."""
        return ()

    def passes_over(self, parts: Sequence[CompiledView]) -> bool:  # noqa: ARG002 - as above
        return True
