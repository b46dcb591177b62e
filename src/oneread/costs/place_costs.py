"""Place costs: the bound of `places`, which reads one root row, a page of holders, and with `check` what follows."""

from __future__ import annotations

from typing import Any, Final

from oneread.costs.bounds import Bound, BoundBuilder, Line, Span
from oneread.costs.entity_costs import EntityCosts, ViewCost
from oneread.costs.journal_commit import full_row
from oneread.costs.sizes import NOTHING, TASK, UTF8, Size, greatest
from oneread.derivations.views import View
from oneread.feeds.feed_view import FeedView
from oneread.models.registry import EntityKind
from oneread.store.limits import BODY_BYTES, FOLLOWED_TASKS, KEY_BYTES
from oneread.transactions.outbox import MESSAGE_LENGTH
from oneread.verify.logical_scanner import READ

_SCHEMA: Final = Size(BODY_BYTES, 4_000)
"""The schema row, which grows with each change of the schema."""

_POINTER: Final = Size(7, 7)

_ASIDE: Final = Size(4 * KEY_BYTES + UTF8 * MESSAGE_LENGTH + 300, 200)
"""A holder that was set aside: twice its key and its source's, and what was wrong."""


class PlaceCosts:
    """Bounds of `places` under one schema, on stores of one sort."""

    def __init__(self, costs: EntityCosts, span: Span) -> None:
        self._costs = costs
        self._catalog = costs.catalog
        self._span = span

    def bound(self, cls: type, limit: int, *, check: bool) -> Bound:
        """`places` of an entity of a class, with so many holders."""
        total, name, kind = BoundBuilder(), cls.__name__, self._catalog.kinds[cls]
        self._add_roots(total, name, kind)
        self._add_holders(total, name, kind, limit)
        self._add_members(total, cls, limit)
        self._add_left(total, cls, limit)
        if check:
            self._add_check(total, name, kind)
        return total.bound(f"places(limit={limit}{', check' if check else ''})", name)

    def _add_roots(self, total: BoundBuilder, name: str, kind: EntityKind, request: str = "root") -> None:
        """The row, and with that of a child the root whose commits write it."""
        total.add(request, Line("read roots entity", name, 1, self._root(kind)))
        if self._span == "row" and kind.child_of is not None:
            root = self._root(self._catalog.kinds[kind.child_of])
            total.add(request, Line("read roots root of its group", kind.child_of.__name__, 1, root))

    def _root(self, kind: EntityKind) -> Size:
        """A root row as it is stored; on a store that changes one row at a time with what a commit has yet to write."""
        several = self._costs.of_kind(kind)
        if self._span == "rows":
            return self._costs.key(kind).plus(greatest(each.root for each in several))
        full = greatest(
            full_row(each.root, each.sources).plus(each.data, *(view.row.times(2 * view.rows) for view in each.views))
            for each in several
        )
        return self._costs.key(kind).plus(full)

    def _add_holders(self, total: BoundBuilder, name: str, kind: EntityKind, limit: int) -> None:
        holder = greatest(self._costs.key(each) for each in dict.fromkeys(self._catalog.kinds.values()))
        pointer = self._costs.key(kind).plus(holder, _POINTER)
        total.add("back-references", Line("scan views back-references", name, limit + 1, pointer))
        if kind.prefix in self._catalog.held:
            total.add_requests(Line("scan views holds", name, 0))

    def _add_members(self, total: BoundBuilder, cls: type, limit: int) -> None:
        """The memberships of the groups that an item is in, which are counted with the holders."""
        variants = [each for each in self._costs.of if issubclass(each, cls)]
        for feed in self._catalog.views.values():
            if (
                isinstance(feed, FeedView)
                and feed.groups is None
                and any(issubclass(one, feed.model) for one in variants)
            ):
                (items,), (members,) = self._costs.views[feed.items.cls], self._costs.views[feed.members.cls]
                rows, requests = items.rows * (limit + 1), items.rows
                line = Line("scan views memberships", feed.cls.__name__, rows, members.row, requests, rounds=0)
                total.add(feed.cls.__name__, line)

    def _add_left(self, total: BoundBuilder, cls: type, limit: int) -> None:
        """What still follows from a delete, of a deleted entity alone."""
        name = cls.__name__
        total.add("tasks of deleted", Line("scan system tasks of a deleted entity", name, limit, TASK, usual=0))
        aside = Line("scan system what was set aside of a deleted entity", name, limit, _ASIDE, rounds=0, usual=0)
        total.add("set aside of deleted", aside)
        kind, kinds = self._catalog.kinds[cls], self._catalog.kinds
        feeds = [each for each in self._catalog.views.values() if isinstance(each, FeedView) and each.groups is None]
        items = [each for each in feeds if kinds[each.model] is kind]
        if items or any(kinds[each.members.model] is kind for each in feeds):
            tasks = Line("scan system tasks of feeds of a deleted entity", name, limit, TASK, rounds=0, usual=0)
            total.add("tasks of feeds of deleted", tasks)
        if items:
            rows, many = FOLLOWED_TASKS * limit, FOLLOWED_TASKS
            members, entries = (greatest(map(self._row_of, each)) for each in zip(*map(_joined, items), strict=True))
            line = Line("scan views memberships of a deleted item", name, rows, members, many, 1, usual=0)
            total.add("memberships of deleted", line)
            line = Line("read views entries of a deleted item", name, rows, entries, usual=0)
            total.add("entries of deleted", line)

    def _row_of(self, cls: type) -> Size:
        return greatest(each.row for each in self._costs.views[cls])

    def _add_check(self, total: BoundBuilder, name: str, kind: EntityKind) -> None:
        several = self._costs.of_kind(kind)
        total.add("schema", Line("read system schema", name, 1, _SCHEMA))
        rows = [[each for each in cost.views if each.form.table == "views"] for cost in several]
        claims = [[each for each in cost.views if each.form.holds == "owner"] for cost in several]
        self._add_compared(total, Line("read views rows that follow", name, 0), rows)
        self._add_compared(total, Line("read counts unique values", name, 0), claims)
        if self._span == "row":
            self._add_roots(total, name, kind, "again")

    def _add_compared(self, total: BoundBuilder, line: Line, of_variants: list[list[ViewCost]]) -> None:
        number = max(sum(each.rows for each in several) for several in of_variants)
        size = greatest(each.row for several in of_variants for each in several) if number else NOTHING
        requests = 1 if self._span == "rows" else -(-number // READ)
        total.add(line.kind, line._replace(number=number, size=size, requests=requests))
        for several in of_variants:
            for each in several:
                total.note_undeclared(each.undeclared)


def _joined(feed: FeedView) -> tuple[type[View[Any]], type[View[Any]]]:
    """The views of the memberships and of the entries of a feed."""
    return feed.members.cls, feed.cls
