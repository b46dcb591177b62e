"""What of a feed is compared: everything, or what is newest for one member."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from oneread.feeds.entries import Entries
from oneread.store.rows import RowRange


class FeedScope(NamedTuple):
    """Ranges of items and entries that are compared with each other, and of the memberships of a group."""

    items: Sequence[RowRange]
    members: Callable[[bytes], RowRange]
    entries: RowRange


def whole_feed(feed: Entries) -> FeedScope:
    """Everything."""
    return FeedScope([RowRange.under(feed.items)], feed.members_of, RowRange.under(feed.prefix))


def newest_of_member(feed: Entries, member: bytes, groups: Iterable[bytes], before: bytes) -> FeedScope:
    """What these groups show to a member, as far as it is `before` a time and item; all where that is empty."""

    def newest(prefix: bytes) -> RowRange:
        return RowRange(prefix, prefix + before) if before else RowRange.under(prefix)

    def of_group(group: bytes) -> RowRange:
        return RowRange.under(feed.members + group + member)

    return FeedScope([newest(feed.items + each) for each in groups], of_group, newest(feed.prefix + member))
