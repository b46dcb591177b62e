"""The face of schema changes: a store and a schema that may differ, to plan what would change and to change it.

It is synchronous only: an operator runs it. See docs/explanation/schema-evolution.md.
"""

from __future__ import annotations

from collections.abc import Collection
from types import TracebackType
from typing import Self, TypeVar

from oneread.errors import Unsupported
from oneread.evolution.migrate import Planned, Status, apply_migration, plan_migration, roll_back, status
from oneread.evolution.schema import Schema
from oneread.plans.plan import Plan
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace

R = TypeVar("R")


class Migration:
    """A store and a schema that may differ: `with migration(url, schema) as change`."""

    def __init__(self, driver: SyncDriver, schema: Schema, *, may_write: bool) -> None:
        self._driver = driver
        self._declared = schema.declared()
        self._may_write = may_write

    def plan(self, *, drop: Collection[str] = (), count: bool = True) -> Planned:
        """Returns what opening the store under this schema changes, and what is refused; writes nothing.

        Costs a few requests; with `count`, a read of each entity that a backfill would rewrite.

        Arguments:
            drop: names of models and views that `apply` would drop.
            count: whether to count entities.

        Raises:
            SchemaMismatch: something to be dropped is declared, unknown, or a model with entities.
        """
        return self._run(plan_migration(self._declared, drop, count=count))

    def apply(self, *, drop: Collection[str] = ()) -> Planned:
        """Makes this schema the store's newest version, in one transaction; a backfill rewrites rows later.

        Costs what `plan` costs without counting, then one transaction; for a model that is dropped, a transaction more
        for each 2,000 of its deleted entities, and for a variant a read of its model's entities inside the transaction.

        Arguments:
            drop: names of models and views to drop: the backfill removes a view's rows; a model must have no entities.

        Raises:
            SchemaMismatch: something is refused; nothing was written.
            Unsupported: the store is open read-only.
        """
        self._refuse_read_only()
        return self._run(apply_migration(self._declared, drop))

    def rollback(self, *, lose: Collection[str] = ()) -> Planned:
        """Makes this schema, of an older program, the store's newest version.

        Arguments:
            lose: `Model.field` of each field whose values may be lost, names of models that may be dropped.

        Raises:
            SchemaMismatch: something would be lost that is not named, or is refused; nothing was written.
            Unsupported: the store is open read-only.
        """
        self._refuse_read_only()
        return self._run(roll_back(self._declared, lose))

    def status(self) -> Status:
        """Returns the versions of the schema, the states of views, and what a backfill has to do. Two requests."""
        return self._run(status(self._declared))

    def _refuse_read_only(self) -> None:
        if not self._may_write:
            raise Unsupported("cannot change the schema: the store is open read-only")

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
