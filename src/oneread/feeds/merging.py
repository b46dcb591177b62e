"""Pages of feeds with large groups, and their changes: the member's entries, and the items of the groups that he reads.

The rows are all of one moment, so that a membership that goes over meanwhile is on one side. An item that has both an
entry and a row among the items of a group is shown once, as the item is. See docs/decisions/0060-large-groups.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from oneread.errors import Expired
from oneread.feeds.entries import Entries, MemberRow
from oneread.feeds.feed_view import FeedView, LargeGroupOptions
from oneread.feeds.large_groups import LargeGroups
from oneread.plans.effects import Snapshot
from oneread.plans.plan import Plan
from oneread.store.keys import VIEW_BYTES, view_part
from oneread.store.requests import Found, Read, Scan
from oneread.store.rows import VALUE, Row, RowRange

T = TypeVar("T")

_OTHER_GROUPS: Final = (
    "this member reads other large groups than when the cursor was made; read the page again, and continue from a new "
    "cursor"
)


class ItemRange(NamedTuple):
    """Items of one group that belong between the entries of a member."""

    within: RowRange
    cut: int
    """Where the keys go on as those of the entries do behind the values that the page was given."""
    entry: Callable[[Found], Found]
    """From an item to the entry that the member would have."""


class MergedGroups(NamedTuple):
    """What the pages of a member merge."""

    items: Mapping[bytes, Callable[[Found], Found]]
    """Of each group what makes entries of its items."""
    entry: Callable[[Found], Found] | None = None
    """What makes an entry of a stored row, where that is not the row."""


class MergedRanges(NamedTuple):
    """What a page merges with a range of a member's entries."""

    items: Sequence[ItemRange]
    entry: Callable[[Found], Found] | None
    """What makes an entry of a stored row, where that is not the row."""


class LargeGroupReader:
    """Reads which items a page of one feed merges."""

    is_snapshot = True
    """Whether a page is read at one moment, in this process: then requests need not be made at the same time."""

    def __init__(self, view: FeedView, options: LargeGroupOptions) -> None:
        self.view = view
        self.feed = Entries(view)
        self._large = LargeGroups(self.feed, options)

    def look(self, run: Callable[[], Plan[T]]) -> Plan[T]:
        """Runs a plan that reads: the rows that say which items are merged, and the rows merged, are of one moment."""
        return Snapshot(run).__iter__()

    def explain(self, limit: int) -> str:
        """What a page of that many rows reads besides entries."""
        name, merged = self.feed.name, self._large.merged
        reads = f"scan views for the large groups of {name}, at most {merged}, and {limit + 1} items of each"
        return f"in one snapshot, for each member: {reads}"

    def ranges(self, prefix: bytes, cut: int, within: RowRange) -> Plan[MergedRanges]:
        """The items that belong into a range of the entries of one member, whose keys begin with `prefix`.

        `cut` is how many bytes of these keys say what the page was given. One request, and a row for each large group.
        """
        items = self.feed.items
        merged = yield from self.groups(prefix)
        ranges = [
            ItemRange(_moved(within, prefix, items + group), len(items) + len(group) + cut - len(prefix), entry)
            for group, entry in merged.items.items()
        ]
        return MergedRanges(ranges, merged.entry)

    def groups(self, prefix: bytes) -> Plan[MergedGroups]:
        """The groups that a member reads, the keys of whose entries begin so.

        One request, and a row for each group.
        """
        feed, large = self.feed, self._large
        member = feed.member_in(prefix)
        found = yield from Scan("views", large.read_of(member), large.merged)
        groups = {large.read_group(key, member): (key, row) for key, row in found}
        return MergedGroups(
            {
                group: self.maker(group, feed.split_member(large.membership_of(key, member), row, group, 0))
                for group, (key, row) in groups.items()
            }
        )

    def follow(self, prefix: bytes) -> FollowedMember:
        """What changes the page of one member, the keys of whose entries begin so."""
        return FollowedMember(self, self._large.read_of(self.feed.member_in(prefix)), prefix)

    def maker(self, group: bytes, member: MemberRow) -> Callable[[Found], Found]:
        """What makes entries of the items of a group for one of its members."""
        feed = self.feed
        prefix = feed.prefix + member.member

        def entry(found: Found) -> Found:
            key, row = found
            item = feed.split_item(key, row, group)
            return prefix + item.tail, {VALUE: feed.shown(item, member)}

        return entry


class FollowedMember:
    """A member's page, for those who follow its changes: of his entries, and of items of the groups that he reads."""

    def __init__(self, reader: LargeGroupReader, read: RowRange, prefix: bytes) -> None:
        self._reader = reader
        self._feed = reader.feed
        self._read = read
        self._prefix = prefix
        self._merged = MergedGroups({})

    def load(self) -> Plan[None]:
        """Learns which groups he reads. One request, and a row for each group."""
        self._merged = yield from self._reader.groups(self._prefix)

    def place(self, changed: bytes) -> bytes | None:
        """The row of the page that a changed row is, or may be shown as; None for a row of others.

        Raises Expired when other groups are read than before: what their items change is not in the log.
        """
        feed, table = self._feed, view_part(changed)
        if table == feed.prefix:
            return changed
        if table == feed.items:
            group = feed.group_of(changed)
            return self._prefix + changed[VIEW_BYTES + len(group) :] if group in self._merged.items else None
        if self._read.start <= changed < self._read.stop:
            raise Expired(_OTHER_GROUPS, view=self._reader.view.cls)
        return None

    def rows(self, keys: Sequence[bytes]) -> Plan[list[Row | None]]:
        """Rows of the page as they are; None for those that it does not have. One request.

        A row for each key and each group.
        """
        start, items = len(self._prefix), self._feed.items
        places = [*keys, *[items + group + key[start:] for group in self._merged.items for key in keys]]
        found = dict(zip(places, (yield from Read("views", places)), strict=True))
        rows = {key: self._stored(key, found[key]) for key in keys}
        for group, entry in self._merged.items.items():
            for key in keys:
                place = items + group + key[start:]
                row = found[place]
                if row is not None:
                    rows[key] = entry((place, row))[1]
        return list(rows.values())

    def _stored(self, key: bytes, row: Row | None) -> Row | None:
        entry = self._merged.entry
        return row if row is None or entry is None else entry((key, row))[1] or None


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
