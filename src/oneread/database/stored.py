"""Opening: the schema row is read or written, and the schema compiled with the store's numbers.

Knows schemas and the schema row. Must not know engines. The law is "Schema history" and "View states" of the decisions
page.
"""

from __future__ import annotations

from collections.abc import Mapping

from oneread.database.fencing import Fence
from oneread.database.operations import Operations
from oneread.derivations.catalog import Numbers, stored_name
from oneread.derivations.schema import Schema
from oneread.derivations.stored import fence, replace_schema, stored_schema
from oneread.encoding.ranges import prefix_range
from oneread.errors import SchemaMismatch
from oneread.models.versions import StoredSchema, fitted
from oneread.plans.effects import Atomically, Now
from oneread.plans.plan import Plan
from oneread.store.requests import Scan
from oneread.store.rows import RowRange


def opened(schema: Schema, *, read_only: bool) -> Plan[Operations]:
    """The operations of a store under a schema; the schema row grows by what is new, in one transaction.

    Raises:
        SchemaMismatch: the schema does not fit the one in the store, or adds to it and may not; nothing was written.
    """
    stored = yield from stored_schema()
    grown = yield from _grown(schema, stored)
    if grown is not stored:
        if read_only:
            raise SchemaMismatch("this store does not hold all that the schema declares; open it for writing once")
        stored = yield from Atomically(lambda: _grow(schema))
    numbers = Numbers(
        stored.kinds,
        {name: layout.number for name, layout in stored.layouts.items()},
        {name: (view.number, view.generation) for name, view in stored.views.items()},
    )
    building = frozenset(view for view in schema.views if stored.views[stored_name(view)].state == "building")
    catalog = schema.catalog(numbers)
    return Operations(catalog, Fence(catalog, stored.version, fence(stored), building), schema.inline)


def _grown(schema: Schema, stored: StoredSchema) -> Plan[StoredSchema]:
    models, views = schema.declared()
    populated: dict[str, bool] = {}
    for name in {view.kind for view in views if view.name not in stored.views} & set(stored.kinds):
        populated[name] = yield from _has_rows(stored.kinds, name)
    return fitted(stored, models, views, populated)


def _has_rows(kinds: Mapping[str, int], name: str) -> Plan[bool]:
    start, stop = prefix_range(kinds[name].to_bytes(2, "big"))
    rows = yield from Scan("roots", RowRange(start, stop or b""), 1)
    return bool(rows)


def _grow(schema: Schema) -> Plan[StoredSchema]:
    stored = yield from stored_schema()
    grown = yield from _grown(schema, stored)
    if grown is stored:
        return stored
    return (yield from replace_schema(grown, (yield from Now())))
