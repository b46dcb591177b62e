"""Prices where a store changes one row at a time: each entity is a commit of its own, and so is each holder.

The changes of a transaction, which are of one entity group, share theirs. See docs/decisions/0083-costs-of-one-row.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from oneread.costs import counter_costs
from oneread.costs.bounds import Bound, BoundBuilder, Line, Lines, greatest_lines
from oneread.costs.fan_outs import FollowStep
from oneread.costs.footprints import WHOLE, CommitFootprint, SourceRows, WriteCall, WriteFootprints
from oneread.costs.group_costs import add_extrema, add_groups
from oneread.costs.journal_commit import (
    AGAIN,
    GROUP_KEY,
    GROUP_TASK,
    MARKER,
    ROOT_KEY,
    ROW_CELLS,
    JournalCommit,
    ReferredRows,
    RootOfGroup,
    full_row,
    shared_commit,
)
from oneread.costs.journal_feeds import JournalFeeds
from oneread.costs.log_costs import log_lines
from oneread.costs.sizes import FLAG, TASK, Size, greatest, hold_size
from oneread.counters.rows import WindowSize
from oneread.derivations.counter_fields import ShownCounter
from oneread.derivations.entity_groups import CHILD_OF
from oneread.derivations.one_row import refuse_unsupported
from oneread.derivations.rollups import ShownAggregate
from oneread.errors import Unsupported
from oneread.models.registry import EntityKind
from oneread.store.limits import KEY_BYTES, ROW_HOLDERS

_PAGE: Final = 100
"""Holds of one request."""


class FollowLevel(NamedTuple):
    """Holders of one distance from what is written.

    So many sources are looked up one after the other, so many holders follow; theirs may follow in turn where it
    `has_more`. `label` names this level within a bound.
    """

    label: str
    steps: Sequence[FollowStep]
    sources: int
    following: int
    has_more: bool

    @property
    def because(self) -> str:
        """The classes."""
        return "copies in " + ", ".join(dict.fromkeys(cls.__name__ for cls, _change in self.steps))


class JournalPrices:
    """Bounds of writes of one schema.

    Raises:
        Unsupported: such a store does not keep something that is declared.
    """

    leaves_entries = True
    """Whether pages of feeds pass entries that show nothing."""

    def __init__(self, footprints: WriteFootprints, inline: int) -> None:
        refuse_unsupported(footprints.catalog)
        self._footprints = footprints
        self._costs = footprints.costs
        self._catalog = footprints.catalog
        self._most_children = inline
        self._inline = min(inline, ROW_HOLDERS)
        self._feeds = JournalFeeds(footprints, self._inline)

    def bound(self, write: WriteCall, name: str) -> Bound:
        """The bound of one write.

        Raises:
            Unsupported: there is none, since holders of holders may follow without end.
        """
        return self._footprints.bound(write, partial(self._bound, name=name))

    def _bound(self, write: WriteCall, name: str) -> Bound:
        total, footprint = BoundBuilder(), self._footprints.of(write)
        levels = _levels(footprint)
        total.add_lines(self._own_lines(footprint), write.entities)
        self._add_expired(total, write.cls, self._footprints.freed_by(write), write.within)
        if write.verb not in ("patch", "delete"):
            self._add_shown(total, write)
        touched = self._footprints.groups_of(footprint.own, write.entities)
        touched.update(self._add_followers(total, levels, write))
        self._add_totals(total, touched, write)
        for each in footprint.own:
            total.note_undeclared(each.cost.undeclared)
        return total.bound(name, write.cls.__name__)

    def most_holders(self) -> int:
        """The holders that follow a change of one source within its call; a task updates the others."""
        return self._inline

    def most_groups(self, touched: int) -> int:
        """Of so many groups that a call changes, those whose numbers are shown within it; a task does the others."""
        return min(touched, self._inline)

    def is_bounded(self, write: WriteCall) -> bool:
        """Whether the write has a bound, however full the store is."""
        try:
            self.bound(write, write.verb)
        except Unsupported:
            return False
        return True

    def copy(self, shown: ShownCounter) -> Bound:
        """Copying a counter to the entity that shows it; the totals that follow are left to tasks."""
        total, write = BoundBuilder(), self._footprints.showing(shown.kind, shown)
        counter_costs.add_marked(total, shown.name)
        counter_costs.add_shown_by_shard(total, shown.name, 1)
        footprint = self._footprints.of(write)
        total.add_lines(self._own_lines(footprint), label="copied ")
        self._add_followers(total, _levels(footprint), write)
        counter_costs.add_unmarked(total, shown.name)
        return total.bound("copy", f"counter {shown.name}")

    def transact(self, writes: Sequence[Bound], reads: int) -> Bound:  # noqa: ARG002 - they are not read again
        """One commit of an entity group: what it reads is compared by the version of its root."""
        return shared_commit([(each, 1) for each in writes]).bound("transact", f"{len(writes)} writes")

    def delete_group(self, root: WriteCall, children: int, name: str) -> Bound:
        """A root deleted with so many children, each of whichever model costs most: listing them, and the commit."""
        models, kinds = self._footprints.models_in_group(root.cls), self._catalog.kinds
        writes = [(self.bound(root._replace(cls=each), "delete"), children) for each in models if children]
        total, hold = BoundBuilder(), hold_size(self._costs.key(kinds[root.cls]))
        total.add("list", Line("scan views children", CHILD_OF, self._most_children + 1, hold))
        total.add_bound(shared_commit([*writes, (self.bound(root, "delete"), 1)]).bound(name, root.cls.__name__))
        # The holds of children on the root, and on each other, are there until the commit is applied.
        held = [each for each in (root.cls, *models) if self._footprints.holding([kinds[each]])]
        scans, going = 1 + children * (len(held) - 1), children * len(models)
        gone = Line("scan views holds of children that go", CHILD_OF, scans * going, hold, scans * (going // _PAGE))
        total.add("holds that go", gone)
        return total.bound(name, root.cls.__name__)

    def add_to_counter(self, keep: Mapping[WindowSize, int], shown: str, *, once: bool, at: bool) -> Bound:
        """`add` to a counter with these windows, `at` a moment; `shown` names those that entities show."""
        return counter_costs.shard_add(sum(keep.values()), once=once, at=at, shown=shown)

    def windows_of_counter(self, last: int, *, until: bool) -> Bound:
        """`windows` of a counter, so many of them, `until` a moment."""
        return counter_costs.shards_of_windows(last, until=until)

    def add_large_groups(self, total: BoundBuilder, name: str, row: Size, members: int, merged: int) -> None:
        """Reads which groups the pages of so many members merge, each so many: each is asked for."""
        places = "read views groups that pages of a member merge"
        total.add("places", Line(places, name, members, row.times(merged), members))
        groups = members * merged
        total.add("large groups", Line("scan views large groups", name, groups, row, groups, members))

    # Commits.

    def _own_lines(self, footprint: CommitFootprint) -> Lines:
        """What the commit of one entity asks for; a child may be saved with its number, or get one."""
        kinds = (True, False) if footprint.is_numbered and footprint.verb == "save" else (footprint.is_numbered,)
        commit = self._commit(footprint)
        return greatest_lines(commit._replace(is_numbered=each).lines() for each in kinds)

    def _commit(self, footprint: CommitFootprint) -> JournalCommit:
        cls = footprint.cost.cls
        early = self._early(cls) if footprint.verb in WHOLE else frozenset[str]()
        following, group = self._feeds.lines(footprint), self._group_of(cls)
        return JournalCommit(footprint, self._referred(footprint), following, group, early)

    def _group_of(self, cls: type) -> RootOfGroup | None:
        """The root of a child."""
        root = self._catalog.kinds[cls].child_of
        if root is None:
            return None
        references = self._catalog.entity_types[cls].references
        has_siblings = any(each.kind.child_of is root for each in references)
        return RootOfGroup(self._costs.of[root], self._full(self._catalog.kinds[root]), has_siblings)

    def _referred(self, footprint: CommitFootprint) -> list[ReferredRows]:
        """What an entity refers to, by field; a child's own root is read in any case."""
        found: dict[str, ReferredRows] = {}
        for source in (*footprint.given, *footprint.stored):
            name = source.reference.name
            if name != CHILD_OF:
                referred = self._referred_by(source)
                before = found[name].number if name in found else 0
                found[name] = referred._replace(number=before + referred.number)
        return list(found.values())

    def _referred_by(self, source: SourceRows) -> ReferredRows:
        kind, kinds = source.reference.kind, self._catalog.kinds
        of_root = None if kind.child_of is None else self._full(kinds[kind.child_of])
        return ReferredRows(source.reference.name, source.number, self._full(kind), of_root)

    def _full(self, kind: EntityKind) -> Size:
        """A root row as commits read it, of whichever variant has the key."""
        sources = max(each.sources for each in self._costs.of_kind(kind))
        return full_row(self._footprints.root(kind.cls), sources + self._footprints.totals_of(kind))

    def _early(self, cls: type) -> frozenset[str]:
        """Aggregates whose sums are read before those of others."""
        entity_type = self._catalog.entity_types[cls]
        early = [
            cost
            for view in entity_type.derivations
            if entity_type.is_early(view)
            for cost in self._costs.views[view.cls]
        ]
        return frozenset(cost.form.name for cost in early if cost.form.sort == "group")

    def _add_expired(self, total: BoundBuilder, cls: type, freed: int, within: tuple[type, ...]) -> None:
        """An entity that has expired gives up each unique value that another one wants: at most, it is deleted."""
        if freed:
            total.add_bound(self.bound(self._footprints.deletion(cls, within), "delete"), freed)

    # Holders that follow within the call.

    def _add_followers(
        self, total: BoundBuilder, levels: Sequence[Sequence[FollowStep]], write: WriteCall, of: str = ""
    ) -> Counter[ShownAggregate]:
        """Each source is looked up, and its holders follow one after the other; further ones are left to a task.

        Returns the shown groups that they may touch.
        """
        sources, touched = write.entities, Counter[ShownAggregate]()
        for depth, steps in enumerate(levels):
            most = self._inline
            if write.holders is not None and (depth == 0 or write.is_usual):
                pointers = max(len(self._catalog.entity_types[cls].tracked) for cls, _change in steps)
                most = min(most, write.holders * pointers)
            following, has_more = sources * most, depth + 1 < len(levels)
            level = FollowLevel(f"{of}{depth} ", steps, sources, following, has_more)
            is_last = self._add_level(total, level, write.within)
            if is_last:
                break
            touched.update(self._footprints.groups_of_holders(steps, following))
            sources = following
        return touched

    def _add_level(self, total: BoundBuilder, level: FollowLevel, within: tuple[type, ...]) -> bool:
        """Adds holders of one distance; returns whether nothing follows from them."""
        label, steps, sources, following, has_more = level
        because, is_leaf = level.because, all(map(self._is_leaf, steps))
        found = Line("scan views back-references", because, following, Size(2 * KEY_BYTES + 20, 40), 0)
        total.add_requests(found._replace(requests=sources))
        total.add(f"{label}found", found)
        total.add(f"{label}done", Line("write system task is removed", because, sources, TASK, sources))
        if is_leaf and following:
            self._add_cells(total, level)
        if not is_leaf:
            size = greatest(self._full(self._catalog.kinds[cls]) for cls, _change in steps)
            for what in ("a page of holders", "sources of a page"):
                total.add(f"{label}{what}", Line(f"read roots {what}", because, following, size, sources))
            lines = greatest_lines(self._following(step, has_more=has_more) for step in steps)
            if following:
                total.add_lines(lines, following, label)
            for step in steps:
                freed = 0 if step[1].is_deleted else self._footprints.freed([step], following)
                self._add_expired(total, step[0], freed, within)
        return is_leaf

    def _is_leaf(self, step: FollowStep) -> bool:
        """Whether holders get the values in cells; where a model has variants, they may have to be committed."""
        found = self._footprints.source_of(step).reference
        return found.is_leaf and len(self._costs.of_kind(found.kind)) == 1

    def _add_cells(self, total: BoundBuilder, level: FollowLevel) -> None:
        """A page of holders from whose copies nothing follows: the source is read, and all cells are put at once."""
        label, sources, because = level.label, level.sources, level.because
        referred = [self._referred_by(self._footprints.source_of(step)) for step in level.steps]
        size, roots = greatest(each.size for each in referred), [each.of_root for each in referred if each.of_root]
        if roots:
            groups = Line("read roots groups of sources", because, sources, greatest(roots), sources)
            total.add(f"{label}groups", groups)
        total.add(f"{label}source", Line("read roots sources of a page", because, sources, size, sources))
        cells = Line("write roots cells of holders", because, level.following, ROOT_KEY.plus(size), sources)
        total.add(f"{label}cells", cells)
        names = dict.fromkeys(cls.__name__ for cls, _change in level.steps if cls.__name__ in self._footprints.logged)
        for name in names:
            total.add_lines(log_lines(name, level.following, sources), 1, label)

    def _following(self, step: FollowStep, *, has_more: bool) -> Lines:
        """One holder: whether it still refers to the source, its commit, or that it is set aside."""
        footprint = self._footprints.of_holder(step, has_holders=has_more)
        commit, name = self._commit(footprint), step[0].__name__
        looked = Line("read roots holders", name, 1, self._full(self._catalog.kinds[step[0]]))
        lines = {"looked": looked} | commit.lines()
        if commit.group is not None:
            lines["looked in group"] = Line("read roots groups of holders", name, 1, commit.group.full)
        if not footprint.own:
            aside = Line("read system set aside", name, 1, TASK.plus(ROOT_KEY, ROOT_KEY))
            lines |= {"aside": aside, "set aside": aside._replace(kind="write system set aside")}
        return lines

    # What shows groups.

    def _add_shown(self, total: BoundBuilder, write: WriteCall) -> None:
        """What an entity that is made shows, which is read at the same time."""
        found, shown, entities = BoundBuilder(), self._footprints.shown_by(write.cls), write.entities
        for each in shown:
            if isinstance(each, ShownAggregate):
                add_groups(found, self._costs, f"own {each.name}", (each, entities), entities)
        if found.terms:
            found.make_one_round(entities)
        for each in shown:
            if isinstance(each, ShownCounter):
                counter_costs.add_shown_by_shard(found, each.name, entities)
        bound = found.bound(write.verb, write.cls.__name__)
        terms = tuple(msgspec.structs.replace(term, shared=AGAIN) for term in bound.terms)
        total.add_bound(msgspec.structs.replace(bound, terms=terms))

    def _add_totals(self, total: BoundBuilder, touched: Counter[ShownAggregate], by: WriteCall) -> None:
        """Entities and indexes that show changed groups are committed one after the other, those of low rank first."""
        if not touched or not self._inline:
            return
        done = 0
        for step, shown, several in self._footprints.each_group(touched):
            groups = self.most_groups(several)
            done += groups
            for kind in shown.kinds:
                label = f"{step} {kind.cls.__name__} "
                write = self._footprints.showing(kind, shown, groups, by)
                self._add_read_groups(total, f"groups {label}", (shown, groups))
                footprint = self._footprints.of(write)
                levels = _levels(footprint)
                total.add_lines(self._own_lines(footprint), groups, f"shown {label}")
                touched.update(self._footprints.groups_of(footprint.own, groups))
                touched.update(self._add_followers(total, levels, write, f"shown {label}"))
            if shown.indexed is not None:
                self._add_listed(total, f"listed {step} ", shown, groups)
        waiting = Line(
            "read system tasks of groups", "holders that followed", done, GROUP_TASK.times(self._inline + 1), done
        )
        if any(term.what == "task" for term in total.terms):
            total.add("groups waiting", waiting)
        total.add("groups done", Line("write system tasks of groups are done", "totals", done, GROUP_TASK))

    def _add_read_groups(
        self, total: BoundBuilder, label: str, of: tuple[ShownAggregate, int], names: Sequence[str] = ()
    ) -> None:
        """Reads so many groups one after the other, each with its extrema and those named at the same time."""
        found = BoundBuilder()
        shown, groups = of
        add_groups(found, self._costs, label, of, groups)
        add_extrema(found, self._costs, label, of, names)
        found.make_one_round(groups)
        total.add_bound(found.bound("read", shown.name))

    def _add_listed(self, total: BoundBuilder, label: str, shown: ShownAggregate, groups: int) -> None:
        """The root row of a group that indexes list: its index rows are in its record and in its intents."""
        assert shown.indexed is not None
        self._add_read_groups(total, label, (shown, groups), shown.indexed.extrema_names)
        costs = [self._costs.views[index.cls][0] for index in shown.indexed.indexes]
        for cost in costs:
            rows = Line("write views index rows of groups", cost.form.name, 2 * groups, cost.row.plus(FLAG), groups)
            total.add(f"{label}views", rows)
        following = self._feeds.lines_of({cost.form.name: 2 for cost in costs}, has_task=False)
        total.add_lines(following, groups, label)
        row = GROUP_KEY.plus(ROW_CELLS, *[cost.row.times(2) for cost in costs])
        for kind, size in (
            ("read roots groups that indexes list", row),
            ("write roots groups that indexes list", row),
            ("write roots intents are cleared", ROOT_KEY),
            ("write system marker", MARKER),
            ("write system marker is removed", MARKER),
        ):
            total.add(f"{label}{kind}", Line(kind, shown.name, groups, size, groups))


def _levels(footprint: CommitFootprint) -> list[list[FollowStep]]:
    """The holders that follow what is written, by their distance."""
    return [] if footprint.fan is None else footprint.fan.levels()
