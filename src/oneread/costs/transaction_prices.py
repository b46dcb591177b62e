"""Prices where a store changes several rows at once: a commit is one transaction.

It reads the fence, the rows it is about with what they refer to, then the back-references and holders of what changed,
then groups and unique values; and it writes each table in one request. The arithmetic is that of `transactions.native`
and `transactions.unit_of_work`; a property compares the two. See docs/explanation/costs.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from oneread.costs import counter_costs, log_costs
from oneread.costs.bounds import Bound, BoundBuilder, Line
from oneread.costs.entity_costs import ViewRows
from oneread.costs.fan_outs import FanOut
from oneread.costs.footprints import CommitFootprint, WriteCall, WriteFootprints
from oneread.costs.group_costs import add_extrema, add_groups
from oneread.costs.sizes import TASK, Size, greatest, hold_size
from oneread.costs.transaction_feeds import TransactionFeeds
from oneread.counters.rows import WindowSize
from oneread.derivations.counter_fields import ShownCounter
from oneread.derivations.entity_groups import CHILD_OF
from oneread.derivations.rollups import ShownAggregate
from oneread.store.limits import KEY_BYTES, PROBES
from oneread.store.rows import Table

FENCE: Final = Line("read system fence", "every commit", 1, Size(20, 3))
"""The fence row: two numbers."""

_DERIVED: Final[tuple[Table, ...]] = ("views", "counts")


class Followers(NamedTuple):
    """What copies of the changed entities add to a commit, at most.

    `following` holders change in it, `scanned` back-references are read to find them, `tasks` are added.
    """

    following: int = 0
    scanned: int = 0
    tasks: int = 0


class TransactionPrices:
    """Bounds of writes of one schema."""

    leaves_entries = False
    """Whether pages of feeds pass entries that show nothing."""

    def __init__(self, footprints: WriteFootprints, inline: int) -> None:
        self._footprints = footprints
        self._costs = footprints.costs
        self._feeds = TransactionFeeds(footprints, inline)
        self._inline = inline

    def bound(self, write: WriteCall, name: str) -> Bound:
        """The bound of one write."""
        return self._footprints.bound(write, partial(self._bound, name=name))

    def _bound(self, write: WriteCall, name: str) -> Bound:
        total, footprint = BoundBuilder(), self._footprints.of(write)
        total.add("fence", FENCE)
        self._add_entities(total, write, footprint)
        self._add_holds(total, write, footprint.holding)
        touched = self._add_written(
            total, write, footprint, Line("write roots entity", write.cls.__name__, write.entities)
        )
        if write.verb not in ("patch", "delete"):
            self._add_shown(total, write)
        self._add_totals(total, touched, write)
        log_costs.add_written(total, self._footprints.logged)
        self._add_attempts(total, write)
        total.make_one_round()
        return total.bound(name, write.cls.__name__)

    def most_holders(self) -> int:
        """The holders that follow a change of one source in its commit; a task updates the others."""
        return self._inline

    def most_groups(self, touched: int) -> int:
        """Of so many groups that a commit changes, those whose numbers are shown at once: all of them."""
        return touched

    def is_bounded(self, write: WriteCall) -> bool:  # noqa: ARG002 - each write is
        """Whether the write has a bound, however full the store is."""
        return True

    def copy(self, shown: ShownCounter) -> Bound:
        """Copying a counter to the entity that shows it."""
        total, write = BoundBuilder(), self._footprints.showing(shown.kind, shown)
        counter_costs.add_copied(total, shown.name)
        total.add("fence", FENCE)
        kind = "roots entities that show"
        total.add("rows", Line(f"read {kind}", shown.name, 1, self._footprints.root(write.cls)))
        written = Line(f"write {kind}", shown.name, 1)
        self._add_totals(total, self._add_written(total, write, self._footprints.of(write), written), write)
        log_costs.add_written(total, self._footprints.logged)
        return total.bound("copy", f"counter {shown.name}")

    def transact(self, writes: Sequence[Bound], reads: int) -> Bound:
        """The commit of a transaction: everything that its body read is read again, then the writes are done.

        Each write sees the back-references of those before it.
        """
        total = BoundBuilder()
        anything = greatest(each.root for each in self._costs.of.values())
        checked = Line("read roots what the body read", "transact", reads, anything)
        total.add("check", checked)
        if writes and not reads:
            total.add_requests(checked)
        for bound in writes:
            total.add_bound(bound)
        scans = _scans_of(writes) if len(writes) > 1 else 0
        found, size = "scan views back-references of other writes", Size(2 * KEY_BYTES + 10, 60)
        total.add("overlay", Line(found, "transact", scans * len(writes), size, 0))
        total.make_one_round()
        return total.bound("transact", f"{len(writes)} writes")

    def delete_group(self, root: WriteCall, children: int, name: str) -> Bound:
        """A root deleted with so many children, each of whichever model costs most: listing them, and the commit."""
        models = self._footprints.models_in_group(root.cls)
        writes = [self.bound(root._replace(cls=each, entities=children), "delete") for each in models if children]
        commit = self.transact([*writes, self.bound(root, "delete")], 0)
        total, hold = BoundBuilder(), hold_size(self._costs.key(self._footprints.catalog.kinds[root.cls]))
        total.add("list", Line("scan views children", CHILD_OF, self._inline + 1, hold))
        total.add_bound(commit)
        # The holds of children that the commit deletes are read over when the root's are looked at.
        passed = _scans_of([commit]) * children * len(models)
        total.add("passed", Line("scan views holds and back-references that go", CHILD_OF, passed, hold, 0))
        return total.bound(name, root.cls.__name__)

    def add_to_counter(self, keep: Mapping[WindowSize, int], shown: str, *, once: bool, at: bool) -> Bound:
        """`add` to a counter with these windows, `at` a moment; `shown` names those that entities show."""
        return counter_costs.transaction_add(len(keep), once=once, at=at, shown=shown)

    def windows_of_counter(self, last: int, *, until: bool) -> Bound:
        """`windows` of a counter, so many of them, `until` a moment."""
        return counter_costs.rows_of_windows(last, until=until)

    def add_large_groups(self, total: BoundBuilder, name: str, row: Size, members: int, merged: int) -> None:
        """Reads which groups the pages of so many members merge, each so many."""
        total.add("large groups", Line("scan views large groups", name, members * merged, row, members))

    # The entities.

    def _add_entities(self, total: BoundBuilder, write: WriteCall, footprint: CommitFootprint) -> None:
        """The root rows, and what they refer to: in the same request where it is given, else in one more."""
        entities, name = write.entities, write.cls.__name__
        total.add("rows", Line("read roots entity", name, entities, footprint.root))
        for request, sources, requests in (("rows", footprint.given, 1), ("links", footprint.stored, entities)):
            for cls, reference, number in sources:
                because, size = f"{cls.__name__}.{reference.name}", self._footprints.root(reference.kind.cls)
                total.add(request, Line("read roots sources", because, number * entities, size, requests))
        root = self._footprints.catalog.kinds[write.cls].child_of
        if footprint.is_numbered and root is not None:  # rows at their numbers are read together, once these are known
            because = f"{name}.{self._footprints.catalog.entity_types[write.cls].numbered}"
            total.add("number", Line("read roots entity at its number", because, entities, footprint.root))
            total.add("roots", Line("write roots sequence", because, entities, self._footprints.root(root)))

    def _add_holds(self, total: BoundBuilder, write: WriteCall, holding: Mapping[str, type]) -> None:
        """Whether another entity forbids the delete: one row of a range that must be empty."""
        kinds, entities = self._footprints.catalog.kinds, write.entities
        if holding:
            is_own = any(kinds[each] is kinds[write.cls] for each in holding.values())
            rows, size = entities * (1 + entities * is_own), hold_size(self._costs.key(kinds[write.cls]))
            total.add("holds", Line("scan views holds", ", ".join(holding), rows, size, entities))

    def _add_shown(self, total: BoundBuilder, write: WriteCall) -> None:
        """What an entity that is made shows."""
        for shown in self._footprints.shown_by(write.cls):
            if isinstance(shown, ShownCounter):
                counter_costs.add_shown(total, shown.name, write.entities)
            else:
                add_groups(total, self._costs, f"own {shown.name}", (shown, write.entities), write.entities)

    def _add_attempts(self, total: BoundBuilder, write: WriteCall) -> None:
        """An attempt finds a value with an entity that has expired; the next one deletes that first, and may find more.

        All attempts are one transaction of the store.
        """
        found = self._footprints.freed_by(write)
        if found:
            for term in total.terms:
                if term.act != "write":
                    total.add_term(term.scaled(found))
            total.add_bound(self.bound(self._footprints.deletion(write.cls, ()), "delete"), found * (found + 1) // 2)

    def _add_written(
        self, total: BoundBuilder, write: WriteCall, footprint: CommitFootprint, roots: Line
    ) -> Counter[ShownAggregate]:
        """Adds the entities with their derived rows and holders; returns the shown groups that all these may touch."""
        fan, entities = footprint.fan, write.entities
        own = [ViewRows(cost, 1 if cost.is_shared else rows * entities) for cost, rows in footprint.own]
        followers = Followers() if fan is None else self._add_holders(total, fan, write)
        following = followers.following
        self._add_counts_read(total, own, footprint, (write, following))
        size = self._costs.key(self._footprints.catalog.kinds[write.cls]).plus(footprint.root)
        total.add("roots", roots._replace(size=size))
        self._add_derived(total, own, fan, following)
        total.add("tasks", Line("write system tasks", "" if fan is None else fan.because, followers.tasks, TASK))
        steps = () if fan is None else fan.steps
        touched = self._footprints.groups_of(footprint.own, entities)
        touched.update(self._footprints.groups_of_holders(steps, following))
        written = Counter({cost.form.name: rows * entities for cost, rows in footprint.own})
        for cls, change in steps:
            written.update({cost.form.name: rows * following for cost, rows in self._costs.of[cls].touched(change)})
        self._feeds.add(total, written)
        total.entities.update({write.cls.__name__: entities})
        total.entities.update({cls.__name__: following for cls in dict.fromkeys(cls for cls, _change in steps)})
        return touched

    # Their holders.

    def _add_holders(self, total: BoundBuilder, fan: FanOut, write: WriteCall) -> Followers:
        """Adds finding and reading the holders."""
        scans = 1 if (self._footprints.is_first(write) or write.verb == "delete") and not fan.is_far else fan.scans
        if not self._inline:
            self._add_merged_tasks(total, scans, write.entities)
            return Followers(tasks=write.entities)
        found, because = self._followers(fan, write), fan.because
        sources = write.entities + (found.following if fan.is_far else 0)
        scanned = found.scanned + (sources * write.entities if fan.is_circular else 0)
        line = Line("scan views back-references", because, scanned, fan.found, sources * scans)
        total.add_lines({"scan": line})
        self._add_merged_tasks(total, scans, found.tasks)
        # Each holder may be set aside instead, which writes a row with its error.
        size = fan.root._replace(most=max(fan.root.most, TASK.most + fan.found.most))
        requests = min(sources, max(1, found.following))
        total.add("holders", Line("read roots holders", because, found.following, size, requests))
        kinds = self._footprints.catalog.kinds
        holding = ", ".join(self._footprints.holding(kinds[cls] for cls, change in fan.steps if change.is_deleted))
        if holding:
            rows, size = found.following * (1 + found.following), Size(2 * KEY_BYTES + 203, 60)
            total.add("holds of holders", Line("scan views holds", holding, rows, size, found.following))
        return found

    def _add_merged_tasks(self, total: BoundBuilder, scans: int, tasks: int) -> None:
        """Where holders may be left out, the task that waits is read: what it is for is not forgotten."""
        if scans > 1:
            total.add("waiting", Line("read system tasks", "those that wait", tasks, TASK, tasks))

    def _followers(self, fan: FanOut, write: WriteCall) -> Followers:
        inline, entities = self._inline, write.entities
        if write.holders is not None and write.holders * entities <= inline:
            return Followers(write.holders * entities, write.holders * entities)
        if entities == 1 and not fan.is_far:
            # One scan returns all holders, and all of them follow; or it returns one too many, and a task is added. The
            # second asks for less, so it is the bound only where it is known that there are too many.
            return Followers(inline, inline) if write.holders is None else Followers(0, inline + 1, 1)
        # Several sources share the inline bound, as do holders that are sources themselves: a scan for one that has too
        # many returns one row more than the rest of the bound, until PROBES says stop.
        sources = entities + (inline if fan.is_far else 0)
        return Followers(inline, inline + min((PROBES + 1) * inline, sources * (inline + 1)), sources)

    # Their derived rows.

    def _add_counts_read(
        self, total: BoundBuilder, own: Sequence[ViewRows], footprint: CommitFootprint, of: tuple[WriteCall, int]
    ) -> None:
        """Groups and unique values are read before they are added to and compared."""
        write, following = of
        for cost, rows in own:
            if cost.form.table == "counts":
                total.note_undeclared(cost.undeclared)
                total.add("settle", Line(f"read counts {cost.form.sort}", cost.form.name, rows, cost.value))
        self._add_listed_read(total, footprint.own, write.entities)
        if footprint.fan is not None:
            for cls, change in footprint.fan.steps:
                self._add_listed_read(total, self._costs.of[cls].touched(change), following)
            counts = footprint.fan.touched("counts")
            rows = counts.of_holders(following)
            total.add("settle", Line("read counts groups of holders", counts.because, rows, counts.size))

    def _add_listed_read(self, total: BoundBuilder, own: Iterable[ViewRows], entities: int) -> None:
        """Groups that indexes list are read, too, when nothing but their extrema changes."""
        for shown, groups in self._footprints.listed_extrema(own):
            size = self._costs.views[shown.view][0].value
            total.add("settle", Line("read counts groups that indexes list", shown.name, groups * entities, size))

    def _add_derived(self, total: BoundBuilder, own: Sequence[ViewRows], fan: FanOut | None, following: int) -> None:
        """The rows that are written: one request for each table."""
        if fan is not None:
            size = fan.key.plus(fan.root)
            total.add("roots", Line("write roots holders", fan.because, following, size))
        for table in _DERIVED:
            for cost, rows in own:
                if cost.form.table == table:
                    total.note_undeclared(cost.undeclared)
                    total.add(table, Line(f"write {table} {cost.form.sort}", cost.form.name, rows, cost.row))
            if fan is not None:
                touched = fan.touched(table)
                total.note_undeclared(touched.undeclared)
                kind, rows = f"write {table} rows of holders", touched.of_holders(following)
                total.add(table, Line(kind, touched.because, rows, touched.size))

    # What follows from groups: each entity that shows one is patched, and what follows from that.

    def _add_totals(self, total: BoundBuilder, touched: Counter[ShownAggregate], by: WriteCall) -> None:
        for step, shown, groups in self._footprints.each_group(touched):
            if shown.indexed is not None:
                self._add_index_rows(total, f"indexed {step}", shown, groups)
            if shown.kinds:
                add_groups(total, self._costs, f"groups {step}", (shown, groups), 1)
            for kind in shown.kinds:
                write, line = self._footprints.showing(kind, shown, groups, by), "roots entities that show"
                total.add(f"shown {step}", Line(f"read {line}", shown.name, groups, self._footprints.root(kind.cls)))
                written = Line(f"write {line}", shown.name, groups)
                touched.update(self._add_written(total, write, self._footprints.of(write), written))

    def _add_index_rows(self, total: BoundBuilder, request: str, shown: ShownAggregate, groups: int) -> None:
        """The rows of indexes over groups: each changed group may leave one and get another, once in a commit."""
        assert shown.indexed is not None
        add_extrema(total, self._costs, request, (shown, groups), shown.indexed.extrema_names)
        for index in shown.indexed.indexes:
            (cost,) = self._costs.views[index.cls]
            total.add("views", Line("write views index rows of groups", cost.form.name, 2 * groups, cost.row))
            self._feeds.add(total, {cost.form.name: 2 * groups})


def _scans_of(bounds: Iterable[Bound]) -> int:
    return sum(term.requests for bound in bounds for term in bound.terms if term.act == "scan")
