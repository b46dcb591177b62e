"""The digest pass: compares everything derived from one kind with its entities, without keeping rows.

Every expected row is added to the digest of its bucket, every row that is found is subtracted; equal sets of rows come
to zero, in any order. The digest of a row is keyed by the process (SipHash, under `PYTHONHASHSEED`). Sums are linear: a
number times a keyed coefficient, modulo the prime that Python's own hashes of numbers use, so that contributions are
added without knowing their groups' totals. Where the digests agree, no row is read again. See
docs/decisions/0013-verify-by-digests.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import compress
from operator import mul
from typing import Final

from oneread.derivations.derivation import Keyspace
from oneread.models.registry import EntityKind
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.plans.progress import NAMED_AHEAD, Ahead
from oneread.store.requests import Found
from oneread.store.rows import VALUE, RowRange
from oneread.transactions.deltas import Number, negated
from oneread.transactions.root import AHEAD_MILLISECONDS, VERSION
from oneread.verify.copy_check import CopyCheck
from oneread.verify.expected import RowReader
from oneread.verify.keyspace import Pointers, StoreKeyspaces, amounts_of, pointers_of
from oneread.verify.report import FaultReporter
from oneread.verify.scanner import Scanner
from oneread.verify.sequence_check import SequenceCheck

BUCKETS: Final = 1 << 14
_ALL_BUCKETS: Final = range(BUCKETS)
_MASK: Final = BUCKETS - 1
PRIME: Final = sys.hash_info.modulus
_COEFFICIENTS: Final = 1 << 15
_AMBIGUOUS: Final = -2


def bucket_of(key: bytes) -> int:
    return hash(key) & _MASK


def residue(number: Number) -> int:
    """A number modulo the prime, exactly; a Decimal m * 10**e is m * 10**e there too."""
    if type(number) is int:
        return number
    found = hash(number)  # Python defines it as the residue, but for -1, whose hash is that of -2
    return -hash(negated(number)) if found == _AMBIGUOUS else found


class Digests:
    """The difference between expected rows and the rows found, by bucket."""

    def __init__(self) -> None:
        self.rows = [0] * BUCKETS
        self._sums = [0] * BUCKETS
        self._coefficients: dict[bytes, tuple[int, ...]] = {}
        self._unreadable: set[int] = set()

    def expect(self, rows: Iterable[tuple[bytes, bytes] | tuple[bytes, bytes, bytes]]) -> None:
        """Adds expected rows: (key, value), or (key, value, membership) for each that shows a feed's entry."""
        into = self.rows
        for row in rows:
            into[hash(row[0]) & _MASK] += hash(row)

    def find(self, rows: Iterable[tuple[bytes, bytes | None] | tuple[bytes, bytes, bytes]]) -> None:
        """Subtracts rows found; the value of one that cannot be read is None."""
        into = self.rows
        for row in rows:
            into[hash(row[0]) & _MASK] -= hash(row)

    def contribute(self, contributions: Iterable[tuple[bytes, Sequence[Number | None], int]]) -> None:
        """Adds contributions to groups (sign 1), or subtracts the numbers of groups' rows (sign -1)."""
        known, sums = self._coefficients, self._sums
        residues: list[int] = []
        of: object = None
        for key, amounts, sign in contributions:
            if amounts is not of:  # the groups of an entity share their amounts
                of = amounts
                residues = [each if type(each) is int else 0 if each is None else residue(each) for each in amounts]
            coefficients = known.get(key) or self._make_coefficients(key, len(amounts))
            total = sum(map(mul, coefficients, residues))
            sums[hash(key) & _MASK] += total if sign > 0 else -total

    def _make_coefficients(self, key: bytes, count: int) -> tuple[int, ...]:
        if len(self._coefficients) >= _COEFFICIENTS:
            self._coefficients.clear()
        made = self._coefficients[key] = tuple([hash((key, number)) for number in range(count)])
        return made

    def mark_unreadable(self, key: bytes) -> None:
        """Makes a bucket differ, because a row in it cannot be added up."""
        self._unreadable.add(hash(key) & _MASK)

    def differing_rows(self) -> set[int]:
        return set(compress(_ALL_BUCKETS, self.rows)) if any(self.rows) else set()

    def differing_sums(self) -> set[int]:
        summed = compress(_ALL_BUCKETS, self._sums)  # few buckets of a small store, and at the speed of C
        return {bucket for bucket in summed if self._sums[bucket] % PRIME} | self._unreadable


class SeenAhead:
    """Entities that were written under a clock that was ahead, which is not a fault."""

    def __init__(self) -> None:
        self.first: list[Ahead] = []
        self.count = 0
        self.until = 0
        """The latest version that is not ahead."""

    def look(self, keyspaces: StoreKeyspaces, key: bytes, version: int) -> None:
        """Notes an entity of this version, if it is ahead."""
        if version > self.until:
            self.count += 1
            if len(self.first) < NAMED_AHEAD:
                ahead = version - self.until + AHEAD_MILLISECONDS
                self.first.append(Ahead(keyspaces.name_of(key), version, ahead))


class DigestPass:
    """Reads everything of one kind once, in one snapshot: its entities, what is derived from them, what they copy."""

    def __init__(self, keyspaces: StoreKeyspaces, kind: EntityKind, scanner: Scanner, reporter: FaultReporter) -> None:
        self.store = keyspaces
        self.kind = kind
        self.scanner = scanner
        self.reporter = reporter
        self.reader = RowReader(keyspaces, scanner)
        self.keyspaces = keyspaces.of_kind(kind)
        self.pointers = pointers_of(keyspaces, kind) if keyspaces.covers_kind(kind) else ()
        self.digests = Digests()
        self.entities = 0
        self.unknown = 0
        """Entities whose rows are not known, because neither body nor record can be read."""
        self.seen_ahead = SeenAhead()
        self._copies = CopyCheck(keyspaces, kind, scanner, reporter) if keyspaces.covers_kind(kind) else None
        self._sequences = SequenceCheck(keyspaces, kind, scanner, reporter)

    def is_scanned(self, key: bytes) -> bool:
        """Whether this pass scans the range of a row of `views`; while views are built, it does not scan all."""
        return self.store.keyspace_of("views", key) is not None or any(
            key.startswith(each.within.start) for each in self.pointers
        )

    def run(self) -> Plan[None]:
        """Computes the digests, and reports faults of root rows and copies."""
        name = self.kind.cls.__name__
        self.seen_ahead.until = (yield from Now()) + AHEAD_MILLISECONDS
        self.scanner.phase(f"{name}: entities")
        yield from self.scanner.scan_all("roots", RowRange.under(self.kind.prefix), self._expect)
        for keyspace in self.keyspaces:
            self.scanner.phase(f"{name}: {keyspace.name}")
            take = partial(self._subtract_groups, keyspace) if keyspace.width else self._subtract
            yield from self.scanner.scan_all(keyspace.table, RowRange.under(keyspace.prefix), take)
        if self._copies is not None:
            yield from self._copies.confirm_absent()
        self.scanner.phase(f"{name}: back-references and holds")
        for each in self.pointers:
            yield from self.scanner.scan_all("views", each.within, partial(self._subtract_pointers, each))

    def _expect(self, found: list[Found]) -> Plan[None]:
        digests, checked = self.digests, []
        for (key, row), expected in zip(found, (yield from self.reader.expected_of(found)), strict=True):
            for fault in expected.faults:
                self.reporter.entity(key, fault)
            if expected.stale_total is not None:
                self.reporter.entity(key, expected.stale_total.fault, expected.stale_total.groups)
            if VERSION in row and not expected.faults:
                self.seen_ahead.look(self.store, key, row[VERSION].stamp)
            self.unknown += not expected.is_known
            writes = expected.writes
            digests.expect(writes.puts.items())
            if writes.claimed:
                digests.expect(writes.claimed.items())
            if writes.deltas:
                digests.contribute(writes.deltas)
            checked.append((key, expected))
        self.entities += len(found)
        yield from self._sequences.check(found)
        if self._copies is not None:
            yield from self._copies.check(checked)

    def _subtract(self, found: list[Found]) -> None:
        self.digests.find([(key, row[VALUE].value if VALUE in row and len(row) == 1 else None) for key, row in found])

    def _subtract_pointers(self, pointers: Pointers, found: list[Found]) -> None:
        self._subtract(pointers.select(found))

    def _subtract_groups(self, keyspace: Keyspace, found: list[Found]) -> None:
        for key, row in found:
            amounts = amounts_of(row)
            if amounts is None or len(amounts) != keyspace.width or not amounts[0]:
                self.digests.mark_unreadable(key)
            else:
                self.digests.contribute([(key, amounts, -1)])
