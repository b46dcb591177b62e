"""Writes on a store that changes one row at a time: the bounds of the writing verbs.

Each entity is a commit of its own, and so is each holder that follows. See docs/decisions/0083-costs-of-one-row.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NoReturn

from oneread.costs import counter_costs
from oneread.costs.bounds import Bound, BoundBuilder, Rows
from oneread.costs.entity_costs import EntityCosts, touched_rows
from oneread.costs.fan_outs import FollowStep
from oneread.costs.feed_costs import TASK
from oneread.costs.row_commits import (
    GROUP_KEY,
    GROUP_TASK,
    MARKER,
    ROOT_KEY,
    ROW_CELLS,
    RequestedRows,
    RowCommit,
    add_parts,
    full_row,
    greatest_parts,
)
from oneread.costs.row_entries import RowEntries, logged
from oneread.costs.sizes import FLAG, NOTHING, Size, greatest
from oneread.costs.writes import ViewRows, WriteCall, Writes
from oneread.derivations.catalog import Catalog
from oneread.derivations.counter_fields import ShownCounter
from oneread.derivations.one_row import refuse_unsupported
from oneread.derivations.rollups import ShownAggregate
from oneread.errors import Unsupported
from oneread.feeds.feed_view import FeedView
from oneread.store.limits import KEY_BYTES, ROW_HOLDERS

_UNPRICED: Final = "what this costs on a store that changes one row at a time is not known yet"
_WHOLE: Final = ("save", "create", "get_or_create")


def _refuse_unpriced(catalog: Catalog) -> None:
    """Raises Unsupported for what such stores keep, or will keep, and whose costs there are not known yet."""
    declared = [
        (cls, feature)
        for cls, view in catalog.views.items()
        if isinstance(view, FeedView)
        for feature, is_declared in (
            ("at_most", view.at_most is not None),
            ("groups", view.groups is not None),
            ("large_group", view.large is not None),
        )
        if is_declared
    ]
    declared += [(cls, "child_of") for cls, each in catalog.entity_types.items() if each.kind.child_of is not None]
    for cls, feature in declared:
        raise Unsupported(_UNPRICED, declaration=cls, feature=feature)


def refuse_unpriced(feature: str) -> NoReturn:
    """Raises Unsupported for a verb whose costs on such stores are not known yet."""
    raise Unsupported(_UNPRICED, feature=feature)


class OneRowWrites(Writes):
    """Bounds of writes of one schema.

    Raises:
        Unsupported: such a store does not keep something that is declared.
    """

    def __init__(self, costs: EntityCosts, inline: int) -> None:
        refuse_unsupported(costs.catalog)
        _refuse_unpriced(costs.catalog)
        super().__init__(costs, min(inline, ROW_HOLDERS))
        self._entries = RowEntries(costs, self._watched, self._inline)

    def bound(self, write: WriteCall, name: str) -> Bound:
        """The bound of one write.

        Raises:
            Unsupported: there is none, since holders of holders may follow without end.
        """
        total = BoundBuilder()
        levels = self._levels(write)
        parts = self._own_commit(write, has_task=bool(levels)).parts()
        add_parts(total, "", parts, write.entities)
        if write.verb != "delete":
            self._add_expired(total, write.cls, self._own_rows(write), write.entities)
        if write.verb not in ("patch", "delete"):
            self._add_own(total, write)
        touched = self._groups_of(self._own_rows(write), write.entities)
        if levels:
            touched.update(self._add_followers(total, levels, write))
        self._add_totals(total, touched)
        for each in self._own_rows(write):
            total.note_undeclared(each.cost.undeclared)
        return total.bound(name, write.cls.__name__)

    def _add_expired(self, total: BoundBuilder, cls: type, own: Sequence[ViewRows], times: int) -> None:
        """An entity that has expired gives up each unique value that another one wants: at most, it is deleted."""
        claims = sum(rows for cost, rows in own if cost.form.sort == "claim")
        if claims and self._expires(cls):
            freed = self.bound(WriteCall("delete", self._catalog.kinds[cls].cls), "delete")
            for _ in range(claims * times):
                total.add_bound(freed)

    def _expires(self, cls: type) -> bool:
        """Whether entities expire, or rows of them."""
        kind = self._catalog.kinds[cls]
        views = [view for each in self._models_of(kind) for view in self._catalog.entity_types[each].derivations]
        return kind.prefix in self._catalog.expiries or any(view.has_expiries for view in views)

    def is_bounded(self, write: WriteCall) -> bool:
        try:
            self.bound(write, write.verb)
        except Unsupported:
            return False
        return True

    def transact(self, writes: Sequence[Bound], reads: int) -> Bound:  # noqa: ARG002 - of a store that spans rows
        refuse_unpriced("transact")

    def delete_group(self, root: WriteCall, children: int, name: str) -> Bound:  # noqa: ARG002 - as above
        refuse_unpriced("delete with children")

    def copy(self, shown: ShownCounter) -> Bound:  # noqa: ARG002 - as above
        refuse_unpriced("counter")

    def _own_commit(self, write: WriteCall, *, has_task: bool) -> RowCommit:
        """The commit of one entity, of whichever variant asks for most."""
        kind = self._catalog.kinds[write.cls]
        cost = max((self._costs.of[each] for each in self._models(write)), key=lambda each: each.sources)
        is_delete = write.verb == "delete"
        return RowCommit(
            cost,
            "entity",
            self._root(write.cls),
            self._own_rows(write),
            {} if is_delete else self._sources(write, cost.cls),
            self._likely(write.cls) if write.verb in _WHOLE else frozenset(),
            self._held_by(kind.prefix, write.cls) if is_delete else (),
            puts=not is_delete,
            may_be_new=write.verb in (*_WHOLE, "upsert"),
            has_task=has_task,
            groups=sum(self._groups_of(self._own_rows(write), 1).values()),
            totals=self._totals_of(write.cls),
            entries=self._entries,
        )

    def _sources(self, write: WriteCall, widest: type) -> dict[str, tuple[int, Size]]:
        """What an entity refers to, by field: a patch reads what it refers to for the first time, an upsert both."""
        found: dict[str, tuple[int, Size]] = {}
        changed = [(widest, write.fields)] if write.verb in ("patch", "upsert") else []
        whole = [] if write.verb == "patch" else [(write.cls, None)]
        for cls, fields in [*whole, *changed]:
            for reference in self._catalog.entity_types[cls].references:
                if fields is None or reference.name in fields:
                    before, _size = found.get(reference.name, (0, NOTHING))
                    count = self._costs.of[cls].references[reference.name]
                    found[reference.name] = before + count, self._full(reference.kind.cls)
        return found

    def _full(self, cls: type) -> Size:
        """A root row as commits read it, of whichever variant has the key."""
        kind = self._catalog.kinds[cls]
        sources = max(each.sources for each in self._costs.of_kind(kind))
        return full_row(self._root(cls), sources + self._totals_of(cls))

    def _likely(self, cls: type) -> frozenset[str]:
        """Aggregates whose groups are known before sources are read: they take nothing from behind a reference."""
        cost, references = self._costs.of[cls], self._costs.of[cls].references
        unknown = {
            each.form.name.partition(".")[0]
            for each in cost.views
            for route in (*each.form.place, *each.form.value, *each.where)
            if (len(route) > 1 and references.keys() & {*route[:1]}) or cost.updated_fields & {*route[:1]}
        }
        return frozenset({each.form.name for each in cost.views if each.form.sort == "group"} - unknown)

    def _held_by(self, prefix: bytes, cls: type) -> list[str]:
        """The references that forbid the delete of an entity."""
        if not self._catalog.may_be_held(prefix):
            return []
        kind = self._catalog.kinds[cls]
        return [
            f"{each.__name__}.{reference.name}"
            for each, entity_type in self._catalog.entity_types.items()
            for reference in entity_type.holding
            if reference.kind is kind
        ]

    # Holders that follow within the call.

    def _levels(self, write: WriteCall) -> list[list[FollowStep]]:
        for cls in self._models(write):
            change = None if write.verb != "patch" or write.fields is None else self._changed(cls, write.fields)
            found = self._fans.levels(self._catalog.entity_types[cls], change, is_delete=write.verb == "delete")
            if found:
                return found
        return []

    def _add_followers(
        self, total: BoundBuilder, levels: list[list[FollowStep]], write: WriteCall, of: str = ""
    ) -> Counter[ShownAggregate]:
        """Each source is looked up, and its holders follow one after the other; further ones are left to a task.

        Returns the shown groups that they may touch.
        """
        sources, usual = write.entities, write.usual_holders
        touched: Counter[ShownAggregate] = Counter()
        for depth, steps in enumerate(levels):
            label = f"{of}{depth} "
            because = "copies in " + ", ".join(dict.fromkeys(cls.__name__ for cls, _fields in steps))
            most = self._inline
            if depth == 0 and write.holders is not None:
                pointers = max(len(self._catalog.entity_types[cls].tracked) for cls, _fields in steps)
                most = min(most, write.holders * pointers)
            following = sources * most
            found = Size(2 * KEY_BYTES + 20, 40)
            scanned = Rows("scan", "views", "back-references", because, usual)
            total.add_requests(scanned, sources)
            total.add(f"{label}found", scanned, following, found, 0)
            total.add(f"{label}done", Rows("write", "system", "task is removed", because), sources, TASK, sources)
            if all(self._is_leaf(step) for step in steps):
                if following:
                    self._add_cells(total, label, steps, sources, following)
                return touched
            looked = Rows("read", "roots", "a page of holders", because, usual)
            size = greatest(self._full(cls) for cls, _fields in steps)
            total.add(f"{label}page", looked, following, size, sources)
            read = Rows("read", "roots", "sources of a page", because, usual)
            total.add(f"{label}page sources", read, following, size, sources)
            parts = greatest_parts(self._following(step, has_task=depth + 1 < len(levels)) for step in steps)
            if following:
                add_parts(total, label, parts, following)
            found_here: Counter[ShownAggregate] = Counter()
            for step in steps:
                if not step[1].is_deleted:
                    self._add_expired(total, step[0], self._touched(step), following)
                found_here |= self._groups_of(self._touched(step), following)
            touched.update(found_here)
            sources = following
        return touched

    def _touched(self, step: FollowStep) -> list[ViewRows]:
        """The derived rows that one holder touches when it follows."""
        cls, change = step
        own = [ViewRows(each, touched_rows(each, change)) for each in self._costs.of[cls].views]
        return [each for each in own if each.rows]

    # What shows groups.

    def _shown_by(self, cls: type) -> list[ShownAggregate]:
        """The aggregates whose groups an entity shows."""
        rollups = [each.shown for each in self._catalog.entity_types[cls].rollups]
        return list(dict.fromkeys([each for each in rollups if isinstance(each, ShownAggregate)]))

    def _add_own(self, total: BoundBuilder, write: WriteCall) -> None:
        """What an entity that is made shows."""
        for shown in self._shown_by(write.cls):
            self._add_groups(total, f"own {shown.name}", shown, write.entities, write.entities)
        for each in self._counters_of(write.cls):
            counter_costs.add_shown_by_row(total, each, write.entities)

    def _counters_of(self, cls: type) -> list[str]:
        """The named counters that an entity shows."""
        shown = [each.shown for each in self._catalog.entity_types[cls].rollups]
        return [each.name for each in dict.fromkeys(shown) if isinstance(each, ShownCounter)]

    def _totals_of(self, cls: type) -> int:
        models = self._models_of(self._catalog.kinds[cls])
        return max(len(self._shown_by(each)) + len(self._counters_of(each)) for each in models)

    def _add_totals(self, total: BoundBuilder, touched: Counter[ShownAggregate]) -> None:
        """Entities and indexes that show changed groups are committed one after the other, those of low rank first."""
        if not touched or not self._inline:
            return
        done = 0
        for step in range(len(self._shown) + 1):  # an aggregate may follow itself once for each of its numbers
            if not touched:
                break
            shown = min(touched, key=lambda each: each.rank)
            groups = min(touched.pop(shown), self._inline)
            done += groups
            for kind in shown.kinds:
                label = f"{step} {kind.cls.__name__} "
                write = WriteCall("patch", kind.cls, self._fields_showing(kind, shown), groups)
                levels = self._levels(write)
                self._add_groups(total, f"groups {label}", shown, groups, groups)
                add_parts(total, f"shown {label}", self._own_commit(write, has_task=bool(levels)).parts(), groups)
                touched.update(self._groups_of(self._own_rows(write), groups))
                if levels:
                    touched.update(self._add_followers(total, levels, write, f"shown {label}"))
            if shown.indexed is not None:
                self._add_listed(total, f"listed {step} ", shown, groups)
        waiting = Rows("read", "system", "tasks of groups", "holders that followed")
        if any(term.what == "task" for term in total.terms):
            total.add("groups waiting", waiting, done, GROUP_TASK.times(self._inline + 1), done)
        total.add("groups done", Rows("write", "system", "tasks of groups are done", "totals"), done, GROUP_TASK)

    def _add_listed(self, total: BoundBuilder, label: str, shown: ShownAggregate, groups: int) -> None:
        """The root row of a group that indexes list: its index rows are in its record and in its intents."""
        assert shown.indexed is not None
        self._add_groups(total, label, shown, groups, groups)
        self._add_extrema(total, label, shown.indexed.extrema_names, (shown, groups))
        costs = [self._costs.views[index.cls][0] for index in shown.indexed.indexes]
        row = GROUP_KEY.plus(ROW_CELLS, *[cost.row.times(2) for cost in costs])
        for cost in costs:
            written = Rows("write", "views", "index rows of groups", cost.form.name)
            total.add(f"{label}views", written, 2 * groups, cost.row.plus(FLAG), groups)
            if cost.form.name in self._watched:
                add_parts(total, label, logged(cost.form.name, 2), groups)
        asked = [
            (Rows("read", "roots", "groups that indexes list", shown.name), row),
            (Rows("write", "roots", "groups that indexes list", shown.name), row),
            (Rows("write", "roots", "intents are cleared", shown.name), ROOT_KEY),
            (Rows("write", "system", "marker", shown.name), MARKER),
            (Rows("write", "system", "marker is removed", shown.name), MARKER),
        ]
        for rows, size in asked:
            total.add(f"{label}{rows.act} {rows.what}", rows, groups, size, groups)

    def _is_leaf(self, step: FollowStep) -> bool:
        """Whether holders get the values in cells; where a model has variants, they may have to be committed."""
        cls, change = step
        (found,) = [each for each in self._catalog.entity_types[cls].references if each.name == change.reference]
        return found.is_leaf and len(self._costs.of_kind(found.kind)) == 1

    def _add_cells(
        self, total: BoundBuilder, label: str, steps: Sequence[FollowStep], sources: int, following: int
    ) -> None:
        """A page of holders from whose copies nothing follows: the source is read, and all cells are put at once."""
        because = "copies in " + ", ".join(dict.fromkeys(cls.__name__ for cls, _change in steps))
        size = greatest(self._source_of(cls, change.reference) for cls, change in steps)
        total.add(f"{label}source", Rows("read", "roots", "sources of a page", because), sources, size, sources)
        cell = ROOT_KEY.plus(size)
        total.add(f"{label}cells", Rows("write", "roots", "cells of holders", because), following, cell, sources)

    def _following(self, step: FollowStep, *, has_task: bool) -> dict[str, RequestedRows]:
        """One holder: whether it still refers to the source, its commit, or that it is set aside."""
        cls, change = step
        cost, name = self._costs.of[cls], cls.__name__
        own = self._touched(step)
        prefix = self._catalog.kinds[cls].prefix
        commit = RowCommit(
            cost,
            "holders",
            self._root(cls),
            own,
            {change.reference: (1, self._source_of(cls, change.reference))},
            holds=self._held_by(prefix, cls) if change.is_deleted else (),
            puts=not change.is_deleted,
            has_task=has_task,
            groups=sum(self._groups_of(own, 1).values()),
            totals=self._totals_of(cls),
            entries=self._entries,
        )
        looked = RequestedRows(Rows("read", "roots", "holders", name), 1, self._full(cls), 1)
        parts = {"looked": looked, **commit.parts()}
        if not own:
            aside = TASK.plus(ROOT_KEY, ROOT_KEY)
            parts["aside"] = RequestedRows(Rows("read", "system", "set aside", name), 1, aside, 1)
            parts["set aside"] = RequestedRows(Rows("write", "system", "set aside", name), 1, aside, 1)
        return parts

    def _source_of(self, cls: type, reference: str) -> Size:
        (found,) = [each for each in self._catalog.entity_types[cls].references if each.name == reference]
        return self._full(found.kind.cls)
