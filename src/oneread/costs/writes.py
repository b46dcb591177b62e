"""Writes: the bounds of the writing verbs.

A commit reads the fence, the rows it is about with what they refer to, then the back-references and holders of what
changed, then groups and unique values; and it writes each table in one request. The arithmetic is that of
`transactions.native` and `transactions.unit_of_work`; a property compares the two. See docs/explanation/costs.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from oneread.costs import counter_costs, log_costs
from oneread.costs.bounds import Bound, BoundBuilder, Rows
from oneread.costs.entity_costs import ChangedFields, EntityCost, EntityCosts, FollowedFields, ViewCost, touched_rows
from oneread.costs.fan_outs import FanOut, FanOuts, TouchedRows
from oneread.costs.feed_costs import TASK, FeedCosts
from oneread.costs.sizes import Size, greatest
from oneread.derivations.counter_fields import ShownCounter
from oneread.derivations.entity_groups import CHILD_OF
from oneread.derivations.rollups import ShownAggregate
from oneread.errors import Unsupported
from oneread.models.registry import EntityKind, root_model
from oneread.store.limits import KEY_BYTES, PROBES
from oneread.store.rows import Table

Verb: TypeAlias = Literal["save", "create", "get_or_create", "upsert", "patch", "delete"]

FENCE: Final = Size(20, 3)
"""The fence row: two numbers."""


USUAL_HOLDERS: Final = 3
"""Holders of an entity's copies that are expected where it is not said how many there are."""


_ENDLESS: Final = (
    "this write has no bound on a store that changes one row at a time: an entity that has expired gives up its unique"
    " value, what copies it follows and may want the value of another one that has expired, without end"
)


class WriteCall(NamedTuple):
    """Changes of one kind in one transaction."""

    verb: Verb
    cls: type
    fields: Iterable[str] | None = None
    """That a patch changes; None for any."""
    entities: int = 1
    holders: int | None = None
    """Of each entity, when it is known how many there are."""
    within: tuple[type, ...] = ()
    """The models of whose expired entities this is the delete, or follows from it."""

    @property
    def usual_holders(self) -> int | None:
        """Holders to expect of all entities: none of new ones; None where it is known how many there are."""
        if self.holders is not None:
            return None
        return 0 if self.verb in ("create", "get_or_create") else USUAL_HOLDERS * self.entities


class ViewRows(NamedTuple):
    """Rows of one view that one change writes or deletes, at most."""

    cost: ViewCost
    rows: int


class Followers(NamedTuple):
    """What copies of the changed entities add to a commit, at most.

    `following` holders change in it, `scanned` back-references are read to find them, `tasks` are added.
    """

    following: int
    scanned: int
    tasks: int


class Writes:
    """Bounds of writes of one schema."""

    def __init__(self, costs: EntityCosts, inline: int) -> None:
        self._costs = costs
        self._catalog = costs.catalog
        self._fans = FanOuts(costs)
        self._feeds = FeedCosts(costs, inline)
        self._inline = inline
        types = self._catalog.entity_types.values()
        self._watched = frozenset(
            each.cls.__name__ for each in self._catalog.views.values() if each.prefix in self._catalog.logged
        )
        self._shown = tuple(dict.fromkeys(shown for entity_type in types for shown in entity_type.shown))

    def bound(self, write: WriteCall, name: str) -> Bound:
        """The bound of one write."""
        total = BoundBuilder()
        total.add("fence", Rows("read", "system", "fence", "every commit"), 1, FENCE)
        self._add_entities(total, write)
        if write.verb == "delete" and self._catalog.may_be_held(self._catalog.kinds[write.cls].prefix):
            self._add_holds(total, write)
        touched = self._add_written(total, write, Rows("write", "roots", "entity", write.cls.__name__))
        if write.verb not in ("patch", "delete"):
            for shown in dict.fromkeys(each.shown for each in self._catalog.entity_types[write.cls].rollups):
                if isinstance(shown, ShownCounter):
                    counter_costs.add_shown(total, shown.name, write.entities)
                else:
                    self._add_groups(total, f"own {shown.name}", shown, write.entities, write.entities)
        self._add_totals(total, touched)
        log_costs.add_written(total, self._watched)
        if write.verb != "delete":
            self._add_attempts(total, write)
        total.make_one_round()
        return total.bound(name, write.cls.__name__)

    def _add_attempts(self, total: BoundBuilder, write: WriteCall) -> None:
        """An attempt finds a value with an entity that has expired; the next one deletes that first, and may find more.

        All attempts are one transaction of the store.
        """
        found = self._freed(self._changes(write), write.entities)
        if found:
            for term in total.terms:
                if term.act != "write":
                    total.add_term(term.scaled(found))
            total.add_bound(self._deletion(write.cls), found * (found + 1) // 2)

    def _changes(self, write: WriteCall) -> list[tuple[type, ChangedFields | FollowedFields]]:
        """What a write changes, by each model that it may be of."""
        fields = write.fields if write.verb == "patch" else None
        return [(each, self._changed(each, fields)) for each in self._models(write)]

    def _freed(self, changes: Iterable[tuple[type, ChangedFields | FollowedFields]], times: int) -> int:
        """How many entities that have expired may have unique values that one of these changes wants."""
        return times * max((self._wanted(cls, change) for cls, change in changes if self._expires(cls)), default=0)

    def _wanted(self, cls: type, change: ChangedFields | FollowedFields) -> int:
        """The unique values that a change may want; what only expires gives values up."""
        claims = [cost._replace(expires=False) for cost in self._costs.of[cls].views if cost.form.sort == "claim"]
        return sum(cost.rows for cost in claims if touched_rows(cost, change))

    def _deletion(self, cls: type, within: tuple[type, ...] = ()) -> Bound:
        """The bound of the delete of an entity that has expired."""
        root = self._catalog.kinds[cls].cls
        if root in within:
            raise Unsupported(_ENDLESS, model=root, holders=[each.__name__ for each in within])
        return self.bound(WriteCall("delete", root, within=(*within, root)), "delete")

    def _expires(self, cls: type) -> bool:
        """Whether entities expire, or rows of them."""
        kind = self._catalog.kinds[cls]
        views = [view for each in self._models_of(kind) for view in self._catalog.entity_types[each].derivations]
        return kind.prefix in self._catalog.expiries or any(view.has_expiries for view in views)

    def is_bounded(self, write: WriteCall) -> bool:  # noqa: ARG002 - of a store that spans rows
        """Whether the write has a bound, however full the store is."""
        return True

    def _add_written(self, total: BoundBuilder, write: WriteCall, roots: Rows) -> Counter[ShownAggregate]:
        """Adds the entities with their derived rows and holders; returns the shown groups that all these may touch."""
        own, fan = self._own_rows(write), self._fan_out(write)
        following, tasks = (0, 0) if fan is None else self._add_holders(total, fan, write)
        self._add_counts_read(total, own, write, fan, following)
        size = self._costs.key(self._catalog.kinds[write.cls]).plus(self._root(write.cls))
        total.add("roots", roots, write.entities, size)
        self._add_derived(total, own, write, fan, following)
        total.add("tasks", Rows("write", "system", "tasks", _because(fan)), tasks, TASK)
        touched = self._groups_of(own, write.entities)
        touched.update(self._groups_of_holders(fan, following))
        self._feeds.add(total, self._rows_by_view(own, write.entities, fan, following))
        return touched

    def _rows_by_view(self, own: list[ViewRows], entities: int, fan: FanOut | None, following: int) -> Counter[str]:
        """The rows that a commit touches in each view, those of holders included."""
        found = Counter({cost.form.name: rows * entities for cost, rows in own})
        for cls, change in () if fan is None else fan.steps:
            found.update({cost.form.name: touched_rows(cost, change) * following for cost in self._costs.of[cls].views})
        return found

    # What follows from groups: each entity that shows one is patched, and what follows from that.

    def _groups_of(self, own: list[ViewRows], entities: int) -> Counter[ShownAggregate]:
        """The shown groups that changes of entities may touch."""
        rows = {cost.form.name: rows for cost, rows in own}  # a new extremum touches a group, too
        return Counter(
            {each: rows[each.name] * entities for each in self._shown if each.name in rows}
            | {each: rows[name] * entities for each in self._shown for name in each.watched if name in rows}
        )

    def _groups_of_holders(self, fan: FanOut | None, following: int) -> Counter[ShownAggregate]:
        """The shown groups that holders of copies may touch when they follow."""
        found: Counter[ShownAggregate] = Counter()
        for own in self._rows_of_holders(fan):
            found |= self._groups_of(own, following)
        return found

    def _rows_of_holders(self, fan: FanOut | None) -> Iterator[list[ViewRows]]:
        """The derived rows that one holder of each class touches when it follows."""
        for cls, change in () if fan is None else fan.steps:
            own = [ViewRows(cost, touched_rows(cost, change)) for cost in self._costs.of[cls].views]
            yield [each for each in own if each.rows]

    def _add_indexed_read(self, total: BoundBuilder, own: list[ViewRows], entities: int) -> None:
        """Groups that indexes list are read, too, when nothing but their extrema changes."""
        rows = {cost.form.name: rows for cost, rows in own}
        for shown in self._shown:
            changed = [] if shown.indexed is None else [name for name in shown.indexed.extrema_names if name in rows]
            if changed and shown.name not in rows:
                groups = max(rows[name] for name in changed) * entities
                read = Rows("read", "counts", "groups that indexes list", shown.name)
                total.add("settle", read, groups, self._costs.views[shown.view][0].value)

    def _add_totals(self, total: BoundBuilder, touched: Counter[ShownAggregate]) -> None:
        """What follows from groups, those of the lowest rank first."""
        for step in range(len(self._shown) + 1):  # an aggregate may follow itself once for each of its numbers
            if not touched:
                return
            shown = min(touched, key=lambda each: each.rank)
            groups = touched.pop(shown)
            if shown.indexed is not None:
                self._add_index_rows(total, f"indexed {step}", shown, groups)
            if shown.kinds:
                self._add_groups(total, f"groups {step}", shown, groups, 1)
            for kind in shown.kinds:
                write = WriteCall("patch", kind.cls, self._fields_showing(kind, shown), groups)
                read = Rows("read", "roots", "entities that show", shown.name)
                total.add(f"shown {step}", read, groups, self._root(kind.cls))
                touched.update(self._add_written(total, write, read._replace(act="write")))

    def _fields_showing(self, kind: EntityKind, shown: ShownAggregate | ShownCounter) -> set[str]:
        return {
            each.field
            for cls in self._models_of(kind)
            for each in self._catalog.entity_types[cls].rollups
            if each.shown is shown
        }

    def _add_groups(self, total: BoundBuilder, request: str, shown: ShownAggregate, groups: int, requests: int) -> None:
        """Reads groups, and the first rows of each extremum that is shown, behind rows that the commit has changed."""
        sums = self._costs.views[shown.view][0]
        rows = groups * sums.form.shards
        total.add(request, Rows("read", "counts", "groups shown", shown.name), rows, sums.value, requests)
        self._add_extrema(total, request, shown.extrema, (shown, groups))

    def _add_index_rows(self, total: BoundBuilder, request: str, shown: ShownAggregate, groups: int) -> None:
        """The rows of indexes over groups: each changed group may leave one and get another, once in a commit."""
        assert shown.indexed is not None
        self._add_extrema(total, request, shown.indexed.extrema_names, (shown, groups))
        for index in shown.indexed.indexes:
            (cost,) = self._costs.views[index.cls]
            total.add("views", Rows("write", "views", "index rows of groups", cost.form.name), 2 * groups, cost.row)
            self._feeds.add(total, {cost.form.name: 2 * groups})

    def _add_extrema(
        self, total: BoundBuilder, request: str, names: Sequence[str], of: tuple[ShownAggregate, int]
    ) -> None:
        """Scans for the first rows of these extrema of groups, behind rows that the commit has changed."""
        shown, groups = of
        for cost in self._costs.views[shown.view]:
            if cost.form.name in names:
                found = Rows("scan", "views", cost.form.one, cost.form.name)
                rows = groups * (cost.form.first + 2 * cost.rows)
                total.add(f"{request} {cost.form.name}", found, rows, cost.row, groups)

    def copy(self, shown: ShownCounter) -> Bound:
        """Copying a counter to the entity that shows it."""
        total, cls = BoundBuilder(), shown.kind.cls
        counter_costs.add_copied(total, shown.name)
        total.add("fence", Rows("read", "system", "fence", "every commit"), 1, FENCE)
        read = Rows("read", "roots", "entities that show", shown.name)
        total.add("rows", read, 1, self._root(cls))
        write = WriteCall("patch", cls, self._fields_showing(shown.kind, shown))
        self._add_totals(total, self._add_written(total, write, read._replace(act="write")))
        log_costs.add_written(total, self._watched)
        return total.bound("copy", f"counter {shown.name}")

    def transact(self, writes: Sequence[Bound], reads: int) -> Bound:
        """The commit of a transaction: everything that its body read is read again, then the writes are done.

        Each write sees the back-references of those before it.
        """
        total = BoundBuilder()
        anything = greatest(each.root for each in self._costs.of.values())
        checked = Rows("read", "roots", "what the body read", "transact")
        total.add("check", checked, reads, anything)
        if writes and not reads:
            total.add_requests(checked, 1)
        for bound in writes:
            total.add_bound(bound)
        scans = sum(term.requests for bound in writes for term in bound.terms if term.act == "scan")
        if len(writes) > 1 and scans:
            found = Rows("scan", "views", "back-references of other writes", "transact")
            total.add("overlay", found, scans * len(writes), Size(2 * KEY_BYTES + 10, 60), 0)
        total.make_one_round()
        return total.bound("transact", f"{len(writes)} writes")

    def delete_group(self, root: WriteCall, children: int, name: str) -> Bound:
        """A root deleted with so many children, each of whichever model costs most: listing them, and the commit."""
        models = self.models_in_group(root.cls)
        writes = [self.bound(root._replace(cls=each, entities=children), "delete") for each in models if children]
        commit = self.transact([*writes, self.bound(root, "delete")], 0)
        total = BoundBuilder()
        hold = Size(2 * self._costs.key(self._catalog.kinds[root.cls]).most + 203, 30)
        total.add("list", Rows("scan", "views", "children", CHILD_OF), self._inline + 1, hold)
        total.add_bound(commit)
        # The holds of children that the commit deletes are read over when the root's are looked at.
        scans = sum(term.requests for term in commit.terms if term.act == "scan")
        total.add(
            "passed over",
            Rows("scan", "views", "holds and back-references that go", CHILD_OF),
            scans * (children * len(models)),
            hold,
            0,
        )
        return total.bound(name, root.cls.__name__)

    def models_in_group(self, root: type) -> list[type]:
        """The models of the children of a root, without variants, which are in the bounds of their models."""
        model = root_model(root)
        kinds = self._catalog.kinds
        return [each for each in self._catalog.models if kinds[each].child_of is model and root_model(each) is each]

    def _root(self, cls: type) -> Size:
        """A root row, of whichever variant has the key."""
        return greatest(each.root for each in self._costs.of_kind(self._catalog.kinds[cls]))

    def _models(self, write: WriteCall) -> list[type]:
        """The models of the entities that are written: a patch, delete or upsert may find any variant."""
        if write.verb not in ("patch", "delete", "upsert"):
            return [write.cls]
        return [each for each in self._catalog.models if issubclass(each, write.cls)]

    def _add_entities(self, total: BoundBuilder, write: WriteCall) -> None:
        """The root rows, and what they refer to: in the same request where it is given, else in one more."""
        total.add("rows", Rows("read", "roots", "entity", write.cls.__name__), write.entities, self._root(write.cls))
        if write.verb not in ("patch", "delete"):
            self._add_sources(total, "rows", self._costs.of[write.cls], write.entities, None)
            if write.verb != "upsert":  # those of the entity that is there already
                self._add_sources(total, "links", self._costs.of[write.cls], write.entities, ())
            self._add_sequence(total, write)
        if write.verb in ("patch", "upsert"):
            widest = max((self._costs.of[each] for each in self._models(write)), key=lambda cost: cost.sources)
            self._add_sources(total, "links", widest, write.entities, write.fields)

    def _add_sequence(self, total: BoundBuilder, write: WriteCall) -> None:
        """New children read the rows at their numbers together, once these are known, and write the root's row."""
        entity_type = self._catalog.entity_types[write.cls]
        if entity_type.numbered is None or write.verb == "upsert":
            return
        numbered = Rows("read", "roots", "entity at its number", f"{write.cls.__name__}.{entity_type.numbered}")
        total.add("number", numbered, write.entities, self._root(write.cls))
        (root,) = [each for each in entity_type.references if each.name == CHILD_OF]
        counted = Rows("write", "roots", "sequence", f"{write.cls.__name__}.{entity_type.numbered}")
        total.add("roots", counted, write.entities, self._root(root.kind.cls))

    def _add_sources(
        self, total: BoundBuilder, request: str, cost: EntityCost, entities: int, fields: Iterable[str] | None
    ) -> None:
        for reference in self._catalog.entity_types[cost.cls].references:
            if fields is None or reference.name in fields or reference.on_delete == "delete":
                rows = Rows("read", "roots", "sources", f"{cost.cls.__name__}.{reference.name}")
                count = cost.references[reference.name] * entities
                requests = 1 if request == "rows" else entities
                total.add(request, rows, count, self._root(reference.kind.cls), requests)

    def _fan_out(self, write: WriteCall) -> FanOut | None:
        for cls in self._models(write):
            change = None if write.verb != "patch" or write.fields is None else self._changed(cls, write.fields)
            found = self._fans.of(self._catalog.entity_types[cls], change, is_delete=write.verb == "delete")
            if found is not None:
                return found
        return None

    def _changed(self, cls: type, fields: Iterable[str] | None) -> ChangedFields:
        """The fields that a save or patch changes; the instant of the newest save as well."""
        cost = self._costs.of[cls]
        return ChangedFields(None if fields is None else frozenset(fields) | cost.updated_fields, cost.key_fields)

    def _add_holders(self, total: BoundBuilder, fan: FanOut, write: WriteCall) -> tuple[int, int]:
        """Adds finding and reading the holders; returns how many follow in the commit, and how many tasks are added."""
        if not self._inline:
            self._add_merged_tasks(total, self._scans(fan, write), write.entities)
            return 0, write.entities
        following, scanned, tasks = self._followers(fan, write)
        sources = write.entities + (following if fan.far else 0)
        own_rows, scans = sources * write.entities if fan.circular else 0, self._scans(fan, write)
        found = Rows("scan", "views", "back-references", _because(fan), write.usual_holders)
        if scanned + own_rows:
            total.add("scan", found, scanned + own_rows, fan.found, sources * scans)
        else:
            total.add_requests(found, sources * scans)
        self._add_merged_tasks(total, scans, tasks)
        # Each holder may be set aside instead, which writes a row with its error.
        size = fan.root._replace(most=max(fan.root.most, TASK.most + fan.found.most))
        holders = Rows("read", "roots", "holders", _because(fan), write.usual_holders)
        total.add("holders", holders, following, size, min(sources, max(1, following)))
        if fan.holding:
            rows = Rows("scan", "views", "holds", ", ".join(fan.holding))
            total.add("holds of holders", rows, following * (1 + following), Size(2 * KEY_BYTES + 203, 60), following)
        return following, tasks

    def _add_merged_tasks(self, total: BoundBuilder, scans: int, tasks: int) -> None:
        """Where holders may be left out, the task that waits is read: what it is for is not forgotten."""
        if scans > 1 and tasks:
            total.add("waiting", Rows("read", "system", "tasks", "those that wait"), tasks, TASK, tasks)

    def _followers(self, fan: FanOut, write: WriteCall) -> Followers:
        inline, entities = self._inline, write.entities
        if write.holders is not None and write.holders * entities <= inline:
            return Followers(write.holders * entities, write.holders * entities, 0)
        if entities == 1 and not fan.far:
            # One scan returns all holders, and all of them follow; or it returns one too many, and a task is added. The
            # second asks for less, so it is the bound only where it is known that there are too many.
            return Followers(inline, inline, 0) if write.holders is None else Followers(0, inline + 1, 1)
        # Several sources share the inline bound, as do holders that are sources themselves: a scan for one that has too
        # many returns one row more than the rest of the bound, until PROBES says stop.
        sources = entities + (inline if fan.far else 0)
        return Followers(inline, inline + min((PROBES + 1) * inline, sources * (inline + 1)), sources)

    def _add_holds(self, total: BoundBuilder, write: WriteCall) -> None:
        """Whether another entity forbids the delete: one row of a range that must be empty."""
        kind = self._catalog.kinds[write.cls]
        holding = {
            each: [f"{each.__name__}.{reference.name}" for reference in entity_type.holding if reference.kind is kind]
            for each, entity_type in self._catalog.entity_types.items()
        }
        names = [name for of_class in holding.values() for name in of_class]
        holds_itself = any(holding[each] for each in self._catalog.models if self._catalog.kinds[each] is kind)
        count = write.entities * (1 + (write.entities if holds_itself else 0))
        size = Size(2 * self._costs.key(kind).most + 203, 30)
        total.add("holds", Rows("scan", "views", "holds", ", ".join(names)), count, size, write.entities)

    def _own_rows(self, write: WriteCall) -> list[ViewRows]:
        """The derived rows that one change of an entity touches itself, by declaration."""
        kind, verb = self._catalog.kinds[write.cls], write.verb
        if self._is_first(write):
            return [ViewRows(each, each.rows) for each in self._costs.of[write.cls].views]
        written = self._models(write)
        most: dict[tuple[str, str], ViewRows] = {}
        for each in self._models_of(kind):
            if verb == "patch" and each not in written:
                continue
            change = self._changed(each, write.fields if verb == "patch" else None)
            for cost in self._costs.of[each].views:
                rows = _rows_of_change(verb, cost, change, is_new=each in written)
                before = most.get((cost.form.name, cost.form.sort))
                if rows and (before is None or before.rows < rows):
                    most[cost.form.name, cost.form.sort] = ViewRows(cost, rows)
        return list(most.values())

    def _scans(self, fan: FanOut, write: WriteCall) -> int:
        """Scans for the holders of one source: all of them follow where it is new, or deleted."""
        return 1 if (self._is_first(write) or write.verb == "delete") and not fan.far else fan.scans

    def _is_first(self, write: WriteCall) -> bool:
        """Whether nothing is replaced: an entity that has expired is."""
        is_create = write.verb in ("create", "get_or_create")
        return is_create and self._catalog.kinds[write.cls].prefix not in self._catalog.expiries

    def _models_of(self, kind: EntityKind) -> list[type]:
        return [each for each in self._catalog.models if self._catalog.kinds[each] is kind]

    def _add_counts_read(
        self, total: BoundBuilder, own: list[ViewRows], write: WriteCall, fan: FanOut | None, following: int
    ) -> None:
        """Groups and unique values are read before they are added to and compared."""
        for cost, rows in own:
            if cost.form.table == "counts":
                total.note_undeclared(cost.undeclared)
                count = 1 if cost.is_shared else rows * write.entities
                total.add("settle", Rows("read", "counts", cost.form.sort, cost.form.name), count, cost.value)
        self._add_indexed_read(total, own, write.entities)
        if fan is not None:
            for rows_of_one in self._rows_of_holders(fan):
                self._add_indexed_read(total, rows_of_one, following)
            rows, groups = (
                fan.counts.of_holders(following),
                Rows("read", "counts", "groups of holders", fan.counts.because),
            )
            total.add("settle", groups, rows, fan.counts.size)

    def _add_derived(
        self, total: BoundBuilder, own: list[ViewRows], write: WriteCall, fan: FanOut | None, following: int
    ) -> None:
        """The rows that are written: one request for each table."""
        if fan is not None:
            holders = Rows("write", "roots", "holders", _because(fan), write.usual_holders)
            total.add("roots", holders, following, fan.key.plus(fan.root))
        tables: tuple[Table, ...] = ("views", "counts")
        for table in tables:
            for cost, rows in own:
                if cost.form.table == table:
                    total.note_undeclared(cost.undeclared)
                    count = 1 if cost.is_shared else rows * write.entities
                    total.add(table, Rows("write", table, cost.form.sort, cost.form.name), count, cost.row)
            if fan is not None:
                touched = fan.views if table == "views" else fan.counts
                total.note_undeclared(touched.undeclared)
                written = Rows("write", table, "rows of holders", touched.because, _usual_rows(touched, write))
                total.add(table, written, touched.of_holders(following), touched.size)


def _rows_of_change(verb: Verb, cost: ViewCost, change: ChangedFields, *, is_new: bool) -> int:
    """Rows of one keyspace; those that an entity had as another variant are only deleted."""
    if verb == "delete" or not is_new:
        return cost.rows
    if verb == "patch":
        return touched_rows(cost, change)
    return max(cost.rows, touched_rows(cost, change))


def _usual_rows(touched: TouchedRows, write: WriteCall) -> int | None:
    """Rows that the expected holders touch."""
    return None if write.usual_holders is None else touched.of_holders(write.usual_holders)


def _because(fan: FanOut | None) -> str:
    if fan is None:
        return ""
    copying = [name for name in fan.holders if name not in fan.deleted]
    several = (("copies in", copying), ("deletes", fan.deleted))
    return "; ".join(f"{what} {', '.join(names)}" for what, names in several if names)
