"""Fan-outs: the classes of holders that follow when a source changes, and the rows that one holder's change touches.

See "Copies" of the decisions page, and docs/explanation/costs.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from oneread.costs.entity_costs import AnyChange, ChangedFields, EntityCosts, FollowedFields
from oneread.costs.sizes import NOTHING, Size, greatest
from oneread.derivations.copies import Reference
from oneread.derivations.entity_type import EntityType
from oneread.errors import Unsupported
from oneread.store.rows import Table

_ENDLESS: Final = (
    "this write has no bound on a store that changes one row at a time: what goes with an entity may have others that"
    " go with it, without end"
)

FollowStep: TypeAlias = tuple[type, FollowedFields]
"""A class of holders, and by which of its fields it follows."""


class TouchedRows(NamedTuple):
    """Rows of `views` or `counts` that holders touch when they follow."""

    because: str
    """The views."""
    rows: int
    """Of each holder, at most."""
    shared: int
    """Of all holders together."""
    size: Size
    """Of the largest row."""
    undeclared: frozenset[str]
    """Lists without a declared maximum among them."""

    def of_holders(self, count: int) -> int:
        """The rows that so many holders touch."""
        return self.rows * count + (self.shared if count else 0)


class FanOut(NamedTuple):
    """What follows a change of one source."""

    costs: EntityCosts
    source: EntityType
    steps: tuple[FollowStep, ...]
    """At any distance."""
    is_far: bool
    """Some holders are sources themselves, whose holders may follow in turn."""
    levels: Callable[[], list[list[FollowStep]]]
    """The holders of the source, the holders of these, and so on; raises Unsupported where this has no end."""

    @property
    def because(self) -> str:
        """The classes of holders that follow, and of those that go with their source."""
        deleted = dict.fromkeys(cls.__name__ for cls, following in self.steps if following.is_deleted)
        copying = dict.fromkeys(cls.__name__ for cls, _following in self.steps if cls.__name__ not in deleted)
        return "; ".join(
            f"{what} {', '.join(names)}" for what, names in (("copies in", copying), ("deletes", deleted)) if names
        )

    @property
    def is_circular(self) -> bool:
        """Whether the source may be among its own holders, or refer to one of them."""
        kinds = self.costs.catalog.kinds
        following = {self.source.kind, *(kinds[cls] for cls, _following in self.steps)}
        return any(reference.kind in following for reference in self.source.tracked)

    @property
    def scans(self) -> int:
        """Of the back-references of one source, at most: one, and one more for each selection that may be unchanged."""
        types = self.costs.catalog.entity_types
        sources = [self.source, *(types[cls] for cls, _following in self.steps if self.is_far)]
        return max((len(each.copied.selections) for each in sources if each.copied is not None), default=1)

    @property
    def key(self) -> Size:
        """Of a holder's root row."""
        return greatest(self.costs.of[cls].key for cls, _following in self.steps)

    @property
    def root(self) -> Size:
        """Of a holder's root row with the emitted record."""
        return greatest(self.costs.of[cls].root for cls, _following in self.steps)

    @property
    def found(self) -> Size:
        """A back-reference, as it is scanned."""
        found = self.costs.key(self.source.kind).plus(self.key, Size(7, 7))
        return Size(414, found.typical) if self.is_far else found

    def touched(self, table: Table) -> TouchedRows:
        """The most rows of one table that a holder of any class touches, each as large as any may be."""
        of_steps = [
            [each for each in self.costs.of[cls].touched(following) if each.cost.form.table == table]
            for cls, following in self.steps
        ]
        costs = [cost for of_step in of_steps for cost, _rows in of_step]
        return TouchedRows(
            ", ".join(dict.fromkeys(cost.form.name for cost in costs)),
            max((sum(rows for cost, rows in of_step if not cost.is_shared) for of_step in of_steps), default=0),
            len({cost.form.name for cost in costs if cost.is_shared}),
            greatest(cost.row for cost in costs) if costs else NOTHING,
            frozenset().union(*(cost.undeclared for cost in costs)),
        )


class FanOuts:
    """The fan-outs of one schema."""

    def __init__(self, costs: EntityCosts) -> None:
        self._costs = costs
        self._types = costs.catalog.entity_types

    def of(self, entity_type: EntityType, change: ChangedFields | None, *, is_delete: bool = False) -> FanOut | None:
        """What follows a change of some fields, or (None) of a whole entity; None if nothing does."""
        steps = self._followers(entity_type, change, is_delete=is_delete)
        if not steps:
            return None
        seen, is_far = dict.fromkeys(steps), False
        while steps:
            cls, following = steps.pop()
            further = self._followers(self._types[cls], following, is_delete=following.is_deleted)
            is_far = is_far or bool(further)
            fresh = [step for step in further if step not in seen]
            seen.update(dict.fromkeys(fresh))
            steps += fresh
        levels = partial(self._levels, entity_type, change, is_delete=is_delete)
        return FanOut(self._costs, entity_type, tuple(seen), is_far, levels)

    def _levels(
        self, entity_type: EntityType, change: ChangedFields | None, *, is_delete: bool = False
    ) -> list[list[FollowStep]]:
        """The holders of a source, the holders of these, and so on.

        Where some holders take a value that changed, all holders of the source are looked up, and are committed again.
        It has no end where an entity may be a holder of its own holders.
        """
        found: list[list[FollowStep]] = []
        seen: set[FollowStep] = set()
        steps, others = self._looked_up(entity_type, change, is_delete=is_delete)
        while steps:
            found.append(list(dict.fromkeys([*steps, *others])))
            seen.update(steps)
            if len(found) > len(seen):
                raise Unsupported(_ENDLESS, model=entity_type.cls, holders=[cls.__name__ for cls, _fields in steps])
            behind = [self._looked_up(self._types[cls], each, is_delete=each.is_deleted) for cls, each in steps]
            steps = list(dict.fromkeys(each for touched, _others in behind for each in touched))
            others = list(dict.fromkeys(each for _touched, all_of_them in behind for each in all_of_them))
        return found

    def _looked_up(
        self, source: EntityType, change: AnyChange | None, *, is_delete: bool
    ) -> tuple[list[FollowStep], list[FollowStep]]:
        """The holders that a change of a source touches, and, if there are any, all of them."""
        touched = self._followers(source, change, is_delete=is_delete)
        return touched, self._followers(source, None, is_delete=is_delete) if touched else []

    def _followers(self, source: EntityType, change: AnyChange | None, *, is_delete: bool) -> list[FollowStep]:
        """The classes that follow a change of a source, and by which of their fields: all of them follow its delete."""
        return [
            (
                cls,
                FollowedFields(
                    reference.name, reference.copy is not None, is_delete and reference.on_delete == "delete"
                ),
            )
            for cls, each in self._types.items()
            for reference in each.tracked
            if reference.kind is source.kind and (change is None or is_delete or _touches(change, reference))
        ]


def _touches(change: AnyChange, reference: Reference) -> bool:
    """Whether a change of a source may change what a reference takes of it."""
    return any(change.touches(tuple(route.split("."))) for route in reference.taken if route)
