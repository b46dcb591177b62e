"""Puts the sorted rows of one commit so that long runs of new neighbours leave their pages full.

LMDB splits a full page in the middle, unless the new row is the last one of its page: then the page stays full and the
row begins another (mdb.c: mdb_page_split). A run that enters in front of other rows, as the lines of new invoices in
front of those of cancelled ones, never is the last one, and all its pages stay half empty. So where a run takes too
many pages, what follows it is taken out, half a page at a time, and put behind it in the end. See
docs/decisions/0068-long-runs-fill-their-pages.md.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Final, TypeAlias

from oneread.engines.lmdb.binding import LmdbCursor, LmdbTransaction

RowBytes: TypeAlias = "list[tuple[bytes, bytes]]"

PAGE: Final = 4096
"""Bytes of a page of most systems."""
_PART: Final = 4 * PAGE
FEW: Final = 16
"""Fewer entries are put as they are: a save pays nothing."""
_ROOM: Final = PAGE // 2  # less would leave the next page so empty that LMDB moves rows between both
_TOO_MANY: Final = 1.5  # pages for each page's worth of a part: 1.2 where they are filled, 2 where they are split
_NODE: Final = 10  # bytes of an entry besides its key and value: mdb.c, MDB_node and its pointer


def put_sorted(transaction: LmdbTransaction, database: Any, puts: RowBytes) -> None:
    """Puts entries that are sorted by key."""
    cursor = transaction.cursor(database)
    if not is_long(puts):
        cursor.putmulti(puts)
        return
    step = _step(puts)
    others: RowBytes = []
    start = 0
    while start < len(puts):
        stop = start + step
        if stop <= len(puts) and cursor.set_range(puts[start][0]) and puts[stop - 1][0] < cursor.key():
            stop = bisect_left(puts, (cursor.key(),), stop)
            _put_run(transaction, database, puts[start:stop], step)
        else:
            others += puts[start:stop]
        start = stop
    transaction.cursor(database).putmulti(others)


def is_long(puts: RowBytes) -> bool:
    """Whether they may be a run that is put in parts; others are put one after the other."""
    return len(puts) >= FEW and 0 < _step(puts) <= len(puts)


def _step(puts: RowBytes) -> int:
    """How many entries are a part."""
    return len(puts) * _PART // _size(puts)


def _put_run(transaction: LmdbTransaction, database: Any, run: RowBytes, step: int) -> None:
    """Puts neighbours that stored rows follow, `step` at a time, and then what was taken out behind them."""
    taken: RowBytes = []
    for start in range(0, len(run), step):
        part = run[start : start + step]
        before = transaction.stat(database)["leaf_pages"]
        transaction.cursor(database).putmulti(part)
        grown = transaction.stat(database)["leaf_pages"] - before
        if grown * PAGE > _size(part) * _TOO_MANY:
            following = _following(transaction.cursor(database), part[-1][0])
            for key, _value in following:
                transaction.delete(key, db=database)
            taken += following
    transaction.cursor(database).putmulti(taken)


def _following(cursor: LmdbCursor, key: bytes) -> RowBytes:
    """The entries behind a key that half a page has room for."""
    found: RowBytes = []
    room = _ROOM
    cursor.set_key(key)
    for following, value in cursor.iternext() if cursor.next() else ():
        room -= len(following) + len(value) + _NODE
        if room < 0:
            break
        found.append((following, value))
    return found


def _size(entries: RowBytes) -> int:
    return sum([len(key) + len(value) + _NODE for key, value in entries])
