"""Faults as they are found: each with what repair needs to know of it, and as text for people."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple, TypeAlias

from oneread.plans.progress import Fault, FaultKind, ValueDifference
from oneread.store.keys import pointer_part
from oneread.store.requests import Found
from oneread.store.rows import VALUE, Row, Table
from oneread.transactions.change_log import logged_view
from oneread.transactions.deltas import Number
from oneread.transactions.outbox import BACK_REFERENCES, HOLDS
from oneread.transactions.unit_of_work import Group
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
        fault = Fault(
            f"{spell_entity(self._keyspaces, key)}: {spell_differences(differences) or field}",
            "different",
            "copy",
            f"{name}.{field}",
            name,
            _named({each.field: each.expected for each in differences}),
            _named({each.field: each.found for each in differences}),
            differences,
            mendable=True,
            droppable=False,
            table="roots",
            key=key,
        )
        self._report(Finding(fault, key, source))

    def differing(self, row: DerivedRow, expected: bytes, found: Row | None) -> None:
        """Reports a derived row that does not show what its entity emits, or its group holds."""
        kind: FaultKind = "missing" if found is None else "unreadable" if shown_of(found) is None else "different"
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
        keyspaces, place = self._keyspaces, DerivedRow("views", row.key, b"")
        owner = keyspaces.owner_of("views", row.key, None)
        wanted = Side() if expected is None else self._side(place, expected)
        shown = None if found is None else shown_of(found)
        has = Side("" if found is None else _describe_cells(found)) if shown is None else self._side(place, shown)
        is_unreadable = found is not None and shown is None
        kind: FaultKind = (
            "unreadable"
            if is_unreadable
            else "dangling"
            if expected is None
            else "missing"
            if found is None
            else "different"
        )
        is_known = kind == "different" and wanted.values is not None and has.values is not None
        differences = differences_of(wanted.values or {}, has.values or {}) if is_known else ()
        said = {
            "missing": "the entry is missing",
            "dangling": "a membership or an item that it names is not there",
            "unreadable": f"the entry cannot be read: {has.text}",
            "different": spell_differences(differences) or "it does not name a membership that shows it",
        }[kind]
        of = "" if owner is None else keyspaces.name_of(owner)
        item = "" if owner is None else f" of {spell_entity(keyspaces, owner)}"
        text = f"{spell_row(keyspaces, 'views', row.key)}{item}: {why or said}"
        name = row_name(keyspaces, "views", row.key)
        fault = Fault(
            text, kind, self._view_of("views", row.key), name, of, wanted.text, has.text, differences, mendable=True,
            droppable=False, table="views", key=row.key,
        )  # fmt: skip
        self._report(Finding(fault, owner or b"", found=shown, membership=row.membership))

    def row_of_feed(
        self, key: bytes, expected: Row | None, found: Row | None, text: str, *, is_unreadable: bool = False
    ) -> None:
        """Reports a row of a feed besides its entries."""
        kind: FaultKind = (
            "unreadable"
            if is_unreadable
            else "dangling"
            if expected is None
            else "missing"
            if found is None
            else "different"
        )
        name, has = row_name(self._keyspaces, "views", key), "" if found is None else _describe_cells(found)
        fault = Fault(
            f"{spell_row(self._keyspaces, 'views', key)}: {text}", kind, self._view_of("views", key), name, "", "", has,
            (), mendable=True, droppable=False, table="views", key=key,
        )  # fmt: skip
        self._report(Finding(fault))

    def _side(self, row: DerivedRow, shown: bytes | None) -> Side:
        values = fields_of(self._keyspaces, row.table, row.key, shown)
        return Side("values that cannot be read" if values is None else _named(values), values)

    def _derived(
        self, kind: FaultKind, row: DerivedRow, expected: Side, found: Row | None, *, mendable: bool = True
    ) -> None:
        table, key, owner = row
        shown = None if found is None else shown_of(found)
        has = self._side(row, shown) if shown is not None else Side("" if found is None else _describe_cells(found))
        differences = (
            differences_of(expected.values, has.values)
            if kind == "different" and expected.values is not None and has.values is not None
            else ()
        )
        keyspace = self._keyspaces.keyspace_of(table, key)
        is_of_group = keyspace is not None and bool(keyspace.groups)
        of = name = ""
        if owner and is_of_group:
            of, name = spell_row(self._keyspaces, "counts", owner), row_name(self._keyspaces, "counts", owner)
        elif owner:
            of = spell_entity(self._keyspaces, owner) if table == "views" and keyspace is not None else ""
            name = self._keyspaces.name_of(owner)
        said = {
            "missing": "the row is missing",
            "dangling": f"no {'group' if is_of_group else 'entity'} has this row",
            "unreadable": f"the row cannot be read: {has.text}",
            "different": spell_differences(differences) or "the row holds another value",
        }[kind]
        fault = Fault(
            f"{spell_row(self._keyspaces, table, key)}{f' of {of}' if of else ''}: {said}",
            kind,
            self._view_of(table, key),
            row_name(self._keyspaces, table, key),
            name,
            expected.text,
            has.text,
            differences,
            mendable,
            droppable=False,
            table=table,
            key=key,
        )
        self._report(Finding(fault, owner, found=shown))

    def group(self, key: bytes, expected: list[Number], found: Row | None, *, mendable: bool) -> None:
        """Reports a group's row that is not the sum of its contributions."""
        amounts, shown = (None, None) if found is None else (amounts_of(found), shown_of(found))
        has_members = bool(expected and expected[0])
        kind: FaultKind = (
            "missing"
            if found is None
            else "unreadable"
            if amounts is None
            else "different"
            if has_members
            else "dangling"
        )
        keyspace = self._keyspaces.keyspace_of("counts", key)
        names = () if keyspace is None else keyspace.numbers
        wanted, has = (numbers_of(names, each) for each in (expected if has_members else [], amounts or []))
        differences = differences_of(wanted, has) if kind == "different" else ()
        said = {
            "missing": f"the group is missing: {_named(wanted)}",
            "dangling": "no entity counts in this group",
            "unreadable": "the group cannot be read",
            "different": spell_differences(differences),
        }[kind]
        fault = Fault(
            f"{spell_row(self._keyspaces, 'counts', key)}: {said}",
            kind,
            self._view_of("counts", key),
            row_name(self._keyspaces, "counts", key),
            "",
            _named(wanted),
            "values that cannot be read" if kind == "unreadable" else _named(has),
            differences,
            mendable,
            droppable=False,
            table="counts",
            key=key,
        )
        self._report(Finding(fault, amounts=tuple(expected), found=shown))

    def task(self, kind: FaultKind, key: bytes, source: bytes, found: str) -> None:
        """Reports a task of the outbox that cannot be done."""
        name = self._keyspaces.name_of(source) if source else ""
        spelled = spell_entity(self._keyspaces, source) if source else "an unknown entity"
        said = {"unreadable": "cannot be done", "dangling": "is of an entity that was never written"}
        text = f"{spelled}: its task {said.get(kind, 'does not belong to its key')}{f': {found}' if found else ''}"
        fault = Fault(
            text, kind, "task", name, name, "", found, (), mendable=True, droppable=False, table="system", key=key
        )
        self._report(Finding(fault, source))

    def change_log(self, kind: FaultKind, key: bytes, said: str) -> None:
        """Reports a row of the change log of a watched view."""
        keyspace = self._keyspaces.keyspace_of("views", logged_view(key))
        name = "a view" if keyspace is None else keyspace.name
        text = f"the change log of {name}: {said}"
        fault = Fault(
            text, kind, "change log", name, "", "", said, (), mendable=True, droppable=False, table="system", key=key
        )
        self._report(Finding(fault))

    def counter(self, key: bytes, reason: str) -> None:
        """Reports a row of a counter that cannot be read; nothing says what it was."""
        name = f"a row of a counter, with the key {key.hex()}"
        fault = Fault(
            f"{name}: {reason}",
            "unreadable",
            "counter",
            name,
            "",
            "",
            "values that cannot be read",
            (),
            mendable=False,
            droppable=True,
            table="counts",
            key=key,
        )
        self._report(Finding(fault))

    def stray(self, table: Table, key: bytes, row: Row) -> None:
        """Reports a row outside of every keyspace; `repair` deletes only derived ones."""
        shown, name = shown_of(row), damaged_row(self._keyspaces, table, key)
        mendable = table in _DERIVED
        text = f"{name}: it belongs to no model, view or task of the schema"
        size = "" if shown is None else f"{len(shown)} bytes"
        fault = Fault(
            text,
            "dangling",
            "stray",
            name,
            "",
            "",
            size,
            (),
            mendable,
            droppable=not mendable,
            table=table,
            key=key,
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
