"""Entries on a store that changes one row at a time: a cell for each group of the item, and one for each membership.

Each cell has the stamp of the one row that it follows from, so that writing it is blind, and the newest wins whichever
comes last. A membership shows the item if the item is in the same group. What `at_most` trims is marked, each cell with
its own stamp. See rule 15 of the commit protocol and docs/decisions/0087-trimming-by-marks.md.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple

from oneread.feeds.entries import SHOWN_BY, shown_by_cell
from oneread.store.requests import Found
from oneread.store.rows import REMOVED, VALUE, Cell, Row

ITEM: Final = b"d:i:"
"""What the column of an item in a group begins with; the digest of the group follows."""

MEMBERSHIP: Final = b"d:m:"
"""What the column of a membership begins with; the digests of the group and of the membership follow."""

TRIMMED: Final = b"d:t:"
"""What the column of a mark begins with; the rest of the column of an item or a membership follows.

The mark says up to which stamp that one was trimmed, in a feed of so many entries at most. Both that show an item must
be marked: one that is newer - the item was changed, the member is back - shows it again.
"""

NONE_HIDDEN: Final = frozenset[bytes]()
"""Of a member whose pages merge no groups."""

_FAMILY: Final = b"d:"
_DIGEST: Final = 12


def item_column(group: bytes) -> bytes:
    """The column of an item in a group: what a page shows, with the stamp of the row of items."""
    return ITEM + group_digest(group)


def membership_column(group: bytes, membership: bytes) -> bytes:
    """The column of a membership, which is the group and the membership, with the stamp of the row of memberships."""
    return MEMBERSHIP + group_digest(group) + _digest(membership)


@lru_cache(1_000)
def group_digest(group: bytes) -> bytes:
    """What names a group in columns."""
    return _digest(group)


def _digest(value: bytes) -> bytes:
    """Names of columns are short, and keys need not be."""
    return blake2b(value, digest_size=_DIGEST).digest()


class ShowingPair(NamedTuple):
    """An item and a membership in one group, both there: their columns."""

    item: bytes
    membership: bytes


def showing_pairs(row: Row, hidden: frozenset[bytes] = NONE_HIDDEN) -> list[ShowingPair]:
    """What shows the item of an entry: nothing of groups with these digests."""
    named: dict[bytes, list[bytes]] = {}
    items: list[bytes] = []
    is_trimmed = False
    for column, cell in row.items():
        if column.startswith(TRIMMED):
            is_trimmed = True
        elif cell.value == REMOVED:
            continue
        elif column.startswith(ITEM):
            if column[len(ITEM) :] not in hidden:
                items.append(column)
        elif column.startswith(MEMBERSHIP):
            named.setdefault(column[len(MEMBERSHIP) :][:_DIGEST], []).append(column)
    pairs = [ShowingPair(item, each) for item in items for each in named.get(item[len(ITEM) :], ())]
    return [each for each in pairs if not all(_is_covered(row, column) for column in each)] if is_trimmed else pairs


def _is_covered(row: Row, column: bytes) -> bool:
    """Whether a cell was there when the entry was trimmed."""
    mark = row.get(mark_column(column))
    return mark is not None and mark.value != REMOVED and mark.stamp >= row[column].stamp


def mark_column(column: bytes) -> bytes:
    """The column of the mark of an item or a membership."""
    return TRIMMED + column[len(_FAMILY) :]


def marks_of_trimming(row: Row, hidden: frozenset[bytes] = NONE_HIDDEN) -> Row:
    """What trims an entry: a mark for each cell that shows its item, with its stamp; empty where nothing does."""
    return {mark_column(column): Cell(b"", row[column].stamp) for pair in showing_pairs(row, hidden) for column in pair}


def was_trimmed(row: Row) -> bool:
    """Whether an entry was ever trimmed."""
    return any(column.startswith(TRIMMED) for column in row)


def was_trimmed_at(row: Row, cells: Row) -> bool:
    """Whether an entry was trimmed when it had cells of these stamps; its own may be removed, and the marks, since."""
    marks = {column: row.get(mark_column(column)) for column in cells}
    return all(mark is not None and mark.stamp == cells[column].stamp for column, mark in marks.items())


def entry_row(row: Row, hidden: frozenset[bytes] = NONE_HIDDEN) -> Row:
    """An entry as a store that spans rows has it; empty where nothing shows the item but groups that are hidden."""
    pairs = showing_pairs(row, hidden)
    if not pairs:
        return {}
    newest = max([row[each.item] for each in pairs], key=lambda cell: (cell.stamp, cell.value))
    return {
        VALUE: newest,
        SHOWN_BY: shown_by_cell(sorted([row[each.membership].value for each in pairs]), newest.stamp),
    }


def entry(found: Found) -> Found:
    """A row of a feed, as `entry_row`."""
    key, row = found
    return key, entry_row(row)


def is_entry(found: Found) -> bool:
    """Whether something shows the item of what `entry` has made."""
    return bool(found[1])
