"""What is still to follow on a store that changes one row at a time: commits that are not applied, and tasks of groups.

A commit that changes a group names it in its intents until its task is put, and the task stays until what shows the
group does so. So: read what shows it, the group, the journal, then the tasks; what differs and is in neither was
forgotten. See rules R1 to R3 of the commit protocol and docs/decisions/0105-totals-verified-one-row-at-a-time.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from oneread.plans.plan import Plan
from oneread.store.requests import Found
from oneread.transactions import outbox
from oneread.transactions.intents import JOURNAL, Intents, read_root, root_of_marker
from oneread.verify.keyspace import DAMAGED
from oneread.verify.logical_scanner import LogicalScanner


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
