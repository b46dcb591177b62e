"""Reads: the bounds of the reading verbs.

The arithmetic of a page is that of `database.pages`: a test holds the two together. See docs/explanation/costs.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oneread.costs.bounds import Bound, BoundBuilder
from oneread.costs.shares import EntityCosts, ViewCost
from oneread.costs.sizes import Size, greatest
from oneread.store.limits import BUDGET


class Reads:
    """Bounds of reads of one schema."""

    def __init__(self, weights: EntityCosts) -> None:
        self._weights = weights
        self._catalog = weights.catalog

    def get(self, cls: Any, verb: str = "get") -> Bound:
        """`get`, `find` and `exists` of an entity, a group of an aggregate, or a row of a unique index."""
        total = BoundBuilder()
        name = cls.__name__
        if cls not in self._catalog.views:
            total.add("entity", "read", "roots", "entity", name, 1, self._shown(cls))
        for share in self._shares(cls):
            form = share.form
            if form.found is not None:
                size = share.held if form.found == "read" else share.key.plus(share.held)
                total.add(form.name, form.found, form.table, form.one, form.name, 1, size)
        return total.bound(verb, name)

    def get_many(self, cls: Any, keys: int) -> Bound:
        """`get_many` of that many keys."""
        total = BoundBuilder()
        total.add("entities", "read", "roots", "entities", cls.__name__, keys, self._shown(cls))
        return total.bound(f"get_many({keys})", cls.__name__)

    def page(
        self,
        cls: Any,
        limit: int,
        *,
        any_of: int = 1,
        where: bool = False,
        budget: int = BUDGET,
        verb: str | None = None,
    ) -> Bound:
        """A page of an index, of entities or of groups.

        Arguments:
            cls: what is listed.
            limit: rows of the page.
            any_of: values of one key field.
            where: it has a condition.
            budget: rows that may be read beyond the limit.
            verb: what the bound is called.
        """
        table, what, size = self._listed(cls)
        sifted = where or table == "roots"  # the entities' table has tombstones
        requests, rows = scans(limit, any_of, budget if sifted else None)
        total = BoundBuilder()
        total.add("rows", "scan", table, what, cls.__name__, rows, size, requests)
        shown = limit + budget if where else limit
        for share in self._shares(cls):
            form = share.form
            if form.paged == "each":
                size = share.key.plus(share.held)
                total.add(form.name, "scan", form.table, form.many, form.name, shown, size, shown)
        return total.bound(verb or f"page(limit={limit})", cls.__name__)

    def _listed(self, cls: Any) -> tuple[Any, str, Size]:
        """The table that is scanned, what its rows are, and their size."""
        for share in self._shares(cls):
            if share.form.paged == "rows":
                return share.form.table, share.form.many, share.key.plus(share.held)
        key = self._weights.key(self._catalog.kinds[cls])
        return "roots", "entities", key.plus(self._shown(cls))

    def _shares(self, cls: Any) -> Sequence[ViewCost]:
        return self._weights.views.get(cls, ())

    def _shown(self, cls: Any) -> Size:
        """A commit row that is found under a class: of whatever variant lies there."""
        kind = self._catalog.kinds[cls]
        return greatest(
            self._weights.of[each].shown for each in self._catalog.models if self._catalog.kinds[each] is kind
        )


def scans(limit: int, values: int, budget: int | None) -> tuple[int, int]:
    """Requests and rows of a page at most.

    Each value's range is read by `limit` + 1 rows at a time, again when all of them have been passed over. Nothing is
    passed over where `budget` is None.
    """
    if budget is None:
        return values, values * (limit + 1)
    passed = limit + budget
    requests = values + passed // (limit + 1)
    return requests, passed + 1 if values == 1 else passed + values * (limit + 1)
