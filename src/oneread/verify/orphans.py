"""Orphans: rows outside of every model, view and source, and tasks, jobs and counters that cannot be read.

A row of another kind in `system` is named and stays: a newer release may have written it. See "The four tables" of
docs/formats/rows.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from oneread.counters import rows as counters
from oneread.encoding.ranges import prefix_range
from oneread.errors import Corrupt
from oneread.plans.effects import Sleep
from oneread.plans.plan import Plan
from oneread.plans.scans import check_ascending, fetch_rows
from oneread.store.keys import PREFIX_BYTES, pointer_part
from oneread.store.requests import Found
from oneread.store.rows import Row, RowRange, Table
from oneread.transactions import outbox
from oneread.transactions.change_log import LOGS, last_entry, number_of, owning_log, read_entry, says_last_entry
from oneread.transactions.job_rows import is_of_queue, job_fault
from oneread.transactions.system_rows import RANGES, is_known_row
from oneread.verify.keyspace import StoreKeyspaces
from oneread.verify.report import FaultReporter
from oneread.verify.scanner import Scanner


def _as_it_is(key: bytes) -> bytes:
    return key


class SystemForm(NamedTuple):
    """How the rows of `system` differ by the kind of store; as it is, those of stores that span rows."""

    ranges: tuple[RowRange, ...] = RANGES
    """Where rows are that a program of this release writes."""
    unversioned: Callable[[bytes], bytes] = _as_it_is
    """The key of a task, or its source, without the version of a change."""
    has_group_roots: bool = False
    """Whether groups that indexes list have rows in `roots`."""
    apart: float | None = None
    """Seconds between two looks at the row of a log, where entries are put before it; None where both are together."""


class Orphans:
    """Reports rows without an entity, view or source, and broken tasks, jobs and counters."""

    def __init__(self, keyspaces: StoreKeyspaces, scanner: Scanner, reporter: FaultReporter, form: SystemForm) -> None:
        self._keyspaces = keyspaces
        self._scanner = scanner
        self._reporter = reporter
        self._form = form
        self._known: frozenset[bytes] = frozenset()
        self._log: tuple[bytes, Row | None] | None = None
        self._last = 0

    def run(self) -> Plan[None]:
        """One request for each view and kind, and one for each batch of orphans and of rows of counters."""
        self._scanner.phase("tasks")
        yield from self._scanner.scan_all("system", outbox.TASKS, self._check_tasks)
        yield from self._scanner.scan_all("system", outbox.SET_ASIDE, self._check_set_aside)
        self._scanner.phase("orphans in system")
        yield from self._scanner.scan_all("system", RowRange(b"", b""), self._check_system)
        self._scanner.phase("change logs")
        yield from self._scanner.scan_all("system", LOGS, self._check_logs)
        yield from self._check_log_row()
        self._scanner.phase("counters")
        yield from self._scanner.scan_all("counts", counters.ALL, self._check_counters)
        for table, width in PREFIX_BYTES.items():
            self._scanner.phase(f"orphans in {table}")
            yield from self._scan_unknown(table, width)

    def _check_tasks(self, found: list[Found]) -> Plan[None]:
        unversioned = self._form.unversioned
        sources = [unversioned(outbox.source_of(key)) for key, _row in found]
        rows = yield from self._scanner.read("roots", [source or b"\x00" for source in sources])
        for (key, row), source, root in zip(found, sources, rows, strict=True):
            try:
                task = outbox.read_task(row)
            except Corrupt as error:
                self._reporter.task("unreadable", key, source, error.message)
                continue
            if root is None and outbox.kind_of(source) == outbox.FOLLOW:
                self._reporter.task("dangling", key, source, "")
            elif not outbox.is_task_of(unversioned(key), task):
                self._reporter.task("different", key, source, f"it names {self._keyspaces.name_of(task.source)}")

    def _check_set_aside(self, found: list[Found]) -> None:
        """Reports tasks that were set aside as a whole; a holder that was is reported by its stale copy."""
        for row in found:
            key, shown = outbox.read_aside(row)
            if shown is None:
                self._reporter.task("unreadable", key, b"", "an entry of a task that was set aside")
            elif not shown.holder:
                self._reporter.task("unreadable", key, shown.source, f"{shown.error}: {shown.message}")

    def _check_system(self, found: list[Found]) -> None:
        for key, row in found:
            if not is_known_row(key, self._form.ranges):
                self._reporter.stray("system", key, row)
            elif is_of_queue(key) and (reason := job_fault(key, row)) is not None:
                self._reporter.job(key, reason)

    def _check_logs(self, found: list[Found]) -> Plan[None]:
        """Reports entries of change logs that cannot be read, and rows of logs that do not say the last entry."""
        for key, row in found:
            log = owning_log(key)
            if self._log is None or self._log[0] != log:
                yield from self._check_log_row()
                self._log, self._last = (log, row if key == log else None), 0
                if key == log:
                    continue
            try:
                self._last = number_of(key)
                read_entry(key, row)
            except Corrupt as error:
                self._reporter.change_log("unreadable", key, error.message)

    def _check_log_row(self) -> Plan[None]:
        """Reports the row of the log whose entries were read, where it is not right."""
        if self._log is None:
            return
        log, row = self._log
        if says_last_entry(row):
            if self._form.apart is None and last_entry(log, row) < self._last:
                self._reporter.change_log("different", log, f"the last entry is {self._last}")
        elif (yield from self._is_lost(log)):
            text = "the number of the last entry cannot be read" if row else "the number of the last entry is missing"
            self._reporter.change_log("unreadable" if row else "missing", log, text)

    def _is_lost(self, log: bytes) -> Plan[bool]:
        """Whether the row of a log cannot be read by now either: its first entry may be put before it."""
        if self._form.apart is None:
            return True
        yield from Sleep(self._form.apart)
        (row,) = yield from self._scanner.read("system", [log])
        return not says_last_entry(row)

    def _check_counters(self, found: list[Found]) -> None:
        """Reports rows of counters that cannot be read; a counter has no source that its value could differ from."""
        for key, row in found:
            reason = counters.fault_of(key, row)
            if reason is not None:
                self._reporter.counter(key, reason)

    def _scan_unknown(self, table: Table, width: int) -> Plan[None]:
        """Steps from one prefix to the next, and reports each row under an unknown one."""
        self._known = self._keyspaces.known_prefixes(table)
        start: bytes | None = b""
        while start is not None:
            found = yield from self._first_key(table, start)
            if found is None:
                return
            prefix = found[:width]
            within, start = prefix_range(prefix) if len(prefix) == width else (found, found + b"\x00")
            # While a backfill is running, older records may still list back-references of former declarations.
            is_pointer = table == "views" and pointer_part(prefix) in (outbox.BACK_REFERENCES, outbox.HOLDS)
            # Rows of counters, those of kinds that a later release may add included, were reported and stay.
            is_counter = table == "counts" and prefix.startswith(counters.ALL.start)
            may_be_former = is_pointer and self._keyspaces.backfill_running
            if not (self._is_known(table, prefix) or is_counter or may_be_former):
                yield from self._scanner.scan_all(table, RowRange(within, start or b""), partial(self._report, table))

    def _is_known(self, table: Table, prefix: bytes) -> bool:
        """Whether the schema has rows under a prefix."""
        is_group = self._form.has_group_roots and table == "roots" and outbox.is_group_root(prefix)
        return is_group or prefix in self._known

    def _first_key(self, table: Table, start: bytes) -> Plan[bytes | None]:
        try:
            within = RowRange(start, b"")
            rows = yield from fetch_rows(table, within, 1)
            check_ascending(table, within, rows)
        except Corrupt as failure:
            key = failure.facts.get("key")
            if not isinstance(key, bytes):
                raise
            return key
        return rows[0][0] if rows else None

    def _report(self, table: Table, found: list[Found]) -> None:
        for key, row in found:
            self._reporter.stray(table, key, row)
