"""Dropping: removes entities that cannot be read and rows of no model, which no repair can mend.

Each is looked at again in a transaction of its own and stays if it is readable by then. See "What only you can mend" of
docs/explanation/verify-and-repair.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from oneread.derivations.catalog import Catalog
from oneread.derivations.schema_rows import stored_schema
from oneread.errors import UsageError
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.plans.progress import MAX_AGE, Fault, no_progress
from oneread.store.requests import Read
from oneread.transactions.native import NativeCommitter
from oneread.transactions.system_rows import FENCE_ROW
from oneread.verify.keyspace import StoreKeyspaces
from oneread.verify.mend import Mender
from oneread.verify.scanner import Scanner


def check_droppable(faults: Sequence[Fault]) -> None:
    """Raises UsageError for what is not a fault that can be dropped."""
    for fault in faults:
        if not isinstance(fault, Fault):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may be untyped
            raise UsageError("expected a fault, as verify returns them", given=fault)
        if not fault.droppable:
            raise UsageError("only a fault with droppable=True can be dropped; repair mends others", fault=fault.text)


def drop(catalog: Catalog, committer: NativeCommitter, faults: Sequence[Fault]) -> Plan[tuple[Fault, ...]]:
    """Removes what these faults are about; returns those of which something was removed.

    Raises:
        UsageError: a fault is not droppable; nothing was removed.
        SchemaMismatch: the schema has changed; what was removed before stays removed.
    """
    check_droppable(faults)
    keyspaces = StoreKeyspaces(catalog, (yield from stored_schema()), now=(yield from Now()))
    (fence,) = yield from Read("system", [FENCE_ROW])
    mender = Mender(keyspaces, Scanner(None, MAX_AGE, no_progress), committer, fence)
    dropped: list[Fault] = []
    for fault in faults:
        was_removed = yield from committer.together(partial(mender.drop, fault=fault))
        dropped += [fault] if was_removed else []
    return tuple(dropped)
