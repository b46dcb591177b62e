"""What must hold of the entries of a feed after every transaction, with tasks in the outbox or without.

For each pair of a row of the items and a row of the memberships, neither of which has a task, nor has expired:

- both are there and lie in one group: the member has the entry, the pair is among those that show it, and the entry
  shows the item as it is;
- one of them is not there, or the membership is of a large group and read: the pair shows no entry.

So a page can show too much, too little or former values only of items and memberships that have a task. See rule 15 of
the commit protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from oneread.errors import Corrupt
from oneread.feeds.entries import Entries, ItemRow, MemberRow, read_kept, shown_by
from oneread.store.keys import VIEW_BYTES, view_part
from oneread.store.rows import VALUE, Row
from oneread.testing.feed_rows_audit import FeedOffence, read_memberships


class _Pair(NamedTuple):
    item: bytes
    row: ItemRow
    membership: bytes
    member: MemberRow


def check_entries(feed: Entries, views: Mapping[bytes, Row], tasks: Collection[bytes], now: int) -> None:
    """Checks all entries of a feed; `tasks` are the rows that have one, `now` the latest clock of any process.

    Raises:
        FeedOffence: the first thing that does not hold.
    """
    pairs = _pairs_of(feed, views)
    stored = {key: row for key, row in views.items() if view_part(key) == feed.prefix}

    def has_task(item: bytes, membership: bytes) -> bool:
        return item in tasks or membership in tasks

    for key, row in stored.items():
        _check_named(feed, key, row, pairs.get(key, {}), has_task)
    limits = _Limits(feed, views, now)
    for key, known in pairs.items():
        if limits.has_left(key):
            continue
        at_rest = {pair: each for pair, each in known.items() if not has_task(each.item, each.membership)}
        if at_rest:
            _check_entry(feed, key, stored.get(key), at_rest)


def _pairs_of(feed: Entries, views: Mapping[bytes, Row]) -> dict[bytes, dict[bytes, _Pair]]:
    """The naive join of what is written to members, by key of the entry, and by group and membership."""
    found: dict[bytes, dict[bytes, _Pair]] = {}
    items = [each for each in views.items() if view_part(each[0]) == feed.items]
    read = read_memberships(feed, views)
    for key, row in views.items():
        if view_part(key) == feed.members and key not in read:
            group = feed.group_of(key)
            member = feed.split_member(key, row, group, 0)
            for item, body in items:
                if feed.group_of(item) == group:
                    place = feed.prefix + member.member + item[VIEW_BYTES + len(group) :]
                    found.setdefault(place, {})[member.membership] = _Pair(
                        item, feed.split_item(item, body, group), key, member
                    )
    return found


class _Limits:
    """Which entries need not be there, because they are too old, or the member has too many."""

    def __init__(self, feed: Entries, views: Mapping[bytes, Row], now: int) -> None:
        self._feed = feed
        self._views = views
        self._oldest = feed.oldest(now)

    def has_left(self, key: bytes) -> bool:
        feed, tail, kept = self._feed, self._feed.tail_of(key), self._feed.view.kept
        if self._oldest is not None and tail >= self._oldest:
            return True
        trimmed = b"" if kept is None else read_kept(self._views.get(kept + feed.member_in(key))).trimmed
        return bool(trimmed) and tail >= trimmed


def _check_named(
    feed: Entries, key: bytes, row: Row, pairs: Mapping[bytes, _Pair], has_task: Callable[[bytes, bytes], bool]
) -> None:
    try:
        named = shown_by(row)
    except Corrupt as error:
        raise FeedOffence(f"{feed.name}: an entry that names no memberships: {key!r} {row!r}") from error
    if not named or named != sorted(set(named)):
        raise FeedOffence(f"{feed.name}: the memberships of an entry are not a sorted set: {key!r} {named!r}")
    for each in named:
        if each not in pairs and not has_task(*feed.sides_of(key, each)):
            raise FeedOffence(f"{feed.name}: an entry is left over: {key!r} {each!r}")


def _check_entry(feed: Entries, key: bytes, row: Row | None, at_rest: Mapping[bytes, _Pair]) -> None:
    if row is None:
        raise FeedOffence(f"{feed.name}: an entry is missing: {key!r} {list(at_rest)!r}")
    known = shown_by(row)
    lacking = [each for each in at_rest if each not in known]
    if lacking:
        raise FeedOffence(f"{feed.name}: an entry lacks memberships: {key!r} {lacking!r}")
    expected = {feed.shown(each.row, each.member).value for each in at_rest.values()}
    if {row[VALUE].value} != expected:
        raise FeedOffence(f"{feed.name}: an entry is wrong: {key!r} is {row[VALUE].value!r} instead of {expected!r}")
