"""One commit where a store changes one row at a time: what it asks for before its commit point, and behind.

The arithmetic is that of `transactions.pipeline` and `transactions.journal`; a property compares the two. See
docs/explanation/costs.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from oneread.costs.bounds import Bound, BoundBuilder, Line, Lines, at_once
from oneread.costs.entity_costs import EntityCost, ViewCost, ViewRows
from oneread.costs.footprints import WHOLE, CommitFootprint
from oneread.costs.sizes import FLAG, HEADER, TASK, Size
from oneread.derivations.entity_groups import CHILD_OF
from oneread.store.limits import KEY_BYTES

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

_ONE_ROW: Final = frozenset({"row", "marker", "mark", "marked", "commit", "clear", "unmark"})
"""What is one row, however many changes the commit has; of the others each change has its own rows."""

AGAIN: Final = "again"
"""Names what each change asks for by itself, and once more where another one is a delete that marks the root."""


class RootOfGroup(NamedTuple):
    """The root of a child, whose row is committed; a child may refer to one of the same group: `has_siblings`."""

    cost: EntityCost
    full: Size
    has_siblings: bool


class ReferredRows(NamedTuple):
    """What an entity refers to by one field: so many entities, each with a row of this size.

    That of a child is read behind the row of its root, whose size is `of_root`.
    """

    reference: str
    number: int
    size: Size
    of_root: Size | None = None


class JournalCommit(NamedTuple):
    """One change of one root row, or of a child in the row of its root.

    `sources` is what it refers to, `following` what it adds to feeds and logs. The sums of the views in `early` are
    read with the sources. A child that `is_numbered` gets its number from the root: its own row is not read.
    """

    footprint: CommitFootprint
    sources: Sequence[ReferredRows]
    following: Lines
    group: RootOfGroup | None
    early: frozenset[str] = frozenset()
    is_numbered: bool = False

    def lines(self) -> Lines:
        """What it asks for, by names that are the same in every commit."""
        footprint, following = self.footprint, self.following
        has_intents = bool(self._sums or self._rows("views") or footprint.has_holders or self.group or following)
        lines = self._before(has_marker=has_intents or footprint.verb in (*WHOLE, "upsert"))
        lines |= self._commit() | self._behind()
        if footprint.has_holders:
            lines["task"] = _once("task", TASK, "tasks")
        lines |= following
        has_tasks = footprint.has_holders or any(each.kind == "write system tasks" for each in following.values())
        if footprint.groups:
            tasks = Line("write system tasks of groups", self._name, footprint.groups, GROUP_TASK, int(not has_tasks))
            lines["group tasks"] = tasks._replace(step="tasks")
        if has_intents:
            lines["clear"] = Line("write roots intents are cleared", self._name, 1, ROOT_KEY, step="clear")
        if "marker" in lines:
            lines["unmark"] = _once("marker is removed", MARKER, "unmark")
        return lines

    @property
    def _name(self) -> str:
        return self.footprint.cost.cls.__name__

    @property
    def _puts(self) -> bool:
        """Whether references and unique values may be new."""
        return self.footprint.verb != "delete"

    @property
    def _full(self) -> Size:
        """The entity's row, as commits read it."""
        return full_row(self.footprint.root, self.footprint.cost.sources + self.footprint.totals)

    @property
    def _root(self) -> tuple[str, EntityCost, Size]:
        """What the row that is committed is, and its size: that of the entity, or of its root."""
        if self.group is None:
            return self.footprint.what, self.footprint.cost, self._full
        return "root of the group", self.group.cost, self.group.full

    def _rows(self, table: str) -> list[ViewRows]:
        return [each for each in self.footprint.own if each.cost.form.table == table]

    @property
    def _sums(self) -> list[ViewRows]:
        return [each for each in self.footprint.own if each.cost.form.sort == "group"]

    def _commit(self) -> Lines:
        what, cost, full = self._root
        rows = [each.cost.row.plus(_INTENT).times(each.rows) for each in self.footprint.own]
        child = [] if self.group is None else [self.footprint.cost.key.plus(self._full)]
        intents = _SEVERAL.plus(*rows, *child, GROUP_KEY.times(self.footprint.groups))._replace(open=frozenset())
        size = cost.key.plus(full, intents)
        return {"commit": Line(f"write roots {what}", cost.cls.__name__, 1, size, step="commit")}

    # Before the commit point.

    def _before(self, *, has_marker: bool) -> Lines:
        """What is asked for before the commit point.

        References are put first where they are known before anything is read, and so is the marker where rows are
        likely to follow.
        """
        verb, marker = self.footprint.verb, _once("marker", MARKER, "marker")
        knows_pointers = verb in ("save", "create") and not self.is_numbered
        is_early = has_marker and (verb == "create" or (verb == "save" and self.footprint.contributes))
        pointers = self._pointers()
        lines = at_once(self._row(), {"marker": marker} if is_early else {}, pointers if knows_pointers else {})
        lines |= {} if knows_pointers else pointers
        reads_early = not self.is_numbered if self.group else bool(self.sources)
        early = [each for each in self._sums if reads_early and each.cost.form.name in self.early]
        likely = _together("likely sums", "read counts", [each._replace(rows=1) for each in early], _sum)
        lines |= at_once(self._roots_of_sources() if self.group is None else self._child(), likely)
        lines |= {} if self.group is None else self._roots_of_sources()
        lines |= self._children_of_sources() | self._looks_at_holds() | self._claims()
        # Of those that were read early, what the entity leaves comes late.
        late = [found for each in self._sums if (found := each._replace(rows=each.rows - (each in early))).rows]
        spread = [each for each in self._sums if each.cost.form.shards > 1]
        return lines | at_once(
            _together("sums", "read counts", late, _sum, "sums"),
            _together("announced", "write counts", spread, lambda cost: cost.key.plus(FLAG), "announced"),
            {"marker": marker} if has_marker and not is_early else {},
        )

    def _row(self) -> Lines:
        what, cost, full = self._root
        return {"row": Line(f"read roots {what}", cost.cls.__name__, 1, full, step="row")}

    def _child(self) -> Lines:
        child = Line(f"read roots {self.footprint.what}", self._name, 1, self._full)
        return {} if self.is_numbered else {"child": child}

    def _pointers(self) -> Lines:
        """Back-references and holds that may be new."""
        new = [ViewRows(cost, min(rows, cost.rows)) for cost, rows in self.footprint.own if self._is_put(cost)]
        return _together("pointers", "write views", new, lambda cost: cost.key, AGAIN)

    def _is_put(self, cost: ViewCost) -> bool:
        """Whether a row points to a source, and is put before the commit; the hold of a child on its root is not."""
        is_pointer = cost.form.sort in _POINTERS and cost.form.place != frozenset({(CHILD_OF,)})
        return self._puts and is_pointer

    def _roots_of_sources(self) -> Lines:
        """What it refers to; of a child, its root."""
        lines: Lines = {}
        for name, count, size, of_root in self.sources:
            because, requests = f"{self._name}.{name}", int(not lines)
            lines[f"source {name}"] = Line("read roots sources", because, count, of_root or size, requests, step=AGAIN)
        return lines

    def _children_of_sources(self) -> Lines:
        """What it refers to among children: those of its own group, and those of others behind their roots."""
        lines: Lines = {}
        requests = 1 + (self.group is not None and self.group.has_siblings)
        for name, count, size, _of_root in [each for each in self.sources if each.of_root is not None]:
            children = Line("read roots sources that are children", f"{self._name}.{name}", count, size, step=AGAIN)
            lines[f"child {name}"] = children._replace(requests=0 if lines else requests)
        return lines

    def _looks_at_holds(self) -> Lines:
        _what, cost, full = self._root
        name, holding = cost.cls.__name__, ", ".join(self.footprint.holding)
        lines = {
            "mark": Line("write roots mark", name, 1, ROOT_KEY.plus(ROW_CELLS), step="mark"),
            "marked": Line("read roots marked entity", name, 1, full, step="marked"),
            "holds": Line("scan views holds", holding, 0),
        }
        return lines if holding else {}

    def _claims(self) -> Lines:
        """A unique value may have been that of an entity that gave it up, or that did not get it in the end."""
        claims = [each for each in self.footprint.own if each.cost.form.sort == "claim" and self._puts]
        return at_once(*(self._claim(cost, min(rows, cost.rows)) for cost, rows in claims))

    def _claim(self, cost: ViewCost, rows: int) -> Lines:
        name, value = cost.form.name, cost.value.plus(_NUMBER)
        lines = {f"claim {name}": Line("read counts claim", name, rows, value, rows, 1)}
        if self.group is not None:
            of_group = Line("read roots group of an earlier owner", name, rows, self.group.full, rows, 1)
            lines[f"owner's group {name}"] = of_group
        return lines | {
            f"owner {name}": Line("read roots earlier owner", name, rows, self._full, rows, 1),
            f"ended {name}": Line("write roots earlier owner", name, rows, ROOT_KEY.plus(ROW_CELLS), rows, 1),
            f"taken {name}": Line("write counts claim", name, rows, cost.key.plus(value), rows, 1),
        }

    # Behind it.

    def _behind(self) -> Lines:
        """What is asked for behind the commit point, but for what ends it."""
        left = [
            ViewRows(cost, rows - min(rows, cost.rows) if self._is_put(cost) else rows)
            for cost, rows in self._rows("views")
        ]
        views = [each for each in left if each.rows]
        applied = [_together("views", "write views", views, lambda cost: cost.row.plus(FLAG), "views")]
        for cost, rows in self._sums:
            name, size = cost.form.name, cost.row.plus(_NUMBER, ROOT_KEY)
            applied.append({f"added {name}": Line("write counts group", name, rows, size, rows, 1)})
        if self.group is not None:
            kind, size = f"write roots {self.footprint.what}", self.footprint.cost.key.plus(self._full)
            applied.append({"children": Line(kind, self._name, 1, size, step="children")})
        return at_once(*applied)


def full_row(root: Size, sources: int) -> Size:
    """A root row with so many sources, as commits read it."""
    return root.plus(ROW_CELLS, _USED.times(sources))


def shared_commit(writes: Sequence[tuple[Bound, int]]) -> BoundBuilder:
    """The bound of one commit of an entity group with all these writes, each so many times.

    What is asked for once in a commit - the root's row, the marker, the commit, rows of views, sums - is a shared term
    of the bound of each write.
    """
    total, asked, rows, waited = BoundBuilder(), Counter[str](), Counter[str](), Counter[str]()
    has_mark = any(term.shared == "mark" for bound, _times in writes for term in bound.terms)
    for bound, times in writes:
        total.note_undeclared(frozenset(bound.undeclared))
        for term in bound.terms:
            name, each = term.shared, term.scaled(times * (1 + has_mark) if term.shared == AGAIN else times)
            if name and name != AGAIN:
                each = msgspec.structs.replace(
                    each,
                    requests=max(0, term.requests - asked[name]),
                    rounds=max(0, term.rounds - waited[name]),
                    rows=max(0, term.rows - rows[name]) if name in _ONE_ROW else each.rows,
                )
                asked[name] += each.requests
                waited[name] += each.rounds
                rows[name] += each.rows
            total.add_term(each)
    return total


def _once(what: str, size: Size, step: str) -> Line:
    return Line(f"write system {what}", "every commit from which something follows", 1, size, step=step)


def _together(
    name: str, kind: str, several: Iterable[ViewRows], size: Callable[[ViewCost], Size], step: str = ""
) -> Lines:
    """Rows of several views in one request."""
    lines: Lines = {}
    for cost, rows in several:
        line = Line(f"{kind} {cost.form.sort}", cost.form.name, rows, size(cost), int(not lines), step=step)
        lines[f"{name} {cost.form.name} {cost.form.sort}"] = line
    return lines


def _sum(cost: ViewCost) -> Size:
    """A group's row, with its tokens."""
    return cost.value.plus(_NUMBER, ROOT_KEY.times(TOKENS)._replace(typical=_USUAL_TOKENS * ROOT_KEY.typical))
