"""Pages of feeds with large groups: the member's entries merged with the items of the groups that he reads.

The rows are all of one moment, so that a membership that goes over meanwhile is on one side. An item that has both an
entry and a row among the items of a group is shown once, as the item is. See docs/decisions/0060-large-groups.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from oneread.feeds.entries import Entries, MemberRow
from oneread.feeds.feed_view import FeedView, LargeGroupOptions
from oneread.feeds.large_groups import LargeGroups
from oneread.plans.plan import Plan
from oneread.store.requests import Found, Scan
from oneread.store.rows import RowRange
from oneread.transactions.unit_of_work import VALUE


class ItemRange(NamedTuple):
    """Items of one group that belong between the entries of a member."""

    within: RowRange
    cut: int
    """Where the keys go on as those of the entries do behind the values that the page was given."""
    entry: Callable[[Found], Found]
    """From an item to the entry that the member would have."""


class LargeGroupReader:
    """Reads which items a page of one feed merges."""

    def __init__(self, view: FeedView, options: LargeGroupOptions) -> None:
        self.view = view
        self._feed = Entries(view)
        self._large = LargeGroups(self._feed, options)

    def explain(self, limit: int) -> str:
        """What a page of that many rows reads besides entries."""
        name, merged = self._feed.name, self._large.merged
        return f"scan views for the large groups of {name}, at most {merged}, and {limit + 1} items of each"

    def ranges(self, prefix: bytes, cut: int, within: RowRange) -> Plan[Sequence[ItemRange]]:
        """The items that belong into a range of the entries of one member, whose keys begin with `prefix`.

        `cut` is how many bytes of these keys say what the page was given. One request, and a row for each large group.
        """
        feed, large = self._feed, self._large
        member = feed.member_in(prefix)
        found = yield from Scan("views", large.read_of(member), large.merged)
        groups = {large.read_group(key, member): (key, row) for key, row in found}
        return [
            ItemRange(
                _moved(within, prefix, feed.items + group),
                len(feed.items) + len(group) + cut - len(prefix),
                self._maker(group, feed.split_member(large.membership_of(key, member), row, group, 0)),
            )
            for group, (key, row) in groups.items()
        ]

    def _maker(self, group: bytes, member: MemberRow) -> Callable[[Found], Found]:
        feed = self._feed
        prefix = feed.prefix + member.member

        def entry(found: Found) -> Found:
            key, row = found
            item = feed.split_item(key, row, group)
            return prefix + item.tail, {VALUE: feed.shown(item, member)}

        return entry


def _moved(within: RowRange, prefix: bytes, onto: bytes) -> RowRange:
    """A range of keys under a prefix, as a range of keys under another one."""
    every, target = RowRange.under(prefix), RowRange.under(onto)

    def edge(key: bytes) -> bytes:
        if key.startswith(prefix):
            return onto + key[len(prefix) :]
        return target.start if key < prefix else target.stop

    stop = target.stop if not within.stop or (every.stop and within.stop >= every.stop) else edge(within.stop)
    return RowRange(edge(within.start), stop)


def large_group_reader(view: FeedView) -> LargeGroupReader | None:
    """What pages of a feed merge; None if it has no large groups."""
    return None if view.large is None else LargeGroupReader(view, view.large)
