"""Fans: who must follow when a source changes, as far as declarations say, and what one carrier's following touches.

See "Copies" of the decisions page, and docs/explanation/costs.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from oneread.costs.shares import EntityCosts, Fields, FollowedFields, touched
from oneread.costs.sizes import NOTHING, Size, greatest
from oneread.derivations.entity_type import EntityType


class Touched(NamedTuple):
    """Rows of views or counts that one carrier's following touches.

    Arguments:
        because: the views.
        rows: at most.
        once: rows that all carriers share.
        size: of the largest.
        undeclared: lists without a declared maximum among them.
    """

    because: str
    rows: int
    once: int
    size: Size
    undeclared: frozenset[str]


class FanOut(NamedTuple):
    """What may follow a change.

    Arguments:
        holders: the names of the classes that follow, at any distance.
        far: some of them are sources themselves, whose carriers may follow in turn.
        circular: the source may be among its own carriers, or refer to one of them.
        key: of a carrier's commit row.
        whole: a carrier's commit row.
        found: a back-reference, as it is scanned.
        views, counts: rows that one carrier's following touches, of whichever class touches most.
    """

    holders: tuple[str, ...]
    far: bool
    circular: bool
    key: Size
    whole: Size
    found: Size
    views: Touched
    counts: Touched


class FanOuts:
    """The fans of one schema."""

    def __init__(self, weights: EntityCosts) -> None:
        self._weights = weights
        self._carriers = weights.catalog.entity_types

    def of(self, entity_type: EntityType, change: Fields | None) -> FanOut | None:
        """What follows a change of some fields of an entity, or its coming or going (None); None when nobody does."""
        if entity_type.copied is None or not (change is None or any(map(change.touches, _routes(entity_type)))):
            return None
        steps = [*self._followers(entity_type)]
        if not steps:
            return None
        seen = dict.fromkeys(steps)
        far = False
        while steps:
            cls, following = steps.pop()
            further = [*self._moved_on(self._carriers[cls], following)]
            far = far or bool(further)
            fresh = [step for step in further if step not in seen]
            seen.update(dict.fromkeys(fresh))
            steps += fresh
        return self._fan(entity_type, list(seen), far=far)

    def _followers(self, entity_type: EntityType) -> Iterator[tuple[type, FollowedFields]]:
        """The classes that copy from a source, and by which of their fields."""
        for cls, each in self._carriers.items():
            for reference in each.tracked:
                if reference.kind is entity_type.kind:
                    yield cls, FollowedFields(reference.name, reference.copy is not None)

    def _moved_on(self, entity_type: EntityType, following: FollowedFields) -> Iterator[tuple[type, FollowedFields]]:
        """Those that follow a carrier which has followed."""
        if entity_type.copied is not None and any(map(following.touches, _routes(entity_type))):
            yield from self._followers(entity_type)

    def _fan(self, entity_type: EntityType, steps: list[tuple[type, FollowedFields]], *, far: bool) -> FanOut:
        weights = [self._weights.of[cls] for cls, _following in steps]
        kinds = {entity_type.kind, *(self._carriers[cls].kind for cls, _following in steps)}
        referred = {reference.kind for reference in entity_type.tracked}
        found = self._weights.key(entity_type.kind).plus(greatest(each.key for each in weights), Size(3, 3))
        return FanOut(
            tuple(dict.fromkeys(cls.__name__ for cls, _following in steps)),
            far,
            bool(kinds & referred),
            greatest(each.key for each in weights),
            greatest(each.whole for each in weights),
            found if not far else Size(410, found.typical),
            self._most(steps, "views"),
            self._most(steps, "counts"),
        )

    def _most(self, steps: list[tuple[type, FollowedFields]], table: str) -> Touched:
        """Rows of one table that one following touches: the most of any class, each as large as any may be."""
        touches = [
            [
                (share, rows)
                for share in self._weights.of[cls].shares
                if share.form.table == table and (rows := touched(share, following))
            ]
            for cls, following in steps
        ]
        sizes = [share.key.plus(share.held) for shares in touches for share, _rows in shares]
        names = dict.fromkeys(share.form.name for shares in touches for share, _rows in shares)
        return Touched(
            ", ".join(names),
            max((sum(rows for share, rows in shares if not share.alone) for shares in touches), default=0),
            len({share.form.name for shares in touches for share, _rows in shares if share.alone}),
            greatest(sizes) if sizes else NOTHING,
            frozenset().union(*(share.undeclared for shares in touches for share, _rows in shares)),
        )


def _routes(entity_type: EntityType) -> list[tuple[str, ...]]:
    """What a source tells, as paths from it."""
    assert entity_type.copied is not None
    return [tuple(route.split(".")) for route in entity_type.copied.types if route]
