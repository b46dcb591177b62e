"""What must hold of the entries of a feed after every transaction, with tasks in the outbox or without.

For each pair of a row of the items and a row of the memberships, neither of which has a task, nor has expired:

- both are there and lie in one group: the member has the entry, the pair is among its witnesses, and the entry shows
  the item as it is;
- one of them is not there: the pair is not a witness of any entry.

So a page can show too much, too little or former values only of items and memberships that have a task. See rule 15 of
the commit protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from oneread.errors import Corrupt
from oneread.feeds.entries import Entries, MemberRow, witnesses_of
from oneread.store.keys import VIEW_BYTES, view_part
from oneread.store.rows import Row
from oneread.transactions.unit_of_work import VALUE


class FeedOffence(Exception):
    """An entry is missing, left over or different."""


class _Pair(NamedTuple):
    item: bytes
    row: Row
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
        _check_witnesses(feed, key, row, pairs.get(key, {}), has_task)
    for key, shown_by in pairs.items():
        if feed.is_expired(feed.tail_of(key), now):
            continue
        at_rest = {witness: each for witness, each in shown_by.items() if not has_task(each.item, each.membership)}
        if at_rest:
            _check_entry(feed, key, stored.get(key), at_rest)


def _pairs_of(feed: Entries, views: Mapping[bytes, Row]) -> dict[bytes, dict[bytes, _Pair]]:
    """The naive join, by key of the entry and by witness."""
    found: dict[bytes, dict[bytes, _Pair]] = {}
    items = [each for each in views.items() if view_part(each[0]) == feed.items]
    for key, row in views.items():
        if view_part(key) == feed.members:
            group = feed.group_of(key)
            member = feed.split_member(key, row, group)
            for item, body in items:
                if feed.group_of(item) == group:
                    place = feed.prefix + member.member + item[VIEW_BYTES + len(group) :]
                    found.setdefault(place, {})[member.witness] = _Pair(item, body, key, member)
    return found


def _check_witnesses(
    feed: Entries, key: bytes, row: Row, pairs: Mapping[bytes, _Pair], has_task: Callable[[bytes, bytes], bool]
) -> None:
    try:
        witnesses = witnesses_of(row)
    except Corrupt as error:
        raise FeedOffence(f"{feed.name}: an entry without witnesses: {key!r} {row!r}") from error
    if not witnesses or witnesses != sorted(set(witnesses)):
        raise FeedOffence(f"{feed.name}: the witnesses of an entry are no sorted set: {key!r} {witnesses!r}")
    for each in witnesses:
        if each not in pairs and not has_task(*feed.sides_of(key, each)):
            raise FeedOffence(f"{feed.name}: an entry is left over: {key!r} {each!r}")


def _check_entry(feed: Entries, key: bytes, row: Row | None, at_rest: Mapping[bytes, _Pair]) -> None:
    if row is None:
        raise FeedOffence(f"{feed.name}: an entry is missing: {key!r} {list(at_rest)!r}")
    known = witnesses_of(row)
    lacking = [each for each in at_rest if each not in known]
    if lacking:
        raise FeedOffence(f"{feed.name}: an entry lacks witnesses: {key!r} {lacking!r}")
    expected = {feed.value(each.row, each.member) for each in at_rest.values()}
    if {row[VALUE].value} != expected:
        raise FeedOffence(f"{feed.name}: an entry is wrong: {key!r} is {row[VALUE].value!r} instead of {expected!r}")
