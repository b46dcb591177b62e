"""Removes entries of change logs that are not kept any more, and the logs of views that are not watched any more.

The number of the last entry that was removed stays in the log's row, so that a cursor from before it is recognised. See
docs/explanation/live-pages.md.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import takewhile
from typing import Final

import msgspec

from oneread.database.expiry_sweep import ExpirySweep, Swept
from oneread.derivations.catalog import Catalog
from oneread.derivations.schema_rows import fence_unchanged, schema_and_fence
from oneread.errors import Conflict
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.store.requests import Found, Read, Replace, Scan
from oneread.store.rows import Row, RowRange
from oneread.transactions.change_log import (
    LOGS,
    LogState,
    entries_from,
    log_of,
    number_of,
    owning_log,
    read_state,
    stamp_of,
    state_row,
)
from oneread.transactions.commit import SystemCommitter
from oneread.transactions.system_rows import Swap

_MILLISECOND: Final = timedelta(milliseconds=1)


class LogSweep:
    """One sweep of all change logs of a store.

    A log of this program's views loses what is older than they declare; with programs that declare different times, the
    shortest counts. A log of a view that only newer programs know is left to them.
    """

    def __init__(self, catalog: Catalog, system: SystemCommitter, batch: int) -> None:
        self._kept = {
            catalog.logs[view.prefix]: view.cls.watched // _MILLISECOND
            for view in catalog.views.values()
            if view.cls.watched is not None
        }
        self._system = system
        self._batch = batch
        self._start = LOGS.start
        self._watched: frozenset[bytes] = frozenset()
        self._unchanged: list[Swap] = []
        self.removed = 0

    def step(self) -> Plan[bool]:
        """Removes one batch; False when there is no more to do.

        One request where there is no log; else two more at first, two for each log, and a transaction for each batch.
        """
        while True:
            rows = yield from Scan("system", RowRange(self._start, LOGS.stop), 1)
            if not rows:
                return False
            if not self._unchanged:
                yield from self._learn()
            log = owning_log(rows[0][0])
            removed = yield from self._sweep(log)
            self.removed += removed
            if removed:
                return True
            self._start = RowRange.under(log).stop

    def _learn(self) -> Plan[None]:
        stored, fence = yield from schema_and_fence()
        self._watched = frozenset(log_of(each.prefix, each.watched) for each in stored.views.values() if each.watched)
        lost = "the schema has changed since this sweep began; sweep again"
        self._unchanged = [fence_unchanged(fence, lambda: Conflict(lost))]

    def _sweep(self, log: bytes) -> Plan[int]:
        kept = self._kept.get(log)
        if log not in self._watched:  # no program that may still write knows it
            return (yield from self._system.sweep("system", RowRange.under(log), self._batch, self._unchanged))
        if kept is None or not _old((yield from Scan("system", entries_from(log, 0), 1)), (yield from Now()) - kept):
            return 0
        return (yield from self._system.together(lambda: self._remove_old(log, kept)))

    def _remove_old(self, log: bytes, kept: int) -> Plan[int]:
        """In a transaction: removes the first entries of a log as far as they are old, and notes the last of them."""
        now = yield from Now()
        (row,) = yield from Read("system", [log], "dm")
        old = _old((yield from Scan("system", entries_from(log, 0), self._batch)), now - kept)
        if old and row is not None:
            state = LogState(read_state(log, row).last, number_of(old[-1]))
            written: dict[bytes, Row | None] = {**dict.fromkeys(old), log: state_row(state, stamp_of(row))}
            yield from Replace("system", written)
        return len(old)


def _old(entries: list[Found], until: int) -> list[bytes]:
    """The keys of the first entries, as far as they were written by then."""
    return [key for key, _row in takewhile(lambda entry: stamp_of(entry[1]) <= until, entries)]


class Sweep:
    """A sweep of what has expired, and then of the change logs."""

    def __init__(self, expired: ExpirySweep, logs: LogSweep) -> None:
        self._expired = expired
        self._logs = logs

    @property
    def swept(self) -> Swept:
        """What was done so far."""
        return msgspec.structs.replace(self._expired.swept, changes=self._logs.removed)

    @property
    def done(self) -> int:
        """Entities that were deleted or lost rows, and entries of logs that were removed."""
        return self._expired.done + self._logs.removed

    @property
    def tasks(self) -> list[bytes]:
        """The tasks that it left."""
        return self._expired.tasks

    def step(self) -> Plan[bool]:
        """Sweeps one batch; False when there is no more to do."""
        return (yield from self._expired.step()) or (yield from self._logs.step())
