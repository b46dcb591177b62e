"""Units of work: what `transact` reads and wants, first against an overlay, then for real.

The body of a transaction sees its own writes because every change is decided on an overlay; nothing of it is in the
store. The commit runs the same changes again inside one engine transaction, after it has checked that every commit row
that was looked at still has the version that was seen (optimistic concurrency control, Kung and Robinson 1981, backward
validation).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oneread.database.operations import Operations
from oneread.database.patches import patching
from oneread.database.results import Outcome, attach_outcome
from oneread.derivations.changes import ChangeResult, Delete, Mode, Patch, Save
from oneread.errors import Conflict, NotFound, UsageError
from oneread.plans.effects import Atomically, Now
from oneread.plans.plan import Plan
from oneread.plans.trace import Trace
from oneread.store.rows import Row
from oneread.transactions.native import Change, Refused, asking_again, report_followed
from oneread.transactions.outbox import left_by
from oneread.transactions.root import NO_ROOT, parse_root
from oneread.transactions.unit_of_work import UnitOfWork


class TransactionWork:
    """One attempt of one transaction."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._overlay = UnitOfWork(operations.catalog.name_of)
        self._changes: list[Change] = []
        self._given: list[tuple[Any, Outcome, ChangeResult]] = []
        self._now = 0
        self._ended = False

    def find(self, model: Any, key: tuple[Any, ...]) -> Plan[Any]:
        """An entity as it stands with this unit's changes."""
        self._refuse_ended()
        catalog = self._operations.catalog
        if not isinstance(model, type) or model not in catalog.kinds:
            raise UsageError("a transaction reads entities; read views before or after it", given=model)
        place = catalog.kinds[model].key(key)
        yield from self._overlay.load("roots", [place])
        row = self._overlay.get("roots", place)
        root = NO_ROOT if row is None else parse_root(row)
        entity = catalog.state(place, root).entity
        if not isinstance(entity, model):
            return None
        attach_outcome(entity, Outcome(root.version, Trace()))
        return entity

    def get(self, model: Any, key: tuple[Any, ...]) -> Plan[Any]:
        """Like `find`; NotFound when there is none."""
        entity = yield from self.find(model, key)
        if entity is None:
            raise NotFound("there is no such entity", model=model, key=key)
        return entity

    def save(self, entity: Any, mode: Mode, if_version: int | None) -> Plan[Any]:
        """Saves on the overlay."""
        whole = yield from self._operations.generated(entity)
        return (yield from self._write(Save(self._operations.catalog, whole, mode, if_version)))

    def patch(self, model: Any, key: tuple[Any, ...], changes: Mapping[str, Any], if_version: int | None) -> Plan[Any]:
        """Patches on the overlay."""
        catalog = self._operations.catalog
        return (
            yield from self._write(
                Patch(catalog, self._operations.kind(model).key(key), patching(model, changes), if_version)
            )
        )

    def delete(self, model: Any, key: tuple[Any, ...], if_version: int | None) -> Plan[None]:
        """Deletes on the overlay."""
        place = self._operations.kind(model).key(key)
        yield from self._write(Delete(self._operations.catalog, place, if_version, model))

    def _refuse_ended(self) -> None:
        """What is written to a unit that has been committed would be lost."""
        if self._ended:
            raise UsageError("this transaction has ended; use it inside its body only")

    def _write(self, change: Save | Patch | Delete) -> Plan[Any]:
        self._refuse_ended()
        if not self._now:
            self._now = yield from Now()
        mark = self._overlay.mark()
        try:
            yield from self._operations.decide(self._overlay, [change], self._now)
        except BaseException:  # the body may catch it and go on: then it must not see what was refused
            self._overlay.restore(mark)
            raise
        self._changes.append(change)
        if change.written.entity is not None:
            outcome = Outcome(change.written.version, Trace())
            attach_outcome(change.written.entity, outcome)
            self._given.append((change.written.entity, outcome, change.written))
        return change.written.entity

    def commit(self) -> Plan[list[bytes]]:
        """Checks what was seen and does every change again, in one engine transaction; returns the tasks it left."""
        self._ended = True
        if self._changes:
            tasks: list[bytes] = yield from Atomically(self._attempt)
            if self._operations.fence.is_stale:
                yield from self._operations.refresh()
            return tasks
        if len(self._overlay.loaded) > 1:  # one row alone is as it was at the moment it was read
            unit = UnitOfWork(self._operations.catalog.name_of)
            yield from self._checked(unit)
        return []

    def _attempt(self) -> Plan[list[bytes]]:
        return asking_again(self._once)

    def _once(self, refused: Refused) -> Plan[list[bytes]]:
        unit = UnitOfWork(self._operations.catalog.name_of)
        yield from self._operations.fence.check_writable(unit)
        yield from self._checked(unit)
        for change in self._changes:
            yield from self._operations.decide(unit, [change], self._now, refused)
        report_followed(unit, self._changes)
        yield from unit.flush(self._now)
        return left_by(unit)

    def _checked(self, unit: UnitOfWork) -> Plan[None]:
        """Reads again what was read, and raises Conflict unless all of it is as it was."""
        yield from unit.load("roots", self._overlay.loaded)
        for key, row in self._overlay.loaded.items():
            if _version(unit.get("roots", key)) != _version(row):
                raise Conflict(
                    "an entity that this transaction read was changed meanwhile",
                    key=self._operations.catalog.name_of(key),
                )

    def tell(self, trace: Trace, tasks: tuple[bytes, ...]) -> None:
        """Gives what the body was handed the outcome of the commit."""
        for _entity, outcome, written in self._given:
            outcome.version, outcome.trace, outcome.tasks = written.version, trace, tasks


def _version(row: Row | None) -> int:
    return 0 if row is None else parse_root(row).version
