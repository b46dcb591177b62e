"""Opening: reads or changes the schema row, and compiles the schema with the store's numbers.

A program under the newest schema, or under an older one that may still write, opens the store; one whose schema is new
to the store changes the schema row, or is refused before a byte is written. See "Schema history" and "View states" of
the decisions page.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from msgspec import structs

from oneread.database.continued_erasures import erasure_chore
from oneread.database.operations import Operations
from oneread.database.store_parts import OpenedSchema, SpanningStore, StoreKind
from oneread.derivations.schema_rows import fence, stored_schema
from oneread.errors import Outdated, SchemaMismatch
from oneread.evolution.changing import change_schema
from oneread.evolution.declare import DeclaredSchema
from oneread.evolution.migrate import evolve_schema
from oneread.evolution.next_layouts import refuse_undeclared
from oneread.evolution.plan import refuse
from oneread.evolution.rolling import numbers_of
from oneread.evolution.schema import Schema
from oneread.models.versions import Past, StoredSchema
from oneread.plans.counted import CountedStore
from oneread.plans.inside import run_plan
from oneread.plans.plan import Plan
from oneread.store.limits import GRACE
from oneread.transactions.commit import SystemCommitter
from oneread.transactions.moves import refuse_finished
from oneread.transactions.system_rows import NATIVE_SYSTEM, NativeSystem

if TYPE_CHECKING:
    from oneread.transactions.system_commits import RowSystem

_NEWER: Final = "this store has a newer schema; start the newer program, or go back with `oneread migrate rollback`"


class _Fitting(NamedTuple):
    """A schema row, and which of its versions a declared schema is."""

    stored: StoredSchema
    version: int


def opened(
    schema: Schema, *, read_only: bool, committer: SystemCommitter = NATIVE_SYSTEM, grace: int | None = GRACE
) -> Plan[Operations]:
    """The operations of a store under a schema; a schema that is new to the store changes its schema row.

    Costs one request; with a new schema a scan of one row for each model, and a transaction; where programs may not
    write any more and the store changes one row at a time, a wait of `END_SECONDS` and a pass over the journal. Raises
    SchemaMismatch, with nothing written, where the schema does not fit the one in the store, or changes it and may not,
    and for a store of another format; Unsupported where a store that changes one row at a time cannot keep the schema.
    """
    kind = _kind_of(committer)
    kind.check(schema)
    stored = yield from stored_schema()
    if stored.moving and not read_only:
        yield from refuse_finished()
    declared = schema.declared()
    fitting = _seen_before(stored, declared)
    if fitting is None:
        evolved = yield from evolve_schema(declared, stored)
        refuse(evolved)
        if not read_only:
            stored = yield from change_schema(committer, partial(_next_schema, declared=declared))
            fitting = _seen_before(stored, declared)
            assert fitting is not None, "a schema row that was changed to a schema has it in its history"
        elif evolved.stored.version == stored.version:
            fitting = _Fitting(stored, stored.version)
        else:
            raise SchemaMismatch(
                "the schema is another one than this store has, and it is opened read-only; open it for writing once",
                changed=[each.field or each.name for each in evolved.differences],
            )
    stored = fitting.stored
    refuse_undeclared(stored, declared)
    numbers = numbers_of(stored, declared, fitting.version)
    if numbers is None:
        raise _refusal(stored, fitting.version)
    catalog = schema.catalog(structs.replace(numbers, form=kind.form))
    catalog.learn(stored)
    unbuilt = {view.prefix for view in stored.views.values() if view.state == "building"}
    building = frozenset(cls for cls, view in catalog.views.items() if view.prefix in unbuilt)
    parts = kind.parts(catalog, schema, OpenedSchema(fitting.version, fence(stored), building), grace)
    operations = Operations(catalog, schema, parts, grace)
    operations.cursor_key = stored.cursor_key
    operations.chores.add(erasure_chore(operations))
    return operations


def _kind_of(committer: SystemCommitter) -> StoreKind:
    if isinstance(committer, NativeSystem):
        return SpanningStore()
    from oneread.database.journal_parts import RowStore  # noqa: PLC0415 - only stores of one row need it

    return RowStore(cast("RowSystem", committer).journal.clock)


def _seen_before(stored: StoredSchema, declared: DeclaredSchema) -> _Fitting | None:
    """Finds a declared schema in a store's history, the newest of several versions; None for a new one.

    One that may not write any more raises Outdated.
    """
    versions = [past for past in stored.history if past.declared == declared.digest]
    if not versions:
        return None
    found = versions[-1]
    if found.version < stored.oldest_writer:
        raise _refusal(stored, found.version)
    return _Fitting(stored, found.version)


def _refusal(stored: StoredSchema, version: int) -> Outdated:
    then = next(past for past in reversed(stored.history) if past.version == version)
    now = stored.history[-1]
    return Outdated(_NEWER, version=version, declared=_date(then), newest=now.version, since=_date(now))


def _date(past: Past) -> str:
    return datetime.fromtimestamp(past.at / 1000, UTC).isoformat(timespec="seconds")


def _next_schema(store: CountedStore, stored: StoredSchema, declared: DeclaredSchema) -> StoredSchema:
    """The schema row with a declared schema, which another program may have stored meanwhile."""
    if _seen_before(stored, declared) is not None:
        return stored
    evolved = run_plan(store, evolve_schema(declared, stored))
    refuse(evolved)
    refuse_undeclared(evolved.stored, declared)
    return evolved.stored
