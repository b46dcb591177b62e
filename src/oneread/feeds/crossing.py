"""The task of a group that crosses the threshold of large groups: its memberships go over, some in each transaction.

The task of a group that turns round begins again. A membership that joins meanwhile is placed by its own commit. See
docs/decisions/0060-large-groups.md.
"""

from __future__ import annotations

from oneread.feeds.large_groups import LargeGroups
from oneread.feeds.placing import EntryWriter, Placing
from oneread.store.requests import Found
from oneread.store.rows import Row, RowRange
from oneread.transactions.task_batches import TaskRows


class Crossing:
    """One step of the task of a group, which puts or removes `inline` entries, or those of one member."""

    def __init__(self, large: LargeGroups, entries: EntryWriter, placing: Placing, inline: int) -> None:
        self._inline = inline
        self._large = large
        self._entries = entries
        self._placing = placing

    def next_rows(self, key: bytes, row: Row | None, cursor: bytes, size: int) -> TaskRows:
        """The next memberships of a group: so many that their entries fit into one transaction. Two scans."""
        large, group = self._large, self._large.group_of(key)
        if not large.state_of(row).crosses:
            return TaskRows((), more=False)
        items = self._items(group)
        size = size if items is None else max(1, min(size, self._inline // (len(items) + 1)))
        within = large.feed.members_of(group)
        found = self._entries.scan(within.behind(cursor) if cursor >= within.start else within, size)
        return TaskRows(found, more=len(found) == size)

    def do(self, key: bytes, rows: TaskRows) -> None:
        """Takes memberships over; behind the last one the group has crossed.

        A scan and four reads; for a member who is in as many large groups as a page merges, a scan and a read more.
        """
        large, group = self._large, self._large.group_of(key)
        items = self._items(group)
        self._placing.load(large, [place for place, _row in rows.found])
        if not self._placing.state(large, group).crosses:
            return
        for found in rows.found:
            self._placing.visit(large, found, items)
        if not rows.more:
            self._placing.end_crossing(large, group)
        self._entries.write()

    def begin_again(self, key: bytes) -> None:
        """Lets a group cross again, whose memberships could not all be taken over."""
        self._placing.begin_again(self._large, self._large.group_of(key))

    def _items(self, group: bytes) -> list[Found] | None:
        """The items of a group; None if these are too many for one transaction.

        Those that have expired too: their entries are there until a sweep, which visits no membership that is read.
        """
        within = RowRange.under(self._large.feed.items + group)
        items = self._entries.scan(within, self._inline + 1)
        return items if len(items) <= self._inline else None
