"""The rows of a store that describe the store: its schema, and the fence that every commit reads.

The fence has in a few bytes what a commit must know: which versions of the schema may still write, and whether the
schema row changed since this process read it. See "Schema history" of the decisions page and docs/formats/rows.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

import msgspec

from oneread.errors import Conflict, Outdated
from oneread.models.versions import StoredSchema, decode, encode
from oneread.plans.counted import CountedStore
from oneread.plans.plan import Plan
from oneread.store.engine import NeededRow
from oneread.store.requests import Read
from oneread.store.rows import VALUE, Cell, Row
from oneread.transactions.change_log import log_of, log_of_entities
from oneread.transactions.system_rows import FENCE, FENCE_ROW, SCHEMA_ROW, Swap

_decode: Final = lru_cache(maxsize=4)(decode)
"""A verification reads the row again for each model."""


def stored_schema() -> Plan[StoredSchema]:
    """The schema of the store; an empty one when nothing was ever declared. One request, one row."""
    (row,) = yield from Read("system", [SCHEMA_ROW])
    return read_stored(row)


def read_stored(row: Row | None) -> StoredSchema:
    """What the schema row says."""
    return StoredSchema() if row is None else _decode(row[VALUE].value)


def stored_logs(stored: StoredSchema) -> frozenset[bytes]:
    """The keys of the change logs that programs of a schema write."""
    views = {log_of(each.prefix, each.watched) for each in stored.views.values() if each.watched}
    return frozenset(views | {log_of_entities(stored.kinds[kind], since) for kind, since in stored.logged.items()})


def replace_schema(store: CountedStore, stored: StoredSchema, now: int) -> StoredSchema:
    """Replaces the schema row and the fence, inside `SystemCommitter.together`; returns the schema as stored."""
    changed = msgspec.structs.replace(stored, changes=stored.changes + 1)
    rows: dict[bytes, Row | None] = {
        SCHEMA_ROW: {VALUE: Cell(encode(changed), now)},
        FENCE_ROW: {VALUE: Cell(fence(changed), now)},
    }
    store.replace("system", rows)
    return changed


def fence(stored: StoredSchema) -> bytes:
    """The value of the fence row under a schema; a store without this row never changed its schema.

    Two numbers, and a third one while the store is moved or moved into.
    """
    return msgspec.msgpack.encode((stored.oldest_writer, stored.changes, *((1,) if stored.moving else ())))


_NEVER_CHANGED: Final = fence(StoredSchema())
_decode_fence: Final = msgspec.msgpack.Decoder(tuple[int, ...]).decode
_RESTING: Final = 2
"""The numbers in the fence of a store that does not move."""


def fence_of(row: Row | None) -> bytes:
    """The value of the fence row as it was read."""
    return fence_in_cell(None if row is None else row.get(VALUE))


def fence_in_cell(cell: Cell | None) -> bytes:
    """The value of the one cell of the fence row."""
    return _NEVER_CHANGED if cell is None else cell.value


def needed_fence(seen: bytes) -> NeededRow:
    """The fence row of a store whose fence is this one."""
    return "system", FENCE_ROW, None if seen == _NEVER_CHANGED else seen


def fence_in(schema: Row | None) -> bytes:
    """The fence in the schema row, on a store that changes one row at a time."""
    return _NEVER_CHANGED if schema is None else schema[FENCE].value


def changes_of(seen: bytes) -> int:
    """How often the schema row was changed, from a fence."""
    return _decode_fence(seen)[1]


def is_moving(seen: bytes) -> bool:
    """Whether the store is moved or moved into, from a fence."""
    return len(_decode_fence(seen)) > _RESTING


def fence_unchanged(seen: bytes, lost: Callable[[], Conflict]) -> Swap:
    """A check that the fence, and with it the schema row, is as it was seen."""
    value = None if seen == _NEVER_CHANGED else seen
    return Swap(FENCE_ROW, value, value, lost)


def schema_and_fence() -> Plan[tuple[StoredSchema, bytes]]:
    """The schema of the store, and the value of its fence, which says nothing that the schema does not."""
    stored = yield from stored_schema()
    return stored, fence(stored)


def refuse_overtaken(stored: StoredSchema, version: int) -> None:
    """Raises Outdated unless a program under this version of the schema may still write."""
    if version < stored.oldest_writer:
        raise Outdated(
            "a newer program has upgraded this store, nothing was written; restart this one with the newer schema",
            version=version,
            store=stored.version,
        )
