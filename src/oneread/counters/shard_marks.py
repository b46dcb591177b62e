"""Marks of counters that entities show, on stores that change one row at a time: rules C1 to C3 of the commit protocol.

The mark of a counter has a cell for each of its rows that was changed since the last copy, put before the change. The
row itself remembers that it has marked, so that later changes of it ask for nothing more.
"""

from __future__ import annotations

from typing import Final

from oneread.counters.rows import MARKS, new_mark
from oneread.counters.shard_rows import ShardChange
from oneread.plans.plan import Plan
from oneread.store.keys import VIEW_BYTES
from oneread.store.requests import Mutate
from oneread.store.rows import Cell, Row, RowMutation
from oneread.transactions.lost_answers import surely

_CHANGED: Final = b"d:p:"


def mark_before(change: ShardChange, *, shown: bool) -> Plan[None]:
    """Marks a counter before a change of its value: one request.

    None where this row has marked it, or where no entity shows the counter: neither the row nor its settings, read when
    the row had no value yet, say `shown`.
    """
    before = change.before
    if before.marked or not (shown or before.marked is False):
        return
    key = before.key
    cell = Cell(new_mark(change.now), change.stamp)
    yield from surely(Mutate("counts", [RowMutation(MARKS + key[VIEW_BYTES:-1], {_CHANGED + key[-1:]: cell})]))
    change.mark(marked=True)


def marked_rows(mark: Row) -> dict[int, int]:
    """The numbers of the rows that marked a counter, each with the least `m:w` that it may have afterwards."""
    return {column[-1]: cell.stamp for column, cell in mark.items()}


def without_marks(key: bytes, mark: Row) -> RowMutation:
    """Removes what a mark held when it was read: each cell at its own stamp, so that later ones stay."""
    return RowMutation(key, deletes={column: cell.stamp for column, cell in mark.items()})


def mark_later(key: bytes, mark: Row, now: int) -> RowMutation:
    """A mark as if its rows had been changed just now."""
    return RowMutation(key, {column: Cell(new_mark(now), cell.stamp) for column, cell in mark.items()})
