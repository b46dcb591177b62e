"""The face of schema changes: a store and a schema that may differ, to plan what would change and to change it.

It is synchronous only: an operator runs it. See docs/explanation/schema-evolution.md.
"""

from __future__ import annotations

from collections.abc import Collection
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from oneread.database.cursors import own_cursor_key
from oneread.derivations.one_row import refuse_unsupported
from oneread.derivations.schema_rows import stored_schema
from oneread.errors import Unsupported
from oneread.evolution.changing import change_schema
from oneread.evolution.migrate import Planned, Status, apply_migration, plan_migration, roll_back, status
from oneread.evolution.schema import Schema
from oneread.models.versions import StoredSchema, lowered, mark_built
from oneread.plans.counted import CountedStore
from oneread.plans.plan import Plan
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.transactions.commit import SystemCommitter
from oneread.transactions.system_rows import NATIVE_SYSTEM

R = TypeVar("R")


class Migration:
    """A store and a schema that may differ: `with migration(url, schema) as change`."""

    def __init__(
        self, driver: SyncDriver, schema: Schema, *, may_write: bool, committer: SystemCommitter = NATIVE_SYSTEM
    ) -> None:
        self._driver = driver
        self._schema = schema
        self._declared = schema.declared()
        self._may_write = may_write
        self._committer = committer

    def plan(self, *, drop: Collection[str] = (), count: bool = True) -> Planned:
        """Returns what opening the store under this schema changes, and what is refused; writes nothing.

        `drop` names models and views that `apply` would drop. Costs a few requests; with `count`, a read of each entity
        that a backfill would rewrite, to count them.

        Raises:
            SchemaMismatch: something to be dropped is declared, unknown, or a model with entities.
        """
        return self._run(plan_migration(self._declared, drop, count=count))

    def apply(self, *, drop: Collection[str] = ()) -> Planned:
        """Makes this schema the store's newest version, in one transaction; a backfill rewrites rows later.

        `drop` names models and views to drop: the backfill removes a view's rows; a model must have no entities.

        Costs what `plan` costs without counting, then one transaction; for a model that is dropped, a transaction more
        for each 2,000 of its deleted entities, and for a variant a read of its model's entities inside the transaction.
        On a store that changes one row at a time, where older programs may not write any more, it waits for 20 seconds.

        Raises:
            SchemaMismatch: something is refused; nothing was written.
            Unsupported: the store is open read-only, or changes one row at a time and cannot keep the schema, or drop a
                model that had entities.
        """
        self._check_writable()
        return self._run(apply_migration(self._declared, drop, self._committer))

    def rollback(self, *, lose: Collection[str] = ()) -> Planned:
        """Makes this schema, of an older program, the store's newest version.

        `lose` has `Model.field` of each field whose values may be lost, and names of models that may be dropped.

        Raises:
            SchemaMismatch: something would be lost that is not named, or is refused; nothing was written.
            Unsupported: as `apply`.
        """
        self._check_writable()
        return self._run(roll_back(self._declared, lose, self._committer))

    def stored(self) -> tuple[StoredSchema, bytes]:
        """The schema of the store, and the key for cursors of pages. One request."""
        found = self._run(stored_schema())
        return found, found.cursor_key or own_cursor_key(self._driver.engine)

    def adopt(self, stored: StoredSchema, cursor_key: bytes) -> bool:
        """Gives a store that has no schema yet that of another store, whose key for cursors this is.

        So kinds and views have the numbers that they have there, and cursors of pages there are good here. Everything
        is readable, since there is nothing yet. Returns whether the store has taken it over, now or before.

        Raises:
            Unsupported: as `apply`.
        """
        self._check_writable()
        built = mark_built(msgspec.structs.replace(lowered(stored), changes=0, cursor_key=cursor_key, moving=False))

        def adopted(_store: CountedStore, found: StoredSchema) -> StoredSchema:
            return found if found.version else built

        return self._run(change_schema(self._committer, adopted)).cursor_key == cursor_key

    def status(self) -> Status:
        """Returns the versions of the schema, the states of views, and what a backfill has to do. Two requests."""
        return self._run(status(self._declared))

    def _check_writable(self) -> None:
        if not self._may_write:
            raise Unsupported("cannot change the schema: the store is open read-only")
        if self._committer is not NATIVE_SYSTEM:
            refuse_unsupported(self._schema.unstored())

    def _run(self, plan: Plan[R]) -> R:
        return self._driver.run(plan, Trace())

    def close(self) -> None:
        """Closes the store."""
        self._driver.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
