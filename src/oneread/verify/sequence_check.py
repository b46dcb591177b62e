"""Whether sequences can be read, and are not behind the numbers of their children, which they would give again.

See docs/decisions/0051-entity-groups-and-sequences.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from oneread.models.registry import EntityKind
from oneread.plans.plan import Plan
from oneread.plans.progress import ValueDifference
from oneread.store.requests import Found
from oneread.transactions.sequences import NumberSequence, TakenNumber, last_number, without_unreadable
from oneread.verify.expected import RootFault
from oneread.verify.keyspace import DAMAGED, StoreKeyspaces
from oneread.verify.report import FaultReporter
from oneread.verify.scanner import Scanner

KEPT_SEQUENCES: Final = 20_000
"""Sequences that are kept in memory at a time."""


class SequenceCheck:
    """Checks the counts in the rows of one kind, and the numbers of its entities, deleted ones too, by their roots."""

    def __init__(self, keyspaces: StoreKeyspaces, kind: EntityKind, scanner: Scanner, reporter: FaultReporter) -> None:
        self._catalog = keyspaces.catalog
        self._is_numbered = self._catalog.any_type_of(kind.prefix).numbered is not None
        self._scanner = scanner
        self._reporter = reporter
        self._counts: dict[bytes, int] = {}

    def check(self, found: Sequence[Found]) -> Plan[None]:
        """Reports counts that cannot be read, and entities whose number is ahead of that of their root.

        One read for the roots that are not in memory.
        """
        for key, row in found:
            if len(without_unreadable(row)) < len(row):
                text = "it is not a number of 8 bytes"
                self._reporter.entity(key, RootFault("unreadable", "sequence", "", text, mendable=True))
        if not self._is_numbered:
            return
        taken = [(key, number) for key, _row in found if (number := self._taken(key)) is not None]
        wanted = {number.sequence.root for _key, number in taken}
        if len(self._counts) + len(wanted) > KEPT_SEQUENCES:
            self._counts.clear()
        roots = wanted - self._counts.keys()
        if roots:
            yield from self._load({number.sequence for _key, number in taken if number.sequence.root in roots})
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

    def _load(self, sequences: Iterable[NumberSequence]) -> Plan[None]:
        wanted = sorted(sequences)
        rows = yield from self._scanner.read("roots", [each.root for each in wanted])
        for sequence, row in zip(wanted, rows, strict=True):
            self._counts[sequence.root] = 0 if row is None else last_number(without_unreadable(row), sequence)
