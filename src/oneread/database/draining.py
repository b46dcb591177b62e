"""Draining: the tasks of the outbox are done in batches, in turn, and what cannot follow is set aside by name.

An error of one holder is written down with the holder and never ends a task; only what the store itself cannot do ends
a drain. See docs/decisions/0030-holders-are-set-aside.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from oneread.derivations.catalog import Catalog
from oneread.errors import (
    BudgetExceeded,
    Closed,
    Corrupt,
    LimitExceeded,
    OnereadError,
    OutcomeUnknown,
    SchemaMismatch,
    StaleCopies,
    Unavailable,
)
from oneread.evolution.fence import Fence
from oneread.plans.effects import Atomically, Now
from oneread.plans.plan import Plan
from oneread.store.requests import Read, Scan
from oneread.store.rows import RowRange
from oneread.transactions import outbox
from oneread.transactions.native import Cascade, Refused, asking_again
from oneread.transactions.outbox import Entry, SetAside
from oneread.transactions.root import NO_ROOT, parse_root
from oneread.transactions.system_rows import FENCE_ROW
from oneread.transactions.unit_of_work import UnitOfWork

_STOPPING: Final = (Closed, SchemaMismatch, Unavailable, BudgetExceeded, OutcomeUnknown)
"""No smaller batch helps against these, and no holder is to blame."""

_NAMED: Final = 20
"""Holders of one source that an error names at most."""


class Verbs(Protocol):
    """What draining needs of an open database."""

    @property
    def catalog(self) -> Catalog: ...

    @property
    def fence(self) -> Fence: ...

    def cascade(self, unit: UnitOfWork, now: int, refused: Refused | None = None) -> Cascade: ...


class Drain:
    """Does the tasks of one open database. Each step is of another task, so that a large one holds up no small one."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs
        self._last = b""

    def step(self, batch: int) -> Plan[bool]:
        """One batch of the next task in turn, or of what was set aside and has changed since; False for none.

        Raises:
            StoreError: the store could not do it. The next step begins with another task.
        """
        behind = self._last
        key = yield from _first(RowRange(behind + b"\x00", outbox.TASKS.stop) if behind else outbox.TASKS)
        if key is None:  # every task had its turn
            self._last = b""
            if (yield from self._retry_changed()):
                return True
            key = (yield from _first(outbox.TASKS)) if behind else None
        if key is None:
            return False
        self._last = key  # before it is done: one that fails lets the others go first
        yield from self._advance(key, batch)
        return True

    def _advance(self, key: bytes, batch: int) -> Plan[None]:
        """One batch of a task; where it cannot be written in one transaction, one holder."""
        try:
            yield from Atomically(lambda: self.task_batch(key, batch))
        except _STOPPING:
            raise
        except OnereadError as failure:
            error = failure
        else:
            return
        if batch > 1:
            yield from self._advance(key, 1)
        elif isinstance(error, LimitExceeded):  # of the store: a full map or disk
            raise error
        else:
            yield from Atomically(lambda: self._pass_over(key, error))

    def task_batch(self, key: bytes, batch: int) -> Plan[None]:
        """One batch of a task, inside a transaction."""
        return asking_again(lambda refused: self._batch(key, batch, refused))

    def _batch(self, key: bytes, batch: int, refused: Refused) -> Plan[None]:
        unit = UnitOfWork(self._verbs.catalog.name_of)
        try:
            yield from unit.load("system", [key, FENCE_ROW])
            yield from self._verbs.fence.check_writable(unit)
            row = unit.get("system", key)
            if row is None:
                return
            task = outbox.read_task(row)
            within = outbox.holders_of(task.source)
            targets = yield from unit.scan("views", RowRange(outbox.remaining(task), within.stop), batch)
            holders = [target[len(within.start) :] for target, _row in targets]
            if holders:
                yield from self._check_source(unit, task.source, holders)
        except Corrupt as unreadable:
            yield from self._verbs.fence.check_writable(unit)
            yield from self._give_up(unit, key, unreadable)
            return
        now = yield from Now()
        yield from self._verbs.cascade(unit, now, refused).follow(task.source, holders)
        if key in unit.tasks:  # what followed changed the source again: the task starts anew
            pass
        elif len(targets) < batch:
            unit.put("system", key, None)
        else:
            outbox.save_task(unit, key, outbox.Task(task.source, targets[-1][0], task.done + len(targets)), now)
        yield from unit.flush(now)

    def _begun(self) -> Plan[UnitOfWork]:
        """A unit of work behind the fence."""
        unit = UnitOfWork(self._verbs.catalog.name_of)
        yield from self._verbs.fence.check_writable(unit)
        return unit

    def _check_source(self, unit: UnitOfWork, source: bytes, holders: Sequence[bytes] = ()) -> Plan[None]:
        """Raises Corrupt when no holder can follow, because the source cannot be read. Reads both in one request."""
        try:
            yield from unit.load("roots", [source, *holders])
        except Corrupt:  # of a holder, perhaps
            yield from unit.load("roots", [source])
        row = unit.get("roots", source)
        self._verbs.catalog.source(source, NO_ROOT if row is None else parse_root(row))

    def _give_up(self, unit: UnitOfWork, key: bytes, error: Exception) -> Plan[None]:
        """Sets a whole task aside."""
        now = yield from Now()
        unit.put("system", key, None)
        yield from outbox.set_aside(unit, outbox.source_of(key), b"", error, now)
        yield from unit.flush(now)

    def _pass_over(self, key: bytes, error: Exception) -> Plan[None]:
        """Sets the next holder of a task aside, with which the task could not be written."""
        unit = yield from self._begun()
        yield from unit.load("system", [key])
        row = unit.get("system", key)
        if row is not None:
            task = outbox.read_task(row)
            now = yield from Now()
            within = outbox.holders_of(task.source)
            targets = yield from unit.scan("views", RowRange(outbox.remaining(task), within.stop), 1)
            for target, _row in targets:
                yield from outbox.set_aside(unit, task.source, target[len(within.start) :], error, now)
                outbox.save_task(unit, key, outbox.Task(task.source, target, task.done + 1), now)
            if not targets:
                unit.put("system", key, None)
            yield from unit.flush(now)

    # What was set aside.

    def _retry_changed(self) -> Plan[bool]:
        """Runs the first entries again whose source or holder has changed since; False when there is none."""
        within: RowRange | None = outbox.SET_ASIDE
        while within is not None:
            entries, within = yield from _some(within)
            changed = yield from outbox.changed(entries)
            if changed:
                yield from self._retry(changed)
                return True
        return False

    def retry(self) -> Plan[int]:
        """Runs everything again that is set aside; returns how much that was."""
        within: RowRange | None = outbox.SET_ASIDE
        done = 0
        while within is not None:
            entries, within = yield from _some(within)
            readable = [entry for entry in entries if entry.shown is not None]
            if readable:
                yield from self._retry(readable)
            done += len(readable)
        return done

    def _retry(self, entries: Sequence[Entry]) -> Plan[None]:
        """Several in one transaction; when that cannot be written, each by itself."""
        try:
            yield from Atomically(lambda: asking_again(lambda refused: self._again(entries, refused)))
        except _STOPPING:
            raise
        except OnereadError as failure:
            error = failure
        else:
            return
        if len(entries) > 1:
            for entry in entries:
                yield from self._retry([entry])
        elif isinstance(error, LimitExceeded):
            raise error
        else:
            yield from Atomically(lambda: self._fail_again(entries[0], error))

    def _again(self, entries: Sequence[Entry], refused: Refused) -> Plan[None]:
        unit = yield from self._begun()
        now = yield from Now()
        yield from unit.load("system", [key for key, _shown in entries])
        cascade = self._verbs.cascade(unit, now, refused)
        for key, shown in entries:
            if shown is None or unit.get("system", key) is None:
                continue
            if not shown.holder:
                yield from self._restart(unit, key, shown, now)
            elif not (yield from cascade.follow(shown.source, [shown.holder])):
                unit.put("system", key, None)
        yield from unit.flush(now)

    def _restart(self, unit: UnitOfWork, key: bytes, shown: SetAside, now: int) -> Plan[None]:
        """Puts a whole task into the outbox again, unless its source cannot be read, or never was."""
        try:
            if shown.source:
                yield from self._check_source(unit, shown.source)
        except Corrupt as unreadable:
            yield from outbox.set_aside(unit, shown.source, b"", unreadable, now)
            return
        if shown.source and unit.get("roots", shown.source) is not None:
            outbox.add_task(unit, shown.source, now)
        unit.put("system", key, None)

    def _fail_again(self, entry: Entry, error: Exception) -> Plan[None]:
        unit = yield from self._begun()
        now = yield from Now()
        if entry.shown is not None:
            keys = [key for key in (entry.shown.source, entry.shown.holder) if key]
            try:
                yield from unit.load("roots", keys)
            except Corrupt as unreadable:
                error = unreadable
            yield from outbox.set_aside(unit, entry.shown.source, entry.shown.holder, error, now)
        yield from unit.flush(now)

    # What became of tasks.

    def ended(self, tasks: Sequence[bytes]) -> Plan[bool]:
        """Whether every holder has followed the sources of these tasks; False while some will be tried yet.

        Raises:
            StaleCopies: the tasks have ended, and holders are set aside.
        """
        rows = yield from Read("system", list(tasks))
        if any(row is not None for row in rows):
            return False
        stuck: list[SetAside] = []
        for task in tasks:
            found = yield from Scan("system", outbox.aside_of(outbox.source_of(task)), _NAMED)
            entries = [outbox.read_aside(row) for row in found]
            if (yield from outbox.changed(entries)):
                return False
            stuck.extend([shown for _key, shown in entries if shown is not None])
        if stuck:
            name = self._verbs.catalog.name_of
            raise StaleCopies(
                "holders of copies could not follow their source and are set aside; see db.set_aside()",
                holders=[name(each.holder or each.source) for each in stuck],
                reason=f"{stuck[0].error}: {stuck[0].message}",
            )
        return True


def _first(within: RowRange) -> Plan[bytes | None]:
    """The first key of a range, be its row readable or not."""
    try:
        rows = yield from Scan("system", within, 1)
    except Corrupt as failure:
        key = failure.facts.get("key")
        if not isinstance(key, bytes):
            raise
        return key
    return rows[0][0] if rows else None


def _some(within: RowRange) -> Plan[tuple[list[Entry], RowRange | None]]:
    """The first entries of a range, and where the others lie."""
    rows = yield from Scan("system", within, outbox.BATCH)
    rest = within.behind(rows[-1][0]) if len(rows) == outbox.BATCH else None
    return [outbox.read_aside(row) for row in rows], rest
