"""What a commit of one row adds to feeds and change logs, behind its commit point.

The arithmetic is that of `feeds.row_following`, `feeds.row_crossing` and `transactions.row_log`. See
docs/explanation/costs.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from oneread.costs.bounds import Rows
from oneread.costs.entity_costs import EntityCosts
from oneread.costs.feed_costs import TASK, USUAL_PARTNERS, ChangedParts
from oneread.costs.log_costs import LOG, entry_size
from oneread.costs.row_commits import Parts, RequestedRows, at_once
from oneread.costs.sizes import HEADER, Size, greatest
from oneread.costs.writes import ViewRows
from oneread.feeds.feed_view import FeedView, LargeGroupOptions
from oneread.store.limits import KEY_BYTES, VALUES_BYTES
from oneread.transactions.change_log import KEYS_OF_ENTRY

_CELLS: Final = Size(2 * (VALUES_BYTES + KEY_BYTES + 2 * HEADER) + 64, 60)
"""What an entry has besides: the columns of its two cells, and the membership that shows it."""

_PLACE: Final = Size(VALUES_BYTES + HEADER, 12)
"""A group among the places of a member."""

_STATE: Final = Size(60, 20)
"""What a row of large groups has besides."""

_SCANNED: Final = 1_000
"""Entries of one request that looks for those beyond `at_most`."""

_COUNTED: Final = 200
"""Memberships of one request that counts the members of a group."""


def logged(name: str, keys: int, times: int = 1) -> Parts:
    """So many changed keys of a watched view, added so many times: where a program adds first, it reads the log.

    Of a log without a row also the last entry, if there is one.
    """
    entries = -(-keys // KEYS_OF_ENTRY)
    added = {
        "looked": RequestedRows(Rows("read", "system", "change logs", name), times, LOG, times),
        "begun": RequestedRows(Rows("scan", "system", "first entries of change logs", name), times, LOG, times),
        "entries": RequestedRows(
            Rows("write", "system", "entries of change logs", name),
            times * entries,
            entry_size(min(keys, KEYS_OF_ENTRY)),
            times * entries,
        ),
        "counted": RequestedRows(Rows("write", "system", "change logs", name), times, LOG, times),
    }
    return {f"log of {name} {part}": each for part, each in added.items()} if keys else {}


class RowEntries:
    """The feeds of one schema, and its watched views. `inline` entries follow a changed row at most within a call."""

    def __init__(self, costs: EntityCosts, watched: AbstractSet[str], inline: int) -> None:
        self._costs = costs
        self._watched = watched
        self._inline = inline
        self._feeds = [view for view in costs.catalog.views.values() if isinstance(view, FeedView)]

    def parts(self, own: Sequence[ViewRows], *, has_task: bool) -> Parts:
        """What follows from so many changed rows of views, by names that are the same in every commit."""
        written = {cost.form.name: rows for cost, rows in own if cost.form.table == "views"}
        parts = at_once(*(logged(name, written[name]) for name in sorted(written.keys() & self._watched)))
        changed = [
            (feed, found)
            for feed in self._feeds
            if (found := ChangedParts(*(written.get(each.__name__, 0) for each in feed.parts))).rows
        ]
        for feed, found in changed:
            tasks = Rows("write", "system", "tasks", feed.cls.__name__)
            asks = feed is changed[0][0] and not has_task
            parts[f"tasks of {feed.cls.__name__}"] = RequestedRows(tasks, found.rows, TASK, int(asks), step="tasks")
        parts |= at_once(*(self._given(feed, found) for feed, found in changed))
        for feed, found in changed:
            ended = Rows("write", "system", "tasks are removed", feed.cls.__name__)
            parts[f"ended of {feed.cls.__name__}"] = RequestedRows(
                ended, found.rows, TASK, int(feed is changed[0][0]), step="tasks are removed"
            )
        return parts

    def _given(self, feed: FeedView, changed: ChangedParts) -> Parts:
        """The first entries of each changed item and membership: first of those that are removed, then of all others.

        What rows of one turn ask for is asked at the same time.
        """
        name, count, most = feed.cls.__name__, changed.rows, self._inline + 1
        (cost,) = self._costs.views[feed.cls]
        entry, usual = cost.row.plus(_CELLS), count * USUAL_PARTNERS
        partner = self._partner(feed)
        partners = Rows("scan", "views", "members and items", name, usual)
        own = Rows("read", "views", "item or membership", name)
        entries = Rows("write", "views", cost.form.many, name, usual)
        few = self._inline if feed.large is None else most  # of an item with more partners none follow
        most_entries = changed.items * few + changed.memberships * most
        parts: Parts = {}
        if feed.large is not None:
            parts |= self._looked_up(feed, feed.large, changed)
        parts |= {
            f"partners in {name}": RequestedRows(partners, count * most, partner, count, 1),
            f"own row in {name}": RequestedRows(own, count, partner, count, 1),
            f"entries of {name}": RequestedRows(entries, most_entries, entry, count, 1),
        }
        new = changed.items + changed.memberships * most
        if feed.at_most is not None:
            members = changed.items * few + changed.memberships
            parts |= _trimmed(feed, feed.at_most + new, members, (count, most), entry)
        parts |= self._logged(name, most if feed.at_most is None else 2 * most, count)
        if feed.large is not None and changed.memberships:
            parts |= self._given_up(feed, feed.large, changed.memberships, entry)
        turns = min(2, count)
        return {each: part._replace(rounds=part.waits * turns) for each, part in parts.items()}

    def _logged(self, name: str, keys: int, times: int) -> Parts:
        """What is added to the log of a feed, if it is watched, at the same time so many times."""
        if name not in self._watched:
            return {}
        return {each: part._replace(rounds=part.requests // times) for each, part in logged(name, keys, times).items()}

    def _partner(self, feed: FeedView) -> Size:
        """A row of items or memberships, of whichever is larger."""
        return greatest(cost.row for part in feed.parts for cost in self._costs.views[part])

    # Large groups.

    def _looked_up(self, feed: FeedView, large: LargeGroupOptions, changed: ChangedParts) -> Parts:
        """Whether the group is read, and by whom: items ask for the members to whom it is written all the same.

        Memberships ask for a place; some of them have the members counted, and the group cross.
        """
        name, most, served = feed.cls.__name__, self._inline + 1, self._served(feed, large)
        items, members = changed
        groups = Rows("read", "views", "large groups", name)
        written = Rows("scan", "views", "memberships that are written", name, 0)
        places = Rows("read", "views", "large groups and their memberships", name)
        counted = Rows("scan", "views", "members that are counted", name, 0)
        crossing = Rows("write", "views", "large groups", name, 0)
        tasks = Rows("write", "system", "tasks of large groups", name, 0)
        scans = 1 + (large.above + 1) // _COUNTED
        found = {
            "group": RequestedRows(groups, items, served, items, 1),
            "written": RequestedRows(written, 2 * items * most, served, items * (1 + most), 2),
            "places": RequestedRows(places, 4 * members * members, served, members * members, members),
            "counted": RequestedRows(counted, members * (large.above + 1), served, members * scans, scans),
            "crossing task": RequestedRows(tasks, members, TASK, members, 1),
            "crossing": RequestedRows(crossing, members, served, members, 1),
        }
        return {f"{each} of {name}": part for each, part in found.items() if part.requests}

    def _given_up(self, feed: FeedView, large: LargeGroupOptions, members: int, entry: Size) -> Parts:
        """A membership that has ended gives up its place; one that begins asks for less, to take one.

        Where several end or begin at the same time, each may have changed the places of the same member first.
        """
        name, served = feed.cls.__name__, self._served(feed, large)
        living = Rows("scan", "views", "memberships of a member in a group", name, 0)
        places = Rows("read", "views", "large groups and their memberships, again", name, 0)
        changed = Rows("write", "views", "memberships read or written", name, members)
        parts = {
            f"living of {name}": RequestedRows(living, 2 * members, served, 2 * members, 2),
            f"places again of {name}": RequestedRows(places, 4 * members * members, served, members * members, members),
            f"given up of {name}": RequestedRows(
                changed, 3 * members * members, served, 3 * members * members, 3 * members
            ),
        }
        if feed.at_most is not None:
            most = self._inline + 1
            trimmed = _trimmed(feed, feed.at_most + members * most, members, (members, most), entry)
            parts |= {f"{each} again": part for each, part in trimmed.items()}
            parts |= {f"{each} again": part for each, part in self._logged(name, most, members).items()}
        return parts

    def _served(self, feed: FeedView, large: LargeGroupOptions) -> Size:
        """A row of large groups, of a membership, or of a member's places."""
        (cost,) = self._costs.views[feed.members.cls]
        return cost.row.plus(cost.key, _PLACE.times(2 * large.merged)._replace(typical=_PLACE.typical), _STATE)


def _trimmed(feed: FeedView, entries: int, members: int, marks: tuple[int, int], entry: Size) -> Parts:
    """So many members' entries are looked over, all at the same time; of each the oldest are marked.

    `marks` are how often that is done, and the entries of each time. Those that were marked before, and are still
    there, are not counted.
    """
    name, (times, marked) = feed.cls.__name__, marks
    scans = 1 + entries // _SCANNED
    found = Rows("scan", "views", "entries of members", name, USUAL_PARTNERS)
    parts = {f"looked over of {name}": RequestedRows(found, members * entries, entry, members * scans, scans)}
    if feed.large is not None:
        hidden = Rows("read", "views", "groups that pages of a member merge", name, 0)
        parts[f"hidden of {name}"] = RequestedRows(hidden, members, entry, members, 1)
    oldest = Rows("write", "views", "entries that are trimmed", name, USUAL_PARTNERS)
    return parts | {f"marks of {name}": RequestedRows(oldest, times * marked, entry, times, 1)}
