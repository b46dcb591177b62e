"""Findings: one fault with what its mending needs, and how both are put into words.

See "Verify and repair of aggregates" of the decisions page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from oneread.errors import Corrupt
from oneread.plans.progress import Fault, FaultKind
from oneread.store.keys import pointed_part, pointer_part
from oneread.store.rows import Row, Table
from oneread.transactions.deltas import Number
from oneread.transactions.outbox import BACK_REFERENCES, HOLDS
from oneread.transactions.unit_of_work import VALUE
from oneread.verify.expected import RootFault
from oneread.verify.keyspace import StoreKeyspaces

_SHOWN_CHARACTERS = 300
_DERIVED = frozenset({"views", "counts"})


class Finding(NamedTuple):
    """A fault, and what `repair` needs to know of it.

    Arguments:
        fault: as it is reported.
        owner: key of the commit row that it comes from; empty where there is none.
        source: of a copy: the key of the commit row that it is copied from.
        amounts: of a group: the numbers it should hold.
        found: what the row showed; None when it was absent or could not be read.
    """

    fault: Fault
    owner: bytes = b""
    source: bytes = b""
    amounts: tuple[Number, ...] = ()
    found: bytes | None = None


Report: TypeAlias = Callable[[Finding], None]


class FaultReporter:
    """Puts findings into words."""

    def __init__(self, keyspaces: StoreKeyspaces, report: Report) -> None:
        self._keyspaces = keyspaces
        self._report = report

    def entity(self, key: bytes, flaw: RootFault) -> None:
        """Something is wrong with a commit row itself."""
        name = self._keyspaces.name_of(key)
        self._report(
            Finding(
                Fault(flaw.kind, flaw.what, name, name, flaw.expected, flaw.found, flaw.mendable, "roots", key), key
            )
        )

    def copy(self, key: bytes, field: str, source: bytes, expected: object, found: object) -> None:
        """A copy holds something else than its source says."""
        name = self._keyspaces.name_of(key)
        fault = Fault("different", "copy", f"{name}.{field}", name, _text(expected), _text(found), True, "roots", key)
        self._report(Finding(fault, key, source))

    def row(
        self,
        kind: FaultKind,
        table: Table,
        key: bytes,
        owner: bytes,
        expected: object,
        found: Row | None,
        *,
        mendable: bool = True,
    ) -> None:
        """A derived row is not what its entity says; `owner` is the entity's key, empty where nobody can be named."""
        shown = None if found is None else shown_of(found)
        fault = Fault(
            kind,
            self.view_of(table, key),
            self.row_name(table, key),
            self._keyspaces.name_of(owner) if owner else "",
            _text(expected),
            "" if found is None else _cells(found) if shown is None else _text(shown),
            mendable,
            table,
            key,
        )
        self._report(Finding(fault, owner, found=shown))

    def group(
        self, kind: FaultKind, key: bytes, expected: list[Number], found: object, shown: bytes | None, *, mendable: bool
    ) -> None:
        """The row of a group is not the sum of what entities contribute."""
        fault = Fault(
            kind,
            self.view_of("counts", key),
            self.row_name("counts", key),
            "",
            _numbers(expected) if expected and expected[0] else "",
            _numbers(found) if isinstance(found, list) else _text(found),
            mendable,
            "counts",
            key,
        )
        self._report(Finding(fault, amounts=tuple(expected), found=shown))

    def task(self, kind: FaultKind, key: bytes, source: bytes, found: object) -> None:
        """A task of the outbox that nobody can do."""
        name = self._keyspaces.name_of(source)
        self._report(Finding(Fault(kind, "task", name, name, "", _text(found), True, "system", key), source))

    def stray(self, table: Table, key: bytes, row: Row) -> None:
        """A row that belongs to nothing that the schema has, or ever had; an entity or a row of `system` is left."""
        shown = shown_of(row)
        fault = Fault("dangling", "stray", key.hex(), "", "", _text(shown), table in _DERIVED, table, key)
        self._report(Finding(fault, found=shown))

    def view_of(self, table: Table, key: bytes) -> str:
        """Whose row it is, in a word."""
        place = self._keyspaces.keyspace_of(table, key)
        if place is not None:
            return place.name
        return {BACK_REFERENCES: "back-reference", HOLDS: "hold"}.get(pointer_part(key), "stray")

    def row_name(self, table: Table, key: bytes) -> str:
        """A row's key as a person reads it; hexadecimal where it cannot be read."""
        place = self._keyspaces.keyspace_of(table, key)
        try:
            if place is not None:
                return f"{place.name}({', '.join(map(_value, place.values(key)))})"
            source = self._keyspaces.source_of(key)
        except (Corrupt, ValueError, IndexError):
            return key.hex()
        return f"{self._keyspaces.name_of(source)} <- {self._keyspaces.name_of(pointed_part(key)[len(source) :])}"


def shown_of(row: Row) -> bytes | None:
    """What a derived row shows; None when it has no such cell, or others beside it."""
    cell = row.get(VALUE)
    return None if cell is None or len(row) > 1 else cell.value


def _cells(row: Row) -> str:
    """What is wrong with the cells of a row that shows nothing."""
    return "cells that no view writes beside its own" if VALUE in row else "no readable cell"


def _value(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else repr(value)


def _numbers(numbers: list[Number]) -> str:
    return f"[{', '.join(map(str, numbers))}]"


def _text(value: object) -> str:
    text = value.hex() if isinstance(value, bytes) else "" if value is None else str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."
