"""Writes on a store that changes one row at a time: the bounds of the writing verbs.

Each entity is a commit of its own, and so is each holder that follows; the changes of a transaction, which are of one
entity group, share theirs. See docs/decisions/0083-costs-of-one-row.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from oneread.costs import row_counter_costs
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
    Parts,
    RequestedRows,
    RootOfGroup,
    RowCommit,
    SourceRows,
    add_parts,
    full_row,
    greatest_parts,
)
from oneread.costs.row_entries import RowEntries
from oneread.costs.sizes import FLAG, Size, greatest
from oneread.costs.transactions import AGAIN, hold_size, shared_commit
from oneread.costs.writes import ViewRows, WriteCall, Writes
from oneread.derivations.counter_fields import ShownCounter
from oneread.derivations.entity_groups import CHILD_OF
from oneread.derivations.one_row import refuse_unsupported
from oneread.derivations.rollups import ShownAggregate
from oneread.errors import Unsupported
from oneread.models.registry import EntityKind
from oneread.store.limits import KEY_BYTES, ROW_HOLDERS

_WHOLE: Final = ("save", "create", "get_or_create")

_PAGE: Final = 100
"""Holds of one request."""


class OneRowWrites(Writes):
    """Bounds of writes of one schema.

    Raises:
        Unsupported: such a store does not keep something that is declared.
    """

    def __init__(self, costs: EntityCosts, inline: int) -> None:
        refuse_unsupported(costs.catalog)
        super().__init__(costs, min(inline, ROW_HOLDERS))
        self._most_children = inline
        self._entries = RowEntries(costs, self._watched, self._inline)

    def bound(self, write: WriteCall, name: str) -> Bound:
        """The bound of one write.

        Raises:
            Unsupported: there is none, since holders of holders may follow without end.
        """
        total = BoundBuilder()
        levels = self._levels(write)
        add_parts(total, "", self._own_parts(write, has_task=bool(levels)), write.entities, is_own=True)
        if write.verb != "delete":
            freed = self._freed(self._changes(write), write.entities)
            self._add_expired(total, write.cls, freed, write.within)
        if write.verb not in ("patch", "delete"):
            self._add_own(total, write)
        touched = self._groups_of(self._own_rows(write), write.entities)
        if levels:
            touched.update(self._add_followers(total, levels, write))
        self._add_totals(total, touched, write.within)
        for each in self._own_rows(write):
            total.note_undeclared(each.cost.undeclared)
        return total.bound(name, write.cls.__name__)

    def _add_expired(self, total: BoundBuilder, cls: type, freed: int, within: tuple[type, ...]) -> None:
        """An entity that has expired gives up each unique value that another one wants: at most, it is deleted."""
        if freed:
            total.add_bound(self._deletion(cls, within), freed)

    def is_bounded(self, write: WriteCall) -> bool:
        try:
            self.bound(write, write.verb)
        except Unsupported:
            return False
        return True

    def transact(self, writes: Sequence[Bound], reads: int) -> Bound:  # noqa: ARG002 - they are not read again
        """One commit of an entity group: what it reads is compared by the version of its root."""
        return shared_commit([(each, 1) for each in writes]).bound("transact", f"{len(writes)} writes")

    def delete_group(self, root: WriteCall, children: int, name: str) -> Bound:
        """A root deleted with so many children, each of whichever model costs most: listing them, and the commit."""
        models = self.models_in_group(root.cls)
        writes = [(self.bound(root._replace(cls=each), "delete"), children) for each in models if children]
        total = BoundBuilder()
        hold = hold_size(self._costs.key(self._catalog.kinds[root.cls]))
        total.add("list", Rows("scan", "views", "children", CHILD_OF), self._most_children + 1, hold)
        total.add_bound(shared_commit([*writes, (self.bound(root, "delete"), 1)]).bound(name, root.cls.__name__))
        # The holds of children on the root, and on each other, are there until the commit is applied.
        gone = Rows("scan", "views", "holds of children that go", CHILD_OF)
        held = [each for each in (root.cls, *models) if self._catalog.may_be_held(self._catalog.kinds[each].prefix)]
        scans, going = 1 + children * (len(held) - 1), children * len(models)
        total.add("holds that go", gone, scans * going, hold, scans * (going // _PAGE))
        return total.bound(name, root.cls.__name__)

    def copy(self, shown: ShownCounter) -> Bound:
        """Copying a counter to the entity that shows it; the totals that follow are left to tasks."""
        total = BoundBuilder()
        row_counter_costs.add_marked(total, shown.name)
        row_counter_costs.add_shown(total, shown.name, 1)
        write = WriteCall("patch", shown.kind.cls, self._fields_showing(shown.kind, shown))
        levels = self._levels(write)
        add_parts(total, "", self._own_parts(write, has_task=bool(levels)), 1)
        if levels:
            self._add_followers(total, levels, write)
        row_counter_costs.add_unmarked(total, shown.name)
        return total.bound("copy", f"counter {shown.name}")

    def _own_parts(self, write: WriteCall, *, has_task: bool) -> Parts:
        """What the commit of one entity asks for; a child may be saved with its number, or get one."""
        is_numbered = self._catalog.entity_types[write.cls].numbered is not None and write.verb in _WHOLE
        kinds = (True, False) if is_numbered and write.verb == "save" else (is_numbered,)
        return greatest_parts([self._own_commit(write, has_task=has_task, is_numbered=each).parts() for each in kinds])

    def _own_commit(self, write: WriteCall, *, has_task: bool, is_numbered: bool) -> RowCommit:
        """The commit of one entity, of whichever variant asks for most."""
        kind = self._catalog.kinds[write.cls]
        cost = max((self._costs.of[each] for each in self._models(write)), key=lambda each: each.sources)
        is_delete, is_whole = write.verb == "delete", write.verb in ("save", "create")
        contributes = self._catalog.entity_types[write.cls].contributes
        return RowCommit(
            cost,
            "entity",
            self._root(write.cls),
            self._own_rows(write),
            {} if is_delete else self._sources(write, cost.cls),
            self._likely(write.cls) if write.verb in _WHOLE else frozenset(),
            self._held_by(kind.prefix, write.cls) if is_delete else (),
            puts=not is_delete,
            knows_pointers=is_whole and not is_numbered,
            has_early_marker=write.verb == "create" or (write.verb == "save" and contributes),
            may_be_new=write.verb in (*_WHOLE, "upsert"),
            has_task=has_task,
            groups=sum(self._groups_of(self._own_rows(write), 1).values()),
            totals=self._totals_of(write.cls),
            entries=self._entries,
            group=self._group_of(cost.cls, is_numbered=is_numbered),
        )

    def _group_of(self, cls: type, *, is_numbered: bool = False) -> RootOfGroup | None:
        """The root of a child."""
        root = self._catalog.kinds[cls].child_of
        if root is None:
            return None
        references = self._catalog.entity_types[cls].references
        has_siblings = any(each.kind.child_of is root for each in references)
        return RootOfGroup(self._costs.of[root], self._full(root), is_numbered, has_siblings)

    def _sources(self, write: WriteCall, widest: type) -> dict[str, SourceRows]:
        """What an entity refers to, by field: a patch reads what it refers to for the first time, an upsert both.

        Who writes what goes with a source reads that of the entity that is there, too.
        A child's own root is read in any case.
        """
        found: dict[str, SourceRows] = {}
        changed = [(widest, write.fields)] if write.verb in ("patch", "upsert") else [(write.cls, ())]
        whole = [] if write.verb == "patch" else [(write.cls, None)]
        for cls, fields in [*whole, *changed]:
            for reference in self._catalog.entity_types[cls].references:
                is_asked = fields is None or reference.name in fields or reference.on_delete == "delete"
                if reference.name != CHILD_OF and is_asked:
                    before = found[reference.name].number if reference.name in found else 0
                    count = self._costs.of[cls].references[reference.name]
                    found[reference.name] = self._source_rows(reference.kind, before + count)
        return found

    def _source_rows(self, kind: EntityKind, number: int) -> SourceRows:
        root = kind.child_of
        return SourceRows(number, self._full(kind.cls), None if root is None else self._full(root))

    def _full(self, cls: type) -> Size:
        """A root row as commits read it, of whichever variant has the key."""
        kind = self._catalog.kinds[cls]
        sources = max(each.sources for each in self._costs.of_kind(kind))
        return full_row(self._root(cls), sources + self._totals_of(cls))

    def _likely(self, cls: type) -> frozenset[str]:
        """Aggregates whose groups are known before sources are read: they take nothing from behind a reference.

        What a reference itself says is taken for that, too, but in a key: `inputs_of` says the same.
        None is where a view takes a total: the entity is not emitted before its totals are known.
        """
        cost, references = self._costs.of[cls], self._costs.of[cls].references
        routes = [
            (each.form.name.partition(".")[0], route, is_place and len(route) == 1)
            for each in cost.views
            for is_place, several in ((True, each.form.place), (False, (*each.form.value, *each.where)))
            for route in several
        ]
        unknown = {
            name
            for name, route, is_own in routes
            if (references.keys() & {*route[:1]} and not is_own) or cost.updated_fields & {*route[:1]}
        }
        totals = {each.field for each in self._catalog.entity_types[cls].rollups}
        if any(totals & {*route[:1]} for name, route, _is_own in routes if name not in unknown):
            return frozenset()
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
                    self._add_expired(total, step[0], self._freed([step], following), write.within)
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
        """What an entity that is made shows, which is read at the same time."""
        shown = BoundBuilder()
        for each in self._shown_by(write.cls):
            self._add_groups(shown, f"own {each.name}", each, write.entities, write.entities)
        if shown.terms:
            shown.make_one_round(write.entities)
        for name in self._counters_of(write.cls):
            row_counter_costs.add_shown(shown, name, write.entities)
        found = shown.bound(write.verb, write.cls.__name__)
        terms = tuple(msgspec.structs.replace(term, shared=AGAIN) for term in found.terms)
        total.add_bound(msgspec.structs.replace(found, terms=terms))

    def _counters_of(self, cls: type) -> list[str]:
        """The named counters that an entity shows."""
        shown = [each.shown for each in self._catalog.entity_types[cls].rollups]
        return [each.name for each in dict.fromkeys(shown) if isinstance(each, ShownCounter)]

    def _totals_of(self, cls: type) -> int:
        models = self._models_of(self._catalog.kinds[cls])
        return max(len(self._shown_by(each)) + len(self._counters_of(each)) for each in models)

    def _add_totals(self, total: BoundBuilder, touched: Counter[ShownAggregate], within: tuple[type, ...] = ()) -> None:
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
                write = WriteCall("patch", kind.cls, self._fields_showing(kind, shown), groups, within=within)
                levels = self._levels(write)
                self._add_read_groups(total, f"groups {label}", shown, groups)
                add_parts(total, f"shown {label}", self._own_parts(write, has_task=bool(levels)), groups)
                touched.update(self._groups_of(self._own_rows(write), groups))
                if levels:
                    touched.update(self._add_followers(total, levels, write, f"shown {label}"))
            if shown.indexed is not None:
                self._add_listed(total, f"listed {step} ", shown, groups)
        waiting = Rows("read", "system", "tasks of groups", "holders that followed")
        if any(term.what == "task" for term in total.terms):
            total.add("groups waiting", waiting, done, GROUP_TASK.times(self._inline + 1), done)
        total.add("groups done", Rows("write", "system", "tasks of groups are done", "totals"), done, GROUP_TASK)

    def _add_read_groups(
        self, total: BoundBuilder, label: str, shown: ShownAggregate, groups: int, names: Sequence[str] = ()
    ) -> None:
        """Reads so many groups one after the other, each with its extrema and those named at the same time."""
        found = BoundBuilder()
        self._add_groups(found, label, shown, groups, groups)
        self._add_extrema(found, label, names, (shown, groups))
        found.make_one_round(groups)
        total.add_bound(found.bound("read", shown.name))

    def _add_listed(self, total: BoundBuilder, label: str, shown: ShownAggregate, groups: int) -> None:
        """The root row of a group that indexes list: its index rows are in its record and in its intents."""
        assert shown.indexed is not None
        self._add_read_groups(total, label, shown, groups, shown.indexed.extrema_names)
        costs = [self._costs.views[index.cls][0] for index in shown.indexed.indexes]
        row = GROUP_KEY.plus(ROW_CELLS, *[cost.row.times(2) for cost in costs])
        for cost in costs:
            written = Rows("write", "views", "index rows of groups", cost.form.name)
            total.add(f"{label}views", written, 2 * groups, cost.row.plus(FLAG), groups)
        following = self._entries.parts([ViewRows(cost, 2) for cost in costs], has_task=False)
        add_parts(total, label, following, groups)
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
        size = greatest(self._source_of(cls, change.reference).size for cls, change in steps)
        roots = [of_root for cls, change in steps if (of_root := self._source_of(cls, change.reference).of_root)]
        if roots:
            groups = Rows("read", "roots", "groups of sources", because)
            total.add(f"{label}groups", groups, sources, greatest(roots), sources)
        total.add(f"{label}source", Rows("read", "roots", "sources of a page", because), sources, size, sources)
        cell = ROOT_KEY.plus(size)
        total.add(f"{label}cells", Rows("write", "roots", "cells of holders", because), following, cell, sources)

    def _following(self, step: FollowStep, *, has_task: bool) -> Parts:
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
            {change.reference: self._source_of(cls, change.reference)},
            holds=self._held_by(prefix, cls) if change.is_deleted else (),
            puts=not change.is_deleted,
            has_task=has_task,
            groups=sum(self._groups_of(own, 1).values()),
            totals=self._totals_of(cls),
            entries=self._entries,
            group=self._group_of(cls),
        )
        looked = RequestedRows(Rows("read", "roots", "holders", name), 1, self._full(cls), 1)
        parts = {"looked": looked, **commit.parts()}
        if commit.group is not None:
            groups = Rows("read", "roots", "groups of holders", name)
            parts["looked in group"] = RequestedRows(groups, 1, commit.group.full, 1)
        if not own:
            aside = TASK.plus(ROOT_KEY, ROOT_KEY)
            parts["aside"] = RequestedRows(Rows("read", "system", "set aside", name), 1, aside, 1)
            parts["set aside"] = RequestedRows(Rows("write", "system", "set aside", name), 1, aside, 1)
        return parts

    def _source_of(self, cls: type, reference: str) -> SourceRows:
        (found,) = [each for each in self._catalog.entity_types[cls].references if each.name == reference]
        return self._source_rows(found.kind, 1)
