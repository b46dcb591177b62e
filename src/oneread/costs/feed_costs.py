"""Bounds of what follows in feeds: the entries that changed items and memberships write, in a commit.

The arithmetic is that of `feeds.following`, and for large groups of `feeds.placing`. See docs/explanation/feeds.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from oneread.costs.bounds import BoundBuilder, Rows
from oneread.costs.entity_costs import EntityCosts
from oneread.costs.sizes import HEADER, Size
from oneread.feeds.feed_view import FeedView, LargeGroupOptions
from oneread.store.limits import KEY_BYTES, VALUES_BYTES

TASK: Final = Size(1100, 60)
"""A task: its key, the source's key and a cursor."""
USUAL_PARTNERS: Final = 20
"""Members of a group, and items of one, that are expected."""
_SHOWN_BY: Final = Size(VALUES_BYTES + KEY_BYTES + 2 * HEADER, 24)
"""What an entry has of the membership that shows it."""
_STATE: Final = Size(24, 6)
"""What a row of large groups has besides the values and the key of a membership."""
_KEPT: Final = Size(2 * VALUES_BYTES + KEY_BYTES + 3 * HEADER, 30)
"""How many entries a member has."""


class ChangedParts(NamedTuple):
    """Rows of a feed's items and memberships that a commit writes or deletes, at most."""

    items: int
    memberships: int

    @property
    def rows(self) -> int:
        return self.items + self.memberships


class FeedCosts:
    """The bounds of the feeds of one schema; `inline` entries follow a changed row at most."""

    def __init__(self, costs: EntityCosts, inline: int) -> None:
        self._costs = costs
        self._inline = inline
        self._feeds = [view for view in costs.catalog.views.values() if isinstance(view, FeedView)]

    def add(self, total: BoundBuilder, written: Mapping[str, int]) -> None:
        """Adds what follows from so many changed rows, by the names of the indexes that they are in."""
        for feed in self._feeds:
            changed = ChangedParts(*(written.get(each.__name__, 0) for each in feed.parts))
            if changed.rows:
                self._add_entries(total, feed, changed)

    def _add_entries(self, total: BoundBuilder, feed: FeedView, changed: ChangedParts) -> None:
        name, inline = feed.cls.__name__, self._inline
        (cost,) = self._costs.views[feed.cls]
        entry = cost.row.plus(_SHOWN_BY)
        entries, usual = changed.rows * inline, changed.rows * USUAL_PARTNERS
        if changed.memberships:
            waiting = Rows("read", "system", "tasks of memberships", name)
            total.add(f"tasks of {name}", waiting, changed.memberships, TASK)
        partners = Rows("scan", "views", "members, items and entries", name, usual)
        total.add(f"partners in {name}", partners, changed.rows * (inline + 1 + changed.rows), entry, changed.rows)
        if entries:
            total.add(f"entries of {name}", Rows("read", "views", cost.form.many, name, usual), entries, entry)
            total.add("views", Rows("write", "views", cost.form.many, name, usual), entries, entry)
        total.add("tasks", Rows("write", "system", "tasks", name, 0), changed.rows, TASK)
        if feed.large is not None:
            self._add_places(total, feed, feed.large, changed)
            self._add_readers(total, feed, changed)
        if feed.at_most is not None:
            self._add_trimming(total, feed, changed, entry)

    def _add_places(self, total: BoundBuilder, feed: FeedView, large: LargeGroupOptions, changed: ChangedParts) -> None:
        """Changed memberships are counted and get their rows; one that takes a place lets a smaller group be written.

        However many take places, as many entries are written to members as one changed row may have.
        """
        name, count = feed.cls.__name__, changed.memberships
        row, entry = self._served(feed), self._costs.views[feed.cls][0].row.plus(_SHOWN_BY)
        served = Rows("read", "views", "large groups and their memberships", name)
        total.add(f"stored members of {name}", Rows("read", "views", "memberships", name), count, row)
        total.add(f"places in {name}", served, 3 * count, row)
        total.add(f"first members of {name}", Rows("scan", "views", "memberships", name), count, row, count)
        merged = Rows("scan", "views", "groups that a page merges", name, count)
        total.add(f"merged in {name}", merged, count * (large.merged + 2 * count), row, count)
        others = count * large.merged
        total.add(f"rivals in {name}", served._replace(usual=0), 3 * others, row, count)
        tasks = Rows("read", "system", "tasks of memberships", name, 0)
        total.add(f"tasks of rivals in {name}", tasks, others, TASK, count)
        items = Rows("scan", "views", "items of the smallest group", name, 0)
        total.add(f"items of rivals in {name}", items, count * (self._inline + 1 + changed.rows), entry, count)
        if count:
            rivals = Rows("read", "views", "entries of the smallest group", name, 0)
            total.add(f"entries of {name}", rivals, self._inline, entry)
            total.add("views", rivals._replace(act="write"), self._inline, entry)
        total.add("views", Rows("write", "views", "large groups", name), count, row)
        total.add("views", Rows("write", "views", "memberships read or written", name, count), 4 * count, row)
        total.add("tasks", Rows("write", "system", "tasks of large groups", name, 0), count, TASK)

    def _add_readers(self, total: BoundBuilder, feed: FeedView, changed: ChangedParts) -> None:
        """Who is given changed items is asked of the group, and of each member while it crosses."""
        name, count, row = feed.cls.__name__, changed.items, self._served(feed)
        total.add(f"groups of {name}", Rows("read", "views", "large groups", name), count, row, count)
        written = Rows("scan", "views", "memberships that are written", name, 0)
        total.add(f"partners in {name}", written, 2 * count * changed.memberships, row)
        members = count * self._inline
        served = Rows("read", "views", "memberships read or written", name, 0)
        total.add(f"readers in {name}", served, 2 * members, row, count)
        tasks = Rows("read", "system", "tasks of memberships", name, 0)
        total.add(f"tasks of readers in {name}", tasks, members, TASK, count)

    def _served(self, feed: FeedView) -> Size:
        """A row of large groups, or of a membership."""
        (cost,) = self._costs.views[feed.members.cls]
        return cost.row.plus(cost.key, _STATE)

    def _add_trimming(self, total: BoundBuilder, feed: FeedView, changed: ChangedParts, entry: Size) -> None:
        """Each member whose entries change is counted, and each feed that is full loses its oldest ones."""
        name = feed.cls.__name__
        rivals = self._inline if feed.large is not None and changed.memberships else 0
        entries, usual = changed.rows * self._inline + rivals, changed.rows * USUAL_PARTNERS
        members = changed.items * self._inline + changed.memberships
        counted = Rows("read", "views", "numbers of entries", name, usual)
        total.add(f"kept of {name}", counted, members, _KEPT)
        total.add("views", counted._replace(act="write"), members, _KEPT)
        oldest = Rows("scan", "views", "oldest entries", name, usual)
        total.add(f"oldest of {name}", oldest, 2 * entries, entry, members)
        total.add("views", Rows("write", "views", "entries that are trimmed", name, usual), entries, entry)
