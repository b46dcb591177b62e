"""Fan-outs: the classes of holders that follow when a source changes, and the rows that one holder's change touches.

See "Copies" of the decisions page, and docs/explanation/costs.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from oneread.costs.entity_costs import ChangedFields, EntityCosts, FollowedFields, touched_rows
from oneread.costs.sizes import NOTHING, Size, greatest
from oneread.derivations.copies import Reference
from oneread.derivations.entity_type import EntityType
from oneread.errors import Unsupported

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

    holders: tuple[str, ...]
    """The names of the classes that follow, at any distance."""
    far: bool
    """Some of them are sources themselves, whose holders may follow in turn."""
    circular: bool
    """The source may be among its own holders, or refer to one of them."""
    scans: int
    """Of the back-references of one source, at most: one, and one more for each selection that may be unchanged."""
    key: Size
    """Of a holder's root row."""
    root: Size
    """Of a holder's root row with the emitted record."""
    found: Size
    """A back-reference, as it is scanned."""
    views: TouchedRows
    counts: TouchedRows
    steps: tuple[FollowStep, ...]
    holding: tuple[str, ...]
    """References that forbid the delete of holders that go with their source."""
    deleted: tuple[str, ...]
    """The names of the classes of holders that go with their source."""


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
        seen = dict.fromkeys(steps)
        far = False
        while steps:
            cls, following = steps.pop()
            further = self._followers(self._types[cls], following, is_delete=following.is_deleted)
            far = far or bool(further)
            fresh = [step for step in further if step not in seen]
            seen.update(dict.fromkeys(fresh))
            steps += fresh
        return self._fan_out(entity_type, list(seen), far=far)

    def levels(
        self, entity_type: EntityType, change: ChangedFields | None, *, is_delete: bool = False
    ) -> list[list[FollowStep]]:
        """The holders of a source, the holders of these, and so on, on a store that changes one row at a time.

        Where some holders take a value that changed, all holders of the source are looked up, and are committed again.

        Raises:
            Unsupported: without end, since an entity may be a holder of its own holders.
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
        self, source: EntityType, change: ChangedFields | FollowedFields | None, *, is_delete: bool
    ) -> tuple[list[FollowStep], list[FollowStep]]:
        """The holders that a change of a source touches, and, if there are any, all of them."""
        touched = self._followers(source, change, is_delete=is_delete)
        return touched, self._followers(source, None, is_delete=is_delete) if touched else []

    def _followers(
        self, source: EntityType, change: ChangedFields | FollowedFields | None, *, is_delete: bool
    ) -> list[FollowStep]:
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

    def _fan_out(self, entity_type: EntityType, steps: list[FollowStep], *, far: bool) -> FanOut:
        costs = [self._costs.of[cls] for cls, _following in steps]
        kinds = {entity_type.kind, *(self._types[cls].kind for cls, _following in steps)}
        referred = {reference.kind for reference in entity_type.tracked}
        found = self._costs.key(entity_type.kind).plus(greatest(each.key for each in costs), Size(7, 7))
        sources = [entity_type, *(self._types[cls] for cls, _following in steps if far)]
        return FanOut(
            tuple(dict.fromkeys(cls.__name__ for cls, _following in steps)),
            far,
            bool(kinds & referred),
            max((len(each.copied.selections) for each in sources if each.copied is not None), default=1),
            greatest(each.key for each in costs),
            greatest(each.root for each in costs),
            found if not far else Size(414, found.typical),
            self._most(steps, "views"),
            self._most(steps, "counts"),
            tuple(steps),
            self._holding(cls for cls, following in steps if following.is_deleted),
            tuple(dict.fromkeys(cls.__name__ for cls, following in steps if following.is_deleted)),
        )

    def _holding(self, deleted: Iterable[type]) -> tuple[str, ...]:
        """The references that forbid the delete of entities of these classes."""
        kinds = {self._types[cls].kind for cls in deleted}
        return tuple(
            f"{cls.__name__}.{reference.name}"
            for cls, each in self._types.items()
            for reference in each.holding
            if reference.kind in kinds
        )

    def _most(self, steps: list[FollowStep], table: str) -> TouchedRows:
        """The most rows of one table that a holder of any class touches, each as large as any may be."""
        touches = [
            [
                (cost, rows)
                for cost in self._costs.of[cls].views
                if cost.form.table == table and (rows := touched_rows(cost, following))
            ]
            for cls, following in steps
        ]
        sizes = [cost.row for costs in touches for cost, _rows in costs]
        names = dict.fromkeys(cost.form.name for costs in touches for cost, _rows in costs)
        return TouchedRows(
            ", ".join(names),
            max((sum(rows for cost, rows in costs if not cost.is_shared) for costs in touches), default=0),
            len({cost.form.name for costs in touches for cost, _rows in costs if cost.is_shared}),
            greatest(sizes) if sizes else NOTHING,
            frozenset().union(*(cost.undeclared for costs in touches for cost, _rows in costs)),
        )


def _touches(change: ChangedFields | FollowedFields, reference: Reference) -> bool:
    """Whether a change of a source may change what a reference takes of it."""
    return any(change.touches(tuple(route.split("."))) for route in reference.taken if route)
