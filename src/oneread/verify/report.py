"""Faults as they are found: each with what repair needs to know of it, and as text for people."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Final, NamedTuple, TypeAlias

from oneread.plans.progress import Fault, FaultKind, ValueDifference
from oneread.store.keys import pointer_part
from oneread.store.requests import Found
from oneread.store.rows import VALUE, Row, Table
from oneread.transactions.deltas import Number
from oneread.transactions.derived_writes import Group
from oneread.transactions.outbox import BACK_REFERENCES, HOLDS
from oneread.verify.describe import (
    damaged_row,
    differences_of,
    fields_of,
    numbers_of,
    row_name,
    spell_differences,
    spell_entity,
    spell_row,
)
from oneread.verify.expected import RootFault
from oneread.verify.keyspace import StoreKeyspaces, amounts_of, shown_of

_DERIVED = frozenset({"views", "counts"})


_ROW_SAYS: Final[Mapping[FaultKind, str]] = {
    "missing": "the row is missing",
    "dangling": "no {source} has this row",
    "unreadable": "the row cannot be read: {found}",
    "different": "the row holds another value",
}
_ENTRY_SAYS: Final[Mapping[FaultKind, str]] = {
    "missing": "the entry is missing",
    "dangling": "a membership or an item that it names is not there",
    "unreadable": "the entry cannot be read: {found}",
    "different": "it does not name a membership that shows it",
}
_GROUP_SAYS: Final[Mapping[FaultKind, str]] = {
    "missing": "the group is missing: {expected}",
    "dangling": "no entity counts in this group",
    "unreadable": "the group cannot be read",
    "different": "",
}
_TASK_SAYS: Final[Mapping[FaultKind, str]] = {
    "different": "does not belong to its key",
    "unreadable": "cannot be done",
    "dangling": "is of an entity that was never written",
}
_UNREADABLE: Final = "values that cannot be read"


def kind_of(expected: object | None, found: object | None, *, is_readable: bool = True) -> FaultKind:
    """What is wrong with a row that is not as expected; None for one that should not be there, or is not there."""
    if found is not None and not is_readable:
        return "unreadable"
    if expected is None:
        return "dangling"
    return "missing" if found is None else "different"


class Finding(NamedTuple):
    """A fault, and what `repair` needs to know of it."""

    fault: Fault
    owner: bytes = b""
    """Key of the root row that it comes from, or of the group's row; empty where there is none."""
    source: bytes = b""
    """Of a copy: key of the root row that it is copied from."""
    amounts: tuple[Number, ...] = ()
    """Of a group: the numbers that it should hold."""
    found: bytes | None = None
    """What the row showed; None when it was absent or could not be read."""

    membership: bytes = b""
    """Of an entry of a feed: the group and the membership that must show it."""
    state: tuple[Found, ...] | None = None
    """Of a group on a store that changes one row at a time: its rows as they were judged."""
    groups: tuple[Group, ...] = ()
    """Of a total: the groups that it shows. It is not a fault if one of them is."""

    @property
    def identity(self) -> Hashable:
        """What makes two findings of two looks the same one."""
        fault = self.fault
        return fault.table, fault.key, fault.view, fault.kind, fault.expected


Report: TypeAlias = Callable[[Finding], None]


class DerivedRow(NamedTuple):
    """A derived row and the key of the entity, or group, that it comes from, empty where that is not known."""

    table: Table
    key: bytes
    owner: bytes


class EntryRow(NamedTuple):
    """An entry of a feed, and a group and membership that must show it; empty for one that nothing must show."""

    key: bytes
    membership: bytes = b""


class Side(NamedTuple):
    """What one side says of a row: as text, and its values by field; None where they are not known."""

    text: str = ""
    values: Mapping[str, str] | None = None


class FaultReporter:
    """Describes faults and reports each as a finding."""

    def __init__(self, keyspaces: StoreKeyspaces, report: Report) -> None:
        self._keyspaces = keyspaces
        self._report = report

    def entity(self, key: bytes, fault: RootFault, groups: tuple[Group, ...] = ()) -> None:
        """Reports a fault of a root row itself; of a total with the `groups` that explain it if they are wrong."""
        name, spelled = self._keyspaces.name_of(key), spell_entity(self._keyspaces, key)
        kind, what, expected, found, mendable, differences = fault
        of = "" if what == "entity" else f" its {what}"
        if differences:
            said = f"{f'{of}:' if what == 'record' else ''} {spell_differences(differences)}"
        elif kind == "missing":
            said = f"{of} is missing"
        elif kind == "unreadable":
            said = f"{of} cannot be read: {found}"
        else:
            said = f" the row holds {found}" if expected else f" {found}"
        text = f"{spelled}:{said}"
        droppable = what == "entity" and not mendable
        made = Fault(
            text, kind, what, name, name, expected, found, differences, mendable, droppable, table="roots", key=key
        )
        self._report(Finding(made, key, groups=groups))

    def copy(self, key: bytes, field: str, source: bytes, differences: tuple[ValueDifference, ...]) -> None:
        """Reports a copy whose values are not those of its source."""
        name = self._keyspaces.name_of(key)
        text = f"{spell_entity(self._keyspaces, key)}: {spell_differences(differences) or field}"
        wanted = _named({each.field: each.expected for each in differences})
        has = _named({each.field: each.found for each in differences})
        fault = Fault(
            text, "different", "copy", f"{name}.{field}", name, wanted, has, differences, mendable=True,
            droppable=False, table="roots", key=key,
        )  # fmt: skip
        self._report(Finding(fault, key, source))

    def differing(self, row: DerivedRow, expected: bytes, found: Row | None) -> None:
        """Reports a derived row that does not show what its entity emits, or its group holds."""
        kind = kind_of(expected, found, is_readable=found is not None and shown_of(found) is not None)
        self._derived(kind, row, self._side(row, expected), found)

    def claimed_twice(self, row: DerivedRow, found: Row | None) -> None:
        """Reports a unique value that another entity rightly has too: which one shall keep it is not known."""
        self._derived("different", row, self._side(row, row.owner), found, mendable=False)

    def dangling(self, row: DerivedRow, found: Row) -> None:
        """Reports a derived row that no entity emits, or no group has."""
        self._derived("dangling", row, Side(), found)

    def entry(self, row: EntryRow, expected: bytes | None, found: Row | None, why: str = "") -> None:
        """Reports an entry of a feed that is not what the item and a membership show, or that nothing shows.

        `why` is said instead of that where it is another reason.
        """
        owner = self._keyspaces.owner_of("views", row.key, None) or b""
        place = DerivedRow("views", row.key, owner)
        wanted = Side() if expected is None else self._side(place, expected)
        has, shown = self._side_of_row(place, found)
        kind = kind_of(expected, found, is_readable=shown is not None)
        said = why or _ENTRY_SAYS[kind].format(found=has.text)
        fault = self._fault_of_row(kind, place, (wanted, has), said)
        self._report(Finding(fault, owner, found=shown, membership=row.membership))

    def row_of_feed(
        self, key: bytes, expected: Row | None, found: Row | None, text: str, *, is_unreadable: bool = False
    ) -> None:
        """Reports a row of a feed besides its entries."""
        kind = kind_of(expected, found, is_readable=not is_unreadable)
        has = Side("" if found is None else _describe_cells(found))
        self._report(Finding(self._fault_of_row(kind, DerivedRow("views", key, b""), (Side(), has), text)))

    def _side(self, row: DerivedRow, shown: bytes | None) -> Side:
        values = fields_of(self._keyspaces, row.table, row.key, shown)
        return Side(_UNREADABLE if values is None else _named(values), values)

    def _side_of_row(self, row: DerivedRow, found: Row | None) -> tuple[Side, bytes | None]:
        """What a stored row says, and the value that it shows."""
        shown = None if found is None else shown_of(found)
        if found is None or shown is not None:
            return (Side() if found is None else self._side(row, shown)), shown
        return Side(_describe_cells(found)), None

    def _derived(
        self, kind: FaultKind, row: DerivedRow, expected: Side, found: Row | None, *, mendable: bool = True
    ) -> None:
        has, shown = self._side_of_row(row, found)
        said = _ROW_SAYS[kind].format(found=has.text, source="group" if self._is_of_group(row) else "entity")
        fault = self._fault_of_row(kind, row, (expected, has), said, mendable=mendable)
        self._report(Finding(fault, row.owner, found=shown))

    def group(self, key: bytes, expected: list[Number], found: Row | None, *, mendable: bool) -> None:
        """Reports a group's row that is not the sum of its contributions."""
        amounts, shown = (None, None) if found is None else (amounts_of(found), shown_of(found))
        has_members = bool(expected and expected[0])
        # A row that is not there is missing, even of a group without members.
        kind = kind_of(expected if has_members or found is None else None, found, is_readable=amounts is not None)
        keyspace = self._keyspaces.keyspace_of("counts", key)
        names = () if keyspace is None else keyspace.numbers
        numbers, held = (numbers_of(names, each) for each in (expected if has_members else [], amounts or []))
        wanted = Side(_named(numbers), numbers)
        has = Side(_UNREADABLE if kind == "unreadable" else _named(held), held)
        said = _GROUP_SAYS[kind].format(expected=wanted.text)
        fault = self._fault_of_row(kind, DerivedRow("counts", key, b""), (wanted, has), said, mendable=mendable)
        self._report(Finding(fault, amounts=tuple(expected), found=shown))

    def _fault_of_row(
        self, kind: FaultKind, row: DerivedRow, sides: tuple[Side, Side], said: str, *, mendable: bool = True
    ) -> Fault:
        """A fault of a derived row: what is expected and found, and what is said where no values differ."""
        table, key, owner = row
        expected, found = sides
        is_compared = kind == "different" and expected.values is not None and found.values is not None
        differences = differences_of(expected.values or {}, found.values or {}) if is_compared else ()
        of, name = self._source_of(row) if owner else ("", "")
        text = f"{spell_row(self._keyspaces, table, key)}{f' of {of}' if of else ''}: "
        text += spell_differences(differences) or said
        view, spelled = self._view_of(table, key), row_name(self._keyspaces, table, key)
        return Fault(
            text, kind, view, spelled, name, expected.text, found.text, differences, mendable, droppable=False,
            table=table, key=key,
        )  # fmt: skip

    def _is_of_group(self, row: DerivedRow) -> bool:
        keyspace = self._keyspaces.keyspace_of(row.table, row.key)
        return keyspace is not None and bool(keyspace.groups)

    def _source_of(self, row: DerivedRow) -> tuple[str, str]:
        """The entity, or group, that a row comes from, spelled with its values and by its name."""
        keyspaces, (table, key, owner) = self._keyspaces, row
        if self._is_of_group(row):
            return spell_row(keyspaces, "counts", owner), row_name(keyspaces, "counts", owner)
        is_known = table == "views" and keyspaces.keyspace_of(table, key) is not None
        return spell_entity(keyspaces, owner) if is_known else "", keyspaces.name_of(owner)

    def task(self, kind: FaultKind, key: bytes, source: bytes, found: str) -> None:
        """Reports a task of the outbox that cannot be done."""
        name = self._keyspaces.name_of(source) if source else ""
        spelled = spell_entity(self._keyspaces, source) if source else "an unknown entity"
        text = f"{spelled}: its task {_TASK_SAYS[kind]}{f': {found}' if found else ''}"
        fault = Fault(
            text, kind, "task", name, name, "", found, (), mendable=True, droppable=False, table="system", key=key
        )
        self._report(Finding(fault, source))

    def change_log(self, kind: FaultKind, key: bytes, said: str) -> None:
        """Reports a row of a change log."""
        cls = self._keyspaces.catalog.logged_class(key)
        name = "a view" if cls is None else cls.__name__
        text = f"the change log of {name}: {said}"
        fault = Fault(
            text, kind, "change log", name, "", "", said, (), mendable=True, droppable=False, table="system", key=key
        )
        self._report(Finding(fault))

    def counter(self, key: bytes, reason: str) -> None:
        """Reports a row of a counter that cannot be read; nothing says what it was."""
        self._unreadable("counts", key, "counter", "a row of a counter", reason)

    def job(self, key: bytes, reason: str) -> None:
        """Reports a row of a job that cannot be read: it is never run, and nothing says what it was."""
        self._unreadable("system", key, "job", "a job", reason)

    def _unreadable(self, table: Table, key: bytes, of: str, what: str, reason: str) -> None:
        name = f"{what}, with the key {key.hex()}"
        fault = Fault(
            f"{name}: {reason}", "unreadable", of, name, "", "", _UNREADABLE, (), mendable=False, droppable=True,
            table=table, key=key,
        )  # fmt: skip
        self._report(Finding(fault))

    def stray(self, table: Table, key: bytes, row: Row) -> None:
        """Reports a row outside of every keyspace; `repair` deletes only derived ones."""
        shown, name = shown_of(row), damaged_row(self._keyspaces, table, key)
        mendable = table in _DERIVED
        text = f"{name}: it belongs to no model, view or task of the schema"
        size = "" if shown is None else f"{len(shown)} bytes"
        fault = Fault(
            text, "dangling", "stray", name, "", "", size, (), mendable, droppable=not mendable, table=table, key=key
        )
        self._report(Finding(fault, found=shown))

    def _view_of(self, table: Table, key: bytes) -> str:
        keyspace = self._keyspaces.keyspace_of(table, key)
        if keyspace is not None:
            return keyspace.name
        return {BACK_REFERENCES: "back-reference", HOLDS: "hold"}.get(pointer_part(key), "stray")


def _describe_cells(row: Row) -> str:
    """What is wrong with the cells of a row that shows nothing."""
    return "cells that no view writes beside its own" if VALUE in row else "no readable cell"


def _named(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())
