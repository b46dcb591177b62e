"""Writes on a store that changes one row at a time: the bounds of the writing verbs.

Each entity is a commit of its own, and so is each holder that follows. See docs/decisions/0083-costs-of-one-row.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NoReturn

from oneread.costs.bounds import Bound, BoundBuilder, Rows
from oneread.costs.entity_costs import EntityCosts, touched_rows
from oneread.costs.fan_outs import FollowStep
from oneread.costs.feed_costs import TASK
from oneread.costs.row_commits import ROOT_KEY, RequestedRows, RowCommit, add_parts, full_row, greatest_parts
from oneread.costs.sizes import NOTHING, Size, greatest
from oneread.costs.writes import ViewRows, WriteCall, Writes
from oneread.derivations.catalog import Catalog
from oneread.derivations.counter_fields import ShownCounter
from oneread.derivations.one_row import refuse_unsupported
from oneread.errors import Unsupported
from oneread.store.limits import KEY_BYTES, ROW_HOLDERS

_UNPRICED: Final = "what this costs on a store that changes one row at a time is not known yet"
_WHOLE: Final = ("save", "create", "get_or_create")


def _refuse_unpriced(catalog: Catalog) -> None:
    """Raises Unsupported for what such stores keep, or will keep, and whose costs there are not known yet."""
    declared: list[tuple[type, dict[str, bool]]] = [
        (
            cls,
            {
                "feed": bool(view.parts),
                "watched": view.prefix in catalog.logs,
                "ttl": view.has_expiries,
                "index over groups": view.groups is not None,
            },
        )
        for cls, view in catalog.views.items()
    ]
    for cls, each in catalog.entity_types.items():
        kind = each.kind
        features = {"ttl": kind.prefix in catalog.expiries, "child_of": kind.child_of is not None}
        declared.append((cls, {**features, "rollup": bool(each.rollups)}))
    for cls, features in declared:
        for feature in [name for name, is_declared in features.items() if is_declared]:
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

    def bound(self, write: WriteCall, name: str) -> Bound:
        """The bound of one write.

        Raises:
            Unsupported: there is none, since holders of holders may follow without end.
        """
        total = BoundBuilder()
        levels = self._levels(write)
        parts = self._own_commit(write, has_task=bool(levels)).parts()
        add_parts(total, "", parts, write.entities)
        if levels:
            self._add_followers(total, levels, write)
        for each in self._own_rows(write):
            total.note_undeclared(each.cost.undeclared)
        return total.bound(name, write.cls.__name__)

    def is_bounded(self, write: WriteCall) -> bool:
        try:
            self._levels(write)
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
        return full_row(self._root(cls), max(each.sources for each in self._costs.of_kind(kind)))

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

    def _add_followers(self, total: BoundBuilder, levels: list[list[FollowStep]], write: WriteCall) -> None:
        """Each source is looked up, and its holders follow one after the other; further ones are left to a task."""
        sources, usual = write.entities, write.usual_holders
        for depth, steps in enumerate(levels):
            label = f"{depth} "
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
                return
            looked = Rows("read", "roots", "a page of holders", because, usual)
            size = greatest(self._full(cls) for cls, _fields in steps)
            total.add(f"{label}page", looked, following, size, sources)
            read = Rows("read", "roots", "sources of a page", because, usual)
            total.add(f"{label}page sources", read, following, size, sources)
            parts = greatest_parts(self._following(step, has_task=depth + 1 < len(levels)) for step in steps)
            if following:
                add_parts(total, label, parts, following)
            sources = following

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
        own = [ViewRows(each, touched_rows(each, change)) for each in cost.views]
        own = [each for each in own if each.rows]
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
