"""What must hold of the rows of a feed's large groups after every transaction, with tasks or without.

A group is on the right side of the threshold, and has a task while it crosses; each membership that no task is for is
served as its group says; and no member has more groups to merge than a page reads. A store whose transactions span rows
counts the memberships of each group, and has a row for each membership that is read; one that changes one row at a time
has a row of places for each member. See docs/decisions/0060-large-groups.md and
docs/decisions/0092-large-groups-on-one-row.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Final

from oneread.feeds.entries import Entries
from oneread.feeds.large_group_cells import Places, RowsOfLargeGroups, rows_of_large_groups
from oneread.feeds.large_groups import Delivery, GroupState, LargeGroups, large_groups_of, row_values
from oneread.store.keys import VIEW_BYTES, view_part
from oneread.store.rows import VALUE, Row
from oneread.testing.logical_rows import places_of

_MOVING: Final = (Delivery.FILLING, Delivery.EMPTYING)
_EXACT: Final = 128
"""A greatest number of members below which every membership has the members of its group counted."""


class FeedOffence(Exception):
    """A row of a feed is missing, left over or different."""


class _LargeGroupsAudit:
    """The memberships of one feed, by group."""

    def __init__(self, feed: Entries, views: Mapping[bytes, Row]) -> None:
        declared = feed.view.large
        assert declared is not None, "made for a feed with large groups"
        self._declared = declared  # what the code under test makes of it may be wrong
        self._feed = feed
        self._views = views
        self._members: dict[bytes, list[bytes]] = {}
        for key in self._rows(feed.members):
            self._members.setdefault(feed.group_of(key), []).append(key)

    def _rows(self, prefix: bytes) -> dict[bytes, Row]:
        return {key: row for key, row in self._views.items() if view_part(key) == prefix}

    def _groups(self, prefix: bytes) -> set[bytes]:
        """The groups with members, or with a row."""
        return {*self._members, *[key[VIEW_BYTES:] for key in self._rows(prefix)]}

    def _offence(self, what: str, key: bytes, also: object = "") -> FeedOffence:
        return FeedOffence(f"{self._feed.name}: {what}: {key!r} {also}")

    def is_merged(self, key: bytes) -> bool:
        """Whether a membership gets no entries, since pages of its member merge the items of the group."""
        raise NotImplementedError

    def check(self, tasks: Collection[bytes]) -> None:
        """Checks all rows; `tasks` are the rows that have one.

        Raises:
            FeedOffence: the first thing that does not hold.
        """
        raise NotImplementedError


class _RowsOfMemberships(_LargeGroupsAudit):
    """On a store whose transactions span rows."""

    def __init__(self, feed: Entries, large: LargeGroups, views: Mapping[bytes, Row]) -> None:
        super().__init__(feed, views)
        self._large = large

    def is_merged(self, key: bytes) -> bool:
        return not self._delivery(key).is_given

    def _delivery(self, key: bytes) -> Delivery:
        read, written = self._places(key)
        return self._large.delivery_of(self._views.get(read), self._views.get(written))

    def _places(self, key: bytes) -> tuple[bytes, bytes]:
        return self._large.read_key(key, self._feed.group_of(key)), self._large.written_key(key)

    def check(self, tasks: Collection[bytes]) -> None:
        large, expected = self._large, dict[bytes, Row]()
        for group in self._groups(large.groups):
            state = large.state_of(self._views.get(large.group_key(group)))
            memberships = self._members.get(group, [])
            self._check_group(large.group_key(group), state, len(memberships), tasks)
            for key in memberships:
                expected |= self._expected_rows(key, state, key in tasks)
        for key in {*self._rows(large.read), *self._rows(large.written)} - expected.keys():
            raise self._offence("a row of a membership that is not there", key)
        for member, groups in Counter(self._feed.member_in(key) for key in self._rows(large.read)).items():
            if groups > self._declared.merged:
                raise self._offence(f"a page of a member would merge {groups} groups", member)

    def _check_group(self, key: bytes, state: GroupState, members: int, tasks: Collection[bytes]) -> None:
        if state.members != members:
            raise self._offence(f"a group has {members} members, and not {state.members}", key)
        if not members and not state.crosses and key in self._views:
            raise self._offence("a group without members has a row", key, state)
        above = self._declared.above
        if 2 * members < above if state.reads else members > above:
            raise self._offence("a group is on the wrong side of the threshold", key, state)
        if state.crosses and key not in tasks:
            raise self._offence("a group crosses without a task", key, state)

    def _expected_rows(self, key: bytes, state: GroupState, has_task: bool) -> dict[bytes, Row]:  # noqa: FBT001 - one caller
        """The rows of `read` and `written` of a membership, which must show what its own row does."""
        delivery = self._delivery(key)
        settled = (Delivery.READ, Delivery.WRITTEN) if state.reads else (Delivery.PLAIN,)
        moves = state.crosses and delivery not in _MOVING
        if not has_task and delivery not in settled and not moves:
            raise self._offence(f"a membership is {delivery.name}, and its group {state}", key)
        rows = self._large.rows_of(delivery, self._views[key][VALUE].value, 0)
        expected = dict(zip(self._places(key), rows, strict=True))
        for place, wanted in expected.items():
            if row_values(self._views.get(place)) != row_values(wanted):
                raise self._offence("a row is not that of its membership", place)
        return {place: wanted for place, wanted in expected.items() if wanted is not None}


class _RowsOfPlaces(_LargeGroupsAudit):
    """On a store that changes one row at a time."""

    def __init__(self, feed: Entries, large: RowsOfLargeGroups, views: Mapping[bytes, Row]) -> None:
        super().__init__(feed, views)
        self._large = large

    @cached_property
    def _places(self) -> dict[bytes, Places]:
        return places_of(self._large, self._views)

    def is_merged(self, key: bytes) -> bool:
        group = self._feed.group_of(key)
        return group in self._places.get(self._feed.member_of(key, group), Places()).groups

    def check(self, tasks: Collection[bytes]) -> None:
        for member, each in self._places.items():
            if len(each.groups) > self._declared.merged or len(set(each.groups)) < len(each.groups):
                raise self._offence(f"a page of a member would merge {each.groups}", member)
        for group in self._groups(self._large.groups):
            self._check_group(group, self._members.get(group, []), tasks)

    def _check_group(self, group: bytes, memberships: list[bytes], tasks: Collection[bytes]) -> None:
        large, mode = self._large, self._large.mode_of(self._views.get(self._large.group_key(group)))
        waits = any(view_part(key) in (self._feed.members, large.groups) for key in tasks)
        if mode.crosses and large.crossing(group, mode.epoch) not in tasks:
            raise self._offence("a group crosses without a task", group, mode)
        count = len(memberships)
        wrong = 2 * count < large.above if mode.reads else count > large.above
        if wrong and large.above < _EXACT and not waits:
            raise self._offence(f"a group of {count} is on the wrong side of {large.above}", group, mode)
        for key in memberships if mode.is_merged else ():
            written = large.written_key(group, self._feed.member_of(key, group))
            if not self.is_merged(key) and written not in self._views and key not in tasks:
                raise self._offence("new items would not reach a member", key)


def large_groups_audit(feed: Entries, views: Mapping[bytes, Row], *, spans_rows: bool) -> _LargeGroupsAudit | None:
    """What checks the large groups of a feed; None if it declares none."""
    if not spans_rows:
        places = rows_of_large_groups(feed.view)
        return None if places is None else _RowsOfPlaces(feed, places, views)
    memberships = large_groups_of(feed)
    return None if memberships is None else _RowsOfMemberships(feed, memberships, views)
