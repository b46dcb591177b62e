"""Faults as they are found: each with what repair needs to know of it, and as text for people."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from oneread.errors import Corrupt
from oneread.plans.progress import Fault, FaultKind
from oneread.store.keys import pointed_part, pointer_part
from oneread.store.rows import Row, Table
from oneread.transactions.deltas import Number
from oneread.transactions.outbox import BACK_REFERENCES, HOLDS
from oneread.transactions.unit_of_work import VALUE
from oneread.verify.expected import RootFault, StaleTotal, shorten
from oneread.verify.keyspace import StoreKeyspaces, amounts_of, shown_of

_DERIVED = frozenset({"views", "counts"})


class Finding(NamedTuple):
    """A fault, and what `repair` needs to know of it."""

    fault: Fault
    owner: bytes = b""
    """Key of the root row that it comes from; empty where there is none."""
    source: bytes = b""
    """Of a copy: key of the root row that it is copied from."""
    amounts: tuple[Number, ...] = ()
    """Of a group: the numbers that it should hold."""
    found: bytes | None = None
    """What the row showed; None when it was absent or could not be read."""


Report: TypeAlias = Callable[[Finding], None]


class DerivedRow(NamedTuple):
    """A derived row and the key of the entity that it comes from, empty where that is not known."""

    table: Table
    key: bytes
    owner: bytes


class FaultReporter:
    """Describes faults and reports each as a finding."""

    def __init__(self, keyspaces: StoreKeyspaces, report: Report) -> None:
        self._keyspaces = keyspaces
        self._report = report
        self.stale_totals: list[tuple[bytes, StaleTotal]] = []
        """Totals that are faults unless their groups are, by the key of the entity."""

    def entity(self, key: bytes, fault: RootFault) -> None:
        name = self._keyspaces.name_of(key)
        kind, what, expected, found, mendable = fault
        self._report(Finding(Fault(kind, what, name, name, expected, found, mendable, "roots", key), key))

    def copy(self, key: bytes, field: str, source: bytes, expected: object, found: object) -> None:
        """Reports a copy whose values are not those of its source."""
        name = self._keyspaces.name_of(key)
        fault = Fault("different", "copy", f"{name}.{field}", name, _text(expected), _text(found), True, "roots", key)
        self._report(Finding(fault, key, source))

    def differing(self, row: DerivedRow, expected: bytes, found: Row | None) -> None:
        """Reports a derived row that does not show what its entity emits."""
        kind: FaultKind = "missing" if found is None else "unreadable" if shown_of(found) is None else "different"
        self._derived(kind, row, _text(expected), found)

    def claimed_twice(self, row: DerivedRow, found: Row | None) -> None:
        """Reports a unique value that another entity rightly has too: which one shall keep it is not known."""
        self._derived("different", row, self._keyspaces.name_of(row.owner), found, mendable=False)

    def dangling(self, row: DerivedRow, found: Row) -> None:
        """Reports a derived row that no entity emits."""
        self._derived("dangling", row, "", found)

    def _derived(
        self, kind: FaultKind, row: DerivedRow, expected: str, found: Row | None, *, mendable: bool = True
    ) -> None:
        shown = None if found is None else shown_of(found)
        text = "" if found is None else _describe_cells(found) if shown is None else _text(shown)
        self._report(Finding(self._fault(kind, row, expected, text, mendable=mendable), row.owner, found=shown))

    def _fault(self, kind: FaultKind, row: DerivedRow, expected: str, found: str, *, mendable: bool) -> Fault:
        table, key, owner = row
        name = self._keyspaces.name_of(owner) if owner else ""
        view, shown = self._view_of(table, key), self._row_name(table, key)
        return Fault(kind, view, shown, name, expected, found, mendable, table, key)

    def group(self, key: bytes, expected: list[Number], found: Row | None, *, mendable: bool) -> None:
        """Reports a group's row that is not the sum of its contributions."""
        amounts, shown = (None, None) if found is None else (amounts_of(found), shown_of(found))
        wanted = _numbers(expected) if expected and expected[0] else ""
        kind: FaultKind = "different" if wanted else "dangling"
        if amounts is None:
            kind = "missing" if found is None else "unreadable"
        text = _text(shown) if amounts is None else _numbers(amounts)
        fault = self._fault(kind, DerivedRow("counts", key, b""), wanted, text, mendable=mendable)
        self._report(Finding(fault, amounts=tuple(expected), found=shown))

    def task(self, kind: FaultKind, key: bytes, source: bytes, found: object) -> None:
        """Reports a task of the outbox that cannot be done."""
        name = self._keyspaces.name_of(source)
        self._report(Finding(Fault(kind, "task", name, name, "", _text(found), True, "system", key), source))

    def stray(self, table: Table, key: bytes, row: Row) -> None:
        """Reports a row outside of every keyspace; only derived ones may be deleted."""
        shown = shown_of(row)
        fault = Fault("dangling", "stray", key.hex(), "", "", _text(shown), table in _DERIVED, table, key)
        self._report(Finding(fault, found=shown))

    def _view_of(self, table: Table, key: bytes) -> str:
        keyspace = self._keyspaces.keyspace_of(table, key)
        if keyspace is not None:
            return keyspace.name
        return {BACK_REFERENCES: "back-reference", HOLDS: "hold"}.get(pointer_part(key), "stray")

    def _row_name(self, table: Table, key: bytes) -> str:
        """A row's key as a person reads it; hexadecimal where it cannot be read."""
        keyspace = self._keyspaces.keyspace_of(table, key)
        try:
            if keyspace is not None:
                return f"{keyspace.name}({', '.join(map(_value, keyspace.values(key)))})"
            source = self._keyspaces.source_of(key)
        except (Corrupt, ValueError, IndexError):
            return key.hex()
        return f"{self._keyspaces.name_of(source)} <- {self._keyspaces.name_of(pointed_part(key)[len(source) :])}"


def _describe_cells(row: Row) -> str:
    """What is wrong with the cells of a row that shows nothing."""
    return "cells that no view writes beside its own" if VALUE in row else "no readable cell"


def _value(value: object) -> str:
    isoformat = getattr(value, "isoformat", None)
    return repr(value) if isoformat is None else str(isoformat())


def _numbers(numbers: list[Number]) -> str:
    return f"[{', '.join(map(str, numbers))}]"


def _text(value: object) -> str:
    return shorten(value.hex() if isinstance(value, bytes) else "" if value is None else str(value))
