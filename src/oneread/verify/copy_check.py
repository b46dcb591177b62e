"""Whether copies follow: what entities hold of others, compared with what those say in the same moment.

A copy may differ from its source only while the source's task is in the outbox and its holder is not set aside. See
rules 13 and 14 of the commit protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import astuple

from oneread.derivations.copies import Reference, Source
from oneread.models.references import Copy, copied_names
from oneread.models.registry import EntityKind
from oneread.models.set_order import has_one_form, stored_form
from oneread.models.types import field_types, unwrap
from oneread.plans.plan import Plan
from oneread.plans.progress import ValueDifference
from oneread.store.keys import kind_part
from oneread.store.rows import RowRange
from oneread.transactions.outbox import aside_key, selections_left_out, task_key
from oneread.verify.describe import differences_of, flat_values
from oneread.verify.expected import ExpectedRows, load_sources
from oneread.verify.keyspace import StoreKeyspaces
from oneread.verify.report import FaultReporter
from oneread.verify.scanner import Scanner

KEPT_SOURCES: Final = 20_000
"""Sources that are kept in memory at a time."""


class _Expected(NamedTuple):
    """What every holder of one source has of it."""

    copy: Any
    fields: tuple[object, ...]
    """Of the copy: comparing these costs a third of comparing copies."""
    form: bytes
    """Of the fields, where equal ones may be stored as other bytes; empty elsewhere."""
    hidden: Mapping[str, Any]
    keeps_last: bool
    """The source was deleted, and holders keep its last values."""
    goes: bool
    """The source was deleted, and holders go with it."""


class HeldCopy(NamedTuple):
    """One reference of a holder to a source."""

    key: bytes
    rows: ExpectedRows
    reference: Reference
    source: bytes


class CopyComparison:
    """Compares the copies of one kind's entities with their sources."""

    def __init__(self, keyspaces: StoreKeyspaces, kind: EntityKind, scanner: Scanner) -> None:
        self._keyspaces = keyspaces
        self._scanner = scanner
        self._checked: dict[type, tuple[Reference, ...]] = {
            cls: tuple(each for each in entity_type.references if each.tracked)
            for cls, entity_type in keyspaces.catalog.entity_types.items()
            if entity_type.kind is kind
        }
        self._sources: dict[bytes, Source] = {}
        self._unreadable: set[bytes] = set()
        self._expected: dict[tuple[str, type, bytes], _Expected] = {}
        self._one_form: dict[type, bool] = {}

    def differing(self, holders: Sequence[tuple[bytes, ExpectedRows]]) -> Plan[list[HeldCopy]]:
        """The copies of some entities that differ from sources that can be read.

        One read for the sources that are not in memory.
        """
        held = [
            HeldCopy(key, rows, reference, source)
            for key, rows in holders
            if rows.entity is not None
            for reference in self._checked[type(rows.entity)]
            for source in rows.refs[reference.name]
        ]
        if any(each.source not in self._sources for each in held):
            yield from self._load({each.source for each in held})
        differing = [each for each in held if not self._follows(each.rows, each.reference, each.source)]
        return [each for each in differing if each.source not in self._unreadable]

    def has_source(self, held: HeldCopy) -> bool:
        """Whether the source of a copy was found by its key."""
        return self._sources[held.source].existed

    def _load(self, needed: set[bytes]) -> Plan[None]:
        if len(self._sources) + len(needed) > KEPT_SOURCES:
            self._sources.clear()
            self._expected.clear()
        wanted = sorted(needed - self._sources.keys())
        found, unreadable = yield from load_sources(self._keyspaces, self._scanner, wanted)
        self._sources |= found
        self._unreadable |= unreadable

    def _follows(self, rows: ExpectedRows, reference: Reference, source: bytes) -> bool:
        entity = rows.entity
        expected = self._expected.get((reference.name, type(entity), source))
        if expected is None:
            expected = self._expect(entity, reference, source)
        held: Any = getattr(entity, reference.name)
        if expected.goes:
            return False
        if expected.keeps_last:
            return reference.copy is None or held.deleted is True
        if reference.copy is not None:
            fields = astuple(held)
            if stored_form(fields) != expected.form if expected.form else fields != expected.fields:
                return False
        hidden = rows.hidden
        return all(
            (name not in hidden and self._keyspaces.backfill_running)
            or stored_form(hidden.get(name)) == stored_form(value)
            for name, value in expected.hidden.items()
        )

    def _expect(self, entity: Any, reference: Reference, key: bytes) -> _Expected:
        """What all holders of a source have of it; kept, because one source may have many."""
        source = reference.narrowed(self._sources[key])
        keeps_last = reference.keeps_last_values(source)
        has_copy = reference.copy is not None and not keeps_last
        copy = reference.filled_copy(getattr(entity, reference.name), source) if has_copy else None
        fields = () if copy is None else astuple(copy)
        form = b"" if copy is None or self._has_one_form(type(copy)) else stored_form(fields)
        hidden = {} if keeps_last or reference.many else reference.hidden_values(source)
        expected = _Expected(copy, fields, form, hidden, keeps_last, reference.goes_with(source))
        self._expected[reference.name, type(entity), key] = expected
        return expected

    def _has_one_form(self, copy: type[Copy[Any]]) -> bool:
        """Whether copies of this class that are equal are stored as the same bytes."""
        known = self._one_form.get(copy)
        if known is None:
            types = field_types(copy, self._keyspaces.catalog.names)
            known = all(has_one_form(unwrap(types[name]).bare) for name in copied_names(copy))
            self._one_form[copy] = known
        return known

    def describe(self, differing: HeldCopy, reporter: FaultReporter) -> None:
        """Reports one stale copy."""
        key, holder, reference, source = differing
        expected = self._expected[reference.name, type(holder.entity), source]
        name, held = reference.name, getattr(holder.entity, reference.name)
        if expected.goes:
            gone = ValueDifference(name, "deleted with its source", "still there")
            reporter.copy(key, name, source, (gone,))
            return
        if expected.keeps_last:
            reporter.copy(key, name, source, (ValueDifference(f"{name}.deleted", "True", "False"),))
            return
        wanted, found = {name: expected.copy}, {name: held}
        if reference.copy is None or stored_form(astuple(held)) == stored_form(astuple(expected.copy)):
            wanted, found = dict(expected.hidden), {each: holder.hidden.get(each) for each in expected.hidden}
        reporter.copy(key, name, source, differences_of(flat_values(wanted), flat_values(found)))


class CopyCheck:
    """Reports the stale copies of one kind's entities, in a snapshot."""

    def __init__(self, keyspaces: StoreKeyspaces, kind: EntityKind, scanner: Scanner, reporter: FaultReporter) -> None:
        self._scanner = scanner
        self._reporter = reporter
        self._copies = CopyComparison(keyspaces, kind, scanner)
        self._absent: set[bytes] = set()  # prefixes of kinds

    def check(self, holders: Sequence[tuple[bytes, ExpectedRows]]) -> Plan[None]:
        """Reports the copies of some entities that differ, but for those that wait for the source's task."""
        differing = yield from self._copies.differing(holders)
        if not differing:
            return
        sources = sorted({each.source for each in differing})
        rows = yield from self._scanner.read("system", [task_key(source) for source in sources])
        left_out = {
            source: selections_left_out(row) for source, row in zip(sources, rows, strict=True) if row is not None
        }
        waiting = [
            (each.key, each.source)
            for each in differing
            if each.source in left_out and each.reference.selection not in left_out[each.source]
        ]
        rows = yield from self._scanner.read("system", [aside_key(source, key) for key, source in waiting])
        excused = {each for each, row in zip(waiting, rows, strict=True) if row is None}
        for held in differing:
            if (held.key, held.source) not in excused:
                if not self._copies.has_source(held):
                    self._absent.add(kind_part(held.source))
                self._copies.describe(held, self._reporter)

    def confirm_absent(self) -> Plan[None]:
        """Scans the kinds of sources that were not found by their keys; raises Corrupt where a scan finds one."""
        for prefix in sorted(self._absent):
            yield from self._scanner.scan_all("roots", RowRange.under(prefix), lambda _found: None)
