"""What is still to follow on a store that changes one row at a time: commits that are not applied, and tasks.

A copy may differ while its source's commit is not applied, or its task waits. Tasks are put before a commit counts as
applied, so: look whether the source is as it was and applied, that no task of it is left, then at the holder. See
rules 6, 13 and 14 of the commit protocol.

A commit that changes a group names it in its intents until its task is put, and the task stays until what shows the
group does so. So: read what shows it, the group, the journal, then the tasks; what differs and is in neither was
forgotten. See rules R1 to R3 of the commit protocol and docs/decisions/0105-totals-verified-one-row-at-a-time.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from oneread.plans.plan import Plan
from oneread.store.requests import Found
from oneread.store.rows import REMOVED, VALUE, RowRange
from oneread.transactions import outbox
from oneread.transactions.intents import JOURNAL, Intents, read_root, root_of_marker
from oneread.transactions.outbox import aside_key, task_key
from oneread.verify.copy_check import HeldCopy
from oneread.verify.keyspace import DAMAGED
from oneread.verify.logical_scanner import LogicalScanner

TASKS_READ: Final = 100
"""Tasks of one source that are looked at; a source seldom has more than one."""


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


def each_intents(scanner: LogicalScanner, take: Callable[[bytes, Intents], None]) -> Plan[None]:
    """Gives the intents of all commits of the journal that are not applied yet, each with the key of its root row.

    A scan, and a read for each batch.
    """

    def read(found: list[Found]) -> Plan[None]:
        keys = sorted({root_of_marker(key) for key, _row in found})
        for key, row in zip(keys, (yield from scanner.read_stored("roots", keys)), strict=True):
            try:
                intents = read_root(key, row).intents
            except DAMAGED:
                continue
            if intents is not None:
                take(key, intents)

    yield from scanner.scan_all("system", JOURNAL, read)


def groups_that_wait(scanner: LogicalScanner, groups: Iterable[bytes]) -> Plan[set[bytes]]:
    """Those of these groups that what shows them is still to follow. A look at the journal, and a read."""
    waiting: set[bytes] = set()
    wanted = list(groups)
    yield from each_intents(scanner, lambda _root, intents: waiting.update(intents.groups))
    rows = yield from scanner.read_stored("system", [outbox.group_task(each) for each in wanted])
    waiting.update(each for each, row in zip(wanted, rows, strict=True) if outbox.waiting_cells(row))
    return waiting
