"""The pass of compiled code over one kind: whether all of it is as it should be, and nothing else.

It reads what the digest pass reads, in the same order and as many rows. Where it finds anything that differs, or that
it does not know, the digest pass compares the whole kind again, and reports. See
docs/decisions/0169-verify-by-compiled-code.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

from oneread.derivations.emitted_record import UNIQUE, form_of
from oneread.derivations.entity_type import EntityType
from oneread.models.registry import EntityKind
from oneread.plans.counted import CompiledReads
from oneread.plans.effects import Compiled, Now
from oneread.plans.plan import Plan
from oneread.store.engine import ComparedRows, KindComparison, LeftRow, WantedRows
from oneread.store.rows import RowRange
from oneread.transactions.deltas import Number
from oneread.transactions.root import AHEAD_MILLISECONDS, VERSION
from oneread.verify.copy_check import KEPT_SOURCES, CopyCheck
from oneread.verify.digest_pass import PRIME, residue
from oneread.verify.expected import ExpectedRows, RowReader
from oneread.verify.keyspace import DAMAGED, StoreKeyspaces, amounts_of, pointers_of
from oneread.verify.report import FaultReporter, Finding
from oneread.verify.scanner import Scanner
from oneread.verify.sequence_check import SequenceCheck

_Ask: TypeAlias = Callable[[RowRange, int], ComparedRows | None]
_Look: TypeAlias = Callable[[ComparedRows], Plan[None]]


def _has_unknown(of: EntityType) -> bool:
    """Whether entities of a class have what is stored, but not compared here."""
    has_claims = any(form_of(each) == UNIQUE for each in of.emitters.order())
    return bool(of.numbered or of.has_expiring_rows or of.hidden or has_claims)


class _Unlike(Exception):
    """Something differs, or is not known."""


class CorePass:
    """Compares everything of one kind in one snapshot."""

    def __init__(self, keyspaces: StoreKeyspaces, kind: EntityKind, scanner: Scanner) -> None:
        self.entities = 0
        self._keyspaces = keyspaces
        self._kind = kind
        self._scanner = scanner
        self._pointers = pointers_of(keyspaces, kind)
        self._found: list[Finding] = []
        reporter = FaultReporter(keyspaces, self._found.append)
        self._reader = RowReader(keyspaces, scanner)
        self._sequences = SequenceCheck(keyspaces, kind, scanner, reporter)
        self._copies = CopyCheck(keyspaces, kind, scanner, reporter)
        self._latest = 0
        self._requests: list[tuple[int, int]] = []

    def run(self) -> Plan[bool]:
        """Whether all is as it should be; False, too, where this is not known."""
        programs = self._programs()
        if programs is None:
            return False
        comparison = yield from Compiled(lambda reads: reads.comparison(programs, self._scanner.batch, KEPT_SOURCES))
        if comparison is None:
            return False
        rows = self._scanner.rows
        try:
            yield from self._compare(comparison)
        except _Unlike:
            self._scanner.rows = rows
            return False
        yield from Compiled(lambda reads: reads.count(self._requests))
        return True

    def _programs(self) -> Sequence[bytes] | None:
        """The tables of all classes of the kind; None where the core does not know all that is compared."""
        keyspaces, catalog = self._keyspaces, self._keyspaces.catalog
        if not keyspaces.is_complete or keyspaces.backfill_running or not catalog.is_written_whole(self._kind.prefix):
            return None
        types = [each for each in catalog.entity_types.values() if each.kind is self._kind]
        programs = [catalog.core_programs[each.cls] for each in types]
        tables = [each.table for each in programs if each is not None and not each.asked]
        is_known = len(tables) == len(types) and not any(map(_has_unknown, types))
        places = self._kind.root_places
        return tables if is_known and places == tuple(range(len(places))) else None

    def _compare(self, comparison: KindComparison) -> Plan[None]:
        name, prefix = self._kind.cls.__name__, self._kind.prefix
        self._latest = (yield from Now()) + AHEAD_MILLISECONDS
        self._scanner.phase(f"{name}: entities")
        yield from self._each(
            RowRange.under(prefix), partial(comparison.roots, self._latest), partial(self._look, comparison)
        )
        for each in self._keyspaces.of_kind(self._kind):
            self._scanner.phase(f"{name}: {each.name}")
            wanted = WantedRows(each.table, each.width)
            look = partial(_look_at_groups, comparison, each.width)
            yield from self._each(RowRange.under(each.prefix), partial(comparison.rows, wanted), look)
        self._scanner.phase(f"{name}: back-references and holds")
        for pointers in self._pointers:
            look = partial(_look_at_groups, comparison, 0)
            yield from self._each(pointers.within, partial(comparison.rows, pointers.wanted), look)
        if not comparison.is_even():
            raise _Unlike

    def _each(self, within: RowRange, ask: _Ask, look: _Look) -> Plan[None]:
        """Compares all rows of a range."""
        rest: RowRange | None = within
        while rest is not None:
            found = yield from Compiled(partial(_asked, ask, rest, self._scanner.batches))
            if found is None:
                raise _Unlike
            self._requests += found.requests
            self._scanner.rows += found.groups
            yield from look(found)
            if found.rows:
                yield from self._scanner.advance(found.rows)
            rest = None if found.last is None else within.behind(found.last)

    def _look(self, comparison: KindComparison, found: ComparedRows) -> Plan[None]:
        """Looks at what the core does not: the types of values, and the rows that it leaves."""
        whole = self._keyspaces.catalog.layouts[self._kind.prefix].whole
        try:
            for each in found.documents:
                whole(each)
        except DAMAGED:
            raise _Unlike from None
        self.entities += found.rows
        for _batch, left in groupby(found.left, lambda each: each.place // self._scanner.batch):
            yield from self._look_at(comparison, [*left])

    def _look_at(self, comparison: KindComparison, left: Sequence[LeftRow]) -> Plan[None]:
        """Compares the rows of a batch that the core leaves, as the digest pass does."""
        rows = self._scanner.rows
        known = yield from self._expected([each for each in left if each.is_expected])
        self._scanner.rows = rows  # groups that they show were counted
        further = yield from self._expected([each for each in left if not each.is_expected])
        for _key, each in further:
            numbers = [(group, _residues(amounts, sign)) for group, amounts, sign in each.writes.deltas]
            comparison.expect(each.writes.puts.items(), numbers)
        yield from self._copies.check(sorted([*known, *further], key=itemgetter(0)))
        if self._found:
            raise _Unlike

    def _expected(self, left: Sequence[LeftRow]) -> Plan[list[tuple[bytes, ExpectedRows]]]:
        """What rows say that are as they should be."""
        found = [(each.key, each.row) for each in left]
        expected = yield from self._reader.expected_of(found)
        yield from self._sequences.check(found)
        if any(each.faults or each.stale_total is not None or each.writes.claimed for each in expected):
            raise _Unlike
        if any(VERSION in each.row and each.row[VERSION].stamp > self._latest for each in left):
            raise _Unlike
        return [(each.key, rows) for each, rows in zip(left, expected, strict=True)]


def _asked(ask: _Ask, within: RowRange, batches: int, _reads: CompiledReads) -> ComparedRows | None:
    return ask(within, batches)


def _residues(amounts: Sequence[Number | None], sign: int) -> list[int]:
    return [sign * residue(each or 0) % PRIME for each in amounts]


def _look_at_groups(comparison: KindComparison, width: int, found: ComparedRows) -> Plan[None]:
    """Finds the numbers of groups that the core does not know."""
    yield from ()
    for each in found.left:
        amounts = amounts_of(each.row)
        if amounts is None or len(amounts) != width or not amounts[0]:
            raise _Unlike
        comparison.expect((), [(each.key, _residues(amounts, -1))])
