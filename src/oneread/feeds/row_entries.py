"""Entries on a store that changes one row at a time: a cell for each group of the item, and one for each membership.

Each cell has the stamp of the one row that it follows from, so that writing it is blind, and the newest wins whichever
comes last. A membership shows the item if the item is in the same group. See rule 15 of the commit protocol.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from oneread.feeds.entries import SHOWN_BY, shown_by_cell
from oneread.store.requests import Found
from oneread.store.rows import REMOVED, Cell, Row
from oneread.transactions.unit_of_work import VALUE

ITEM: Final = b"d:i:"
"""What the column of an item in a group begins with; the digest of the group follows."""

MEMBERSHIP: Final = b"d:m:"
"""What the column of a membership begins with; the digests of the group and of the membership follow."""

_DIGEST: Final = 12


def item_column(group: bytes) -> bytes:
    """The column of an item in a group: what a page shows, with the stamp of the row of items."""
    return ITEM + _digest(group)


def membership_column(group: bytes, membership: bytes) -> bytes:
    """The column of a membership, which is the group and the membership, with the stamp of the row of memberships."""
    return MEMBERSHIP + _digest(group) + _digest(membership)


def _digest(value: bytes) -> bytes:
    """Names of columns are short, and keys need not be."""
    return blake2b(value, digest_size=_DIGEST).digest()


def entry_row(row: Row) -> Row:
    """An entry as a store that spans rows has it; empty where nothing shows the item."""
    named: dict[bytes, list[bytes]] = {}
    items: dict[bytes, Cell] = {}
    for column, cell in row.items():
        if cell.value == REMOVED:
            continue
        if column.startswith(ITEM):
            items[column[len(ITEM) :]] = cell
        elif column.startswith(MEMBERSHIP):
            named.setdefault(column[len(MEMBERSHIP) :][:_DIGEST], []).append(cell.value)
    shown = [group for group in items if group in named]
    if not shown:
        return {}
    newest = max([items[group] for group in shown], key=lambda cell: (cell.stamp, cell.value))
    pairs = sorted([pair for group in shown for pair in named[group]])
    return {VALUE: newest, SHOWN_BY: shown_by_cell(pairs, newest.stamp)}


def entry(found: Found) -> Found:
    """A row of a feed, as `entry_row`."""
    key, row = found
    return key, entry_row(row)


def is_entry(found: Found) -> bool:
    """Whether something shows the item of what `entry` has made."""
    return bool(found[1])
