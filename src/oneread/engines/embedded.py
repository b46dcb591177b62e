"""What engines inside the process share: applying a mutation to a row, and the limits of a row.

The limits are the same for every embedded engine, so that what fits in memory fits on disk. See "The store contract" of
the architecture page.
"""

from __future__ import annotations

import heapq
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Any, Final

from oneread.errors import InvalidKey, InvalidValue, LimitExceeded
from oneread.store.engine import Capabilities
from oneread.store.requests import CheckAndMutate, Found, Increment, Mutate, Request
from oneread.store.rows import (
    MAX_STAMP,
    Cell,
    Families,
    Row,
    RowMutation,
    RowRange,
    Table,
    changed,
    holds_expected,
)

NEEDS_TRANSACTION: Final = "Replace needs a transaction: call replace inside Atomically"
READ_ONLY: Final = "the store was opened with read_only"
NO_STORE: Final = "there is no store here, and opening for reading does not make one; correct the URL"
"""What every engine says of a write, and of a store that is missing, under `read_only=true`."""

MAX_KEY: Final = 511
MAX_COLUMN: Final = 255
MAX_VALUE: Final = 10 << 20
MAX_ROW: Final = 16 << 20

CAPABILITIES: Final = Capabilities(
    spans_rows=True,
    reverse_scan=True,
    snapshot=True,
    persistent=False,
    local=True,
    max_key=MAX_KEY,
    max_value=MAX_VALUE,
    max_row=MAX_ROW,
)

_COUNTER = struct.Struct(">q")


def check_key(table: Table, key: bytes) -> None:
    """Refuses a key to be written that has not 1 to `MAX_KEY` bytes."""
    if not key:
        raise InvalidKey("a row's key is at least one byte long", table=table)
    if len(key) > MAX_KEY:
        raise LimitExceeded("the row's key is too long", table=table, key=key, bytes=len(key), limit=MAX_KEY)


def keys_to_ask(keys: Iterable[bytes], most: int) -> Iterator[list[bytes]]:
    """The keys of each read of at most so many, in order, without those that no row can have."""
    possible = sorted({key for key in keys if 0 < len(key) <= MAX_KEY})
    for first in range(0, len(possible), most):
        yield possible[first : first + most]


def check_row(table: Table, key: bytes, row: Row) -> None:
    """Refuses a row to be written that exceeds a limit or has a column of no family."""
    check_key(table, key)
    size = 0
    for column, cell in row.items():
        check_column(table, column)
        value = cell.value
        if len(value) > MAX_VALUE:
            raise LimitExceeded(
                "a cell is too large", table=table, key=key, column=column, bytes=len(value), limit=MAX_VALUE
            )
        if not 0 <= cell.stamp <= MAX_STAMP:
            raise InvalidValue(
                "a stamp is a whole number of milliseconds since 1970", table=table, column=column, stamp=cell.stamp
            )
        size += len(column) + len(value)
    if size > MAX_ROW:
        raise LimitExceeded("the row is too large", table=table, key=key, bytes=size, limit=MAX_ROW)


def check_column(table: Table, column: bytes) -> None:
    """Refuses a column whose name does not begin with its family, or is longer than `MAX_COLUMN`."""
    if not column.startswith((b"d:", b"m:")):
        raise InvalidValue("a column's name begins with its family, d: or m:", table=table, column=column)
    if len(column) > MAX_COLUMN:
        raise LimitExceeded(
            "the column's name is too long", table=table, column=column, bytes=len(column), limit=MAX_COLUMN
        )


def increased(row: Row | None, asked: Increment) -> tuple[int, Cell]:
    """The counter's new value and its cell, stamped now; the stamp never decreases."""
    table, key, column, amount = asked.table, asked.key, asked.column, asked.amount
    current = row.get(column) if row else None
    stamp = time.time_ns() // 1_000_000
    if current is None:
        total = amount
    else:
        if len(current.value) != _COUNTER.size:
            raise InvalidValue("only a column of 8 bytes can be incremented", table=table, key=key, column=column)
        total, stamp = _COUNTER.unpack(current.value)[0] + amount, max(stamp, current.stamp)
    try:
        return total, Cell(_COUNTER.pack(total), stamp)
    except struct.error as failure:
        raise LimitExceeded(
            "the counter would exceed 64 bits", table=table, key=key, column=column, total=total
        ) from failure


def merged(
    stored: Iterable[Found], written: dict[bytes, Row | None], wanted: RowRange, *, reverse: bool
) -> Iterator[Found]:
    """A range as a transaction sees it: its own rows in place of the store's, in the same order."""
    start, stop = wanted.start, wanted.stop
    own = sorted(
        ((key, row) for key, row in written.items() if row and start <= key and (not stop or key < stop)),
        key=itemgetter(0),
        reverse=reverse,
    )
    others = (found for found in stored if found[0] not in written)
    return heapq.merge(own, others, key=itemgetter(0), reverse=reverse)


def first(found: Iterable[Found], limit: int, families: Families) -> list[Found]:
    """The first `limit` rows that a reader of `families` sees."""
    if families == "d":
        return list(islice(((key, seen) for key, row in found if (seen := readable(row))), max(limit, 0)))
    return list(islice(found, max(limit, 0)))


def readable(row: Row) -> Row | None:
    """The cells of family `d`; a row without any is absent for a reader of that family."""
    return {column: cell for column, cell in row.items() if column.startswith(b"d:")} or None


class RowWrites(ABC):
    """The writes of a transaction that first read the row: each is made by itself, in a transaction of its own."""

    @abstractmethod
    def row(self, table: Table, key: bytes) -> Row | None:
        """The row as the transaction sees it."""

    @abstractmethod
    def put(self, table: Table, key: bytes, row: Row | None) -> None:
        """Checks and buffers a row, or its removal."""

    def change(self, table: Table, mutation: RowMutation, row: Row | None) -> None:
        self.put(table, mutation.key, changed(row, mutation))

    def write(self, asked: Request[Any]) -> Any:
        """Answers a request that writes."""
        return _WRITES[type(asked)](self, asked)

    def mutate(self, asked: Mutate) -> None:
        for mutation in asked.rows:
            self.change(asked.table, mutation, self.row(asked.table, mutation.key))

    def check_and_mutate(self, asked: CheckAndMutate) -> bool:
        row = self.row(asked.table, asked.mutation.key)
        holds = holds_expected(row, asked.column, asked.expected)
        if holds:
            self.change(asked.table, asked.mutation, row)
        return holds

    def increment(self, asked: Increment) -> int:
        row = self.row(asked.table, asked.key)
        total, cell = increased(row, asked)
        self.put(asked.table, asked.key, {**(row or {}), asked.column: cell})
        return total


_WRITES: Final[dict[type[Any], Callable[[RowWrites, Any], Any]]] = {
    Mutate: lambda writes, asked: writes.mutate(asked),
    CheckAndMutate: lambda writes, asked: writes.check_and_mutate(asked),
    Increment: lambda writes, asked: writes.increment(asked),
}
