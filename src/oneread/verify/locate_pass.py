"""The second look: which rows are wrong, where the digests of an inspection say that some are.

Forward: is each expected row there, and equal? Backward: does each row that is there belong to what its entity emits?
Groups are summed exactly, as many at a time as may be kept. See docs/decisions/0013-verify-by-digests.md.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from oneread.derivations.derivation import Keyspace
from oneread.plans.plan import Plan
from oneread.store.requests import Found
from oneread.store.rows import Row, RowRange, Table
from oneread.transactions.deltas import Delta, Number
from oneread.transactions.unit_of_work import DerivedWrites
from oneread.verify.cross_check import CrossCheck
from oneread.verify.digest_pass import DigestPass, Pointers, amounts_of
from oneread.verify.digests import bucket_of
from oneread.verify.report import shown_of

KEPT: Final = 50_000
"""Groups, and rows reported already, that are kept in memory at a time."""


class LocatePass:
    """Goes over one kind again, within the buckets that differ."""

    def __init__(self, inspection: DigestPass, kept: int = KEPT) -> None:
        self._of = inspection
        self._scanner = inspection.scanner
        self._reporter = inspection.reporter
        self._rows = inspection.digests.differing_rows()
        self._sums = inspection.digests.differing_sums()
        self._kept = kept
        self._groups: dict[bytes, Delta] = {}
        self._later: set[int] = set()
        self._reported: set[bytes] = set()
        self._check = CrossCheck(inspection.kind.cls.__name__)

    def plan(self) -> Plan[None]:
        """Reports every fault; nothing is read when the digests agree.

        Raises:
            Corrupt: the store answers scans and reads by key differently.
        """
        name = self._of.kind.cls.__name__
        forward, differing = self._rows, self._rows | self._sums
        while forward or self._sums:
            self._scanner.phase(f"{name}: a second look")
            self._groups, self._later = {}, set()
            yield from self._scanner.scan_all("roots", RowRange.under(self._of.kind.prefix), self._forward)
            if forward:
                yield from self._backward()
                self._check.check_reads()
            yield from self._compare_groups()
            forward, self._rows, self._sums = set[int](), set[int](), self._later
        self._check.check_explained(differing)

    # Forward.

    def _forward(self, found: list[Found]) -> Plan[None]:
        rows: dict[bytes, tuple[bytes, bytes]] = {}
        claims: list[tuple[bytes, bytes]] = []
        for key, row in found:
            operations = (yield from self._of.reader.expected_rows(key, row)).operations
            if self._rows:
                for place, shown in operations.puts.items():
                    if bucket_of(place) in self._rows:
                        rows[place] = shown, key
                claims.extend([(place, key) for place in operations.claimed if bucket_of(place) in self._rows])
            self._sum(operations)
        yield from self._compare_rows(rows)
        yield from self._compare_claims(claims)

    def _compare_rows(self, expected: dict[bytes, tuple[bytes, bytes]]) -> Plan[None]:
        places = sorted(expected)
        rows = yield from self._scanner.read("views", places)
        for place, row in zip(places, rows, strict=True):
            shown, owner = expected[place]
            found = None if row is None else self._of.keyspaces.as_made_now("views", place, shown_of(row))
            if not self._of.is_scanned(place):
                self._check.explain(place)
            elif row is not None:
                self._check.read(place, found)
            if found != shown:
                self._differs("views", place, owner, shown, row)

    def _differs(self, table: Table, place: bytes, owner: bytes, shown: bytes, row: Row | None) -> None:
        self._check.explain(place)
        if row is None:
            self._reporter.row("missing", table, place, owner, shown, None)
        elif shown_of(row) is None:
            self._reporter.row("unreadable", table, place, owner, shown, row)
        else:
            self._reporter.row("different", table, place, owner, shown, row)

    def _compare_claims(self, claims: list[tuple[bytes, bytes]]) -> Plan[None]:
        """A taken value names its owner; one that two entities have is nobody's to mend."""
        rows = yield from self._scanner.read("counts", [place for place, _owner in claims])
        for (place, owner), row in zip(claims, rows, strict=True):
            found = None if row is None else shown_of(row)
            if found == owner:
                self._check.read(place, found)
                continue
            self._check.explain(place)
            if len(self._reported) < self._kept:
                self._reported.add(place)
            if found is not None and (yield from self._of.reader.is_owned_by(found, place)) is not False:
                name = self._of.keyspaces.name_of
                self._reporter.row("different", "counts", place, owner, name(owner), row, mendable=False)
            else:
                self._differs("counts", place, owner, owner, row)

    # Backward.

    def _backward(self) -> Plan[None]:
        for place in self._of.places:
            if not place.width:
                yield from self._scanner.scan_all(
                    place.table, RowRange.under(place.prefix), partial(self._dangling, place)
                )
        for each in self._of.pointers:
            yield from self._scanner.scan_all("views", each.within, partial(self._dangling_pointers, each))

    def _dangling_pointers(self, pointers: Pointers, found: list[Found]) -> Plan[None]:
        return self._dangling(None, pointers.mine(found))

    def _dangling(self, place: Keyspace | None, found: list[Found]) -> Plan[None]:
        """Compares rows that a scan has shown with what their owners, read by their keys, expect."""
        table: Table = "views" if place is None else place.table
        for key, row in found:
            if bucket_of(key) not in self._rows:
                continue
            shown = shown_of(row)
            owner = self._of.keyspaces.owner_of(table, key, shown)
            is_expected = False if owner is None else (yield from self._of.reader.is_owned_by(owner, key))
            if is_expected:
                self._check.scanned(key, self._of.keyspaces.as_made_now(table, key, shown))
            elif is_expected is None:
                self._check.explain(key)
            elif table != "counts" or key not in self._reported:
                self._check.explain(key)
                self._reporter.row("dangling", table, key, owner or b"", None, row)

    # Groups.

    def _sum(self, operations: DerivedWrites) -> None:
        for place, amounts, sign in operations.deltas:
            bucket = bucket_of(place)
            if bucket in self._sums and bucket not in self._later:
                delta = self._groups.get(place)
                if delta is None:
                    delta = self._groups[place] = Delta()
                    if len(self._groups) > self._kept:
                        self._postpone()
                delta.add(amounts, sign)

    def _postpone(self) -> None:
        """Leaves half of the buckets that are being summed for another round."""
        now = sorted(self._sums - self._later)
        self._later.update(now[len(now) // 2 :] if len(now) > 1 else ())
        self._groups = {place: each for place, each in self._groups.items() if bucket_of(place) not in self._later}

    def _compare_groups(self) -> Plan[None]:
        now = self._sums - self._later
        if not now:
            return
        for place in self._of.places:
            if place.width:
                yield from self._scanner.scan_all(
                    "counts", RowRange.under(place.prefix), partial(self._compare, place, now)
                )
        missing = {key: delta.amounts for key, delta in self._groups.items() if delta.amounts and delta.amounts[0]}
        rows = yield from self._scanner.read("counts", list(missing))
        for (key, amounts), row in zip(missing.items(), rows, strict=True):
            if row is not None:
                self._check.refuse("counts", key)
            self._check.explain(key)
            self._reporter.group("missing", key, amounts, "", None, mendable=self._sure)

    @property
    def _sure(self) -> bool:
        """A sum to which an entity that cannot be read contributes is known to nobody."""
        return not self._of.untrusted

    def _compare(self, place: Keyspace, now: set[int], found: list[Found]) -> None:
        for key, row in found:
            if bucket_of(key) not in now:
                continue
            delta = self._groups.pop(key, None)
            expected: list[Number] = [] if delta is None else delta.amounts
            amounts, shown = amounts_of(row), shown_of(row)
            if expected and expected[0] and amounts == expected and len(expected) == place.width:
                continue
            self._check.explain(key)
            if amounts is None:
                self._reporter.group("unreadable", key, expected, shown, shown, mendable=self._sure)
            elif not expected or not expected[0]:
                self._reporter.group("dangling", key, expected, amounts, shown, mendable=self._sure)
            else:
                self._reporter.group("different", key, expected, amounts, shown, mendable=self._sure)
