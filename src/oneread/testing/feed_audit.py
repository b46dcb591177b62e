"""What must hold of the rows of a feed after every transaction, with tasks in the outbox or without.

For each pair of a row of the items and a row of the memberships, neither of which has a task, nor has expired:

- both are there and lie in one group: the member has the entry, the pair is among those that show it, and the entry
  shows the item as it is;
- one of them is not there, or pages of the member merge the items of the group: the pair shows no entry.

So a page can show too much, too little or former values only of items and memberships that have a task. And each member
has as many entries as its row says, and no more than declared. See rule 15 of the commit protocol.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from oneread.errors import Corrupt
from oneread.feeds.entries import Entries, ItemRow, MemberRow, read_kept, shown_by
from oneread.store.keys import VIEW_BYTES, view_part
from oneread.store.rows import VALUE, Row
from oneread.testing.large_groups_audit import FeedOffence, large_groups_audit


class _Pair(NamedTuple):
    item: bytes
    row: ItemRow
    membership: bytes
    member: MemberRow


def keyspaces_of(feed: Entries) -> Iterable[bytes]:
    """The prefixes of the rows that no entity emits: they are checked here."""
    large = feed.view.large
    further = () if large is None else (large.groups, large.read, large.written)
    return [each for each in (feed.prefix, feed.view.kept, *further) if each is not None]


def check_feed(
    feed: Entries, views: Mapping[bytes, Row], tasks: Collection[bytes], now: int, *, spans_rows: bool
) -> None:
    """Checks all rows of a feed; `tasks` are the rows that have one, `now` the latest clock of any process.

    Raises:
        FeedOffence: the first thing that does not hold.
    """
    large = large_groups_audit(feed, views, spans_rows=spans_rows)
    _check_entries(feed, views, tasks, _Limits(feed, views, now), large.is_merged if large else lambda _key: False)
    if feed.view.kept is not None:
        _check_numbers(feed, feed.view.kept, views)
    if large is not None:
        large.check(tasks)


def _check_numbers(feed: Entries, kept: bytes, views: Mapping[bytes, Row]) -> None:
    entries = Counter(kept + feed.member_in(key) for key in views if view_part(key) == feed.prefix)
    rows = {key: read_kept(row) for key, row in views.items() if view_part(key) == kept}
    for place in entries.keys() | rows.keys():
        said = rows[place].entries if place in rows else 0
        if said != entries[place]:
            raise FeedOffence(f"{feed.name}: the member has {entries[place]} entries, and not {said}: {place!r}")
        if feed.view.at_most is not None and said > feed.view.at_most:
            raise FeedOffence(f"{feed.name}: {said} entries are more than declared: {place!r}")


def _check_entries(
    feed: Entries,
    views: Mapping[bytes, Row],
    tasks: Collection[bytes],
    limits: _Limits,
    is_merged: Callable[[bytes], bool],
) -> None:
    pairs = _pairs_of(feed, views, is_merged)
    stored = {key: row for key, row in views.items() if view_part(key) == feed.prefix}

    def has_task(item: bytes, membership: bytes) -> bool:
        return item in tasks or membership in tasks

    for key, row in stored.items():
        _check_named(feed, key, row, pairs.get(key, {}), has_task)
    for key, known in pairs.items():
        if limits.has_left(key):
            continue
        at_rest = {pair: each for pair, each in known.items() if not has_task(each.item, each.membership)}
        if at_rest:
            _check_entry(feed, key, stored.get(key), at_rest)


def _pairs_of(
    feed: Entries, views: Mapping[bytes, Row], is_merged: Callable[[bytes], bool]
) -> dict[bytes, dict[bytes, _Pair]]:
    """The naive join of what is written to members, by key of the entry, and by group and membership."""
    found: dict[bytes, dict[bytes, _Pair]] = {}
    items = [each for each in views.items() if view_part(each[0]) == feed.items]
    for key, row in views.items():
        if view_part(key) == feed.members and not is_merged(key):
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
