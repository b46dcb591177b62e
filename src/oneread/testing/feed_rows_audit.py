"""What must hold of the rows of a feed besides its entries after every transaction, with tasks or without.

Each member's row says how many entries there are, and there are no more than declared. Of large groups: a group's row
has the number of its memberships and is on the right side of the threshold; while it crosses, a task is for it; each
membership that no task is for is served as its group says; and no member has more to merge than a page reads. See
docs/decisions/0060-large-groups.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from oneread.feeds.entries import Entries, read_kept
from oneread.feeds.large_groups import Delivery, GroupState, LargeGroups, large_groups_of, row_values
from oneread.store.keys import view_part
from oneread.store.rows import VALUE, Row

_MOVING = (Delivery.FILLING, Delivery.EMPTYING)


class FeedOffence(Exception):
    """A row of a feed is missing, left over or different."""


def keyspaces_of(feed: Entries) -> Iterable[bytes]:
    """The prefixes of the rows that no entity emits: the entries, and what is checked here."""
    large = feed.view.large
    further = () if large is None else (large.groups, large.read, large.written)
    return [each for each in (feed.prefix, feed.view.kept, *further) if each is not None]


def read_memberships(feed: Entries, views: Mapping[bytes, Row]) -> set[bytes]:
    """The rows of memberships whose members get no entries, since a page merges the items of the group."""
    large = large_groups_of(feed)
    if large is None:
        return set()
    found = {key: _delivery(large, views, key) for key in views if view_part(key) == feed.members}
    return {key for key, delivery in found.items() if not delivery.is_given}


def check_rows(feed: Entries, views: Mapping[bytes, Row], tasks: Collection[bytes]) -> None:
    """Checks the rows of a feed besides its entries; `tasks` are the rows that have one.

    Raises:
        FeedOffence: the first thing that does not hold.
    """
    if feed.view.kept is not None:
        _check_numbers(feed, feed.view.kept, views)
    large = large_groups_of(feed)
    if large is not None:
        _LargeAudit(large, views, tasks).check()


def _check_numbers(feed: Entries, kept: bytes, views: Mapping[bytes, Row]) -> None:
    entries = Counter(kept + feed.member_in(key) for key in views if view_part(key) == feed.prefix)
    rows = {key: read_kept(row) for key, row in views.items() if view_part(key) == kept}
    for place in entries.keys() | rows.keys():
        said = rows[place].entries if place in rows else 0
        if said != entries[place]:
            raise FeedOffence(f"{feed.name}: the member has {entries[place]} entries, and not {said}: {place!r}")
        if feed.view.at_most is not None and said > feed.view.at_most:
            raise FeedOffence(f"{feed.name}: {said} entries are more than declared: {place!r}")


def _delivery(large: LargeGroups, views: Mapping[bytes, Row], key: bytes) -> Delivery:
    read, written = large.read_key(key, large.feed.group_of(key)), large.written_key(key)
    return large.delivery_of(views.get(read), views.get(written))


class _LargeAudit:
    """Checks the rows of one feed's large groups."""

    def __init__(self, large: LargeGroups, views: Mapping[bytes, Row], tasks: Collection[bytes]) -> None:
        assert large.feed.view.large is not None, "asked only of feeds with large groups"
        self._large = large
        self._declared = large.feed.view.large
        self._name = large.feed.name
        self._views = views
        self._tasks = tasks

    def check(self) -> None:
        large, feed = self._large, self._large.feed
        memberships = self._rows(feed.members)
        members = Counter(large.group_key(feed.group_of(key)) for key in memberships)
        states = {key: large.state_of(row) for key, row in self._rows(large.groups).items()}
        for key in members.keys() | states.keys():
            self._check_group(key, states.get(key, GroupState()), members[key])
        expected: dict[bytes, Row] = {}
        for key, row in memberships.items():
            state = states.get(large.group_key(feed.group_of(key)), GroupState())
            expected |= self._rows_of(key, row, state)
        for key in {*self._rows(large.read), *self._rows(large.written)} - expected.keys():
            raise FeedOffence(f"{self._name}: a row of a membership that is not there: {key!r}")
        merged = Counter(feed.member_in(key) for key in self._rows(large.read))
        for member, groups in merged.items():
            if groups > self._declared.merged:
                raise FeedOffence(f"{self._name}: a page of a member would merge {groups} groups: {member!r}")

    def _rows(self, prefix: bytes) -> dict[bytes, Row]:
        return {key: row for key, row in self._views.items() if view_part(key) == prefix}

    def _check_group(self, key: bytes, state: GroupState, members: int) -> None:
        if state.members != members:
            raise FeedOffence(f"{self._name}: a group has {members} members, and not {state.members}: {key!r}")
        if not members and not state.crosses and key in self._views:
            raise FeedOffence(f"{self._name}: a group without members has a row: {key!r} {state}")
        if 2 * members < self._declared.above if state.reads else members > self._declared.above:
            raise FeedOffence(f"{self._name}: a group is on the wrong side of the threshold: {key!r} {state}")
        if state.crosses and key not in self._tasks:
            raise FeedOffence(f"{self._name}: a group crosses without a task: {key!r} {state}")

    def _rows_of(self, key: bytes, row: Row, state: GroupState) -> dict[bytes, Row]:
        """The rows of `read` and `written` of a membership, which must show what its own row does."""
        large, delivery = self._large, _delivery(self._large, self._views, key)
        settled = (Delivery.READ, Delivery.WRITTEN) if state.reads else (Delivery.PLAIN,)
        moves = state.crosses and delivery not in _MOVING
        if key not in self._tasks and delivery not in settled and not moves:
            raise FeedOffence(f"{self._name}: a membership is {delivery.name}, and its group {state}: {key!r}")
        places = large.read_key(key, large.feed.group_of(key)), large.written_key(key)
        expected = dict(zip(places, large.rows_of(delivery, row[VALUE].value, 0), strict=True))
        for place, wanted in expected.items():
            if row_values(self._views.get(place)) != row_values(wanted):
                raise FeedOffence(f"{self._name}: a row is not that of its membership: {place!r}")
        return {place: wanted for place, wanted in expected.items() if wanted is not None}
