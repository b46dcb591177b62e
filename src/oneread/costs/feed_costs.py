"""Bounds of what follows in feeds: the entries that changed items and memberships write, in a commit.

The arithmetic is that of `feeds.following`. See docs/explanation/feeds.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from oneread.costs.bounds import BoundBuilder, Rows
from oneread.costs.entity_costs import EntityCosts
from oneread.costs.sizes import HEADER, Size
from oneread.feeds.feed_view import FeedView
from oneread.store.limits import KEY_BYTES, VALUES_BYTES

TASK: Final = Size(1100, 60)
"""A task: its key, the source's key and a cursor."""
USUAL_PARTNERS: Final = 20
"""Members of a group, and items of one, that are expected."""
_SHOWN_BY: Final = Size(VALUES_BYTES + KEY_BYTES + 2 * HEADER, 24)
"""What an entry has of the membership that shows it."""
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
        if feed.at_most is not None:
            self._add_trimming(total, name, changed, entry)

    def _add_trimming(self, total: BoundBuilder, name: str, changed: ChangedParts, entry: Size) -> None:
        """Each member whose entries change is counted, and each feed that is full loses its oldest ones."""
        entries, usual = changed.rows * self._inline, changed.rows * USUAL_PARTNERS
        members = changed.items * self._inline + changed.memberships
        counted = Rows("read", "views", "numbers of entries", name, usual)
        total.add(f"kept of {name}", counted, members, _KEPT)
        total.add("views", counted._replace(act="write"), members, _KEPT)
        oldest = Rows("scan", "views", "oldest entries", name, usual)
        total.add(f"oldest of {name}", oldest, 2 * entries, entry, members)
        total.add("views", Rows("write", "views", "entries that are trimmed", name, usual), entries, entry)
