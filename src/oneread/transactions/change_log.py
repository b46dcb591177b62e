"""The change log of a watched view, or of the entities of a model: what each transaction put or removed.

A log is one row of `system` with the number of its last entry, and an entry for each transaction that changed rows of
the view, or entities. Numbers are given by the store, in the transaction itself, so that their order is that of the
commits; a clock's is not. They have no gap: a number up to the last one that has no entry is of one that was removed.
An entry has the keys alone: readers take the rows as they are by then. See
docs/decisions/0059-changes-are-logged-by-the-unit-of-work.md and docs/decisions/0140-a-log-of-entities.md.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from oneread.errors import Corrupt
from oneread.plans.counted import CountedStore
from oneread.store.keys import VIEW_BYTES, KeyPart, kind_part, view_part, view_prefix
from oneread.store.requests import Found
from oneread.store.rows import UNDECODABLE, Cell, Row, RowRange

LOGS: Final = RowRange(b"changes:", b"changes;")
"""Every log, in `system`."""

KEYS_OF_ENTRY: Final = 100
"""Keys in one entry; a transaction that changed more rows of a view has several."""


class LoggedAs(NamedTuple):
    """How changed rows with one prefix are logged."""

    log: bytes
    cut: int
    """How many bytes of their keys the log leaves out: the prefix, where it is the only one of the log."""


def logged_keys(
    logs: Mapping[bytes, LoggedAs], rows: Mapping[bytes, object], entities: Iterable[bytes]
) -> dict[bytes, list[bytes]]:
    """What the logs have of the rows of views that a transaction changes, removed ones first, and of entities."""
    found = keys_by_log(logs, view_part, sorted(rows, key=lambda key: (rows[key] is not None, key)))
    return found | keys_by_log(logs, kind_part, sorted(entities))


def keys_by_log(logs: Mapping[bytes, LoggedAs], part: KeyPart, keys: Iterable[bytes]) -> dict[bytes, list[bytes]]:
    """What the logs have of changed keys, in their order; `part` takes the prefix out of one."""
    found: dict[bytes, list[bytes]] = {}
    for key in keys:
        logged = logs.get(part(key))
        if logged is not None:
            found.setdefault(logged.log, []).append(key[logged.cut :])
    return found


NO_LOGS: Final[Mapping[bytes, LoggedAs]] = {}
"""Of a schema without watched views and logged models."""

COLUMN: Final = b"d:b"
"""The one column of logs and their entries."""

_NUMBER: Final = struct.Struct(">Q")
_EPOCH_BYTES: Final = 4
_ENTRIES_OF_MILLISECOND: Final = 10
"""Bits: no store adds so many entries in a millisecond."""

_LOG_BYTES: Final = len(LOGS.start) + VIEW_BYTES + _EPOCH_BYTES

_ENTITIES: Final = 0
"""Stands for the generation in the key of a log of entities; those of views begin at 1."""


def log_of(prefix: bytes, epoch: int) -> bytes:
    """The key of the log of a view with this prefix, watched since this version of the schema.

    What is watched or logged again has another log, so that no cursor leads over the time in between.
    """
    return LOGS.start + prefix + epoch.to_bytes(_EPOCH_BYTES, "big")


def log_of_entities(kind: int, epoch: int) -> bytes:
    """The key of the log of the entities of the kind with this number, logged since this version of the schema."""
    return log_of(view_prefix(kind, _ENTITIES), epoch)


def epoch_of(log: bytes) -> int:
    """The version of the schema since which there is a log."""
    return int.from_bytes(log[-_EPOCH_BYTES:], "big")


def owning_log(key: bytes) -> bytes:
    """The key of the log that a row in `LOGS` is of."""
    return key[:_LOG_BYTES]


def entries_from(log: bytes, number: int) -> RowRange:
    """The entries of a log from one number on."""
    return RowRange(log + _NUMBER.pack(number), RowRange.under(log).stop)


def entry_key(log: bytes, number: int) -> bytes:
    """The key of an entry."""
    return log + _NUMBER.pack(number)


def number_cell(number: int) -> Cell:
    """The number of the last entry, newer than that of any entry before."""
    return Cell(_NUMBER.pack(number), number)


def number_of(key: bytes) -> int:
    """The number of an entry. Raises Corrupt for the key of another row."""
    try:
        (number,) = _NUMBER.unpack(key[_LOG_BYTES:])
    except struct.error as error:
        raise Corrupt("not an entry of a change log", key=key) from error
    return int(number)


def last_entry(log: bytes, row: Row | None) -> int:
    """The number of the last entry of a log; 0 for none. Raises Corrupt."""
    if row is None:
        return 0
    try:
        (number,) = _NUMBER.unpack(row[COLUMN].value)
    except (struct.error, KeyError) as error:
        raise Corrupt("the number of the last entry of a change log cannot be read", key=log) from error
    return int(number)


def says_last_entry(row: Row | None) -> bool:
    """Whether the row of a log is there and can be read."""
    return row is not None and COLUMN in row and len(row[COLUMN].value) == _NUMBER.size


def row_by_entries(row: Row | None, last: Sequence[Found], now: int) -> Row | None:
    """The row of a log whose own is lost or cannot be read, from its last entry; None for a log without both.

    A row that cannot be read, of a log without entries, had a number: it continues behind all that can have been, and
    no cursor leads over that. See docs/decisions/0120-lost-rows-of-change-logs.md.
    """
    for key, entry in last:
        with suppress(Corrupt):
            return {COLUMN: Cell(_NUMBER.pack(number_of(key)), stamp_of(entry))}
    return None if row is None else {COLUMN: Cell(_NUMBER.pack(now << _ENTRIES_OF_MILLISECOND), now)}


def readable_row(store: CountedStore, log: bytes, row: Row | None, now: int) -> Row | None:
    """The row of a log, made of its last entry where it is lost or cannot be read: one scan then."""
    if says_last_entry(row):
        return row
    return row_by_entries(row, store.scan("system", entries_from(log, 0), 1, reverse=True), now)


def read_entry(key: bytes, row: Row) -> Sequence[bytes]:
    """The keys in an entry, as `LoggedAs` cuts them; those of removed rows come first. Raises Corrupt."""
    try:
        return _decode_keys(row[COLUMN].value)
    except (*UNDECODABLE, KeyError) as error:
        raise Corrupt("an entry of a change log cannot be read", key=key) from error


def log_keys(
    store: CountedStore, found: Mapping[bytes, Sequence[bytes]], rows: Mapping[bytes, Row | None], now: int
) -> Iterator[tuple[bytes, Row]]:
    """What a transaction adds to logs for what `logged_keys` found; `rows` are those of the logs. Raises Corrupt."""
    for log, keys in found.items():
        yield from new_entries(log, readable_row(store, log, rows[log], now), keys, now)


def new_entries(log: bytes, row: Row | None, keys: Iterable[bytes], now: int) -> Iterator[tuple[bytes, Row]]:
    """The rows that a transaction adds to a log: its entries, and the log's row. Raises Corrupt.

    The stamp of a log never goes back, whatever the clock does: entries are removed in the order of their numbers.
    """
    number = last_entry(log, row)
    stamp = now if row is None else max(now, row[COLUMN].stamp)
    several = list(keys)
    for start in range(0, len(several), KEYS_OF_ENTRY):
        number += 1
        yield entry_key(log, number), {COLUMN: Cell(packed_keys(several[start : start + KEYS_OF_ENTRY]), stamp)}
    yield log, {COLUMN: Cell(_NUMBER.pack(number), stamp)}


def stamp_of(row: Row) -> int:
    """When an entry was written, in milliseconds since 1970."""
    return max(cell.stamp for cell in row.values())


packed_keys = msgspec.msgpack.Encoder().encode
"""The value of an entry."""

_decode_keys = msgspec.msgpack.Decoder(list[bytes]).decode
