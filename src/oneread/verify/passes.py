"""The passes over one kind on a store that changes one row at a time: forward from its entities, backward from rows.

Forward: is each row there that an entity says? Backward: does the entity that a row names say so? A scan sees rows of
different moments, so what differs is a suspect, and looks decide. Rows of what a commit puts before its commit point -
back-references, holds, claims - stay behind where it is lost: backward, only those count that no commit can have left.
See docs/decisions/0104-verify-one-row-at-a-time.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Final

from oneread.models.registry import EntityKind
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.store.keys import kind_part
from oneread.store.requests import Found
from oneread.store.rows import Row, RowRange, Table
from oneread.transactions.outbox import PRESENT
from oneread.transactions.root import AHEAD_MILLISECONDS, VERSION
from oneread.verify.copy_check import CopyComparison
from oneread.verify.digest_pass import Digests, SeenAhead
from oneread.verify.expected import NOTHING, ExpectedRows, RowReader
from oneread.verify.keyspace import Pointers, StoreKeyspaces, pointers_of, shown_of
from oneread.verify.logical_scanner import LogicalScanner
from oneread.verify.looks import Looker, Looks, Suspects
from oneread.verify.report import FaultReporter, Finding
from oneread.verify.sequence_check import SequenceCheck

SUSPECTS: Final = 1_000
"""Entities that seem wrong and are not looked at yet, at most."""


class SuspectPasses:
    """Collects suspects, and in `found` what looks at many of them find."""

    def __init__(self, looks: Looks) -> None:
        self.found: list[Finding] = []
        self.unsettled: set[bytes] = set()
        """Root rows, or groups, that were being changed whenever they were looked at."""
        self._looks = looks
        self._suspects: Suspects = {}

    def _look(self) -> Plan[None]:
        suspects, self._suspects = self._suspects, {}
        if suspects:
            seen = yield from self._looks.confirm(suspects)
            self.found += chain.from_iterable(seen.found.values())
            self.unsettled |= seen.unsettled

    def _look_when_many(self) -> Plan[None]:
        if len(self._suspects) >= SUSPECTS:
            yield from self._look()


class KindPasses(SuspectPasses):
    """Compares the rows of one kind's entities, and collects what is wrong by two looks in `found`."""

    def __init__(self, keyspaces: StoreKeyspaces, kind: EntityKind, scanner: LogicalScanner) -> None:
        super().__init__(Looker(keyspaces, scanner))
        self.keyspaces = keyspaces
        self.kind = kind
        self.scanner = scanner
        self.entities = 0
        self.unknown = 0
        """Entities whose rows are not known, because neither body nor record can be read."""
        self.seen_ahead = SeenAhead()
        self.digests = Digests()
        self.reader = RowReader(keyspaces, scanner)
        suspect = FaultReporter(keyspaces, lambda finding: self._suspect(finding.owner))
        is_covered = keyspaces.covers_kind(kind)
        self._copies = CopyComparison(keyspaces, kind, scanner) if is_covered else None
        self._sequences = SequenceCheck(keyspaces, kind, scanner, suspect)
        self._pointers = pointers_of(keyspaces, kind) if is_covered else ()

    def run(self) -> Plan[None]:
        """One scan of the entities and a read of their rows, one of the rows and a read of their entities."""
        name = self.kind.cls.__name__
        self.seen_ahead.until = (yield from Now()) + AHEAD_MILLISECONDS
        self.scanner.phase(f"{name}: entities")
        yield from self.scanner.scan_all("roots", RowRange.under(self.kind.prefix), self._forward)
        for keyspace in self.keyspaces.of_kind(self.kind):
            self.scanner.phase(f"{name}: {keyspace.name}")
            if not keyspace.width:
                take = partial(self._backward_claims if keyspace.offset is None else self._backward, keyspace.table)
                yield from self.scanner.scan_all(keyspace.table, RowRange.under(keyspace.prefix), take)
        self.scanner.phase(f"{name}: back-references and holds")
        for each in self._pointers:
            take_pointers = partial(self._backward_pointers, each)
            yield from self.scanner.scan_all("views", each.within, take_pointers)
        yield from self._look()

    def _suspect(self, owner: bytes, place: tuple[Table, bytes] | None = None) -> None:
        self._suspects.setdefault(owner, set()).update([] if place is None else [place])

    # Forward.

    def _forward(self, found: list[Found]) -> Plan[None]:
        checked: list[tuple[bytes, ExpectedRows]] = []
        for (key, row), expected in zip(found, (yield from self.reader.expected_of(found)), strict=True):
            if expected.faults or expected.stale_total is not None:
                self._suspect(key)
            elif VERSION in row:
                self.seen_ahead.look(self.keyspaces, key, row[VERSION].stamp)
            self.unknown += not expected.is_known
            if expected.writes.deltas:
                self.digests.contribute(expected.writes.deltas)
            checked.append((key, expected))
        self.entities += len(found)
        yield from self._compare_rows("views", checked)
        yield from self._compare_rows("counts", checked)
        yield from self._sequences.check(found)
        if self._copies is not None:
            for each in (yield from self._copies.differing(checked)):
                self._suspect(each.key)
        yield from self._look_when_many()

    def _compare_rows(self, table: Table, checked: Sequence[tuple[bytes, ExpectedRows]]) -> Plan[None]:
        """Suspects entities one of whose rows is not as they say."""
        expected: dict[bytes, tuple[bytes, bytes]] = {}
        for owner, rows in checked:
            shown = rows.writes.puts if table == "views" else rows.writes.claimed
            for place, value in shown.items():
                if place in expected:  # a value that is declared unique
                    self._suspect(owner)
                expected[place] = value, owner
        keys = sorted(expected)
        for key, row in zip(keys, (yield from self.scanner.read(table, keys)), strict=True):
            value, owner = expected[key]
            if row is None or shown_of(row) != value:
                self._suspect(owner)

    # Backward.

    def _backward(self, table: Table, found: Iterable[Found]) -> Plan[None]:
        """Suspects rows that the entities that they name do not say."""
        named: dict[bytes, list[bytes]] = {}
        for key, row in found:
            owner = self.keyspaces.owner_of(table, key, shown_of(row))
            if owner is None or kind_part(owner) not in self.reader.kinds:
                self._suspect(b"" if owner is None else owner, (table, key))
            else:
                named.setdefault(owner, []).append(key)
        owners = sorted(named)
        for owner, root in zip(owners, (yield from self.scanner.read("roots", owners)), strict=True):
            expected = NOTHING if root is None else (yield from self.reader.expected_writes(owner, root))
            for key in named[owner]:
                if expected.is_known and not _has(expected, key):
                    self._suspect(owner, (table, key))
        yield from self._look_when_many()

    def _backward_claims(self, table: Table, found: Iterable[Found]) -> Plan[None]:
        """Suspects claims that name no entity: one of an entity that has the value no more stays, and is taken over."""
        unowned = [(key, row) for key, row in found if self.keyspaces.owner_of(table, key, shown_of(row)) is None]
        return self._backward(table, unowned)

    def _backward_pointers(self, pointers: Pointers, found: list[Found]) -> Plan[None]:
        """Suspects back-references and holds that no lost commit can have left: those that were are purged some day."""
        rows = [(key, row) for key, row in pointers.select(found) if not self._may_be_left(key, row)]
        return self._backward("views", rows)

    def _may_be_left(self, key: bytes, row: Row) -> bool:
        owner = self.keyspaces.owner_of("views", key, None) if shown_of(row) == PRESENT else None
        return owner is not None and kind_part(owner) in self.reader.kinds


def _has(expected: ExpectedRows, key: bytes) -> bool:
    return key in expected.writes.puts or key in expected.writes.claimed
