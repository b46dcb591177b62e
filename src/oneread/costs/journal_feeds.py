"""Prices of feeds and change logs where a store changes one row at a time: what a commit adds behind its commit point.

The arithmetic is that of `feeds.cell_following`, `feeds.cell_crossing` and `transactions.log_entries`. See
docs/explanation/costs.md.
"""

from __future__ import annotations

from typing import Final

from oneread.costs.bounds import Line, Lines, at_once
from oneread.costs.footprints import ChangedFeed, CommitFootprint, WriteFootprints
from oneread.costs.log_costs import log_lines
from oneread.costs.sizes import HEADER, TASK, Size, greatest
from oneread.store.limits import KEY_BYTES, VALUES_BYTES

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


class JournalFeeds:
    """The prices of the feeds of one schema, and of its watched views.

    `inline` entries follow a changed row at most within a call.
    """

    def __init__(self, footprints: WriteFootprints, inline: int) -> None:
        self._footprints = footprints
        self._usual = footprints.usual_partners
        self._most = inline + 1

    def lines(self, footprint: CommitFootprint) -> Lines:
        """What follows from the changed rows of views, and is logged, by names that are the same in every commit."""
        written = {cost.form.name: rows for cost, rows in footprint.own if cost.form.table == "views"}
        return self.lines_of({footprint.cost.cls.__name__: 1} | written, has_task=footprint.has_holders)

    def lines_of(self, written: dict[str, int], *, has_task: bool) -> Lines:
        """What follows from so many changed rows of these views, and entities of these models."""
        names = sorted(written.keys() & self._footprints.logged)
        lines = at_once(*(log_lines(name, written[name]) for name in names))
        changed = self._footprints.changed_feeds(written)
        for place, each in enumerate(changed):
            tasks = Line("write system tasks", each.name, each.rows, TASK, int(not place and not has_task))
            lines[f"tasks of {each.name}"] = tasks._replace(step="tasks")
        lines |= at_once(*map(self._given, changed))
        for place, each in enumerate(changed):
            ended = Line("write system tasks are removed", each.name, each.rows, TASK, int(not place))
            lines[f"ended of {each.name}"] = ended._replace(step="tasks are removed")
        return lines

    def _given(self, changed: ChangedFeed) -> Lines:
        """The first entries of each changed item and membership: first of those that are removed, then of all others.

        What rows of one turn ask for is asked at the same time.
        """
        feed, name, count, most = changed.feed, changed.name, changed.rows, self._most
        (cost,) = self._footprints.costs.views[feed.cls]
        entry, usual, partner = self._entry(changed), self._usual(changed), self._partner(changed)
        few = most if feed.large is not None else most - 1  # of an item with more partners none follow
        entries = changed.items * few + changed.memberships * most
        lines = self._looked_up(changed) | {
            f"partners in {name}": Line("scan views members and items", name, count * most, partner, count, 1, usual),
            f"own row in {name}": Line("read views item or membership", name, count, partner, count, 1),
            f"entries of {name}": Line(f"write views {cost.form.many}", name, entries, entry, count, 1, usual),
        }
        if feed.at_most is not None:
            kept = feed.at_most + changed.items + changed.memberships * most
            lines |= self._trimmed(changed, kept, changed.items * few + changed.memberships, count)
        lines |= self._logged(name, most if feed.at_most is None else 2 * most, count) | self._given_up(changed)
        turns = min(2, count)
        return {each: line._replace(rounds=line.waits * turns) for each, line in lines.items()}

    def _logged(self, name: str, keys: int, times: int) -> Lines:
        """What is added to the log of a feed, if it is watched, at the same time so many times."""
        lines = log_lines(name, keys, times) if name in self._footprints.logged else {}
        return {each: line._replace(rounds=line.requests // times) for each, line in lines.items()}

    def _trimmed(self, changed: ChangedFeed, entries: int, members: int, times: int) -> Lines:
        """So many members' entries are looked over, all at the same time; of each the oldest are marked, so many times.

        Those that were marked before, and are still there, are not counted.
        """
        name, entry, scans = changed.name, self._entry(changed), 1 + entries // _SCANNED
        found, hidden = "scan views entries of members", "read views groups that pages of a member merge"
        looked, usual = (
            Line(found, name, members * entries, entry, members * scans, scans),
            self._usual(changed),
        )
        lines = {f"looked over of {name}": looked._replace(usual=usual)}
        if changed.feed.large is not None:
            lines[f"hidden of {name}"] = Line(hidden, name, members, entry, members, 1, usual=0)
        marks = Line("write views entries that are trimmed", name, times * self._most, entry, times, 1, usual)
        return lines | {f"marks of {name}": marks}

    def _entry(self, changed: ChangedFeed) -> Size:
        (cost,) = self._footprints.costs.views[changed.feed.cls]
        return cost.row.plus(_CELLS)

    def _partner(self, changed: ChangedFeed) -> Size:
        """A row of items or memberships, of whichever is larger."""
        return greatest(cost.row for part in changed.feed.parts for cost in self._footprints.costs.views[part])

    # Large groups.

    def _looked_up(self, changed: ChangedFeed) -> Lines:
        """Whether the group is read, and by whom: items ask for the members to whom it is written all the same.

        Memberships ask for a place; some of them have the members counted, and the group cross.
        """
        name, most, large = changed.name, self._most, changed.feed.large
        if large is None:
            return {}
        served, items, members = self._served(changed, large.merged), changed.items, changed.memberships
        scans, groups, square = 1 + (large.above + 1) // _COUNTED, "views large groups", members * members
        written, counted = "scan views memberships that are written", "scan views members that are counted"
        lines = {
            "group": Line(f"read {groups}", name, items, served, items, 1),
            "written": Line(written, name, 2 * items * most, served, items * (1 + most), 2, usual=0),
            "places": Line(f"read {groups} and their memberships", name, 4 * square, served, square, members),
            "counted": Line(counted, name, members * (large.above + 1), served, members * scans, scans, usual=0),
            "crossing task": Line("write system tasks of large groups", name, members, TASK, members, 1, usual=0),
            "crossing": Line(f"write {groups}", name, members, served, members, 1, usual=0),
        }
        return {f"{each} of {name}": line for each, line in lines.items() if line.requests}

    def _given_up(self, changed: ChangedFeed) -> Lines:
        """A membership that has ended gives up its place; one that begins asks for less, to take one.

        Where several end or begin at the same time, each may have changed the places of the same member first.
        """
        name, most, members, feed = changed.name, self._most, changed.memberships, changed.feed
        if feed.large is None or not members:
            return {}
        served, square = self._served(changed, feed.large.merged), members * members
        living, places = "memberships of a member in a group", "large groups and their memberships, again"
        given, two = "write views memberships read or written", 2 * members
        lines = {
            f"living of {name}": Line(f"scan views {living}", name, two, served, two, 2, usual=0),
            f"places again of {name}": Line(f"read views {places}", name, 4 * square, served, square, members, 0),
            f"given up of {name}": Line(given, name, 3 * square, served, 3 * square, 3 * members, usual=members),
        }
        if feed.at_most is not None:
            again = self._trimmed(changed, feed.at_most + members * most, members, members)
            again |= self._logged(name, most, members)
            lines |= {f"{each} again": line for each, line in again.items()}
        return lines

    def _served(self, changed: ChangedFeed, merged: int) -> Size:
        """A row of large groups, of a membership, or of a member's places."""
        (cost,) = self._footprints.costs.views[changed.feed.members.cls]
        return cost.row.plus(cost.key, _PLACE.times(2 * merged)._replace(typical=_PLACE.typical), _STATE)
