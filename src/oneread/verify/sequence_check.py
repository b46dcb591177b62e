"""Whether sequences are behind the numbers of their children, which they would give again.

See docs/decisions/0051-entity-groups-and-sequences.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from oneread.models.registry import EntityKind
from oneread.plans.plan import Plan
from oneread.plans.progress import ValueDifference
from oneread.store.requests import Found
from oneread.transactions.sequences import TakenNumber, last_number
from oneread.verify.expected import RootFault
from oneread.verify.keyspace import DAMAGED, StoreKeyspaces
from oneread.verify.report import FaultReporter
from oneread.verify.scanner import Scanner

KEPT_SEQUENCES: Final = 20_000
"""Sequences that are kept in memory at a time."""


class SequenceCheck:
    """Compares the numbers of one kind's entities, the deleted ones too, with the counts in the rows of their roots."""

    def __init__(self, keyspaces: StoreKeyspaces, kind: EntityKind, scanner: Scanner, reporter: FaultReporter) -> None:
        self._catalog = keyspaces.catalog
        self._is_numbered = self._catalog.any_type_of(kind.prefix).numbered is not None
        self._scanner = scanner
        self._reporter = reporter
        self._counts: dict[bytes, int] = {}

    def check(self, found: Sequence[Found]) -> Plan[None]:
        """Reports the entities whose number is ahead; one read for the roots that are not in memory."""
        if not self._is_numbered:
            return
        taken = [(key, number) for key, _row in found if (number := self._taken(key)) is not None]
        wanted = {number.sequence.root for _key, number in taken}
        if len(self._counts) + len(wanted) > KEPT_SEQUENCES:
            self._counts.clear()
        roots = wanted - self._counts.keys()
        if roots:
            yield from self._load(sorted(roots), taken[0][1].sequence.kind)
        for key, number in taken:
            last = self._counts[number.sequence.root]
            if number.number > last:
                differing = ValueDifference("sequence", f"at least {number.number}", str(last))
                texts = differing.expected, differing.found
                fault = RootFault("different", "sequence", *texts, mendable=True, differences=(differing,))
                self._reporter.entity(key, fault)

    def _taken(self, key: bytes) -> TakenNumber | None:
        try:
            return self._catalog.taken_number(key)
        except DAMAGED:  # a fault of its own
            return None

    def _load(self, roots: list[bytes], kind: bytes) -> Plan[None]:
        rows = yield from self._scanner.read("roots", roots)
        for root, row in zip(roots, rows, strict=True):
            try:
                self._counts[root] = last_number(row, kind)
            except DAMAGED:
                self._counts[root] = 0
