"""The inspection of one kind in one moment: its entities, everything derived from them, and what they copy.

Entities are emitted anew and their rows added to digests, the rows that are there are taken away; where that comes to
nothing, no row is looked at twice. See docs/decisions/0013-verify-by-digests.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import partial

from oneread.derivations.copies import NO_SOURCE, Source
from oneread.derivations.derivation import Keyspace
from oneread.derivations.emitted_record import short_hash
from oneread.errors import Corrupt
from oneread.models.registry import EntityKind
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.plans.progress import NAMED_AHEAD, Ahead
from oneread.store.keys import kind_part, pointer_part
from oneread.store.requests import Found
from oneread.store.rows import Row, RowRange
from oneread.transactions.deltas import MAGNITUDE, Number, decode_amounts
from oneread.transactions.outbox import BACK_REFERENCES, HOLDS
from oneread.transactions.root import AHEAD_MILLISECONDS, VERSION, parse_root
from oneread.transactions.unit_of_work import VALUE
from oneread.verify.copy_check import CopyCheck
from oneread.verify.digests import Digests
from oneread.verify.expected import DAMAGED, ExpectedRows, RowExaminer
from oneread.verify.keyspace import StoreKeyspaces
from oneread.verify.report import FaultReporter, shown_of
from oneread.verify.scanner import Scanner


class RowReader:
    """Hears commit rows, and reads what a testimony needs besides its row: rare, for damaged rows only."""

    def __init__(self, keyspaces: StoreKeyspaces, scanner: Scanner) -> None:
        self._keyspaces = keyspaces
        self._scanner = scanner
        self._examiners = {kind.prefix: RowExaminer(keyspaces, kind) for kind in keyspaces.kinds}

    def examiner(self, kind: EntityKind) -> RowExaminer:
        """Whoever hears the rows of a kind."""
        return self._examiners[kind.prefix]

    def expected_rows(self, key: bytes, row: Row) -> Plan[ExpectedRows]:
        """The whole testimony of a commit row of any kind."""
        said = self._examiners[kind_part(key)].examine(key, row)
        return said if said.is_whole else (yield from self.completed(key, row, said))

    def completed(self, key: bytes, row: Row, said: ExpectedRows) -> Plan[ExpectedRows]:
        """A testimony with what it lacked: values of sources, documents, or whether a record is right."""
        if said.wants:
            sources = yield from self._sources(said.wants)
            said = self._examiners[kind_part(key)].examine(key, row, sources)
        if said.digests:
            places = sorted(said.digests)
            rows = yield from self._scanner.read("views", places)
            for place, found in zip(places, rows, strict=True):
                shown = None if found is None else shown_of(found)
                digest = said.digests[place]
                if shown is not None and digest in (b"", short_hash(shown)):
                    said.operations.puts[place] = self._keyspaces.as_made_now("views", place, shown) or shown
        if said.doubt is not None and not (yield from self._has_digests(said.doubt.digests)):
            said = said._replace(flaws=(*said.flaws, said.doubt.flaw))
        return said

    def _has_digests(self, digests: Mapping[bytes, bytes]) -> Plan[bool]:
        """Whether each of these index rows is there and has this digest."""
        rows = yield from self._scanner.read("views", list(digests))
        shown = [None if row is None else shown_of(row) for row in rows]
        return all(
            found is not None and short_hash(found) == digest
            for found, digest in zip(shown, digests.values(), strict=True)
        )

    def is_owned_by(self, owner: bytes, key: bytes) -> Plan[bool | None]:
        """Whether an entity, read by its key, says that a derived row is its own; None when it cannot be read."""
        if kind_part(owner) not in self._examiners:
            return False
        (row,) = yield from self._scanner.read("roots", [owner])
        if row is None:
            return False
        said = yield from self.expected_rows(owner, row)
        return (key in said.operations.claimed or key in said.operations.puts) if said.trusted else None

    def _sources(self, keys: tuple[bytes, ...]) -> Plan[Mapping[bytes, Source]]:
        rows = yield from self._scanner.read("roots", list(keys))
        found: dict[bytes, Source] = {}
        for key, row in zip(keys, rows, strict=True):
            try:
                found[key] = self._keyspaces.catalog.source(key, parse_root(row))
            except DAMAGED:
                found[key] = NO_SOURCE
        return found


class Pointers:
    """Tells whose back-references and holds are this kind's, among those under one kind of sources.

    Arguments:
        under: `BACK_REFERENCES` or `HOLDS`.
        source: prefix of the sources' kind.
        kinds: the kinds that leave rows there. What belongs to none of them is the first one's to report.
    """

    def __init__(
        self, keyspaces: StoreKeyspaces, kind: EntityKind, under: bytes, source: bytes, kinds: tuple[EntityKind, ...]
    ) -> None:
        self._keyspaces = keyspaces
        self._kind = kind
        self._others = {each.prefix for each in kinds} - {kind.prefix}
        self._first = kinds[0] is kind
        self.within = RowRange.under(under + source)
        self._head: bytes | None = None

    def mine(self, found: list[Found]) -> list[Found]:
        """The rows of this kind's entities, and those of nobody's when they are ours to report."""
        if not self._others:
            return found
        return [each for each in found if self._is_mine(each[0])]

    def _is_mine(self, key: bytes) -> bool:
        head = self._head
        if head is None or not key.startswith(head):
            try:
                head = self._head = pointer_part(key) + self._keyspaces.source_of(key)
            except (Corrupt, ValueError, IndexError):
                return self._first
        entity_type = kind_part(key[len(head) :])
        return entity_type == self._kind.prefix or (self._first and entity_type not in self._others)


class DigestPass:
    """Looks at everything of one kind."""

    def __init__(self, keyspaces: StoreKeyspaces, kind: EntityKind, scanner: Scanner, reporter: FaultReporter) -> None:
        self.keyspaces = keyspaces
        self.kind = kind
        self.scanner = scanner
        self.reporter = reporter
        self.reader = RowReader(keyspaces, scanner)
        self.places = keyspaces.of(kind)
        self.pointers = self._pointers() if keyspaces.covers_kind(kind) else ()
        self.digests = Digests()
        self.entities = 0
        self.untrusted = 0
        self.ahead: list[Ahead] = []
        self.ahead_count = 0
        self._ahead_of = 0
        self._following = CopyCheck(keyspaces, kind, scanner, reporter) if keyspaces.covers_kind(kind) else None

    def _pointers(self) -> tuple[Pointers, ...]:
        return tuple(
            Pointers(self.keyspaces, self.kind, under, source, kinds)
            for under, found in ((BACK_REFERENCES, self.keyspaces.tracked), (HOLDS, self.keyspaces.held))
            for source, kinds in found.items()
            if self.kind in kinds
        )

    def is_scanned(self, key: bytes) -> bool:
        """Whether a row of `views` lies where this inspection scans; while views are built, not every one does."""
        return self.keyspaces.keyspace_of("views", key) is not None or any(
            key.startswith(each.within.start) for each in self.pointers
        )

    def run(self) -> Plan[None]:
        """Adds up what is expected and what is there; afterwards `digests` say where they differ."""
        name = self.kind.cls.__name__
        self._ahead_of = (yield from Now()) + AHEAD_MILLISECONDS
        self.scanner.phase(f"{name}: entities")
        yield from self.scanner.scan_all("roots", RowRange.under(self.kind.prefix), self._expect)
        for place in self.places:
            self.scanner.phase(f"{name}: {place.name}")
            yield from self.scanner.scan_all(
                place.table,
                RowRange.under(place.prefix),
                partial(self._total if place.width else self._find_of, place),
            )
        if self._following is not None:
            yield from self._following.confirm_absent()
        self.scanner.phase(f"{name}: back-references and holds")
        for each in self.pointers:
            yield from self.scanner.scan_all("views", each.within, partial(self._find_mine, each))

    def _expect(self, found: list[Found]) -> Plan[None]:
        """A batch of entities."""
        hear, digests, heard = self.reader.examiner(self.kind).examine, self.digests, []
        for key, row in found:
            said = hear(key, row)
            if not said.is_whole:
                said = yield from self.reader.completed(key, row, said)
            for flaw in said.flaws:
                self.reporter.entity(key, flaw)
            if VERSION in row and row[VERSION].stamp > self._ahead_of and not said.flaws:
                self._note_ahead(key, row[VERSION].stamp)
            self.untrusted += not said.trusted
            operations = said.operations
            digests.expect(operations.puts.items())
            if operations.claimed:
                digests.expect(operations.claimed.items())
            if operations.deltas:
                digests.contribute(operations.deltas)
            heard.append((key, said))
        self.entities += len(found)
        if self._following is not None:
            yield from self._following.check(heard)

    def _note_ahead(self, key: bytes, version: int) -> None:
        """Notes an entity that was written under a clock that was ahead; that is no fault."""
        self.ahead_count += 1
        if len(self.ahead) < NAMED_AHEAD:
            ahead = version - self._ahead_of + AHEAD_MILLISECONDS
            self.ahead.append(Ahead(self.keyspaces.name_of(key), version, ahead))

    def _find(self, found: list[Found]) -> None:
        """A batch of rows, each of which shows something."""
        self.digests.find([(key, row[VALUE].value if VALUE in row and len(row) == 1 else None) for key, row in found])

    def _find_of(self, place: Keyspace, found: list[Found]) -> None:
        if place.in_order is None:
            self._find(found)
            return
        made = self.keyspaces.as_made_now
        self.digests.find([(key, made(place.table, key, shown_of(row))) for key, row in found])

    def _find_mine(self, pointers: Pointers, found: list[Found]) -> None:
        self._find(pointers.mine(found))

    def _total(self, place: Keyspace, found: list[Found]) -> None:
        """A batch of groups."""
        for key, row in found:
            amounts = amounts_of(row)
            if amounts is None or len(amounts) != place.width or not amounts[0]:
                self.digests.mark_unreadable(key)
            else:
                self.digests.contribute([(key, amounts, -1)])


def amounts_of(row: Row) -> list[Number] | None:
    """The numbers of a group's row; None when they cannot be read, or are no numbers that can be added."""
    shown = shown_of(row)
    try:
        amounts = None if shown is None else decode_amounts(shown)
    except (Corrupt, TypeError):
        return None
    return amounts if amounts is not None and all(map(_is_summable, amounts)) else None


def _is_summable(number: object) -> bool:
    """Whether this is an int, or a Decimal such as sums are made of."""
    if type(number) is not Decimal:
        return type(number) is int
    return number.is_finite() and abs(number.adjusted()) <= 2 * MAGNITUDE
