"""What a commit of one row adds to feeds and change logs, behind its commit point.

The arithmetic is that of `feeds.row_following` and `transactions.row_log`. See docs/explanation/costs.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from oneread.costs.bounds import Rows
from oneread.costs.entity_costs import EntityCosts
from oneread.costs.feed_costs import TASK, USUAL_PARTNERS, ChangedParts
from oneread.costs.log_costs import LOG, entry_size
from oneread.costs.row_commits import RequestedRows
from oneread.costs.sizes import HEADER, Size, greatest
from oneread.costs.writes import ViewRows
from oneread.feeds.feed_view import FeedView
from oneread.store.limits import KEY_BYTES, VALUES_BYTES
from oneread.transactions.change_log import KEYS_OF_ENTRY

_CELLS: Final = Size(2 * (VALUES_BYTES + KEY_BYTES + 2 * HEADER) + 64, 60)
"""What an entry has besides: the columns of its two cells, and the membership that shows it."""


def logged(name: str, keys: int, times: int = 1) -> dict[str, RequestedRows]:
    """So many changed keys of a watched view, added so many times: where a program adds first, it reads the log."""
    entries = -(-keys // KEYS_OF_ENTRY)
    added = {
        "looked": RequestedRows(Rows("read", "system", "change logs", name), times, LOG, times),
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

    def parts(self, own: Sequence[ViewRows], *, has_task: bool) -> dict[str, RequestedRows]:
        """What follows from so many changed rows of views, by names that are the same in every commit."""
        written = {cost.form.name: rows for cost, rows in own if cost.form.table == "views"}
        parts: dict[str, RequestedRows] = {}
        for name in sorted(written.keys() & self._watched):
            parts |= logged(name, written[name])
        for feed in self._feeds:
            changed = ChangedParts(*(written.get(each.__name__, 0) for each in feed.parts))
            if changed.rows:
                is_first = not any(name.startswith("tasks of ") for name in parts)
                parts |= self._given(feed, changed, asks=is_first and not has_task, ends=is_first)
        return parts

    def _given(self, feed: FeedView, changed: ChangedParts, *, asks: bool, ends: bool) -> Mapping[str, RequestedRows]:
        """The tasks of changed items and memberships, and the first entries of each."""
        name, count, most = feed.cls.__name__, changed.rows, self._inline + 1
        (cost,) = self._costs.views[feed.cls]
        entry, usual = cost.row.plus(_CELLS), changed.rows * USUAL_PARTNERS
        partner = self._partner(feed)
        parts = {
            f"tasks of {name}": RequestedRows(Rows("write", "system", "tasks", name), count, TASK, int(asks)),
            f"partners in {name}": RequestedRows(
                Rows("scan", "views", "members and items", name, usual), count * most, partner, count
            ),
            f"own row in {name}": RequestedRows(
                Rows("read", "views", "item or membership", name), count, partner, count
            ),
            f"entries of {name}": RequestedRows(
                Rows("write", "views", cost.form.many, name, usual), count * most, entry, count
            ),
            f"ended of {name}": RequestedRows(
                Rows("write", "system", "tasks are removed", name), count, TASK, int(ends)
            ),
        }
        return parts | (logged(name, most, count) if name in self._watched else {})

    def _partner(self, feed: FeedView) -> Size:
        """A row of items or memberships, of whichever is larger."""
        return greatest(cost.row for part in feed.parts for cost in self._costs.views[part])
