"""Removes entries of change logs that are not kept any more, and logs that no program writes any more.

The row of a log stays with the number of its last entry, so that a cursor from before a removed one is recognised. See
docs/explanation/live-pages.md.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import takewhile
from typing import Final

import msgspec

from oneread.database.expiry_sweep import ExpirySweep, Swept
from oneread.derivations.catalog import Catalog
from oneread.derivations.schema_rows import fence_unchanged, schema_and_fence, stored_logs
from oneread.errors import Conflict
from oneread.launches.sweeping import LaunchSweep
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.store.requests import Scan
from oneread.store.rows import RowRange
from oneread.transactions.change_log import LOGS, entries_from, owning_log, stamp_of
from oneread.transactions.commit import SystemCommitter
from oneread.transactions.system_rows import Swap

_MILLISECOND: Final = timedelta(milliseconds=1)


class LogSweep:
    """One sweep of all change logs of a store.

    A log of this program's views and models loses what is older than they declare; with programs that declare
    different times, the shortest counts. A log that only newer programs know is left to them.
    """

    def __init__(self, catalog: Catalog, system: SystemCommitter, batch: int) -> None:
        self._kept = {log: catalog.kept(cls) // _MILLISECOND for cls, log in catalog.logs.items()}
        self._system = system
        self._batch = batch
        self._start = LOGS.start
        self._written: frozenset[bytes] = frozenset()
        self._unchanged: list[Swap] = []
        self.removed = 0

    def step(self) -> Plan[bool]:
        """Removes one batch; False when nothing is left to do.

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
        self._written = stored_logs(stored)
        lost = "the schema has changed since this sweep began; sweep again"
        self._unchanged = [fence_unchanged(fence, lambda: Conflict(lost))]

    def _sweep(self, log: bytes) -> Plan[int]:
        kept = self._kept.get(log)
        if log not in self._written:  # no program that may still write knows it
            return (yield from self._system.sweep("system", RowRange.under(log), self._batch, self._unchanged))
        if kept is None:
            return 0
        entries = yield from Scan("system", entries_from(log, 0), self._batch)
        until = (yield from Now()) - kept
        old = [key for key, _row in takewhile(lambda entry: stamp_of(entry[1]) <= until, entries)]
        if not old:
            return 0
        within = entries_from(log, 0)
        return (yield from self._system.sweep("system", RowRange(within.start, old[-1] + b"\x00"), len(old)))


class Sweep:
    """A sweep of what has expired, then of the change logs, and then of launches, unless those are left out."""

    def __init__(self, expired: ExpirySweep, logs: LogSweep, launches: LaunchSweep | None) -> None:
        self._expired = expired
        self._logs = logs
        self._launches = launches

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
        """Sweeps one batch; False when nothing is left to do."""
        if (yield from self._expired.step()) or (yield from self._logs.step()):
            return True
        return False if self._launches is None else (yield from self._launches.step())
