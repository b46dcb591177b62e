"""Leftovers: rows that belong to no model, view or source of the schema, and tasks that nobody can do.

A row of another kind in `system` is named and left: a newer release may have written it. See "The four tables" of
docs/formats/rows.md.
"""

from __future__ import annotations

from typing import Final

from oneread.encoding.ranges import prefix_range
from oneread.errors import Corrupt
from oneread.plans.plan import Plan
from oneread.plans.scans import check_ascending
from oneread.store.requests import Found, Scan
from oneread.store.rows import RowRange, Table
from oneread.transactions import outbox
from oneread.transactions.system_rows import RANGES, SINGLE_ROWS
from oneread.verify.keyspace import StoreKeyspaces
from oneread.verify.report import FaultReporter, shown_of
from oneread.verify.scanner import Scanner

_WIDTHS: Final[dict[Table, int]] = {"roots": 2, "views": 4, "counts": 4}


class Orphans:
    """Looks for what belongs to nobody."""

    def __init__(self, keyspaces: StoreKeyspaces, scanner: Scanner, reporter: FaultReporter) -> None:
        self._keyspaces = keyspaces
        self._scanner = scanner
        self._reporter = reporter

    def plan(self) -> Plan[None]:
        """One request for each view and kind, and one for each batch of rows that belong to nobody."""
        self._scanner.phase("tasks")
        yield from self._scanner.scan_all("system", outbox.TASKS, self._tasks)
        yield from self._scanner.scan_all("system", outbox.SET_ASIDE, self._set_aside)
        self._scanner.phase("leftovers in system")
        yield from self._scanner.scan_all("system", RowRange(b"", b""), self._system)
        for table, width in _WIDTHS.items():
            self._scanner.phase(f"leftovers in {table}")
            yield from self._strays(table, width)

    def _tasks(self, found: list[Found]) -> Plan[None]:
        sources = [outbox.source_of(key) for key, _row in found]
        rows = yield from self._scanner.read("roots", [source or b"\x00" for source in sources])
        for (key, row), source, root in zip(found, sources, rows, strict=True):
            shown = shown_of(row)
            try:
                task = outbox.read_task(row)
            except Corrupt:
                self._reporter.task("unreadable", key, source, shown)
                continue
            if root is None:
                self._reporter.task("dangling", key, source, shown)
            elif not outbox.is_task_of(key, task):
                self._reporter.task("different", key, source, shown)

    def _set_aside(self, found: list[Found]) -> None:
        """A holder that is set aside is a fault by its stale copy; a whole task is one by itself."""
        for row in found:
            key, shown = outbox.read_aside(row)
            if shown is None:
                self._reporter.task("unreadable", key, b"", shown_of(row[1]))
            elif not shown.holder:
                self._reporter.task("unreadable", key, shown.source, f"{shown.error}: {shown.message}")

    def _system(self, found: list[Found]) -> None:
        for key, row in found:
            if key not in SINGLE_ROWS and not any(each.start <= key < each.stop for each in RANGES):
                self._reporter.stray("system", key, row)

    def _strays(self, table: Table, width: int) -> Plan[None]:
        """Steps from one prefix to the next; what stands under an unknown one is reported row by row."""
        known = self._keyspaces.known(table)
        start: bytes | None = b""
        while start is not None:
            found = yield from self._first(table, start)
            if found is None:
                return
            prefix = found[:width]
            within, start = prefix_range(prefix) if len(prefix) == width else (found, found + b"\x00")
            if prefix not in known and not self._waits(table, prefix):
                yield from self._scanner.scan_all(
                    table, RowRange(within, start or b""), lambda rows: self._report(table, rows)
                )

    def _first(self, table: Table, start: bytes) -> Plan[bytes | None]:
        try:
            within = RowRange(start, b"")
            rows = yield from Scan(table, within, 1, families="dm")
            check_ascending(table, within, rows)
        except Corrupt as failure:
            key = failure.facts.get("key")
            if not isinstance(key, bytes):
                raise
            return key
        return rows[0][0] if rows else None

    def _waits(self, table: Table, prefix: bytes) -> bool:
        """While a backfill is under way, old records may still point where nobody points any more."""
        return (
            self._keyspaces.backfill_running
            and table == "views"
            and prefix[:2] in (outbox.BACK_REFERENCES, outbox.HOLDS)
        )

    def _report(self, table: Table, found: list[Found]) -> None:
        for key, row in found:
            self._reporter.stray(table, key, row)
