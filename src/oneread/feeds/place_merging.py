"""Pages of feeds with large groups on a store that changes one row at a time, and their changes.

First come the member's places, then everything else: a group that is merged by then has all its items in the index of
items, whatever becomes of the place. Its entries are not shown, since those of items that were removed meanwhile are
left. See docs/decisions/0092-large-groups-on-one-row.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from oneread.feeds.entry_cells import entry_row, group_digest
from oneread.feeds.feed_view import FeedView, LargeGroupOptions
from oneread.feeds.large_group_cells import RowsOfLargeGroups
from oneread.feeds.merging import LargeGroupReader, MergedGroups, T
from oneread.plans.effects import Together
from oneread.plans.plan import Plan
from oneread.store.requests import Found, Read, Scan


class RowGroupReader(LargeGroupReader):
    """Reads which items a page of one feed merges; the requests of the page are of several moments."""

    is_snapshot = False

    def __init__(self, view: FeedView, options: LargeGroupOptions) -> None:
        super().__init__(view, options)
        self._rows = RowsOfLargeGroups(self.feed, options)

    def look(self, run: Callable[[], Plan[T]]) -> Plan[T]:
        """Runs a plan that reads."""
        return run()

    def groups(self, prefix: bytes) -> Plan[MergedGroups]:
        """The groups that a member reads, the keys of whose entries begin so. A read, and a scan for each group."""
        feed, rows = self.feed, self._rows
        member = feed.member_in(prefix)
        (row,) = yield from Read("views", [rows.places_key(member)])
        places = rows.places_of(row).groups
        scans = [Scan("views", rows.memberships(group, member), 1) for group in places]
        found = yield from Together([scan.__iter__() for scan in scans])
        items = {
            group: self.maker(group, feed.split_member(*memberships[0], group, 0))
            for group, memberships in zip(places, found, strict=True)
            if memberships
        }
        hidden = frozenset(map(group_digest, places))
        return MergedGroups(items, partial(_entry, hidden))


def _entry(hidden: frozenset[bytes], found: Found) -> Found:
    key, row = found
    return key, entry_row(row, hidden)


def row_group_reader(view: FeedView) -> LargeGroupReader | None:
    """What pages of a feed merge; None if it has no large groups."""
    return None if view.large is None else RowGroupReader(view, view.large)
