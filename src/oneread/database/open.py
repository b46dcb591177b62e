"""Opening: the schema row is read or written, and the schema compiled with the store's numbers.

A program under the newest schema, or under an older one that may still write, is let in; one whose schema the store has
not seen changes the schema row, in one transaction, or is refused before a byte is written. See "Schema history" and
"View states" of the decisions page.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, NamedTuple

from oneread.database.operations import Operations
from oneread.derivations.catalog import SchemaNumbers, stored_name
from oneread.derivations.schema_rows import fence, replace_schema, stored_schema
from oneread.errors import SchemaMismatch
from oneread.evolution.declared import DeclaredSchema
from oneread.evolution.fence import Fence
from oneread.evolution.migrate import evolve_schema
from oneread.evolution.plan import refuse, refuse_undeclared
from oneread.evolution.schema import Schema
from oneread.models.versions import Past, StoredSchema
from oneread.plans.effects import Atomically, Now
from oneread.plans.plan import Plan

_MOVED_ON: Final = (
    "this store has moved on to a newer schema; start the newer program, or see `oneread migrate rollback`"
)


class _Fitting(NamedTuple):
    """A schema row, and the version of it that a declared schema is."""

    stored: StoredSchema
    version: int


def opened(schema: Schema, *, read_only: bool) -> Plan[Operations]:
    """The operations of a store under a schema; a schema that the store has not seen changes its schema row.

    Costs one request; with a schema that is new to the store a scan of one row for each model, and a transaction.

    Raises:
        SchemaMismatch: the schema does not fit the one in the store, or changes it and may not; nothing was written.
    """
    stored = yield from stored_schema()
    declared = schema.declared()
    fitting = _seen_before(stored, declared)
    if fitting is None:
        evolved = yield from evolve_schema(declared, stored)
        refuse(evolved)
        if not read_only:
            fitting = yield from Atomically(lambda: _evolved(declared))
        elif evolved.stored.version == stored.version:
            fitting = _Fitting(stored, stored.version)
        else:
            raise SchemaMismatch(
                "this store does not hold what the schema declares; open it for writing once",
                changed=[each.field or each.name for each in evolved.differences],
            )
    refuse_undeclared(fitting.stored, declared)
    return _operations(schema, fitting)


def _operations(schema: Schema, fitting: _Fitting) -> Operations:
    stored = fitting.stored
    catalog = schema.catalog(numbers_of(stored))
    building = frozenset(view for view in schema.views if stored.views[stored_name(view)].state == "building")
    return Operations(catalog, Fence(catalog, fitting.version, fence(stored), building), schema.inline)


def numbers_of(stored: StoredSchema) -> SchemaNumbers:
    """What a store calls each declaration."""
    return SchemaNumbers(
        stored.kinds,
        {name: layout.number for name, layout in stored.layouts.items()},
        {name: (view.number, view.generation) for name, view in stored.views.items()},
        stored.older,
        stored.last,
    )


def _seen_before(stored: StoredSchema, declared: DeclaredSchema) -> _Fitting | None:
    """The version that a declared schema is in a store's history, the newest of several; None for a new one.

    An older version that may still write knows the same numbers for all that it declares: whatever changes a number
    cuts older versions off.

    Raises:
        SchemaMismatch: it may not write any more.
    """
    versions = [past for past in stored.history if past.declared == declared.digest]
    if not versions:
        return None
    found = versions[-1]
    if found.version < stored.writers:
        now = stored.history[-1]
        raise SchemaMismatch(
            _MOVED_ON, version=found.version, declared=_date(found), newest=now.version, since=_date(now)
        )
    return _Fitting(stored, found.version)


def _date(past: Past) -> str:
    return datetime.fromtimestamp(past.at / 1000, UTC).isoformat(timespec="seconds")


def _evolved(declared: DeclaredSchema) -> Plan[_Fitting]:
    """Inside a transaction: the schema row as it is by now, and changed if need be."""
    stored = yield from stored_schema()
    fitting = _seen_before(stored, declared)
    if fitting is not None:
        return fitting
    evolved = yield from evolve_schema(declared, stored)
    refuse(evolved)
    changed = evolved.stored
    if changed is not stored:
        refuse_undeclared(changed, declared)
        changed = yield from replace_schema(changed, (yield from Now()))
    return _Fitting(changed, changed.version)
