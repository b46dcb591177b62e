"""Expected rows: what one root row says must be in other rows, and what is wrong with the row itself.

The entity is emitted again and compared with its record. Where the body cannot be read, the record is used instead, so
that one bad root row does not make all of its derived rows look wrong. See docs/formats/rows.md.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from oneread.derivations import emitted_record
from oneread.derivations.copies import NO_SOURCE, Refs, Source
from oneread.derivations.emitted_record import (
    HELD,
    HIDDEN,
    LAST_VALUES,
    REFERENCES,
    ROWS,
    Emission,
    Record,
    form_of,
    leave_out_expired,
    row_suffixes,
    short_hash,
    view_of,
)
from oneread.derivations.entity_state import EmissionOptions
from oneread.derivations.entity_type import EntityType
from oneread.errors import Corrupt, SchemaMismatch
from oneread.models.registry import EntityKind
from oneread.plans.plan import Plan
from oneread.plans.progress import FaultKind, ValueDifference
from oneread.store.keys import entity_part, kind_part, pointer_part, view_part
from oneread.store.requests import Found
from oneread.store.rows import Cell, Row
from oneread.transactions.copy_cells import COPY_CELL
from oneread.transactions.derived_writes import NO_DERIVED_WRITES, DerivedWrites, Group
from oneread.transactions.intents import HISTORY, INTENTS, OF_COMMITS, OWN, USED, USED_BY_CELLS
from oneread.transactions.outbox import BACK_REFERENCES, HOLDS
from oneread.transactions.root import BODY, EMITTED, VERSION, parse_root
from oneread.transactions.root_rows import GroupNumbers
from oneread.verify.describe import differences_of, flat_values, record_differences, spell_entity, spell_record
from oneread.verify.keyspace import DAMAGED, StoreKeyspaces, shown_of
from oneread.verify.record_comparison import differing_tokens
from oneread.verify.scanner import Scanner

_VERSION_BYTES: Final = 8


class RootFault(NamedTuple):
    """What is wrong with a root row itself."""

    kind: FaultKind
    what: str
    """`entity`, `record`, `version`, `commit` or `total`."""
    expected: str
    found: str
    mendable: bool
    differences: tuple[ValueDifference, ...] = ()


class StaleField(NamedTuple):
    """A field that shows another number than its group has."""

    field: str
    group: Group
    right: Any
    held: Any


class StaleTotal(NamedTuple):
    """The fields of an entity that are a fault, unless the groups that they show are wrong themselves."""

    fields: tuple[StaleField, ...]

    @property
    def fault(self) -> RootFault:
        right = {each.field: each.right for each in self.fields}
        held = {each.field: each.held for each in self.fields}
        differences = differences_of(flat_values(right), flat_values(held))
        return RootFault("different", "total", _totals(right), _totals(held), mendable=True, differences=differences)

    @property
    def groups(self) -> tuple[Group, ...]:
        return tuple(dict.fromkeys(each.group for each in self.fields))

    def without(self, groups: Container[bytes]) -> StaleTotal | None:
        """Without the fields that show any of these groups; None where none is left."""
        fields = tuple(each for each in self.fields if each.group.key not in groups)
        return StaleTotal(fields) if fields else None


class Known(NamedTuple):
    """What else was read to know all that one root row says; None for what was not."""

    sources: Mapping[bytes, Source] | None = None
    numbers: Mapping[bytes, GroupNumbers] | None = None


NOTHING_ELSE: Final = Known()
_NO_NUMBERS: Final = Known(numbers={})


class ExpectedRows(msgspec.Struct, frozen=True, gc=False):
    """What one root row says. `is_complete` is False while something else has to be read to know all of it."""

    entity: Any
    """None when it is deleted or cannot be read."""
    refs: Refs
    hidden: Mapping[str, Any]
    """Its hidden copies by name."""
    writes: DerivedWrites
    """The rows, contributions and claims that must be there because of it."""
    faults: tuple[RootFault, ...] = ()
    digests: Mapping[bytes, bytes] = {}
    """Index rows of which only a digest is known, because the body cannot be read."""
    is_known: bool = True
    """False when neither body nor record can be read: any row may be right."""
    missing_sources: tuple[bytes, ...] = ()
    """Sources whose values are needed first; then nothing else of this is filled in."""
    missing_groups: tuple[Group, ...] = ()
    """Groups that it shows, whose numbers are needed first, likewise."""
    stale_total: StaleTotal | None = None

    @property
    def is_lost(self) -> bool:
        """Whether the entity itself cannot be read or is another one, which no repair mends."""
        return any(fault.what == "entity" and not fault.mendable for fault in self.faults)

    @property
    def is_complete(self) -> bool:
        return not (self.missing_sources or self.missing_groups or self.digests)


NOTHING: Final = ExpectedRows(None, {}, {}, NO_DERIVED_WRITES)
"""What an entity has that is not there."""


class StoredEntity(msgspec.Struct, frozen=True, gc=False):
    """An entity that is not deleted, with its hidden copies by name."""

    type: EntityType
    entity: Any
    refs: Refs
    hidden: Mapping[str, Any]


class RowExaminer:
    """Computes the expected rows of one kind's root rows."""

    def __init__(self, keyspaces: StoreKeyspaces, kind: EntityKind) -> None:
        self._keyspaces = keyspaces
        self._kind = kind
        self._layouts = keyspaces.catalog.layouts[kind.prefix]
        self._types: Mapping[type, EntityType] = keyspaces.catalog.entity_types
        self._any_type = keyspaces.catalog.any_type_of(kind.prefix)
        self._deleted_record = emitted_record.encode_record(self._any_type.empty_record())
        self._narrowed = not keyspaces.is_complete
        self._pointing = (BACK_REFERENCES, HOLDS) if keyspaces.covers_kind(kind) else ()

    def examine(self, key: bytes, row: Row, known: Known = NOTHING_ELSE) -> ExpectedRows:
        """What a root row says. `known` is what an earlier result lacked."""
        if not row:
            return _unknown(RootFault("unreadable", "entity", "", "the row cannot be read", mendable=False))
        version, body, record = row.get(VERSION), row.get(BODY), row.get(EMITTED)
        expected = self._from_tombstone(record) if body is None else self._from_body(key, body.value, record, known)
        unreadable = [column for column in row if column in OF_COMMITS or column.startswith(COPY_CELL)]
        if unreadable:
            expected = replace(expected, faults=(*expected.faults, commit_fault(unreadable)))
        if version is None or not has_own_stamp(version) or _is_stamped_later(body, version, expected.faults):
            expected = replace(expected, faults=(version_fault(version, body), *expected.faults))
        return expected

    def _from_body(self, key: bytes, body: bytes, record: Cell | None, known: Known) -> ExpectedRows:
        kind = self._kind
        try:
            entity = self._layouts.whole(body)
            if kind.key(kind.parts(entity)) != key:
                return self._from_record(key, record, self._other_key(kind.key(kind.parts(entity))))
            entity_type = self._types[type(entity)]
            refs = entity_type.refs(entity)
            hidden = self._hidden_values(entity_type, record)
            missing = tuple(each[0] for each in refs.values() if each) if hidden is None else ()
            has_totals = entity_type.rollups and not self._keyspaces.backfill_running
            groups = tuple(entity_type.groups(key, None)) if has_totals else ()
            if (missing and known.sources is None) or (groups and known.numbers is None):
                return ExpectedRows(None, {}, {}, NO_DERIVED_WRITES, missing_sources=missing, missing_groups=groups)
            if hidden is None:
                hidden = _hidden_from_sources(entity_type, refs, known.sources or {})
        except DAMAGED as error:
            # The store's schema is this program's, so that no newer program has written it.
            reason = "it has an unknown layout" if isinstance(error, SchemaMismatch) else str(error)
            return self._from_record(key, record, RootFault("unreadable", "entity", "", reason, mendable=False))
        try:
            expected = self._from_entity(key, StoredEntity(entity_type, entity, refs, hidden), record)
            return self._check_totals(key, expected, record, known) if groups else expected
        except DAMAGED as error:
            return self._from_record(key, record, RootFault("different", "entity", "", str(error), mendable=False))

    def _from_entity(self, key: bytes, given: StoredEntity, record: Cell | None) -> ExpectedRows:
        entity_type = given.type
        emission = emit_again(self._keyspaces, key, given, record)
        faults: tuple[RootFault, ...] = ()
        if record is None or record.value != emitted_record.encode_record(emission.record):
            faults = self._compare_record(entity_type, record, emission.record)
            if self._keyspaces.backfill_running:
                _keep_pointers(record, emission.record)
        writes = self._narrow(emitted_record.first_writes(key, emission))
        return ExpectedRows(given.entity, given.refs, given.hidden, writes, faults)

    def _check_totals(self, key: bytes, expected: ExpectedRows, record: Cell | None, known: Known) -> ExpectedRows:
        """Compares the totals of an entity with its groups, and both with the record.

        Where the record says what the groups' numbers make and the document does not, the document is damaged. Else
        either may be wrong: the document counts, and the total is a fault unless its group turns out to be one.
        """
        entity_type = self._types[type(expected.entity)]
        try:
            entity = entity_type.with_totals(key, expected.entity, expected.entity, known.numbers or {})
        except DAMAGED:  # of a group, which is a fault of its own
            return expected
        fields = [each for each in entity_type.rollups if _differ(each.field, expected.entity, entity)]
        if not fields:
            return expected
        suffix = entity_part(key)
        both = [(each, getattr(entity, each.field), getattr(expected.entity, each.field)) for each in fields]
        stale = StaleTotal(tuple([StaleField(each.field, each.shown.group(suffix), *two) for each, *two in both]))
        if expected.faults:
            other = self._from_entity(key, StoredEntity(entity_type, entity, expected.refs, expected.hidden), record)
            if not other.faults:
                return replace(other, faults=(stale.fault,))
        return replace(expected, stale_total=stale)

    def _hidden_values(self, entity_type: EntityType, record: Cell | None) -> Mapping[str, Any] | None:
        """The hidden copies that a record holds; None when the sources must be read for them."""
        if not entity_type.hidden:
            return {}
        try:
            recorded = _decode(record)
            if HIDDEN not in recorded and not self._keyspaces.backfill_running:
                return None
            return entity_type.hidden.used_in(recorded)
        except DAMAGED:
            return None

    def _compare_record(self, entity_type: EntityType, record: Cell | None, expected: Record) -> tuple[RootFault, ...]:
        """The faults of a record whose bytes are not the expected ones."""
        if record is None:
            missing = RootFault("missing", "record", spell_record(self._keyspaces, expected), "", mendable=True)
            return () if self._keyspaces.backfill_running else (missing,)
        try:
            found = emitted_record.decode_record(record.value)
        except Corrupt as error:
            text = spell_record(self._keyspaces, expected)
            return (RootFault("unreadable", "record", text, str(error), mendable=True),)
        wanted = emitted_record.decode_record(emitted_record.encode_record(expected))
        if self._keyspaces.backfill_running:
            found, wanted = self._in_scope_of(found), self._in_scope_of(wanted)
        tokens = differing_tokens(entity_type, found, wanted)
        return (self._record_fault(tokens, found, wanted),) if tokens else ()

    def _record_fault(self, tokens: tuple[int, ...], found: Record, wanted: Record) -> RootFault:
        differences = record_differences(self._keyspaces, tokens, wanted, found)
        named = [{token: each[token] for token in tokens if token in each} for each in (wanted, found)]
        expected, recorded = (spell_record(self._keyspaces, each) for each in named)
        return RootFault("different", "record", expected, recorded, mendable=True, differences=differences)

    def _other_key(self, key: bytes) -> RootFault:
        expected = "an entity with the key of its row"
        return RootFault("different", "entity", expected, spell_entity(self._keyspaces, key), mendable=False)

    def _in_scope_of(self, record: Record) -> Record:
        return {token: each for token, each in record.items() if view_of(token) in self._keyspaces.prefixes}

    def _from_tombstone(self, record: Cell | None) -> ExpectedRows:
        """A deleted entity has no derived rows."""
        faults: tuple[RootFault, ...] = ()
        if record is None or record.value != self._deleted_record:
            faults = self._compare_record(self._any_type, record, deleted_record(self._any_type, record))
        return ExpectedRows(None, {}, {}, NO_DERIVED_WRITES, faults)

    def _from_record(self, key: bytes, record: Cell | None, fault: RootFault) -> ExpectedRows:
        """An entity that cannot be read: what its record says it contributed, which is the diff from nothing."""
        try:
            if record is None:
                raise Corrupt("the row has no emitted record")
            recorded, own = emitted_record.decode_record(record.value), entity_part(key)
            digests = {
                view_of(token) + suffix + own: digest if isinstance(digest, bytes) else b""  # SAID_BY_KEY
                for token, rows in recorded.items()
                if form_of(token) == ROWS
                for suffix, digest in row_suffixes(rows)
            }
            writes = self._narrow(emitted_record.record_diff(key, {}, recorded, digests))
        except DAMAGED as error:
            return _unknown(fault, RootFault("unreadable", "record", "", str(error), mendable=False))
        known = {place: digest for place, digest in digests.items() if place in writes.puts}
        return ExpectedRows(None, {}, {}, writes, (fault,), known)

    def _narrow(self, writes: DerivedWrites) -> DerivedWrites:
        """The writes to rows that are compared."""
        if not self._narrowed:
            return writes
        compared, pointing = self._keyspaces.prefixes, self._pointing
        return DerivedWrites(
            {
                place: shown
                for place, shown in writes.puts.items()
                if view_part(place) in compared or pointer_part(place) in pointing
            },
            [],
            [each for each in writes.deltas if view_part(each[0]) in compared],
            {},
            {place: owner for place, owner in writes.claimed.items() if view_part(place) in compared},
        )


class RowReader:
    """Computes the expected rows of root rows of any kind, and reads what the row alone does not say.

    Something else is read for entities that show totals, and for damaged rows.
    """

    def __init__(self, keyspaces: StoreKeyspaces, scanner: Scanner) -> None:
        self._keyspaces = keyspaces
        self._scanner = scanner
        self.kinds = keyspaces.kinds_by_prefix
        """Those whose rows it computes."""
        self._examiners: dict[bytes, RowExaminer] = {}

    def _examiner(self, key: bytes) -> RowExaminer:
        """What examines rows of a key's kind; made when one is met first, since most readers meet few kinds."""
        prefix = kind_part(key)
        found = self._examiners.get(prefix)
        if found is None:
            found = self._examiners[prefix] = RowExaminer(self._keyspaces, self.kinds[prefix])
        return found

    def expected_rows(self, key: bytes, row: Row) -> Plan[ExpectedRows]:
        (expected,) = yield from self.expected_of([(key, row)])
        return expected

    def expected_of(self, found: Sequence[Found]) -> Plan[list[ExpectedRows]]:
        """What several root rows say; the groups that their entities show are read together."""
        several = [self._examiner(key).examine(key, row) for key, row in found]
        groups = [group for each in several for group in each.missing_groups]
        numbers = (yield from self._scanner.read_groups(groups)) if groups else {}
        for place, (key, row) in enumerate(found):
            if not several[place].is_complete:
                several[place] = yield from self._complete(key, row, several[place], numbers)
        return several

    def expected_writes(self, key: bytes, row: Row) -> Plan[ExpectedRows]:
        """As `expected_rows`, without totals: they matter for what must be written only where the row is wrong."""
        expected = self._examiner(key).examine(key, row, _NO_NUMBERS)
        if expected.is_complete and not expected.faults:
            return expected
        return (yield from self.expected_rows(key, row))

    def _complete(
        self, key: bytes, row: Row, expected: ExpectedRows, numbers: Mapping[bytes, GroupNumbers]
    ) -> Plan[ExpectedRows]:
        """Reads what is lacking besides numbers: values of sources, or rows known by digest."""
        if expected.missing_sources or expected.missing_groups:
            sources, _unreadable = yield from load_sources(self._keyspaces, self._scanner, expected.missing_sources)
            expected = self._examiner(key).examine(key, row, Known(sources, numbers))
        if expected.digests:
            places = sorted(expected.digests)
            rows = yield from self._scanner.read("views", places)
            for place, found in zip(places, rows, strict=True):
                shown = None if found is None else shown_of(found)
                digest = expected.digests[place]
                if shown is not None and digest in (b"", short_hash(shown)):
                    expected.writes.puts[place] = shown
        return expected

    def is_owned_by(self, owner: bytes, key: bytes) -> Plan[bool | None]:
        """Whether an entity, read by its key, has a derived row; None when the entity cannot be read."""
        if kind_part(owner) not in self.kinds:
            return False
        (row,) = yield from self._scanner.read("roots", [owner])
        if row is None:
            return False
        expected = yield from self.expected_writes(owner, row)
        return (key in expected.writes.claimed or key in expected.writes.puts) if expected.is_known else None


def _differ(field: str, one: Any, other: Any) -> bool:
    return bool(getattr(one, field) != getattr(other, field))


def _totals(values: Mapping[str, Any]) -> str:
    """Totals for people: `answers 3, best 5`."""
    return ", ".join(f"{field} {value}" for field, value in values.items())


def load_sources(
    keyspaces: StoreKeyspaces, scanner: Scanner, keys: Sequence[bytes]
) -> Plan[tuple[dict[bytes, Source], set[bytes]]]:
    """Sources by key, and the keys of those that cannot be read, which count as absent."""
    found: dict[bytes, Source] = {}
    unreadable: set[bytes] = set()
    rows = yield from scanner.read_counted("roots", list(keys))
    for key, row in zip(keys, rows, strict=True):
        try:
            found[key] = keyspaces.catalog.source(key, parse_root(row))
        except DAMAGED:
            found[key] = NO_SOURCE
            unreadable.add(key)
    return found, unreadable


def emit_again(keyspaces: StoreKeyspaces, key: bytes, given: StoredEntity, record: Cell | None) -> Emission:
    """What an entity emits, but for index rows that have expired and that its record does not list any more."""
    left_out = keyspaces.catalog.left_out(key)
    emission = given.type.emission(given.entity, given.hidden, key, given.refs, EmissionOptions(left_out))
    if given.type.has_expiring_rows:
        living = given.type.emission(
            given.entity, given.hidden, key, given.refs, EmissionOptions(left_out, keyspaces.expired_until)
        )
        leave_out_expired(emission, living, recorded_in(record))
    return emission


def has_own_stamp(version: Cell) -> bool:
    """Whether a version cell says the version that it is stamped with."""
    return version.value == version.stamp.to_bytes(_VERSION_BYTES, "big")


def recorded_in(record: Cell | None) -> Record:
    """The record of a root row; an empty one where it cannot be read."""
    try:
        return _decode(record)
    except Corrupt:
        return {}


def deleted_record(entity_type: EntityType, record: Cell | None) -> Record:
    """The record that a deleted entity should have; its last values cannot be computed again, so they are kept."""
    expected, recorded = entity_type.empty_record(), recorded_in(record)
    if isinstance(recorded.get(LAST_VALUES), dict):
        expected[LAST_VALUES] = recorded[LAST_VALUES]
    return expected


def _decode(record: Cell | None) -> Record:
    return emitted_record.decode_record(None if record is None else record.value)


def _keep_pointers(record: Cell | None, into: Record) -> None:
    """While a backfill is running, the back-references of an entity are those that its record lists."""
    try:
        recorded = _decode(record)
    except Corrupt:
        return
    for token in (REFERENCES, HELD):
        into[token] = recorded.get(token, [])


def _unknown(*faults: RootFault) -> ExpectedRows:
    return ExpectedRows(None, {}, {}, NO_DERIVED_WRITES, faults, is_known=False)


def _is_stamped_later(body: Cell | None, version: Cell, faults: Sequence[RootFault]) -> bool:
    """Whether an own version is later than its row's; the stamp of what cannot be read says nothing."""
    return body is not None and body.stamp > version.stamp and all(each.kind != "unreadable" for each in faults)


def version_fault(version: Cell | None, body: Cell | None) -> RootFault:
    if version is None:
        return RootFault("missing", "version", "" if body is None else str(body.stamp), "", mendable=True)
    differing = ValueDifference("version", str(version.stamp), _version_text(version.value))
    if has_own_stamp(version):
        assert body is not None, "the version of a row without a body is wrong only by its own stamp"
        differing = ValueDifference("version", f"at least {body.stamp}", str(version.stamp))
    expected, found = differing.expected, differing.found
    return RootFault("different", "version", expected, found, mendable=True, differences=(differing,))


def commit_fault(columns: Sequence[bytes]) -> RootFault:
    """The fault of cells of commits, or of copied values beside a document, that cannot be read."""
    names = ", ".join(
        dict.fromkeys("copied values" if each.startswith(COPY_CELL) else _CELLS[each] for each in columns)
    )
    return RootFault("unreadable", "commit", "", names, mendable=True)


_CELLS: Final[Mapping[bytes, str]] = {
    INTENTS: "what was still to be written",
    HISTORY: "its last commits",
    USED: "the versions of its sources",
    USED_BY_CELLS: "the versions of its sources",
    OWN: "its own version",
}


def _version_text(data: bytes) -> str:
    return str(int.from_bytes(data)) if len(data) == _VERSION_BYTES else f"{len(data)} bytes"


def _hidden_from_sources(entity_type: EntityType, refs: Refs, sources: Mapping[bytes, Source]) -> dict[str, Any]:
    hidden: dict[str, Any] = {}
    for each in entity_type.references:
        keys = refs[each.name]
        if each.hidden and keys:
            hidden.update(each.hidden_values(each.narrowed(sources[keys[0]]), {}))
        else:
            hidden.update({name: None for name, _get, _type in each.hidden})
    return hidden
