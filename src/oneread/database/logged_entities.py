"""The entities of a logged model that changed last, newest first, and which of them are deleted by now."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from oneread.database.operations import Operations
from oneread.errors import Corrupt
from oneread.plans.plan import Plan
from oneread.store.requests import Read, Scan
from oneread.store.rows import RowRange
from oneread.transactions.change_log import entries_from, entry_key, number_of, read_entry, stamp_of
from oneread.transactions.intents import read_root
from oneread.verify.keyspace import DAMAGED

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class LoggedEntity(NamedTuple):
    """An entity that is in the log: its key, when it changed, and whether it is deleted by now; None: unreadable."""

    key: tuple[Any, ...]
    at: datetime
    is_deleted: bool | None


class LoggedEntities(NamedTuple):
    """A page of the log of a model; `before` is the number of the entry that the next page ends behind, 0 for none."""

    rows: Sequence[LoggedEntity]
    before: int


def logged_entities(operations: Operations, cls: type, limit: int, before: int = 0) -> Plan[LoggedEntities]:
    """At most `limit` entities, or those of one entry: each once, as it changed last. Two requests.

    Entries that cannot be read are left out: `verify` reports them.
    """
    catalog = operations.catalog
    log, kind = catalog.logs[cls], catalog.kinds[cls]
    within = entries_from(log, 0)
    if before:
        within = RowRange(within.start, entry_key(log, before))
    entries = yield from Scan("system", within, limit, reverse=True)
    found: dict[bytes, int] = {}
    ends = 0
    for key, row in entries:
        with suppress(Corrupt):
            keys = [kind.prefix + each for each in read_entry(key, row)]
            if found and len(found) + len(keys) > limit:
                break
            found |= {each: stamp_of(row) for each in reversed(keys) if each not in found}
            ends = number_of(key)
    else:
        ends = ends if len(entries) == limit else 0
    roots = (yield from Read("roots", list(found), "dm")) if found else []
    rows: list[LoggedEntity] = []
    for (key, at), root in zip(found.items(), roots, strict=True):
        is_deleted: bool | None = None
        with suppress(*DAMAGED):
            is_deleted = read_root(key, root).root.body is None
        rows.append(LoggedEntity(kind.parts_of(key), _EPOCH + timedelta(milliseconds=at), is_deleted))
    return LoggedEntities(rows, ends)
