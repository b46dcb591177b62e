"""What waits in the outbox, as a person reads it.

Knows tasks and names of rows. Must not know who does the tasks. The law is "Tasks" of the commit protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from oneread.derivations.catalog import Catalog
from oneread.errors import Corrupt
from oneread.plans.plan import Plan
from oneread.store.requests import Found, Scan
from oneread.store.rows import Row
from oneread.transactions import outbox

BATCH: Final = 500
"""Tasks of one scan."""


class WaitingTask(msgspec.Struct, frozen=True):
    """One fan-out that is not done yet.

    Arguments:
        source: the entity whose copies are told of its new values.
        done: carriers that were told so far.
        readable: whether the task's row can be read; `verify` says more about one that cannot.
    """

    source: str
    done: int
    readable: bool = True


def waiting_tasks(catalog: Catalog, limit: int) -> Plan[list[WaitingTask]]:
    """The first tasks of the outbox. One request and at most `limit` rows."""
    rows = yield from Scan("system", outbox.TASKS, limit)
    return [_told(catalog, key, row) for key, row in rows]


def count_tasks() -> Plan[int]:
    """How many tasks there are; a request for each `BATCH` of them."""
    sizes: list[int] = []
    yield from _over(lambda rows: sizes.append(len(rows)))
    return sum(sizes)


def untold_sources() -> Plan[set[bytes]]:
    """The keys of all entities whose carriers have yet to be told; a request for each `BATCH` of them.

    Raises:
        Corrupt: a task cannot be read.
    """
    found: set[bytes] = set()
    yield from _over(lambda rows: found.update(outbox.read(row).source for _key, row in rows))
    return found


def _over(take: Callable[[list[Found]], None]) -> Plan[None]:
    """Gives every task to `take`, in batches."""
    within = outbox.TASKS
    while True:
        rows = yield from Scan("system", within, BATCH)
        take(rows)
        if len(rows) < BATCH:
            return
        within = within.behind(rows[-1][0])


def _told(catalog: Catalog, key: bytes, row: Row) -> WaitingTask:
    try:
        task = outbox.read(row)
        return WaitingTask(catalog.name_of(task.source), task.done)
    except Corrupt:
        return WaitingTask(key.hex(), 0, readable=False)
