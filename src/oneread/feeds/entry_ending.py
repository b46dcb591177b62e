"""The end of entries that nothing shows, on a store that changes one row at a time: readers pass over them no more.

Of an entry whose item or membership was removed one cell is left, of one that was trimmed or whose group is merged both
are. A page reads such rows, and they use up its budget. Once nothing was put into the row for as long as a write may
take, every cell is removed *at its own stamp*, by a compare-and-set on when the row was last put. A removed cell is not
sent to readers; it hides no cell that is put again with the same stamp, since the last of two with one stamp stays: a
delete would, on some stores. What shows an item again puts both cells. See docs/decisions/0098-entries-that-end.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from oneread.feeds.entries import Entries
from oneread.feeds.entry_cells import NONE_HIDDEN, entry_row
from oneread.feeds.large_group_cells import hidden_groups
from oneread.plans.effects import Now, Together
from oneread.plans.plan import Plan
from oneread.store.requests import CheckAndMutate, Found, Mutate
from oneread.store.rows import REMOVED, Cell, Row, RowMutation

TOUCHED: Final = b"m:u"
"""The column that says when cells of an entry were last put, as value and stamp, by the clock of who put them."""

_READ: Final = b"d:"
"""What the columns begin with that pages read."""


def put_entries(entries: Sequence[RowMutation]) -> Plan[None]:
    """Puts cells of entries, and when that was. One request."""
    now = yield from Now()
    touched = {TOUCHED: Cell(now.to_bytes(8, "big"), now)}
    yield from Mutate("views", [RowMutation(each.key, {**each.puts, **touched}) for each in entries])


def end_entries(feed: Entries, found: Iterable[Found], until: int) -> Plan[int]:
    """Ends those of these entries that nothing shows, and into which nothing was put since a moment; how many it were.

    A compare-and-set for each, at the same time; of feeds with large groups a read more for each member.
    """
    old = [each for each in found if _may_end(each[1], until)]
    members = list(dict.fromkeys(feed.member_in(key) for key, _row in old)) if feed.view.large is not None else []
    several = yield from Together([hidden_groups(feed, each) for each in members])
    hidden: Mapping[bytes, frozenset[bytes]] = dict(zip(members, several, strict=True))
    left = [(key, row) for key, row in old if not entry_row(row, hidden.get(feed.member_in(key), NONE_HIDDEN))]
    return sum((yield from Together([_ending(key, row).__iter__() for key, row in left])))


def _may_end(row: Row, until: int) -> bool:
    return TOUCHED in row and row[TOUCHED].stamp < until and bool(_removals(row))


def _ending(key: bytes, row: Row) -> CheckAndMutate:
    return CheckAndMutate("views", TOUCHED, row[TOUCHED].value, RowMutation(key, _removals(row)))


def _removals(row: Row) -> Row:
    """What removes the cells that readers see."""
    return {
        column: Cell(REMOVED, cell.stamp)
        for column, cell in row.items()
        if column.startswith(_READ) and cell.value != REMOVED
    }
