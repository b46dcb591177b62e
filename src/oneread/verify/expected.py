"""Testimony: what one commit row says must lie elsewhere, and what is wrong with the row itself.

An entity is emitted anew; where its body cannot be read, its record is believed instead, so that one bad row does not
make others look wrong. See docs/formats/rows.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from oneread.derivations import emitted_record
from oneread.derivations.copies import Source
from oneread.derivations.emitted_record import HELD, HIDDEN, LAST_VALUES, REFERENCES, ROWS, SUMS, UNIQUE, Record
from oneread.derivations.entity_type import EntityType, Refs
from oneread.errors import Corrupt, OnereadError
from oneread.models.registry import EntityKind
from oneread.plans.progress import FaultKind
from oneread.store.keys import pointer_part, view_part
from oneread.store.rows import Cell, Row
from oneread.transactions.deltas import from_wire
from oneread.transactions.outbox import BACK_REFERENCES, HOLDS, back_reference_key, hold_key
from oneread.transactions.root import BODY, EMITTED, VERSION
from oneread.transactions.unit_of_work import DerivedWrites
from oneread.verify.keyspace import StoreKeyspaces
from oneread.verify.record_comparison import compare_records

_PRESENT: Final = b"\xc0"
DAMAGED: Final = (OnereadError, msgspec.MsgspecError, TypeError, ValueError, AttributeError, KeyError, OverflowError)
"""What reading bytes may raise that somebody damaged."""


class RootFault(NamedTuple):
    """What is wrong with a commit row itself."""

    kind: FaultKind
    what: str
    """`entity`, `record` or `version`."""
    expected: str
    found: str
    mendable: bool


class Doubt(NamedTuple):
    """A record that is wrong, unless each of these index rows has the digest that the record keeps of it."""

    flaw: RootFault
    digests: Mapping[bytes, bytes]


class ExpectedRows(NamedTuple):
    """What one commit row says.

    Arguments:
        entity: None when it is deleted or cannot be read.
        refs: what it refers to.
        used: its hidden copies by name.
        operations: the rows, contributions and taken values that must be there because of it.
        flaws: what is wrong with the row.
        digests: index rows of which only a digest is known, because the body cannot be read.
        trusted: False when neither body nor record can be read: nobody knows what must be there.
        wants: sources without whose values nothing can be said; then nothing else of this is filled in.
        doubt: what is wrong with the record, unless the rows that are there say that it is right.
    """

    @property
    def is_whole(self) -> bool:
        """Nothing more has to be read to know all of this."""
        return not (self.wants or self.digests or self.doubt)

    entity: Any
    refs: Refs
    used: Mapping[str, Any]
    operations: DerivedWrites
    flaws: tuple[RootFault, ...] = ()
    digests: Mapping[bytes, bytes] = {}
    trusted: bool = True
    wants: tuple[bytes, ...] = ()
    doubt: Doubt | None = None


_NOTHING: Final = DerivedWrites()


class RowExaminer:
    """Hears the commit rows of one kind."""

    def __init__(self, keyspaces: StoreKeyspaces, kind: EntityKind) -> None:
        self._keyspaces = keyspaces
        self._kind = kind
        self._carriers: Mapping[type, EntityType] = keyspaces.catalog.entity_types
        self._silent = keyspaces.catalog.any_type_of(kind.prefix).empty_record()
        self._narrowed = not keyspaces.whole
        self._pointers = keyspaces.covers_kind(kind)

    def examine(self, key: bytes, row: Row, sources: Mapping[bytes, Source] | None = None) -> ExpectedRows:
        """What a row says. `sources` are given when an earlier testimony wants them."""
        version, body, record = row.get(VERSION), row.get(BODY), row.get(EMITTED)
        flaws: tuple[RootFault, ...] = ()
        if version is None or version.value != version.stamp.to_bytes(8, "big"):
            flaws = (_version_flaw(version, body),)
        if body is None:
            return self._from_tombstone(row, record, flaws)
        kind = self._kind
        try:
            entity = kind.layouts.whole(body.value)
            if kind.key(kind.parts(entity)) != key:
                return self._from_record(key, record, (*flaws, _of_another(kind, entity)))
            entity_type = self._carriers[type(entity)]
            refs = entity_type.refs(entity)
        except DAMAGED as error:
            return self._from_record(
                key, record, (*flaws, RootFault("unreadable", "entity", "", str(error), mendable=False))
            )
        return self._from_entity(key, entity, entity_type, refs, record, flaws, sources)

    def _from_entity(
        self,
        key: bytes,
        entity: Any,
        entity_type: EntityType,
        refs: Refs,
        record: Cell | None,
        flaws: tuple[RootFault, ...],
        sources: Mapping[bytes, Source] | None,
    ) -> ExpectedRows:
        """What a living entity tells, emitted anew."""
        used: Mapping[str, Any] = {}
        if entity_type.has_hidden:
            held = self._hidden_values(entity_type, record)
            if held is None:
                if sources is None:
                    return ExpectedRows(None, {}, {}, _NOTHING, wants=tuple(each[0] for each in refs.values() if each))
                held = _hidden_from_sources(entity_type, refs, sources)
            used = held
        try:
            emission = entity_type.emission(entity, used, key, refs)
            told = emitted_record.encode_record(emission.record)
        except DAMAGED as error:
            return self._from_record(
                key, record, (*flaws, RootFault("different", "entity", "", str(error), mendable=False))
            )
        doubt: Doubt | None = None
        if record is None or record.value != told:
            more, doubt = self._compare_record(entity_type, record, emission.record)
            flaws += more
            if self._keyspaces.backfill_running:
                self._keep_pointers(record, emission.record)
        operations = emitted_record.first_writes(key, emission)
        narrowed = self._narrow(operations) if self._narrowed else operations
        return ExpectedRows(entity, refs, used, narrowed, flaws, doubt=doubt)

    def _hidden_values(self, entity_type: EntityType, record: Cell | None) -> Mapping[str, Any] | None:
        """The hidden copies that a record holds; None when they have to be asked for again."""
        try:
            told = emitted_record.decode_record(None if record is None else record.value)
            if HIDDEN not in told and not self._keyspaces.backfill_running:
                return None
            return entity_type.used_in(told)
        except DAMAGED:
            return None

    def _compare_record(
        self, entity_type: EntityType, record: Cell | None, expected: Record
    ) -> tuple[tuple[RootFault, ...], Doubt | None]:
        """What is wrong with a record whose bytes are not the expected ones, and what may be."""
        if record is None:
            missing = RootFault("missing", "record", _shorten(expected), "", mendable=True)
            return () if self._keyspaces.backfill_running else (missing,), None
        try:
            found = emitted_record.decode_record(record.value)
        except Corrupt as error:
            return (RootFault("unreadable", "record", _shorten(expected), str(error), mendable=True),), None
        wanted = emitted_record.decode_record(emitted_record.encode_record(expected))
        if self._keyspaces.backfill_running:
            found, wanted = self._in_scope_of(found), self._in_scope_of(wanted)
        difference = compare_records(entity_type, found, wanted, self._keyspaces.recorded_otherwise)
        if difference.tokens:
            return (_record_flaw(difference.tokens, found, wanted),), None
        if difference.unsure:
            tokens = tuple(sorted({ROWS + view_part(place) for place in difference.unsure}))
            return (), Doubt(_record_flaw(tokens, found, wanted), difference.unsure)
        return (), None

    def _in_scope_of(self, record: Record) -> Record:
        return {token: each for token, each in record.items() if token[1:] in self._keyspaces.prefixes}

    def _keep_pointers(self, record: Cell | None, into: Record) -> None:
        """While a backfill is under way, an entity points where its record says that it does."""
        try:
            told = emitted_record.decode_record(None if record is None else record.value)
        except Corrupt:
            return
        for token in (REFERENCES, HELD):
            into[token] = told.get(token, [])

    def _from_tombstone(self, row: Row, record: Cell | None, flaws: tuple[RootFault, ...]) -> ExpectedRows:
        """A deleted entity: it tells nothing any more."""
        if not row:
            flaw = RootFault("unreadable", "entity", "", "the row cannot be read", mendable=False)
            return ExpectedRows(None, {}, {}, _NOTHING, (flaw,), trusted=False)
        if record is None or record.value != emitted_record.encode_record(self._silent):
            expected = dict(self._silent)
            try:
                found = emitted_record.decode_record(None if record is None else record.value)
                if isinstance(found.get(LAST_VALUES), dict):
                    expected[LAST_VALUES] = found[LAST_VALUES]  # nobody can tell anew what a deleted entity told last
            except Corrupt:
                pass
            more, _none = self._compare_record(self._keyspaces.catalog.any_type_of(self._kind.prefix), record, expected)
            flaws += more
        return ExpectedRows(None, {}, {}, _NOTHING, flaws)

    def _from_record(self, key: bytes, record: Cell | None, flaws: tuple[RootFault, ...]) -> ExpectedRows:
        """The entity cannot be read; its record says what it told."""
        operations, digests = DerivedWrites({}, [], [], {}, {}), dict[bytes, bytes]()
        try:
            if record is None:
                raise Corrupt("there is no record")
            for token, each in emitted_record.decode_record(record.value).items():
                take = _TAKES.get(token[:1])
                if take is not None:
                    take(operations, digests, key, token[1:], each)
        except DAMAGED as error:
            flaw = RootFault("unreadable", "record", "", str(error), mendable=False)
            return ExpectedRows(None, {}, {}, _NOTHING, (*flaws, flaw), trusted=False)
        narrowed = self._narrow(operations) if self._narrowed else operations
        return ExpectedRows(
            None, {}, {}, narrowed, flaws, {place: each for place, each in digests.items() if place in narrowed.puts}
        )

    def _narrow(self, operations: DerivedWrites) -> DerivedWrites:
        """What is left of operations when only some of what is there is judged."""
        judged, pointers = self._keyspaces.prefixes, self._pointers
        return DerivedWrites(
            {
                place: shown
                for place, shown in operations.puts.items()
                if view_part(place) in judged or (pointers and pointer_part(place) in (BACK_REFERENCES, HOLDS))
            },
            [],
            [each for each in operations.deltas if view_part(each[0]) in judged],
            {},
            {place: owner for place, owner in operations.claimed.items() if view_part(place) in judged},
        )


def _version_flaw(version: Cell | None, body: Cell | None) -> RootFault:
    if version is None:
        return RootFault("missing", "version", "" if body is None else str(body.stamp), "", mendable=True)
    return RootFault("different", "version", str(version.stamp), version.value.hex(), mendable=True)


def _of_another(kind: EntityKind, entity: Any) -> RootFault:
    return RootFault(
        "different", "entity", "an entity with the key of its row", repr(kind.parts(entity)), mendable=False
    )


def _hidden_from_sources(entity_type: EntityType, refs: Refs, sources: Mapping[bytes, Source]) -> dict[str, Any]:
    """Hidden copies as the sources have them now."""
    used: dict[str, Any] = {}
    for each in entity_type.references:
        keys = refs[each.name]
        if each.hidden and keys:
            used.update(each.hidden_values(sources[keys[0]], {}))
        else:
            used.update({name: None for name, _get, _type in each.hidden})
    return used


def _record_flaw(tokens: tuple[bytes, ...], found: Record, wanted: Record) -> RootFault:
    return RootFault(
        "different",
        "record",
        _shorten({token: wanted[token] for token in tokens if token in wanted}),
        _shorten({token: found[token] for token in tokens if token in found}),
        mendable=True,
    )


def _shorten(record: Record) -> str:
    """Some of a record as text."""
    text = str({token.decode("latin-1", "replace")[:1] + token[1:].hex(): each for token, each in record.items()})
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


_SHOWN: Final = 300


def _take_rows(into: DerivedWrites, digests: dict[bytes, bytes], _key: bytes, prefix: bytes, told: Any) -> None:
    for suffix, digest in told:
        into.puts[prefix + suffix] = digest
        digests[prefix + suffix] = digest


def _take_sums(into: DerivedWrites, _digests: dict[bytes, bytes], _key: bytes, prefix: bytes, told: Any) -> None:
    into.deltas.extend([(prefix + suffix, from_wire(amounts), 1) for suffix, amounts in told])


def _take_claims(into: DerivedWrites, _digests: dict[bytes, bytes], key: bytes, prefix: bytes, told: Any) -> None:
    into.claimed.update({prefix + suffix: key for suffix in told})


def _take_references(into: DerivedWrites, _digests: dict[bytes, bytes], key: bytes, _prefix: bytes, told: Any) -> None:
    into.puts.update({back_reference_key(source, key): _PRESENT for source in told})


def _take_holds(into: DerivedWrites, _digests: dict[bytes, bytes], key: bytes, _prefix: bytes, told: Any) -> None:
    into.puts.update({hold_key(source, key): _PRESENT for source in told})


_TAKES: Final[dict[bytes, Callable[[DerivedWrites, dict[bytes, bytes], bytes, bytes, Any], None]]] = {
    ROWS: _take_rows,
    SUMS: _take_sums,
    UNIQUE: _take_claims,
    REFERENCES: _take_references,
    HELD: _take_holds,
}
