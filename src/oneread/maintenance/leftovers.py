"""Leftovers: rows that belong to no model, view or source of the schema, and tasks that nobody can do.

Knows the ground and the outbox. Must not know entities. The law is "The four tables" of docs/formats/rows.md.
"""

from __future__ import annotations

from typing import Final

from oneread.encoding.ranges import prefix_range
from oneread.errors import Corrupt
from oneread.maintenance.findings import Wording, shown_of
from oneread.maintenance.ground import Ground
from oneread.maintenance.walk import Walk
from oneread.plans.plan import Plan
from oneread.store.requests import Found, Scan
from oneread.store.rows import RowRange, Table
from oneread.transactions import outbox

_WIDTHS: Final[dict[Table, int]] = {"roots": 2, "views": 4, "counts": 4}


class Leftovers:
    """Looks for what belongs to nobody.

    Arguments:
        ground: the store.
        walk: reads.
        wording: takes what is found.
    """

    def __init__(self, ground: Ground, walk: Walk, wording: Wording) -> None:
        self._ground = ground
        self._walk = walk
        self._wording = wording

    def plan(self) -> Plan[None]:
        """One request for each view and kind, and one for each batch of rows that belong to nobody."""
        self._walk.phase("tasks")
        yield from self._walk.over("system", outbox.TASKS, self._tasks)
        yield from self._walk.over("system", outbox.SET_ASIDE, self._set_aside)
        for table, width in _WIDTHS.items():
            self._walk.phase(f"leftovers in {table}")
            yield from self._strays(table, width)

    def _tasks(self, found: list[Found]) -> Plan[None]:
        head = len(outbox.task_key(b""))
        sources = [key[head:] for key, _row in found]
        rows = yield from self._walk.read("roots", [source or b"\x00" for source in sources])
        for (key, row), source, root in zip(found, sources, rows, strict=True):
            shown = shown_of(row)
            try:
                task = outbox.read(row)
            except Corrupt:
                self._wording.task("unreadable", key, source, shown)
                continue
            if root is None:
                self._wording.task("dangling", key, source, shown)
            elif task.source != source or outbox.task_key(source) != key:
                self._wording.task("different", key, source, shown)

    def _set_aside(self, found: list[Found]) -> None:
        """A holder that is set aside is a fault by its stale copy; a whole task is one by itself."""
        for row in found:
            key, shown = outbox.read_aside(row)
            if shown is None:
                self._wording.task("unreadable", key, b"", shown_of(row[1]))
            elif not shown.holder:
                self._wording.task("unreadable", key, shown.source, f"{shown.error}: {shown.message}")

    def _strays(self, table: Table, width: int) -> Plan[None]:
        """Steps from one prefix to the next; what stands under an unknown one is reported row by row."""
        known = self._ground.known(table)
        start: bytes | None = b""
        while start is not None:
            found = yield from self._first(table, start)
            if found is None:
                return
            prefix = found[:width]
            within, start = prefix_range(prefix) if len(prefix) == width else (found, found + b"\x00")
            if prefix not in known and not self._waits(table, prefix):
                yield from self._walk.over(
                    table, RowRange(within, start or b""), lambda rows: self._report(table, rows)
                )

    def _first(self, table: Table, start: bytes) -> Plan[bytes | None]:
        try:
            rows = yield from Scan(table, RowRange(start, b""), 1, families="dm")
        except Corrupt as failure:
            key = failure.facts.get("key")
            if not isinstance(key, bytes):
                raise
            return key
        return rows[0][0] if rows else None

    def _waits(self, table: Table, prefix: bytes) -> bool:
        """While a backfill is under way, old records may still point where nobody points any more."""
        return self._ground.lenient and table == "views" and prefix[:2] in (outbox.BACK_REFERENCES, outbox.HOLDS)

    def _report(self, table: Table, found: list[Found]) -> None:
        for key, row in found:
            self._wording.stray(table, key, row)
