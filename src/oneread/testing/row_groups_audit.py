"""Large groups on a store that changes one row at a time: entries as pages show them, and what must hold of the rows.

Pages merge the items of the groups in a member's places, and show no entries of these. All others are visited by the
tasks of items: all members of a group that is written or crosses, those of `written` in one that is read. See
docs/decisions/0092-large-groups-on-one-row.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from oneread.feeds.entries import SHOWN_BY, Entries, read_kept, shown_by, shown_by_cell
from oneread.feeds.row_entries import NONE_HIDDEN, entry_row, group_digest
from oneread.feeds.row_large_groups import Places, RowsOfLargeGroups, rows_of_large_groups
from oneread.store.keys import VIEW_BYTES, view_part
from oneread.store.requests import Found
from oneread.store.rows import REMOVED, VALUE, Row
from oneread.testing.feed_rows_audit import FeedOffence

_EXACT: Final = 128
"""A greatest number of members below which every membership has the members of its group counted."""


def hidden_of(feed: Entries, stored: Sequence[Found]) -> Mapping[bytes, frozenset[bytes]]:
    """The groups whose entries are not shown, by member; none of a feed without large groups."""
    large = rows_of_large_groups(feed.view)
    if large is None:
        return {}
    return {member: frozenset(map(group_digest, each.groups)) for member, each in _places(large, dict(stored)).items()}


def shown_entries(feed: Entries, stored: Sequence[Found]) -> list[Found]:
    """The entries of a feed with large groups as pages show them."""
    hidden = hidden_of(feed, stored)
    found: dict[bytes, Row] = {}
    for key, row in stored:
        if view_part(key) == feed.prefix:
            shown = entry_row(row, hidden.get(feed.member_in(key), NONE_HIDDEN))
            if shown:
                found[key] = shown
    for key, row in _merged(feed, {key: row for key, row in stored if VALUE in row and row[VALUE].value != REMOVED}):
        others = shown_by(found[key]) if key in found else []
        found[key] = row | {SHOWN_BY: shown_by_cell(sorted({*others, *shown_by(row)}), 0)}
    return list(found.items())


def _merged(feed: Entries, views: Mapping[bytes, Row]) -> list[Found]:
    """The items that pages merge, as entries: one for each item and membership."""
    large = rows_of_large_groups(feed.view)
    assert large is not None, "asked only of feeds with large groups"
    places, found = _places(large, views), list[Found]()
    memberships = [each for each in views.items() if view_part(each[0]) == feed.members]
    for key, row in views.items():
        if view_part(key) == feed.items:
            group = feed.group_of(key)
            item = feed.split_item(key, row, group)
            for place, membership in memberships:
                if feed.group_of(place) == group and group in places.get(feed.member_of(place, group), Places()).groups:
                    member = feed.split_member(place, membership, group, 0)
                    shown = {VALUE: feed.shown(item, member), SHOWN_BY: shown_by_cell([member.membership], 0)}
                    found.append((feed.prefix + member.member + item.tail, shown))
    by_key: dict[bytes, Row] = {}
    for key, row in found:
        before = shown_by(by_key[key]) if key in by_key else []
        by_key[key] = row | {SHOWN_BY: shown_by_cell(sorted({*before, *shown_by(row)}), 0)}
    return list(by_key.items())


def _places(large: RowsOfLargeGroups, views: Mapping[bytes, Row]) -> dict[bytes, Places]:
    start = view_part(large.places_key(b""))
    return {key[VIEW_BYTES:]: large.places_of(row) for key, row in views.items() if view_part(key) == start}


def check_large_groups(feed: Entries, views: Mapping[bytes, Row], tasks: Collection[bytes]) -> None:
    """Checks the rows of the large groups of a feed; `tasks` are the rows that have one.

    Raises:
        FeedOffence: the first thing that does not hold.
    """
    kept, most, large = feed.view.kept, feed.view.at_most, rows_of_large_groups(feed.view)
    if kept is not None and most is not None:
        for key, row in views.items():
            if view_part(key) == kept and read_kept(row).entries > most:
                raise FeedOffence(f"{feed.name}: a member has more entries than declared: {key!r}")
    if large is None:
        return
    places = _places(large, views)
    for member, each in places.items():
        if len(each.groups) > large.merged or len(set(each.groups)) < len(each.groups):
            raise FeedOffence(f"{feed.name}: a page of a member would merge {each.groups}: {member!r}")
    groups: dict[bytes, list[bytes]] = {}
    for key in views:
        if view_part(key) == feed.members:
            groups.setdefault(feed.group_of(key), []).append(key)
    for group in {*groups, *[key[VIEW_BYTES:] for key in views if view_part(key) == large.groups]}:
        memberships = groups.get(group, [])
        _check_group(large, group, memberships, views, tasks)


def _check_group(
    large: RowsOfLargeGroups,
    group: bytes,
    memberships: list[bytes],
    views: Mapping[bytes, Row],
    tasks: Collection[bytes],
) -> None:
    feed, mode = large.feed, large.mode_of(views.get(large.group_key(group)))
    waits = any(view_part(key) in (feed.members, large.groups) for key in tasks)
    if mode.crosses and large.crossing(group, mode.epoch) not in tasks:
        raise FeedOffence(f"{feed.name}: a group crosses without a task: {group!r} {mode}")
    count = len(memberships)
    wrong = 2 * count < large.above if mode.reads else count > large.above
    if wrong and large.above < _EXACT and not waits:
        raise FeedOffence(f"{feed.name}: a group of {count} is on the wrong side of {large.above}: {group!r} {mode}")
    if not mode.is_merged:
        return
    places = _places(large, views)
    for key in memberships:
        member = feed.member_of(key, group)
        is_merged = group in places.get(member, Places()).groups
        if not is_merged and large.written_key(group, member) not in views and key not in tasks:
            raise FeedOffence(f"{feed.name}: new items would not reach a member: {key!r}")
