"""One commit on a store that changes one row at a time: what it reads and writes before its commit point, and behind.

The arithmetic is that of `transactions.row_commits` and `transactions.row_apply`; a property compares the two. See
docs/explanation/costs.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from oneread.costs.bounds import BoundBuilder, Rows, StoreAction
from oneread.costs.entity_costs import EntityCost, ViewCost
from oneread.costs.feed_costs import TASK
from oneread.costs.sizes import FLAG, HEADER, NOTHING, Size, greatest
from oneread.costs.writes import ViewRows
from oneread.store.limits import KEY_BYTES
from oneread.store.rows import Table

TOKENS: Final = 8
"""Tokens that a group's row has, at most: one, and one more for each program that ended since its last change."""

ROOT_KEY: Final = Size(KEY_BYTES + 2, 12)
GROUP_KEY: Final = Size(KEY_BYTES + 4 + HEADER, 14)
GROUP_TASK: Final = Size(60, 40).plus(ROOT_KEY, GROUP_KEY)
"""The task of a group, with one cell."""
MARKER: Final = Size(15 + 8, 15 + 8).plus(ROOT_KEY)
ROW_CELLS: Final = Size(280, 130)
"""What a root row has besides: its history, and cells that are removed."""

_USED: Final = Size(KEY_BYTES + 2 * HEADER + 9, 22)
_INTENT: Final = Size(2 * HEADER, 4)
_SEVERAL: Final = Size(40, 20)
_NUMBER: Final = Size(8, 8)
_POINTERS: Final = ("back-references", "holds")


class RequestedRows(NamedTuple):
    """Rows of one kind that a commit asks for, with so many requests."""

    rows: Rows
    number: int
    size: Size
    requests: int


class FollowingRows(Protocol):
    """What follows from changed rows of views behind a commit point: entries of feeds and of change logs."""

    def parts(self, own: Sequence[ViewRows], *, has_task: bool) -> Mapping[str, RequestedRows]:
        """What is asked for, by names that are the same in every commit."""
        ...


class RowCommit(NamedTuple):
    """One change of one root row.

    `puts` says that references and unique values may be new. The sums of the views in `likely` are read with the
    sources. A marker is put in any case where the entity `may_be_new`; `has_task` says that holders may follow, and
    `entries` what does in feeds and logs; `holds` are the references that forbid the change. `groups` are those that it
    may change and that entities or indexes show; the entity itself shows `totals`.
    """

    cost: EntityCost
    what: str
    root: Size
    own: Sequence[ViewRows]
    sources: Mapping[str, tuple[int, Size]] = {}
    likely: frozenset[str] = frozenset()
    holds: Sequence[str] = ()
    puts: bool = True
    may_be_new: bool = False
    has_task: bool = False
    groups: int = 0
    totals: int = 0
    entries: FollowingRows | None = None

    def parts(self) -> dict[str, RequestedRows]:
        """What it asks for, by names that are the same in every commit."""
        name = self.cost.cls.__name__
        groups = [each for each in self.own if each.cost.form.sort == "group"]
        views = [each for each in self.own if each.cost.form.table == "views"]
        intents = self._intents()
        has_intents = bool(groups or views or self.has_task)
        full = full_row(self.root, self.cost.sources + self.totals)
        size = self.cost.key.plus(full, intents)
        parts = {"row": RequestedRows(Rows("read", "roots", self.what, name), 1, full, 1)}
        parts |= self._before(groups, full)
        if has_intents or self.may_be_new:
            parts["marker"] = _one("write", "system", "marker", MARKER)
        parts["commit"] = RequestedRows(Rows("write", "roots", self.what, name), 1, size, 1)
        parts |= self._behind(views, groups)
        if self.has_task:
            parts["task"] = _one("write", "system", "task", TASK)
        has_tasks = self.has_task
        if self.entries is not None:
            following = self.entries.parts(self.own, has_task=self.has_task)
            has_tasks = has_tasks or any(each.rows.what == "tasks" for each in following.values())
            parts |= following
        if self.groups:
            tasks = Rows("write", "system", "tasks of groups", name)
            parts["group tasks"] = RequestedRows(tasks, self.groups, GROUP_TASK, int(not has_tasks))
        if has_intents:
            parts["clear"] = RequestedRows(Rows("write", "roots", "intents are cleared", name), 1, ROOT_KEY, 1)
        if "marker" in parts:
            parts["unmark"] = _one("write", "system", "marker is removed", MARKER)
        return parts

    def _intents(self) -> Size:
        rows = [each.cost.row.plus(_INTENT).times(each.rows) for each in self.own]
        return _SEVERAL.plus(*rows, GROUP_KEY.times(self.groups))._replace(open=frozenset())

    def _before(self, groups: Sequence[ViewRows], full: Size) -> dict[str, RequestedRows]:
        """What is asked for before the commit point."""
        name = self.cost.cls.__name__
        parts: dict[str, RequestedRows] = {}
        if self.puts:
            new = [ViewRows(each.cost, min(each.rows, each.cost.rows)) for each in self.own]
            pointers = [each for each in new if each.cost.form.sort in _POINTERS]
            parts |= _together("pointers", "write", "views", pointers, lambda cost: cost.key)
            parts |= self._claims([each for each in new if each.cost.form.sort == "claim"], full)
        for reference, (count, size) in self.sources.items():
            sources = Rows("read", "roots", "sources", f"{name}.{reference}")
            is_first = reference == next(iter(self.sources))
            parts[f"source {reference}"] = RequestedRows(sources, count, size, int(is_first))
        early = [ViewRows(each.cost, 1) for each in groups if self.sources and each.cost.form.name in self.likely]
        parts |= _together("likely sums", "read", "counts", early, _sum)
        spread = [each for each in groups if each.cost.form.shards > 1]
        parts |= _together("announced", "write", "counts", spread, lambda cost: cost.key.plus(FLAG))
        late = [each for each in groups if each not in early]
        parts |= _together("sums", "read", "counts", late, _sum)
        if self.holds:
            parts["mark"] = RequestedRows(Rows("write", "roots", "mark", name), 1, ROOT_KEY.plus(ROW_CELLS), 1)
            parts["marked"] = RequestedRows(Rows("read", "roots", "marked entity", name), 1, full, 1)
            held = Rows("scan", "views", "holds", ", ".join(self.holds))
            parts["holds"] = RequestedRows(held, 0, NOTHING, 1)
        return parts

    def _claims(self, claims: Iterable[ViewRows], full: Size) -> dict[str, RequestedRows]:
        """A unique value may have been that of an entity that gave it up, or that did not get it in the end."""
        parts: dict[str, RequestedRows] = {}
        for cost, rows in claims:
            name = cost.form.name
            value = cost.value.plus(_NUMBER)
            parts |= {
                f"claim {name}": RequestedRows(Rows("read", "counts", "claim", name), rows, value, rows),
                f"owner {name}": RequestedRows(Rows("read", "roots", "earlier owner", name), rows, full, rows),
                f"ended {name}": RequestedRows(
                    Rows("write", "roots", "earlier owner", name), rows, ROOT_KEY.plus(ROW_CELLS), rows
                ),
                f"taken {name}": RequestedRows(
                    Rows("write", "counts", "claim", name), rows, cost.key.plus(value), rows
                ),
            }
        return parts

    def _behind(self, views: Sequence[ViewRows], groups: Sequence[ViewRows]) -> dict[str, RequestedRows]:
        """What is asked for behind the commit point, but for what ends it."""
        written: list[ViewRows] = []
        for cost, rows in views:
            is_put = self.puts and cost.form.sort in _POINTERS
            left = rows - min(rows, cost.rows) if is_put else rows
            written += [ViewRows(cost, left)] if left else []
        parts = _together("views", "write", "views", written, lambda cost: cost.row.plus(FLAG))
        for cost, rows in groups:
            added = Rows("write", "counts", "group", cost.form.name)
            size = cost.row.plus(_NUMBER, ROOT_KEY)
            parts[f"added {cost.form.name}"] = RequestedRows(added, rows, size, rows)
        return parts


def full_row(root: Size, sources: int) -> Size:
    """A root row with so many sources, as commits read it."""
    return root.plus(ROW_CELLS, _USED.times(sources))


def add_parts(total: BoundBuilder, label: str, parts: Mapping[str, RequestedRows], times: int) -> None:
    """Adds what so many commits ask for, one after the other."""
    for name, (rows, count, size, requests) in parts.items():
        if count:
            total.add(f"{label}{name}", rows, count * times, size, requests * times)
        else:
            total.add_requests(rows, requests * times)


def greatest_parts(several: Iterable[Mapping[str, RequestedRows]]) -> dict[str, RequestedRows]:
    """What a commit of any of several kinds asks for at most."""
    found: dict[str, RequestedRows] = {}
    for parts in several:
        for name, part in parts.items():
            known = found.get(name, part)
            found[name] = RequestedRows(
                part.rows,
                max(known.number, part.number),
                greatest((known.size, part.size)),
                max(known.requests, part.requests),
            )
    return found


def _one(act: StoreAction, table: Table, what: str, size: Size) -> RequestedRows:
    return RequestedRows(Rows(act, table, what, "every commit from which something follows"), 1, size, 1)


def _together(
    name: str, act: StoreAction, table: Table, several: Iterable[ViewRows], size: Callable[[ViewCost], Size]
) -> dict[str, RequestedRows]:
    """Rows of several views in one request."""
    parts: dict[str, RequestedRows] = {}
    for cost, rows in several:
        asked = Rows(act, table, cost.form.sort, cost.form.name)
        parts[f"{name} {cost.form.name} {cost.form.sort}"] = RequestedRows(asked, rows, size(cost), int(not parts))
    return parts


def _sum(cost: ViewCost) -> Size:
    """A group's row, with its tokens."""
    return cost.value.plus(_NUMBER, ROOT_KEY.times(TOKENS)._replace(typical=ROOT_KEY.typical))
