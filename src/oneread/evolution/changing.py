"""Changes of the schema row, and of the fence with it.

Where programs may not write any more under what is wanted, and the store changes one row at a time, the fence is raised
first, and the schema changes once those programs have ended: what it depends on - that a model has no entities, that no
row of an older layout comes - is looked at then. See rule F2 of the commit protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import msgspec

from oneread.derivations.schema_rows import replace_schema, stored_schema
from oneread.errors import SchemaMismatch
from oneread.models.versions import StoredSchema, lowered
from oneread.plans.counted import CountedStore
from oneread.plans.inside import run_plan
from oneread.plans.plan import Plan
from oneread.transactions.commit import SystemCommitter

NextSchema: TypeAlias = Callable[[CountedStore, StoredSchema], StoredSchema]
"""From the schema row, the next one; itself for no change. Runs inside `SystemCommitter.together`, maybe repeatedly."""

_NEVER: Final = -1


class _SchemaStep(NamedTuple):
    """The schema row, and whether older programs must end before it is changed as wanted."""

    stored: StoredSchema
    waits: bool = False


def change_schema(committer: SystemCommitter, wanted: NextSchema) -> Plan[StoredSchema]:
    """Changes the schema row as wanted; returns it as stored.

    Raises:
        SchemaMismatch: of `wanted`; nothing is changed, and older programs may write.
    """
    ended = _NEVER if committer.waits_for_older else None
    while True:
        try:
            step = yield from committer.together(partial(_change, wanted=wanted, ended=ended))
        except SchemaMismatch:
            if ended not in (None, _NEVER):
                yield from committer.together(partial(_lower, raised=ended))
            raise
        if not step.waits:
            return step.stored
        yield from committer.end_older()
        ended = step.stored.changes


def _change(store: CountedStore, wanted: NextSchema, ended: int | None) -> _SchemaStep:
    """The change, or the raised fence. `ended` are the changes of the row since which older programs have ended."""
    stored = run_plan(store, stored_schema())
    found = wanted(store, stored)
    if found is stored:
        return _SchemaStep(stored)
    if ended in (None, stored.changes) or not stored.version or found.writers <= stored.writers:
        return _SchemaStep(replace_schema(store, found, store.now()))
    if stored.raised >= found.writers:  # another program waits, too: it must find the row as it left it
        return _SchemaStep(stored, waits=True)
    raised = msgspec.structs.replace(stored, raised=found.writers)
    return _SchemaStep(replace_schema(store, raised, store.now()), waits=True)


def _lower(store: CountedStore, raised: int | None) -> None:
    stored = run_plan(store, stored_schema())
    if stored.changes == raised:
        replace_schema(store, lowered(stored), store.now())
