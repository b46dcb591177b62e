"""Whether copies follow: what entities hold of others, compared with what those say in the same moment.

A copy may differ from its source only while the source's task is in the outbox, and its holder is not set aside. See
rules 13 and 14 of the commit protocol and docs/decisions/0008-tombstones-keep-what-was-told.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import astuple

from oneread.derivations.copies import NO_SOURCE, Reference, Source
from oneread.models.annotations import field_types, unwrap
from oneread.models.references import Copy, copied_names
from oneread.models.registry import EntityKind
from oneread.models.set_order import has_one_form, stored_form
from oneread.plans.plan import Plan
from oneread.store.keys import kind_part
from oneread.store.rows import RowRange
from oneread.transactions.outbox import aside_key, task_key
from oneread.transactions.root import parse_root
from oneread.verify.expected import DAMAGED, ExpectedRows
from oneread.verify.keyspace import StoreKeyspaces
from oneread.verify.report import FaultReporter
from oneread.verify.scanner import Scanner

KEPT_SOURCES: Final = 20_000
"""Sources that are remembered at a time."""


class _Expected(NamedTuple):
    """What every carrier of one source holds of it."""

    copy: Any
    fields: tuple[Any, ...]
    """Of the copy: comparing these costs a third of comparing copies."""
    form: bytes
    """Of the fields, where equal ones may be stored as other bytes; empty elsewhere."""
    hidden: Mapping[str, Any]
    gone: bool
    """It was deleted, and carriers keep its last values."""


class CopyCheck:
    """Compares the copies of one kind's entities with their sources."""

    def __init__(self, keyspaces: StoreKeyspaces, kind: EntityKind, scanner: Scanner, reporter: FaultReporter) -> None:
        self._keyspaces = keyspaces
        self._scanner = scanner
        self._reporter = reporter
        self._checked: dict[type, tuple[Reference, ...]] = {
            cls: tuple(each for each in entity_type.references if each.copy is not None or each.hidden)
            for cls, entity_type in keyspaces.catalog.entity_types.items()
            if entity_type.kind is kind
        }
        self._sources: dict[bytes, Source] = {}
        self._unreadable: set[bytes] = set()
        self._expected: dict[tuple[str, type, bytes], _Expected] = {}
        self._one_form: dict[type, bool] = {}
        self._absent: set[bytes] = set()  # prefixes of kinds

    def check(self, heard: Sequence[tuple[bytes, ExpectedRows]]) -> Plan[None]:
        """Compares the copies of some entities; one read for the sources that are not known yet."""
        held: list[tuple[bytes, ExpectedRows, Reference, bytes]] = []
        for key, said in heard:
            if said.entity is not None:
                for each in self._checked[type(said.entity)]:
                    held.extend([(key, said, each, source) for source in said.refs[each.name]])
        if any(source not in self._sources for _key, _said, _each, source in held):
            yield from self._load({source for _key, _said, _each, source in held})
        differing = [found for found in held if not self._follows(found[1], found[2], found[3])]
        if differing:
            yield from self._judge(differing)

    def confirm_absent(self) -> Plan[None]:
        """Scans the kinds of sources that were not found by their keys.

        Raises:
            Corrupt: a scan shows what a read by its key does not.
        """
        for prefix in sorted(self._absent):
            yield from self._scanner.scan_all("roots", RowRange.under(prefix), lambda _found: None)

    def _load(self, needed: set[bytes]) -> Plan[None]:
        if len(self._sources) + len(needed) > KEPT_SOURCES:
            self._sources.clear()
            self._expected.clear()
        wanted = sorted(needed - self._sources.keys())
        rows = yield from self._scanner.read("roots", wanted)
        for key, row in zip(wanted, rows, strict=True):
            try:
                self._sources[key] = self._keyspaces.catalog.source(key, parse_root(row))
            except DAMAGED:
                self._sources[key] = NO_SOURCE
                self._unreadable.add(key)

    def _follows(self, said: ExpectedRows, reference: Reference, source: bytes) -> bool:
        entity = said.entity
        expected = self._expected.get((reference.name, type(entity), source))
        if expected is None:
            expected = self._make(entity, reference, source)
        held: Any = getattr(entity, reference.name)
        if expected.gone:
            return reference.copy is None or held.deleted is True
        if reference.copy is not None:
            fields = astuple(held)
            if stored_form(fields) != expected.form if expected.form else fields != expected.fields:
                return False
        used = said.used
        return all(
            (name not in used and self._keyspaces.backfill_running) or stored_form(used.get(name)) == stored_form(value)
            for name, value in expected.hidden.items()
        )

    def _make(self, entity: Any, reference: Reference, key: bytes) -> _Expected:
        """What all carriers of a source hold of it; kept, because many carriers have one source."""
        source = self._sources[key]
        gone = reference.keeps_last_values(source)
        copy = None if gone or reference.copy is None else reference.filled(getattr(entity, reference.name), source)
        fields = () if copy is None else astuple(copy)
        form = b"" if copy is None or self._has_one_form(type(copy)) else stored_form(fields)
        hidden = {} if gone or reference.many else reference.hidden_values(source)
        made = _Expected(copy, fields, form, hidden, gone)
        self._expected[reference.name, type(entity), key] = made
        return made

    def _has_one_form(self, copy: type[Copy[Any]]) -> bool:
        """Whether copies of this class that are equal are stored as the same bytes."""
        known = self._one_form.get(copy)
        if known is None:
            types = field_types(copy, self._keyspaces.catalog.names)
            known = all(has_one_form(unwrap(types[name]).bare) for name in copied_names(copy))
            self._one_form[copy] = known
        return known

    def _judge(self, differing: list[tuple[bytes, ExpectedRows, Reference, bytes]]) -> Plan[None]:
        """A difference is a fault unless the source's task has yet to come; of a holder set aside it always is."""
        sources = sorted({source for _key, _said, _reference, source in differing})
        rows = yield from self._scanner.read("system", [task_key(source) for source in sources])
        pending = {source for source, row in zip(sources, rows, strict=True) if row is not None}
        waiting = [(key, source) for key, _said, _reference, source in differing if source in pending]
        rows = yield from self._scanner.read("system", [aside_key(source, key) for key, source in waiting])
        excused = {each for each, row in zip(waiting, rows, strict=True) if row is None}
        for key, said, reference, source in differing:
            if (key, source) in excused or source in self._unreadable:
                continue
            if not self._sources[source].existed:
                self._absent.add(kind_part(source))
            expected = self._expected[reference.name, type(said.entity), source]
            held = getattr(said.entity, reference.name)
            if expected.gone:
                self._reporter.copy(key, reference.name, source, "marked as deleted", held)
            elif reference.copy is not None and stored_form(astuple(held)) != stored_form(astuple(expected.copy)):
                self._reporter.copy(key, reference.name, source, expected.copy, held)
            else:
                found = {name: said.used.get(name) for name in expected.hidden}
                self._reporter.copy(key, reference.name, source, dict(expected.hidden), found)
