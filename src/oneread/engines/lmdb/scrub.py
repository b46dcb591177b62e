"""Scrubbing a store in place: no page of its file keeps a byte of what was removed, while programs read and write.

LMDB frees a page without a change of it, and a page in use has remains of entries between its living ones, and keys of
removed entries in its branches (mdb.c: mdb_node_del, mdb_rebalance). So the entries of all tables are taken out and put
in again, some thousand in a transaction, which makes new pages of them; twice, with other borders between the
transactions, because what is beside a border stays. Then pages of zeros take all free ones, and are freed. LMDB uses no
page that a reader may still see: what readers of before hold is waited for. See docs/formats/lmdb.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from oneread.engines.lmdb.binding import LmdbCursor, LmdbTransaction
from oneread.engines.lmdb.environment import Environment
from oneread.engines.lmdb.options import MAX_DATABASES
from oneread.errors import Unavailable
from oneread.store.engine import Scrubbed

_ENTRIES: Final = 2_000
"""Entries of one transaction."""
_BYTES: Final = 2 << 20
"""And their bytes, at most, but for one entry."""
_PAGES: Final = 1_000
"""Pages of zeros of one transaction."""
_HEAD: Final = 16
"""Bytes of a page's head (mdb.c: PAGEHDRSZ)."""
_SETTLED: Final = 3
"""Transactions until LMDB uses what the first of them has freed (mdb.c: mdb_page_alloc)."""
_META: Final = b"oneread"
_ZEROS: Final = b"scrub:"
_LOOK_SECONDS: Final = 0.05


class Scrubbing:
    """One pass over the file of an environment. `timeout` is the seconds that each transaction waits for its turn."""

    def __init__(self, environment: Environment, timeout: float, progress: Callable[[int], object]) -> None:
        self._environment = environment
        self._timeout = timeout
        self._progress = progress
        self._entries = 0

    def run(self, wait: float) -> Scrubbed:
        """Scrubs; raises Unavailable where readers of before have not ended within so many seconds."""
        self._remove_zeros()
        for name in self._alone(self._tables):
            self._rewrite(name, _ENTRIES)
            self._rewrite(name, _ENTRIES // 2)
        self._wait_for_readers(wait)
        pages = self._fill()
        self._remove_zeros()
        return Scrubbed(self._entries, pages)

    def _alone(self, work: Callable[[LmdbTransaction], Any]) -> Any:
        return self._environment.write_alone(work, self._timeout)

    def _tables(self, transaction: LmdbTransaction) -> list[bytes]:
        """The tables of all tenants."""
        return [name for name, _root in transaction.cursor() if name != _META][:MAX_DATABASES]

    def _rewrite(self, name: bytes, first: int) -> None:
        """Takes the entries of a table out and puts them in again; the first transaction has so many of them."""
        place: bytes | None = b""
        size = first
        while place is not None:
            place, done = self._alone(partial(self._renew, name, place, size))
            self._entries += done
            self._progress(self._entries)
            size = _ENTRIES

    def _renew(self, name: bytes, begin: bytes, most: int, transaction: LmdbTransaction) -> tuple[bytes | None, int]:
        """Renews entries from a key on; returns the key of the next one, and how many were renewed."""
        database = self._environment.lmdb.open_db(name, transaction, create=False)
        with transaction.cursor(database) as cursor:
            taken = list(_entries(cursor, begin, most))
            follows = cursor.key() or None
        for key, _value in taken:
            transaction.delete(key, db=database)
        self._wash(transaction)
        for key, value in taken:
            transaction.put(key, value, db=database)
        return follows, len(taken)

    def _wash(self, transaction: LmdbTransaction) -> None:
        """Overwrites the memory of pages that this process has written, which LMDB takes for new ones as it is.

        Pages of zeros take it, and are taken out again, so that none of them is written (mdb.c: mdb_page_malloc,
        mdb_page_loose).
        """
        self._put_zeros(0, transaction)
        meta = self._environment.lmdb.open_db(_META, transaction, create=False)
        for each in range(_PAGES):
            transaction.delete(_ZEROS + each.to_bytes(8, "big"), db=meta)

    def _wait_for_readers(self, wait: float) -> None:
        """Waits until no reader sees a page that was freed by now."""
        last = self._environment.lmdb.info()["last_txnid"]
        end = time.monotonic() + wait
        while held := [(number, pid) for number, pid in self._environment.readers() if number < last]:
            if time.monotonic() >= end:
                raise Unavailable(
                    "readers of before hold pages of the file; end these programs or their long reads, and scrub again",
                    processes=sorted({pid for _number, pid in held}), seconds=wait,
                )  # fmt: skip
            time.sleep(_LOOK_SECONDS)

    def _fill(self) -> int:
        """Puts pages of zeros until the file grows, because no page is free any more; returns how many there are."""
        pages = rounds = 0
        while True:
            before = self._last_page()
            self._alone(partial(self._put_zeros, pages))
            pages, rounds = pages + _PAGES, rounds + 1
            if rounds >= _SETTLED and self._last_page() > before:
                return pages

    def _last_page(self) -> int:
        return int(self._environment.lmdb.info()["last_pgno"])

    def _put_zeros(self, number: int, transaction: LmdbTransaction) -> None:
        environment = self._environment.lmdb
        meta = environment.open_db(_META, transaction, create=False)
        zeros = bytes(environment.stat()["psize"] - _HEAD)  # an entry of a page of its own
        for each in range(number, number + _PAGES):
            transaction.put(_ZEROS + each.to_bytes(8, "big"), zeros, db=meta)

    def _remove_zeros(self) -> None:
        """Removes the pages of zeros, also those that an interrupted pass has left."""
        while self._alone(self._remove_some):
            pass

    def _remove_some(self, transaction: LmdbTransaction) -> bool:
        meta = self._environment.lmdb.open_db(_META, transaction, create=False)
        with transaction.cursor(meta) as cursor:
            for _number in range(_PAGES):
                if not cursor.set_range(_ZEROS) or not cursor.key().startswith(_ZEROS):
                    return False
                cursor.delete()
        return True


def _entries(cursor: LmdbCursor, begin: bytes, most: int) -> Iterator[tuple[bytes, bytes]]:
    """The entries of one transaction; the cursor is left at the next one."""
    found = cursor.set_range(begin) if begin else cursor.first()
    size = 0
    while found and most > 0 and size < _BYTES:
        key, value = cursor.item()
        yield key, value
        most, size = most - 1, size + len(key) + len(value)
        found = cursor.next()
