"""Puts the sorted rows of one commit so that long runs of new neighbours leave their pages full.

LMDB splits a full page in the middle, unless the new row is the last one of its page: then the page stays full and the
row begins another (mdb.c: mdb_page_split). A run that enters in front of other rows, as the lines of new invoices in
front of those of cancelled ones, never is the last one, and all its pages stay half empty. So what follows on the page
is taken out before a long run is put, and put behind it. See docs/decisions/0068-long-runs-fill-their-pages.md.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Final, TypeAlias

import lmdb

RowBytes: TypeAlias = "list[tuple[bytes, bytes]]"

PAGE: Final = 4096
"""Bytes of a run that is long, and the most that is moved for it: a page of most systems."""
_NODE: Final = 10  # bytes of an entry besides its key and value: mdb.c, MDB_node and its pointer


def put_sorted(transaction: lmdb.Transaction[bytes], database: Any, puts: RowBytes) -> None:
    """Puts entries that are sorted by key."""
    others: RowBytes = []
    start = 0
    while start < len(puts):
        cursor = transaction.cursor(database)
        is_last = not cursor.set_range(puts[start][0])
        stop = len(puts) if is_last else bisect_left(puts, (cursor.key(),), start)
        if is_last or _size(puts[start:stop]) < PAGE:
            stop = max(stop, start + 1)  # the key may be there
            others += puts[start:stop]
        else:
            following = _following(cursor)
            for key, _value in following:
                transaction.delete(key, db=database)
            transaction.cursor(database).putmulti(puts[start:stop] + following)
        start = stop
    transaction.cursor(database).putmulti(others)


def _following(cursor: lmdb.Cursor[bytes]) -> RowBytes:
    """The entries from a cursor on that can be on its page."""
    found: RowBytes = []
    room = PAGE
    for key, value in cursor.iternext():
        room -= len(key) + len(value) + _NODE
        if room < 0:
            break
        found.append((key, value))
    return found


def _size(entries: RowBytes) -> int:
    return sum([len(key) + len(value) + _NODE for key, value in entries])
