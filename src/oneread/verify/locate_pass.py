"""The locate pass: finds the differing rows, in the buckets whose digests differ.

Forward: is each expected row there, and equal? Backward: is each row that is there expected by the entity it names?
Groups are summed exactly, as many at a time as may be kept. See docs/decisions/0013-verify-by-digests.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final

from oneread.derivations.derivation import Keyspace
from oneread.errors import Corrupt
from oneread.plans.plan import Plan
from oneread.store.engine import DISAGREE
from oneread.store.requests import Found
from oneread.store.rows import Row, RowRange, Table
from oneread.transactions.deltas import Delta, Number
from oneread.transactions.derived_writes import DerivedWrites
from oneread.verify.digest_pass import DigestPass, bucket_of
from oneread.verify.keyspace import Pointers, amounts_of, shown_of
from oneread.verify.report import DerivedRow

KEPT: Final = 50_000
"""Groups, and rows reported already, that are kept in memory at a time."""

_UNEXPLAINED: Final = (
    "digests of rows differ, and reading the rows again shows no fault: the file is damaged; restore a backup"
)


class LocatePass:
    """Reads one kind again after its digest pass, and reports every derived row that differs."""

    def __init__(self, digested: DigestPass, kept: int = KEPT) -> None:
        self._of = digested
        self._scanner = digested.scanner
        self._reporter = digested.reporter
        self._rows = digested.digests.differing_rows()
        self._sums = digested.digests.differing_sums()
        self._kept = kept
        self._groups: dict[bytes, Delta] = {}
        self._postponed: set[int] = set()
        self._reported: set[bytes] = set()
        self._check = CrossCheck(digested.kind.cls.__name__)

    def run(self) -> Plan[None]:
        """Reports the faults, reads nothing when digests agree; raises Corrupt where scans and reads by key differ."""
        name = self._of.kind.cls.__name__
        forward, differing = self._rows, self._rows | self._sums
        while forward or self._sums:
            self._scanner.phase(f"{name}: locating differences")
            self._groups, self._postponed = {}, set()
            yield from self._scanner.scan_all("roots", RowRange.under(self._of.kind.prefix), self._forward)
            if forward:
                yield from self._backward()
                self._check.check_reads()
            yield from self._compare_groups()
            forward, self._rows, self._sums = set[int](), set[int](), self._postponed
        self._check.check_explained(differing)

    # Forward.

    def _forward(self, found: list[Found]) -> Plan[None]:
        rows: dict[bytes, tuple[bytes, bytes]] = {}
        claims: list[tuple[bytes, bytes]] = []
        for owner, row in found:
            writes = (yield from self._of.reader.expected_rows(owner, row)).writes
            if self._rows:
                for key, shown in writes.puts.items():
                    if bucket_of(key) in self._rows:
                        rows[key] = shown, owner
                claims.extend([(key, owner) for key in writes.claimed if bucket_of(key) in self._rows])
            self._add_to_groups(writes)
        yield from self._compare_rows(rows)
        yield from self._compare_claims(claims)

    def _compare_rows(self, expected: dict[bytes, tuple[bytes, bytes]]) -> Plan[None]:
        keys = sorted(expected)
        rows = yield from self._scanner.read("views", keys)
        for key, row in zip(keys, rows, strict=True):
            shown, owner = expected[key]
            found = None if row is None else shown_of(row)
            if not self._of.is_scanned(key):
                self._check.explain(key)
            elif row is not None:
                self._check.count(key, found, 1)
            if found != shown:
                self._check.explain(key)
                self._reporter.differing(DerivedRow("views", key, owner), shown, row)

    def _compare_claims(self, claims: list[tuple[bytes, bytes]]) -> Plan[None]:
        rows = yield from self._scanner.read("counts", [key for key, _owner in claims])
        for (key, owner), row in zip(claims, rows, strict=True):
            found = None if row is None else shown_of(row)
            if found == owner:
                self._check.count(key, found, 1)
                continue
            self._check.explain(key)
            if len(self._reported) < self._kept:
                self._reported.add(key)
            claim = DerivedRow("counts", key, owner)
            if found is not None and (yield from self._of.reader.is_owned_by(found, key)) is not False:
                self._reporter.claimed_twice(claim, row)
            else:
                self._reporter.differing(claim, owner, row)

    # Backward.

    def _backward(self) -> Plan[None]:
        for keyspace in self._of.keyspaces:
            if not keyspace.width:
                take = partial(self._find_dangling, keyspace.table)
                yield from self._scanner.scan_all(keyspace.table, RowRange.under(keyspace.prefix), take)
        for each in self._of.pointers:
            yield from self._scanner.scan_all("views", each.within, partial(self._find_dangling_pointers, each))

    def _find_dangling_pointers(self, pointers: Pointers, found: list[Found]) -> Plan[None]:
        return self._find_dangling("views", pointers.select(found))

    def _find_dangling(self, table: Table, found: list[Found]) -> Plan[None]:
        """Compares scanned rows with what their owners, read by key, expect."""
        for key, row in found:
            if bucket_of(key) not in self._rows:
                continue
            shown = shown_of(row)
            owner = self._of.store.owner_of(table, key, shown)
            is_expected = False if owner is None else (yield from self._of.reader.is_owned_by(owner, key))
            if is_expected:
                self._check.count(key, shown, -1)
            elif is_expected is None:
                self._check.explain(key)
            elif table != "counts" or key not in self._reported:
                self._check.explain(key)
                self._reporter.dangling(DerivedRow(table, key, owner or b""), row)

    # Groups.

    def _add_to_groups(self, writes: DerivedWrites) -> None:
        for key, amounts, sign in writes.deltas:
            bucket = bucket_of(key)
            if bucket in self._sums and bucket not in self._postponed:
                delta = self._groups.get(key)
                if delta is None:
                    delta = self._groups[key] = Delta()
                    if len(self._groups) > self._kept:
                        self._postpone()
                delta.add(amounts, sign)

    def _postpone(self) -> None:
        """Leaves half of the buckets that are being summed for another round."""
        now = sorted(self._sums - self._postponed)
        self._postponed.update(now[len(now) // 2 :] if len(now) > 1 else ())
        self._groups = {key: each for key, each in self._groups.items() if bucket_of(key) not in self._postponed}

    def _compare_groups(self) -> Plan[None]:
        now = self._sums - self._postponed
        if not now:
            return
        for keyspace in self._of.keyspaces:
            if keyspace.width:
                take = partial(self._compare, keyspace, now)
                yield from self._scanner.scan_all("counts", RowRange.under(keyspace.prefix), take)
        missing = {key: delta.amounts for key, delta in self._groups.items() if delta.amounts and delta.amounts[0]}
        rows = yield from self._scanner.read("counts", list(missing))
        for (key, amounts), row in zip(missing.items(), rows, strict=True):
            if row is not None:  # a read by its key returned it, and no scan
                raise Corrupt(DISAGREE, model=self._of.kind.cls.__name__, table="counts", key=key.hex())
            self._report_group(key, amounts, None)

    def _compare(self, keyspace: Keyspace, now: set[int], found: list[Found]) -> None:
        for key, row in found:
            if bucket_of(key) not in now:
                continue
            delta = self._groups.pop(key, None)
            expected: list[Number] = [] if delta is None else delta.amounts
            is_same = len(expected) == keyspace.width and amounts_of(row) == expected
            if not (is_same and expected[0]):
                self._report_group(key, expected, row)

    def _report_group(self, key: bytes, expected: list[Number], row: Row | None) -> None:
        """Reports a sum; it cannot be mended while an entity that may contribute to it cannot be read."""
        self._check.explain(key)
        self._reporter.group(key, expected, row, mendable=not self._of.unknown)


class CrossCheck:
    """Whether scans and reads by key return the same rows where digests differ, and each difference has a fault.

    Inside one snapshot both can only disagree when a page of the file is damaged; then no scan is a reason to mend.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._balance: defaultdict[int, int] = defaultdict(int)
        self._explained: set[int] = set()

    def count(self, key: bytes, shown: bytes | None, times: int) -> None:
        """Counts an expected row: 1 when it was read by its key, -1 when a scan returned it."""
        self._balance[bucket_of(key)] += times * hash((key, shown))

    def explain(self, key: bytes) -> None:
        """Notes that this row has a fault, or may be of an entity that cannot be read."""
        self._explained.add(bucket_of(key))

    def check_reads(self) -> None:
        """Raises Corrupt unless scans returned each row that was read by its key once."""
        if any(self._balance.values()):
            raise Corrupt(DISAGREE, model=self._model)

    def check_explained(self, differing: AbstractSet[int]) -> None:
        """Raises Corrupt unless there is a fault in each bucket whose digests differ."""
        if not differing <= self._explained:
            raise Corrupt(_UNEXPLAINED, model=self._model)
