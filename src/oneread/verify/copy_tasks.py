"""Copies on a store that changes one row at a time: which differ from their sources, by two looks.

A copy may differ while its source's commit is not applied, or its task waits. Tasks are put before a commit counts as
applied, so: look whether the source is as it was and applied, that no task of it is left, then at the holder. See
rules 6, 13 and 14 of the commit protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from oneread.plans.plan import Plan
from oneread.store.rows import REMOVED, VALUE, RowRange
from oneread.transactions.outbox import aside_key, task_key
from oneread.verify.copy_check import CopyComparison, HeldCopy
from oneread.verify.expected import ExpectedRows
from oneread.verify.logical_scanner import LogicalScanner

TASKS_READ: Final = 100
"""Tasks of one source that are looked at; a source seldom has more than one."""


def stale_copies(copies: CopyComparison, holders: Sequence[tuple[bytes, ExpectedRows]]) -> Plan[list[HeldCopy]]:
    """The copies of these holders that differ from sources that can be read."""
    differing = yield from copies.differing(holders)
    return [each for each in differing if each.source not in copies.unreadable]


def sources_that_wait(scanner: LogicalScanner, sources: Iterable[bytes]) -> Plan[set[bytes]]:
    """Those that have a task. One request for each."""
    waiting: set[bytes] = set()
    for source in sources:
        found = yield from scanner.scan_stored("system", RowRange.under(task_key(source)), TASKS_READ)
        if any(VALUE in row and row[VALUE].value != REMOVED for _key, row in found):
            waiting.add(source)
    return waiting


def set_aside_among(scanner: LogicalScanner, stale: Sequence[HeldCopy]) -> Plan[set[tuple[bytes, bytes]]]:
    """The holders among these that could not follow, with their sources: nothing will make those right."""
    pairs = list(dict.fromkeys((each.key, each.source) for each in stale))
    rows = yield from scanner.read("system", [aside_key(source, holder) for holder, source in pairs])
    return {pair for pair, row in zip(pairs, rows, strict=True) if row is not None}
