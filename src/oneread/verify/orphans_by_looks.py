"""Orphans on a store that changes one row at a time: each task has a version in its key, and ends with a lease."""

from __future__ import annotations

from typing import Final

from oneread.plans.effects import Sleep
from oneread.plans.plan import Plan
from oneread.store.requests import Found
from oneread.store.rows import VALUE, WRITES, Table
from oneread.transactions import outbox
from oneread.transactions.change_log import says_last_entry
from oneread.transactions.intents import JOURNAL
from oneread.transactions.outbox import Task
from oneread.transactions.system_rows import RANGES
from oneread.verify import looks
from oneread.verify.orphans import Orphans

ROW_RANGES: Final = (*RANGES, JOURNAL, outbox.GROUP_TASKS)
"""Where rows of `system` are on such a store."""


class RowOrphans(Orphans):
    """Reports rows without an entity, view or source, and broken tasks and counters."""

    _ranges = ROW_RANGES

    def _tasks_among(self, found: list[Found]) -> list[Found]:
        return [(key, row) for key, row in found if VALUE in row or not row]  # a lease may outlive its task

    def _source_of(self, key: bytes) -> bytes:
        return outbox.unversioned(outbox.source_of(key))

    def _is_task_of(self, key: bytes, task: Task) -> bool:
        return outbox.task_key(task.source) == outbox.unversioned(key)

    def _is_behind(self, said: int, last: int) -> bool:  # noqa: ARG002 - of other stores
        """False: an entry is put before the row of its log."""
        return False

    def _is_lost(self, log: bytes) -> Plan[bool]:
        """The first entry is put before the row, so another look decides."""
        yield from Sleep(looks.APART)
        (row,) = yield from self._scanner.read("system", [log])
        return not says_last_entry(row)

    def _check_counters(self, found: list[Found]) -> None:
        """Of a counter that was deleted, or that was shown before it was added to, rows stay without a value."""
        super()._check_counters([(key, row) for key, row in found if VALUE in row or WRITES not in row])

    def _is_known(self, table: Table, prefix: bytes) -> bool:
        return super()._is_known(table, prefix) or (table == "roots" and outbox.is_group_root(prefix))
