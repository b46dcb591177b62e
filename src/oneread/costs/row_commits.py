"""One commit on a store that changes one row at a time: what it reads and writes before its commit point, and behind.

The arithmetic is that of `transactions.pipeline` and `transactions.journal`; a property compares the two. See
docs/explanation/costs.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from oneread.costs.bounds import BoundBuilder, Requests, Rows, StoreAction
from oneread.costs.entity_costs import EntityCost, ViewCost
from oneread.costs.feed_costs import TASK
from oneread.costs.sizes import FLAG, HEADER, NOTHING, Size, greatest
from oneread.costs.transactions import AGAIN
from oneread.costs.writes import ViewRows
from oneread.derivations.entity_groups import CHILD_OF
from oneread.store.limits import KEY_BYTES
from oneread.store.rows import Table

TOKENS: Final = 40
"""Tokens that a group's row has, at most: those that are kept, and one for each program that ended since."""

_USUAL_TOKENS: Final = 4

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
    """Rows of one kind that a commit asks for, with so many requests.

    `rounds` are those of the requests that wait for another one's answer; by default all do. `step` names the request
    that several changes of one commit share.
    """

    rows: Rows
    number: int
    size: Size
    requests: int
    rounds: int | None = None
    step: str = ""

    @property
    def waits(self) -> int:
        """Its rounds."""
        return self.requests if self.rounds is None else self.rounds


Parts: TypeAlias = dict[str, RequestedRows]
"""What a commit asks for, by names that are the same in every commit."""


class FollowingRows(Protocol):
    """What follows from changed rows of views behind a commit point: entries of feeds and of change logs."""

    def parts(self, own: Sequence[ViewRows], *, has_task: bool) -> Parts:
        """What is asked for, by names that are the same in every commit."""
        ...


class SourceRows(NamedTuple):
    """What an entity refers to by one field: so many entities, each with a row of this size.

    That of a child is read behind the row of its root, whose size is `of_root`.
    """

    number: int
    size: Size
    of_root: Size | None = None


class RootOfGroup(NamedTuple):
    """The root of a child, whose row is committed.

    A child that gets its number from the group `is_numbered`: its own row is not read. What it refers to may be a child
    of the same group where it `has_siblings`.
    """

    cost: EntityCost
    full: Size
    is_numbered: bool
    has_siblings: bool


class RowCommit(NamedTuple):
    """One change of one root row, or of a child in the row of its root.

    `puts` says that references and unique values may be new; the first are known before anything is read where
    `knows_pointers`, and the marker is put then where rows are likely to follow. The sums of the views in `likely` are
    read with the sources. A marker is put in any case where the entity `may_be_new`; `has_task` says that holders may
    follow, and `entries` what does in feeds and logs; `holds` are the references that forbid the change. `groups` are
    those that it may change and that entities or indexes show; the entity itself shows `totals`.
    """

    cost: EntityCost
    what: str
    root: Size
    own: Sequence[ViewRows]
    sources: Mapping[str, SourceRows] = {}
    likely: frozenset[str] = frozenset()
    holds: Sequence[str] = ()
    puts: bool = True
    knows_pointers: bool = False
    has_early_marker: bool = False
    may_be_new: bool = False
    has_task: bool = False
    groups: int = 0
    totals: int = 0
    entries: FollowingRows | None = None
    group: RootOfGroup | None = None

    def parts(self) -> Parts:
        """What it asks for, by names that are the same in every commit."""
        groups = [each for each in self.own if each.cost.form.sort == "group"]
        views = [each for each in self.own if each.cost.form.table == "views"]
        has_intents = bool(groups or views or self.has_task or self.group)
        parts = self._before(groups, has_marker=has_intents or self.may_be_new)
        parts |= self._commit()
        parts |= self._behind(views, groups)
        if self.has_task:
            parts["task"] = _one("write", "system", "task", TASK)._replace(step="tasks")
        has_tasks = self.has_task
        if self.entries is not None:
            following = self.entries.parts(self.own, has_task=self.has_task)
            has_tasks = has_tasks or any(each.rows.what == "tasks" for each in following.values())
            parts |= following
        if self.groups:
            tasks = Rows("write", "system", "tasks of groups", self._name)
            parts["group tasks"] = RequestedRows(tasks, self.groups, GROUP_TASK, int(not has_tasks), step="tasks")
        if has_intents:
            cleared = Rows("write", "roots", "intents are cleared", self._name)
            parts["clear"] = RequestedRows(cleared, 1, ROOT_KEY, 1, step="clear")
        if "marker" in parts:
            parts["unmark"] = _one("write", "system", "marker is removed", MARKER)._replace(step="unmark")
        return parts

    @property
    def _name(self) -> str:
        return self.cost.cls.__name__

    @property
    def _full(self) -> Size:
        """The entity's row, as commits read it."""
        return full_row(self.root, self.cost.sources + self.totals)

    def _intents(self) -> Size:
        rows = [each.cost.row.plus(_INTENT).times(each.rows) for each in self.own]
        child = [] if self.group is None else [self.cost.key.plus(self._full)]
        return _SEVERAL.plus(*rows, *child, GROUP_KEY.times(self.groups))._replace(open=frozenset())

    def _commit(self) -> Parts:
        if self.group is None:
            written = Rows("write", "roots", self.what, self._name)
            size = self.cost.key.plus(self._full, self._intents())
        else:
            written = Rows("write", "roots", "root of the group", self.group.cost.cls.__name__)
            size = self.group.cost.key.plus(self.group.full, self._intents())
        return {"commit": RequestedRows(written, 1, size, 1, step="commit")}

    def _before(self, groups: Sequence[ViewRows], *, has_marker: bool) -> Parts:
        """What is asked for before the commit point."""
        parts, pointers = self._first(has_marker=has_marker)
        if pointers and not self.knows_pointers:
            parts |= pointers
        early = [each for each in groups if each.cost.form.name in self.likely and self._reads_early]
        sums = _together("likely sums", ("read", "counts"), [each._replace(rows=1) for each in early], _sum)
        if self.group is None:
            parts |= at_once(self._roots_of_sources(), sums) | self._children_of_sources()
        else:
            child = RequestedRows(Rows("read", "roots", self.what, self._name), 1, self._full, 1)
            parts |= {} if self.group.is_numbered else at_once({"child": child}, sums)
            parts |= self._roots_of_sources() | self._children_of_sources()
        if self.holds:
            parts |= self._looks_at_holds()
        new = [ViewRows(each.cost, min(each.rows, each.cost.rows)) for each in self.own if self.puts]
        parts |= self._claims([each for each in new if each.cost.form.sort == "claim"])
        # Of those that were read early, what the entity leaves comes late.
        late = [found for each in groups if (found := each._replace(rows=each.rows - (each in early))).rows]
        last = [_together("sums", ("read", "counts"), late, _sum, step="sums")]
        spread = [each for each in groups if each.cost.form.shards > 1]
        last += [
            _together("announced", ("write", "counts"), spread, lambda cost: cost.key.plus(FLAG), step="announced")
        ]
        if has_marker and "marker" not in parts:
            last.append({"marker": _one("write", "system", "marker", MARKER)._replace(step="marker")})
        return parts | at_once(*last)

    @property
    def _reads_early(self) -> bool:
        """Whether sums are read with other rows before the decision."""
        return bool(self.sources) if self.group is None else not self.group.is_numbered

    def _first(self, *, has_marker: bool) -> tuple[Parts, Parts]:
        """What is asked for at first; and back-references and holds, which may be among it."""
        if self.group is None:
            row = RequestedRows(Rows("read", "roots", self.what, self._name), 1, self._full, 1, step="row")
        else:
            read = Rows("read", "roots", "root of the group", self.group.cost.cls.__name__)
            row = RequestedRows(read, 1, self.group.full, 1, step="row")
        new = [ViewRows(each.cost, min(each.rows, each.cost.rows)) for each in self.own if self.puts]
        before = [each for each in new if each.cost.form.sort in _POINTERS and not self._rides(each.cost)]
        pointers = _together("pointers", ("write", "views"), before, lambda cost: cost.key, step=AGAIN)
        first: list[Parts] = [{"row": row}]
        if has_marker and self.has_early_marker:
            first.append({"marker": _one("write", "system", "marker", MARKER)._replace(step="marker")})
        if self.knows_pointers:
            first.append(pointers)
        return at_once(*first), pointers

    def _rides(self, cost: ViewCost) -> bool:
        """Whether a hold is that of a child on its root, which is put with the child."""
        return cost.form.place == frozenset({(CHILD_OF,)})

    def _roots_of_sources(self) -> Parts:
        """What it refers to; of a child, its root."""
        parts: Parts = {}
        for reference, (count, size, of_root) in self.sources.items():
            sources = Rows("read", "roots", "sources", f"{self._name}.{reference}")
            parts[f"source {reference}"] = RequestedRows(sources, count, of_root or size, int(not parts), step=AGAIN)
        return parts

    def _children_of_sources(self) -> Parts:
        """What it refers to among children: those of its own group, and those of others behind their roots."""
        parts: Parts = {}
        requests = 1 + (self.group is not None and self.group.has_siblings)
        for reference, (count, size, of_root) in self.sources.items():
            if of_root is not None:
                sources = Rows("read", "roots", "sources that are children", f"{self._name}.{reference}")
                asked = 0 if parts else requests
                parts[f"child {reference}"] = RequestedRows(sources, count, size, asked, step=AGAIN)
        return parts

    def _looks_at_holds(self) -> Parts:
        marked, full = (self.cost, self._full) if self.group is None else (self.group.cost, self.group.full)
        name = marked.cls.__name__
        held = Rows("scan", "views", "holds", ", ".join(self.holds))
        mark = Rows("write", "roots", "mark", name)
        return {
            "mark": RequestedRows(mark, 1, ROOT_KEY.plus(ROW_CELLS), 1, step="mark"),
            "marked": RequestedRows(Rows("read", "roots", "marked entity", name), 1, full, 1, step="marked"),
            "holds": RequestedRows(held, 0, NOTHING, 1),
        }

    def _claims(self, claims: Iterable[ViewRows]) -> Parts:
        """A unique value may have been that of an entity that gave it up, or that did not get it in the end."""
        return at_once(*(self._claim(each) for each in claims))

    def _claim(self, claim: ViewRows) -> Parts:
        cost, rows = claim
        name, value = cost.form.name, cost.value.plus(_NUMBER)
        owner = Rows("read", "roots", "earlier owner", name)
        ended = Rows("write", "roots", "earlier owner", name)
        taken = Rows("write", "counts", "claim", name)
        parts = {f"claim {name}": RequestedRows(Rows("read", "counts", "claim", name), rows, value, rows, 1)}
        if self.group is not None:
            of_group = owner._replace(what="group of an earlier owner")
            parts[f"owner's group {name}"] = RequestedRows(of_group, rows, self.group.full, rows, 1)
        return parts | {
            f"owner {name}": RequestedRows(owner, rows, self._full, rows, 1),
            f"ended {name}": RequestedRows(ended, rows, ROOT_KEY.plus(ROW_CELLS), rows, 1),
            f"taken {name}": RequestedRows(taken, rows, cost.key.plus(value), rows, 1),
        }

    def _behind(self, views: Sequence[ViewRows], groups: Sequence[ViewRows]) -> Parts:
        """What is asked for behind the commit point, but for what ends it."""
        written: list[ViewRows] = []
        for cost, rows in views:
            is_put = self.puts and cost.form.sort in _POINTERS and not self._rides(cost)
            left = rows - min(rows, cost.rows) if is_put else rows
            written += [ViewRows(cost, left)] if left else []
        applied = [_together("views", ("write", "views"), written, lambda cost: cost.row.plus(FLAG), step="views")]
        for cost, rows in groups:
            added = Rows("write", "counts", "group", cost.form.name)
            size = cost.row.plus(_NUMBER, ROOT_KEY)
            applied.append({f"added {cost.form.name}": RequestedRows(added, rows, size, rows, 1)})
        if self.group is not None:
            child = Rows("write", "roots", self.what, self._name)
            size = self.cost.key.plus(self._full)
            applied.append({"children": RequestedRows(child, 1, size, 1, step="children")})
        return at_once(*applied)


def full_row(root: Size, sources: int) -> Size:
    """A root row with so many sources, as commits read it."""
    return root.plus(ROW_CELLS, _USED.times(sources))


def at_once(*chains: Mapping[str, RequestedRows]) -> Parts:
    """What is asked for at the same time, each part of a chain after the one before: as many rounds as the longest."""
    longest = max(chains, key=lambda chain: sum(each.waits for each in chain.values()), default={})
    parts: Parts = {}
    for chain in chains:
        parts |= chain if chain is longest else {name: each._replace(rounds=0) for name, each in chain.items()}
    return parts


def add_parts(
    total: BoundBuilder, label: str, parts: Mapping[str, RequestedRows], times: int, *, is_own: bool = False
) -> None:
    """Adds what so many commits ask for, one after the other; `is_own` for those of what is written itself."""
    for name, part in parts.items():
        rows, count, size, requests, _rounds, step = part
        shared = step if is_own else ""
        if count:
            asked = Requests(requests * times, part.waits * times, shared)
            total.add(f"{label}{name}", rows, count * times, size, asked)
        else:
            total.add_requests(rows, requests * times, part.waits * times)


def greatest_parts(several: Iterable[Mapping[str, RequestedRows]]) -> Parts:
    """What a commit of any of several kinds asks for at most."""
    found: Parts = {}
    for parts in several:
        for name, part in parts.items():
            known = found.get(name, part)
            found[name] = part._replace(
                number=max(known.number, part.number),
                size=greatest((known.size, part.size)),
                requests=max(known.requests, part.requests),
                rounds=max(known.waits, part.waits),
            )
    return found


def _one(act: StoreAction, table: Table, what: str, size: Size) -> RequestedRows:
    return RequestedRows(Rows(act, table, what, "every commit from which something follows"), 1, size, 1)


def _together(
    name: str,
    place: tuple[StoreAction, Table],
    several: Iterable[ViewRows],
    size: Callable[[ViewCost], Size],
    step: str = "",
) -> Parts:
    """Rows of several views in one request."""
    parts: Parts = {}
    for cost, rows in several:
        asked = Rows(*place, cost.form.sort, cost.form.name)
        part = RequestedRows(asked, rows, size(cost), int(not parts), step=step)
        parts[f"{name} {cost.form.name} {cost.form.sort}"] = part
    return parts


def _sum(cost: ViewCost) -> Size:
    """A group's row, with its tokens."""
    return cost.value.plus(_NUMBER, ROOT_KEY.times(TOKENS)._replace(typical=_USUAL_TOKENS * ROOT_KEY.typical))
