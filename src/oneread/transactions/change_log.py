"""The change log of a watched view: which of its rows each transaction put or removed, for programs that follow it.

A log is one row of `system` with two numbers, and an entry for each transaction that changed rows of the view. Numbers
are given by the store, in the transaction itself, so that their order is that of the commits; a clock's is not. An
entry has the keys alone: readers take the rows as they are by then. See
docs/decisions/0059-changes-are-logged-by-the-unit-of-work.md.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from oneread.errors import Corrupt
from oneread.store.keys import VIEW_BYTES
from oneread.store.rows import Cell, Row, RowRange

LOGS: Final = RowRange(b"changes:", b"changes;")
"""Every log, in `system`."""

KEYS_OF_ENTRY: Final = 100
"""Keys in one entry; a transaction that changed more rows of a view has several."""

NO_LOGS: Final[Mapping[bytes, bytes]] = {}
"""Of a schema without watched views."""

_COLUMN: Final = b"d:b"
_NUMBER: Final = struct.Struct(">Q")
_EPOCH_BYTES: Final = 4
_LOG_BYTES: Final = len(LOGS.start) + VIEW_BYTES + _EPOCH_BYTES


class LogState(NamedTuple):
    """The numbers of the last entry of a log, and of the last one that was removed; 0 for none."""

    last: int = 0
    removed: int = 0


def log_of(prefix: bytes, epoch: int) -> bytes:
    """The key of the log of a view with this prefix, watched since this version of the schema.

    A view that is watched again has another log, so that no cursor leads over the time in between.
    """
    return LOGS.start + prefix + epoch.to_bytes(_EPOCH_BYTES, "big")


def epoch_of(log: bytes) -> int:
    """The version of the schema since which the view of a log is watched."""
    return int.from_bytes(log[-_EPOCH_BYTES:], "big")


def owning_log(key: bytes) -> bytes:
    """The key of the log that a row in `LOGS` is of."""
    return key[:_LOG_BYTES]


def entries_from(log: bytes, number: int) -> RowRange:
    """The entries of a log from one number on."""
    return RowRange(log + _NUMBER.pack(number), RowRange.under(log).stop)


def number_of(key: bytes) -> int:
    """The number of an entry. Raises Corrupt for the key of another row."""
    try:
        (number,) = _NUMBER.unpack(key[_LOG_BYTES:])
    except struct.error as error:
        raise Corrupt("not an entry of a change log", key=key) from error
    return int(number)


def read_state(log: bytes, row: Row | None) -> LogState:
    """The numbers of a log. Raises Corrupt."""
    if row is None:
        return LogState()
    try:
        return LogState(*_decode_state(row[_COLUMN].value))
    except (msgspec.MsgspecError, KeyError) as error:
        raise Corrupt("the numbers of a change log cannot be read", key=log) from error


def read_entry(key: bytes, row: Row) -> Sequence[bytes]:
    """The keys in an entry, without the view's prefix; those of removed rows come first. Raises Corrupt."""
    try:
        return _decode_keys(row[_COLUMN].value)
    except (msgspec.MsgspecError, KeyError) as error:
        raise Corrupt("an entry of a change log cannot be read", key=key) from error


def state_row(state: LogState, stamp: int) -> Row:
    """The row that holds the numbers of a log."""
    return {_COLUMN: Cell(_encode(state), stamp)}


def new_entries(log: bytes, row: Row | None, keys: Iterable[bytes], now: int) -> Iterator[tuple[bytes, Row]]:
    """The rows that a transaction adds to a log: its entries, and the log's row. Raises Corrupt.

    The stamp of a log never goes back, whatever the clock does: entries are removed in the order of their numbers.
    """
    state = read_state(log, row)
    stamp = now if row is None else max(now, row[_COLUMN].stamp)
    several = list(keys)
    number = state.last
    for start in range(0, len(several), KEYS_OF_ENTRY):
        number += 1
        piece = several[start : start + KEYS_OF_ENTRY]
        yield log + _NUMBER.pack(number), {_COLUMN: Cell(_encode(piece), stamp)}
    yield log, state_row(LogState(number, state.removed), stamp)


def stamp_of(row: Row) -> int:
    """When an entry was written, in milliseconds since 1970."""
    return max(cell.stamp for cell in row.values())


_encode = msgspec.msgpack.Encoder().encode
_decode_state = msgspec.msgpack.Decoder(tuple[int, int]).decode
_decode_keys = msgspec.msgpack.Decoder(list[bytes]).decode
