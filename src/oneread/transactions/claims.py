"""Unique values inside a unit of work: who gives them up, who takes them, and who gets them at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from oneread.errors import NotUnique
from oneread.store.rows import VALUE, Cell, later
from oneread.transactions.derived_writes import DerivedWrites
from oneread.transactions.group_sums import value_of
from oneread.transactions.overlay import OverlayRows

TAKEN: Final = "this value is declared unique, and another entity has it"


ClaimFacts: TypeAlias = Callable[[bytes], Mapping[str, object]]
"""From the key of a claim to what an error says of it: the view, its fields and the value."""


def no_claim_facts(_key: bytes) -> Mapping[str, object]:
    """What is said of a claim where no view is known."""
    return {}


class Claims:
    """The unique values of one unit; several entities may claim one until the unit is settled."""

    __slots__ = ("_claimed", "_facts", "_name_of", "_released")

    def __init__(self, facts: ClaimFacts, name_of: Callable[[bytes], object]) -> None:
        self._facts = facts
        self._name_of = name_of
        self._released: dict[bytes, bytes] = {}
        self._claimed: dict[bytes, tuple[bytes, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self._released or self._claimed)

    def __iter__(self) -> Iterator[bytes]:
        """The keys in `counts` of all values."""
        return iter([*self._released, *self._claimed])

    def note(self, rows: OverlayRows, operations: DerivedWrites) -> None:
        """Adds the unique values that one commit gives up and takes."""
        rows.note(self._released, operations.released)
        rows.note(self._claimed, [*operations.released, *operations.claimed])
        for key, holder in operations.released.items():
            claimers = self._claimed.get(key, ())
            if holder in claimers:
                self._claimed[key] = tuple([each for each in claimers if each != holder])
            else:
                self._released[key] = holder
        for key, claimer in operations.claimed.items():
            claimers = self._claimed.get(key, ())
            if claimer not in claimers:
                self._claimed[key] = (*claimers, claimer)

    def settle(self, rows: OverlayRows, now: int, refused: dict[bytes, Exception]) -> None:
        """Gives each value, whose row was loaded, to who gets it; one that no entity claims is free."""
        for key, claimers in self._claimed.items():
            owner = self.new_owner(rows, key, refused) if claimers else None
            if owner is not None:
                rows.put("counts", key, {VALUE: Cell(owner, later(rows.get("counts", key), now))})
        for key, holder in self._released.items():
            row = rows.get("counts", key)
            if not self._claimed.get(key) and row is not None and row[VALUE].value == holder:
                rows.remove("counts", key)

    def new_owner(self, rows: OverlayRows, key: bytes, refused: dict[bytes, Exception]) -> bytes | None:
        """Who of those that claim a value gets it: the entity that has it, else the first; the others are refused."""
        claimers, held = self._claimed.get(key, ()), value_of(rows.get("counts", key))
        has_left = held == self._released.get(key) and held not in claimers
        owner = next(iter(claimers), None) if held is None or has_left else held
        for claimer in claimers:
            if claimer != owner and owner is not None:
                error = NotUnique(TAKEN, **self._facts(key), owner=self._name_of(owner))
                error.holder = owner
                rows.refuse(error, (claimer,), refused)
        return owner if owner in claimers else None

    def passed_values(self) -> list[tuple[bytes, bytes]]:
        """The unique values that pass from one entity to another, each with the one that had it."""
        return [each for each in self._released.items() if each[1] not in (self._claimed.get(each[0]) or each)]
