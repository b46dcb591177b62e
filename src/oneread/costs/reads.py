"""Reads: the bounds of the reading verbs.

The arithmetic of a page is that of `database.pages`: a test compares the two. See docs/explanation/costs.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from oneread.costs import log_costs
from oneread.costs.bounds import Bound, BoundBuilder, Line
from oneread.costs.entity_costs import EntityCosts, ViewCost
from oneread.costs.sizes import Size, greatest
from oneread.feeds.feed_view import FeedView
from oneread.store.limits import BUDGET
from oneread.store.rows import Table


class FeedPrices(Protocol):
    """What reads of feeds cost on one sort of stores."""

    leaves_entries: bool
    """Whether pages of feeds pass entries that show nothing."""

    def add_large_groups(self, total: BoundBuilder, name: str, row: Size, members: int, merged: int) -> None:
        """Reads which groups the pages of so many members merge, each so many."""
        ...


class Reads:
    """Bounds of reads of one schema."""

    def __init__(self, costs: EntityCosts, prices: FeedPrices) -> None:
        self._prices = prices
        self._costs = costs
        self._catalog = costs.catalog

    def get(self, cls: type) -> Bound:
        """`get`, `find` and `exists` of an entity, a group of an aggregate, or a row of a unique index."""
        return self._by_key("get", cls, 1)

    def get_many(self, cls: type, keys: int) -> Bound:
        """`get_many` of that many keys."""
        return self._by_key(f"get_many({keys})", cls, keys)

    def _by_key(self, verb: str, cls: type, keys: int) -> Bound:
        """Reads by key: one request for all, but one each where the first row of a range is looked for."""
        total = BoundBuilder()
        name = cls.__name__
        if cls not in self._catalog.views:
            what = "entity" if verb == "get" else "entities"
            total.add("entity", Line(f"read roots {what}", name, keys, self._entity(cls)))
        for each in self._view_costs(cls):
            form = each.form
            if form.found is not None:
                size, requests = (each.value, 1) if form.found == "read" else (each.row, keys)
                what = form.one if verb == "get" else form.many
                rows = keys * form.first * form.shards
                total.add(form.name, Line(f"{form.found} {form.table} {what}", form.name, rows, size, requests))
        return total.bound(verb, name)

    def page(self, cls: type, limit: int, *, any_of: int = 1, where: bool = False, budget: int = BUDGET) -> Bound:
        """A page of `limit` rows of an index, of entities or of groups, for `any_of` values of one field."""
        table, what, size = self._listed(cls)
        view = self._catalog.views.get(cls)
        # There an entry whose item or membership was removed, or that was trimmed, is a row that shows nothing.
        leaves = self._prices.leaves_entries and isinstance(view, FeedView)
        if isinstance(view, FeedView) and view.large is not None:
            most = limit + (budget if where or view.has_expiries else 0)
            entries = limit + budget if leaves else most
            return self._merged_page(view, view.large.merged, limit, any_of, (entries, most))
        expires = view is not None and view.has_expiries
        shards = max((each.form.shards for each in self._view_costs(cls)), default=1)
        # The table of entities has tombstones, and of a group that is spread over rows the first one is never removed.
        skips = where or expires or table == "roots" or shards > 1 or leaves
        ranges = any_of * self._spread(cls)
        requests, rows = scans(limit, ranges, budget if skips else None)
        total = BoundBuilder()
        rounds = _at_first_together(requests, ranges)
        total.add("rows", Line(f"scan {table} {what}", cls.__name__, rows * shards, size, requests, rounds))
        shown = limit + budget if where else limit
        for each in self._view_costs(cls):
            form = each.form
            if form.paged == "each":
                kind = f"scan {form.table} {form.many}"
                total.add(form.name, Line(kind, form.name, shown * form.first, each.row, shown))
        return total.bound(f"page(limit={limit})", cls.__name__)

    def _merged_page(self, feed: FeedView, merged: int, limit: int, values: int, most: tuple[int, int]) -> Bound:
        """A page of a feed with large groups: of each member the entries, and the items of so many groups.

        `most` are the entries, and the items of each group, that are shown or skipped.
        """
        total, name = BoundBuilder(), feed.cls.__name__
        (items,), (members,) = self._view_costs(feed.items.cls), self._view_costs(feed.members.cls)
        self._prices.add_large_groups(total, name, members.row, values, merged)
        table, what, size = self._listed(feed.cls)
        ranges = ((what, size, values), (items.form.many, items.row, values * merged))
        for (rows, of, sources), passed in zip(ranges, most, strict=True):
            requests = sources * (1 + passed // (limit + 1))
            rounds, scanned = _at_first_together(requests, sources), requests * (limit + 1)
            total.add(rows, Line(f"scan {table} {rows}", name, scanned, of, requests, rounds))
        return total.bound(f"page(limit={limit})", name)

    def changes(self, cls: type, limit: int) -> Bound:
        """A batch of at most `limit` changes of a watched view or logged model."""
        view = self._catalog.views.get(cls)
        merged = view.large.merged if isinstance(view, FeedView) and view.large is not None else 0
        total, name, (table, _what, row) = BoundBuilder(), cls.__name__, self._listed(cls)
        log_costs.add_look(total, name, limit)
        if merged:
            self._prices.add_large_groups(total, name, row, 1, merged)
        total.add("rows", Line(f"read {table} changed rows", name, limit * (1 + merged), row))
        return total.bound(f"changes(limit={limit})", name)

    def _listed(self, cls: type) -> tuple[Table, str, Size]:
        """The table that is scanned, what its rows are, and their size."""
        for each in self._view_costs(cls):
            if each.form.paged == "rows":
                return each.form.table, each.form.many, each.row
        key = self._costs.key(self._catalog.kinds[cls])
        return "roots", "entities", key.plus(self._entity(cls))

    def _spread(self, cls: type) -> int:
        """The ranges that the rows of a list are in."""
        view = self._catalog.views.get(cls)
        return self._catalog.kinds[cls].spread if view is None else view.key.spread

    def _view_costs(self, cls: type) -> Sequence[ViewCost]:
        return self._costs.views.get(cls, ())

    def _entity(self, cls: type) -> Size:
        """A root row as reads see it, of whichever variant has the key."""
        return greatest(each.data for each in self._costs.of_kind(self._catalog.kinds[cls]))


def _at_first_together(requests: int, ranges: int) -> int:
    """Rounds: the first rows of all ranges are asked for at the same time, those behind them as they are needed."""
    return requests - ranges + 1


def scans(limit: int, values: int, budget: int | None) -> tuple[int, int]:
    """Requests and rows of a page at most.

    The range of each value is read by `limit` + 1 rows at a time, and again when all of them were skipped. No rows are
    skipped where `budget` is None.
    """
    if budget is None:
        return values, values * (limit + 1)
    skipped = limit + budget
    requests = values + skipped // (limit + 1)
    return requests, skipped + 1 if values == 1 else skipped + values * (limit + 1)
