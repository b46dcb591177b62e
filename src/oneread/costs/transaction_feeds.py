"""Prices of feeds where a commit is one transaction: the entries that changed items and memberships write in it.

The arithmetic is that of `feeds.following`, and for large groups of `feeds.placing`. See docs/explanation/feeds.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oneread.costs.bounds import BoundBuilder, Line
from oneread.costs.footprints import ChangedFeed, WriteFootprints
from oneread.costs.sizes import HEADER, TASK, Size
from oneread.store.limits import KEY_BYTES, VALUES_BYTES

_SHOWN_BY: Final = Size(VALUES_BYTES + KEY_BYTES + 2 * HEADER, 24)
"""What an entry has of the membership that shows it."""
_STATE: Final = Size(24, 6)
"""What a row of large groups has besides the values and the key of a membership."""
_KEPT: Final = Size(2 * VALUES_BYTES + KEY_BYTES + 3 * HEADER, 30)
"""How many entries a member has."""


class TransactionFeeds:
    """The prices of the feeds of one schema; `inline` entries follow a changed row at most."""

    def __init__(self, footprints: WriteFootprints, inline: int) -> None:
        self._footprints = footprints
        self._inline = inline

    def add(self, total: BoundBuilder, written: Mapping[str, int]) -> None:
        """Adds what follows from so many changed rows, by the names of the indexes that they are in."""
        for changed in self._footprints.changed_feeds(written):
            self._add_entries(total, changed)
            if changed.feed.large is not None:
                self._add_places(total, changed, changed.feed.large.merged)
                self._add_readers(total, changed)
            if changed.feed.at_most is not None:
                self._add_trimming(total, changed)

    def _add_entries(self, total: BoundBuilder, changed: ChangedFeed) -> None:
        name, rows, inline = changed.name, changed.rows, self._inline
        (cost,) = self._footprints.costs.views[changed.feed.cls]
        entry, usual, entries = self._entry(changed), self._footprints.usual_partners(changed), cost.form.many
        total.add(f"tasks of {name}", Line("read system tasks of memberships", name, changed.memberships, TASK))
        partners, most = "scan views members, items and entries", rows * (inline + 1 + rows)
        total.add(f"partners in {name}", Line(partners, name, most, entry, rows, usual=usual))
        total.add(f"entries of {name}", Line(f"read views {entries}", name, rows * inline, entry, usual=usual))
        total.add("views", Line(f"write views {entries}", name, rows * inline, entry, usual=usual))
        total.add("tasks", Line("write system tasks", name, rows, TASK, usual=0))

    def _add_places(self, total: BoundBuilder, changed: ChangedFeed, merged: int) -> None:
        """Changed memberships are counted and get their rows; one that takes a place lets a smaller group be written.

        However many take places, as many entries are written to members as one changed row may have.
        """
        name, count, inline = changed.name, changed.memberships, self._inline
        row, entry = self._served(changed), self._entry(changed)
        places, smallest = "read views large groups and their memberships", "views entries of the smallest group"
        rivals, items, most = count * merged, "scan views items of the smallest group", inline * bool(count)
        listed, groups = count * (merged + 2 * count), "scan views groups that a page merges"
        total.add(f"stored members of {name}", Line("read views memberships", name, count, row))
        total.add(f"places in {name}", Line(places, name, 3 * count, row))
        total.add(f"first members of {name}", Line("scan views memberships", name, count, row, count))
        total.add(f"merged in {name}", Line(groups, name, listed, row, count, usual=count))
        total.add(f"rivals in {name}", Line(places, name, 3 * rivals, row, count, usual=0))
        tasks = Line("read system tasks of memberships", name, rivals, TASK, count, usual=0)
        total.add(f"tasks of rivals in {name}", tasks)
        of_rivals = Line(items, name, count * (inline + 1 + changed.rows), entry, count, usual=0)
        total.add(f"items of rivals in {name}", of_rivals)
        total.add(f"entries of {name}", Line(f"read {smallest}", name, most, entry, usual=0))
        total.add("views", Line(f"write {smallest}", name, most, entry, usual=0))
        total.add("views", Line("write views large groups", name, count, row))
        total.add("views", Line("write views memberships read or written", name, 4 * count, row, usual=count))
        total.add("tasks", Line("write system tasks of large groups", name, count, TASK, usual=0))

    def _add_readers(self, total: BoundBuilder, changed: ChangedFeed) -> None:
        """Who is given changed items is asked of the group, and of each member while it crosses."""
        name, count, row = changed.name, changed.items, self._served(changed)
        members, written = count * self._inline, "scan views memberships that are written"
        served, tasks = "read views memberships read or written", "read system tasks of memberships"
        total.add(f"groups of {name}", Line("read views large groups", name, count, row, count))
        total.add(f"partners in {name}", Line(written, name, 2 * count * changed.memberships, row, usual=0))
        total.add(f"readers in {name}", Line(served, name, 2 * members, row, count, usual=0))
        total.add(f"tasks of readers in {name}", Line(tasks, name, members, TASK, count, usual=0))

    def _add_trimming(self, total: BoundBuilder, changed: ChangedFeed) -> None:
        """Each member whose entries change is counted, and each feed that is full loses its oldest ones."""
        name, usual, entry = changed.name, self._footprints.usual_partners(changed), self._entry(changed)
        rivals = self._inline if changed.feed.large is not None and changed.memberships else 0
        entries, members = changed.rows * self._inline + rivals, changed.items * self._inline + changed.memberships
        total.add(f"kept of {name}", Line("read views numbers of entries", name, members, _KEPT, usual=usual))
        total.add("views", Line("write views numbers of entries", name, members, _KEPT, usual=usual))
        oldest = Line("scan views oldest entries", name, 2 * entries, entry, members, usual=usual)
        total.add(f"oldest of {name}", oldest)
        total.add("views", Line("write views entries that are trimmed", name, entries, entry, usual=usual))

    def _entry(self, changed: ChangedFeed) -> Size:
        (cost,) = self._footprints.costs.views[changed.feed.cls]
        return cost.row.plus(_SHOWN_BY)

    def _served(self, changed: ChangedFeed) -> Size:
        """A row of large groups, or of a membership."""
        (cost,) = self._footprints.costs.views[changed.feed.members.cls]
        return cost.row.plus(cost.key, _STATE)
