"""Testimony: what one commit row says must lie elsewhere, and what is wrong with the row itself.

Knows the catalog and commit rows. Must not know how rows are read, or what lies elsewhere. An entity is emitted anew;
where its body cannot be read, its record is believed instead, so that one bad row does not make others look wrong. The
law is docs/formats/rows.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from oneread.derivations import emitted
from oneread.derivations.carriers import Carrier, Refs
from oneread.derivations.copies import Source
from oneread.derivations.emitted import HELD, LAST, REFERENCES, ROWS, SUMS, UNIQUE, USED, Record
from oneread.errors import Corrupt, OnereadError
from oneread.maintenance.ground import Ground
from oneread.maintenance.record_comparison import compare_records
from oneread.maintenance.reports import FaultKind
from oneread.models.registry import Kind
from oneread.store.rows import Cell, Row
from oneread.transactions.deltas import unwire
from oneread.transactions.outbox import back_reference, hold
from oneread.transactions.root import BODY, EMITTED, VERSION
from oneread.transactions.unit import Operations

_PRESENT: Final = b"\xc0"
DAMAGED: Final = (OnereadError, msgspec.MsgspecError, TypeError, ValueError, AttributeError, KeyError, OverflowError)
"""What reading bytes may raise that somebody damaged."""


class Flaw(NamedTuple):
    """What is wrong with a commit row itself."""

    kind: FaultKind
    what: str
    """`entity`, `record` or `version`."""
    expected: str
    found: str
    mendable: bool


class Doubt(NamedTuple):
    """A record that is wrong, unless each of these index rows has the digest that the record keeps of it."""

    flaw: Flaw
    digests: Mapping[bytes, bytes]


class Testimony(NamedTuple):
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
    operations: Operations
    flaws: tuple[Flaw, ...] = ()
    digests: Mapping[bytes, bytes] = {}
    trusted: bool = True
    wants: tuple[bytes, ...] = ()
    doubt: Doubt | None = None


_NOTHING: Final = Operations()


class Witness:
    """Hears the commit rows of one kind.

    Arguments:
        ground: the store.
        kind: whose rows.
    """

    def __init__(self, ground: Ground, kind: Kind) -> None:
        self._ground = ground
        self._kind = kind
        self._carriers: Mapping[type, Carrier] = ground.catalog.carriers
        self._silent = ground.catalog.any_carrier(kind.prefix).silent()
        self._narrowed = not ground.whole
        self._pointers = ground.judges(kind)

    def hear(self, key: bytes, row: Row, sources: Mapping[bytes, Source] | None = None) -> Testimony:
        """What a row says. `sources` are given when an earlier testimony wants them."""
        version, body, record = row.get(VERSION), row.get(BODY), row.get(EMITTED)
        flaws: tuple[Flaw, ...] = ()
        if version is None or version.value != version.stamp.to_bytes(8, "big"):
            flaws = (_version_flaw(version, body),)
        if body is None:
            return self._gone(row, record, flaws)
        kind = self._kind
        try:
            entity = kind.layouts.whole(body.value)
            if kind.key(kind.parts(entity)) != key:
                return self._believed(key, record, (*flaws, _of_another(kind, entity)))
            carrier = self._carriers[type(entity)]
            refs = carrier.refs(entity)
        except DAMAGED as error:
            return self._believed(key, record, (*flaws, Flaw("unreadable", "entity", "", str(error), mendable=False)))
        return self._told(key, entity, carrier, refs, record, flaws, sources)

    def _told(
        self,
        key: bytes,
        entity: Any,
        carrier: Carrier,
        refs: Refs,
        record: Cell | None,
        flaws: tuple[Flaw, ...],
        sources: Mapping[bytes, Source] | None,
    ) -> Testimony:
        """What a living entity tells, emitted anew."""
        used: Mapping[str, Any] = {}
        if carrier.has_hidden:
            held = self._used(carrier, record)
            if held is None:
                if sources is None:
                    return Testimony(None, {}, {}, _NOTHING, wants=tuple(each[0] for each in refs.values() if each))
                held = _taken(carrier, refs, sources)
            used = held
        try:
            emission = carrier.emission(entity, used, key, refs)
            told = emitted.encode(emission.record)
        except DAMAGED as error:
            return self._believed(key, record, (*flaws, Flaw("different", "entity", "", str(error), mendable=False)))
        doubt: Doubt | None = None
        if record is None or record.value != told:
            more, doubt = self._compared(carrier, record, emission.record)
            flaws += more
            if self._ground.lenient:
                self._keep_pointers(record, emission.record)
        operations = emitted.created(key, emission)
        narrowed = self._narrow(operations) if self._narrowed else operations
        return Testimony(entity, refs, used, narrowed, flaws, doubt=doubt)

    def _used(self, carrier: Carrier, record: Cell | None) -> Mapping[str, Any] | None:
        """The hidden copies that a record holds; None when they have to be asked for again."""
        try:
            told = emitted.decode(None if record is None else record.value)
            if USED not in told and not self._ground.lenient:
                return None
            return carrier.used_in(told)
        except DAMAGED:
            return None

    def _compared(
        self, carrier: Carrier, record: Cell | None, expected: Record
    ) -> tuple[tuple[Flaw, ...], Doubt | None]:
        """What is wrong with a record whose bytes are not the expected ones, and what may be."""
        if record is None:
            missing = Flaw("missing", "record", _said(expected), "", mendable=True)
            return () if self._ground.lenient else (missing,), None
        try:
            found = emitted.decode(record.value)
        except Corrupt as error:
            return (Flaw("unreadable", "record", _said(expected), str(error), mendable=True),), None
        wanted = emitted.decode(emitted.encode(expected))
        if self._ground.lenient:
            found, wanted = self._judged(found), self._judged(wanted)
        difference = compare_records(carrier, found, wanted, self._ground.recorded_otherwise)
        if difference.tokens:
            return (_record_flaw(difference.tokens, found, wanted),), None
        if difference.unsure:
            tokens = tuple(sorted({ROWS + place[:4] for place in difference.unsure}))
            return (), Doubt(_record_flaw(tokens, found, wanted), difference.unsure)
        return (), None

    def _judged(self, record: Record) -> Record:
        return {token: each for token, each in record.items() if token[1:] in self._ground.prefixes}

    def _keep_pointers(self, record: Cell | None, into: Record) -> None:
        """While a backfill is under way, an entity points where its record says that it does."""
        try:
            told = emitted.decode(None if record is None else record.value)
        except Corrupt:
            return
        for token in (REFERENCES, HELD):
            into[token] = told.get(token, [])

    def _gone(self, row: Row, record: Cell | None, flaws: tuple[Flaw, ...]) -> Testimony:
        """A deleted entity: it tells nothing any more."""
        if not row:
            flaw = Flaw("unreadable", "entity", "", "the row cannot be read", mendable=False)
            return Testimony(None, {}, {}, _NOTHING, (flaw,), trusted=False)
        if record is None or record.value != emitted.encode(self._silent):
            expected = dict(self._silent)
            try:
                found = emitted.decode(None if record is None else record.value)
                if isinstance(found.get(LAST), dict):
                    expected[LAST] = found[LAST]  # nobody can tell anew what a deleted entity told last
            except Corrupt:
                pass
            more, _none = self._compared(self._ground.catalog.any_carrier(self._kind.prefix), record, expected)
            flaws += more
        return Testimony(None, {}, {}, _NOTHING, flaws)

    def _believed(self, key: bytes, record: Cell | None, flaws: tuple[Flaw, ...]) -> Testimony:
        """The entity cannot be read; its record says what it told."""
        operations, digests = Operations({}, [], [], {}, {}), dict[bytes, bytes]()
        try:
            if record is None:
                raise Corrupt("there is no record")
            for token, each in emitted.decode(record.value).items():
                take = _TAKES.get(token[:1])
                if take is not None:
                    take(operations, digests, key, token[1:], each)
        except DAMAGED as error:
            flaw = Flaw("unreadable", "record", "", str(error), mendable=False)
            return Testimony(None, {}, {}, _NOTHING, (*flaws, flaw), trusted=False)
        narrowed = self._narrow(operations) if self._narrowed else operations
        return Testimony(
            None, {}, {}, narrowed, flaws, {place: each for place, each in digests.items() if place in narrowed.puts}
        )

    def _narrow(self, operations: Operations) -> Operations:
        """What is left of operations when only some of what is there is judged."""
        judged, pointers = self._ground.prefixes, self._pointers
        pointing = (b"\x00\x00", b"\xff\xff")
        return Operations(
            {
                place: shown
                for place, shown in operations.puts.items()
                if place[:4] in judged or (pointers and place[:2] in pointing)
            },
            [],
            [each for each in operations.deltas if each[0][:4] in judged],
            {},
            {place: owner for place, owner in operations.claimed.items() if place[:4] in judged},
        )


def _version_flaw(version: Cell | None, body: Cell | None) -> Flaw:
    if version is None:
        return Flaw("missing", "version", "" if body is None else str(body.stamp), "", mendable=True)
    return Flaw("different", "version", str(version.stamp), version.value.hex(), mendable=True)


def _of_another(kind: Kind, entity: Any) -> Flaw:
    return Flaw("different", "entity", "an entity with the key of its row", repr(kind.parts(entity)), mendable=False)


def _taken(carrier: Carrier, refs: Refs, sources: Mapping[bytes, Source]) -> dict[str, Any]:
    """Hidden copies as the sources have them now."""
    used: dict[str, Any] = {}
    for each in carrier.references:
        keys = refs[each.name]
        if each.hidden and keys:
            source = sources[keys[0]]
            gone = source.entity is None and source.existed and each.on_delete != "clear"
            used.update(each.left_behind(source, {}) if gone else each.hidden_values(source))
        else:
            used.update({name: None for name, _get, _type in each.hidden})
    return used


def _record_flaw(tokens: tuple[bytes, ...], found: Record, wanted: Record) -> Flaw:
    return Flaw(
        "different",
        "record",
        _said({token: wanted[token] for token in tokens if token in wanted}),
        _said({token: found[token] for token in tokens if token in found}),
        mendable=True,
    )


def _said(record: Record) -> str:
    """Some of a record as text."""
    text = str({token.decode("latin-1", "replace")[:1] + token[1:].hex(): each for token, each in record.items()})
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


_SHOWN: Final = 300


def _take_rows(into: Operations, digests: dict[bytes, bytes], _key: bytes, prefix: bytes, told: Any) -> None:
    for suffix, digest in told:
        into.puts[prefix + suffix] = digest
        digests[prefix + suffix] = digest


def _take_sums(into: Operations, _digests: dict[bytes, bytes], _key: bytes, prefix: bytes, told: Any) -> None:
    into.deltas.extend([(prefix + suffix, unwire(amounts), 1) for suffix, amounts in told])


def _take_claims(into: Operations, _digests: dict[bytes, bytes], key: bytes, prefix: bytes, told: Any) -> None:
    into.claimed.update({prefix + suffix: key for suffix in told})


def _take_references(into: Operations, _digests: dict[bytes, bytes], key: bytes, _prefix: bytes, told: Any) -> None:
    into.puts.update({back_reference(source, key): _PRESENT for source in told})


def _take_holds(into: Operations, _digests: dict[bytes, bytes], key: bytes, _prefix: bytes, told: Any) -> None:
    into.puts.update({hold(source, key): _PRESENT for source in told})


_TAKES: Final[dict[bytes, Callable[[Operations, dict[bytes, bytes], bytes, bytes, Any], None]]] = {
    ROWS: _take_rows,
    SUMS: _take_sums,
    UNIQUE: _take_claims,
    REFERENCES: _take_references,
    HELD: _take_holds,
}
