"""The rows of named counters on stores that change one row at a time, and how one change makes the next row.

Everything that an add changes is in one row: the sums, the tokens that were counted there, the windows, and a history
by which a lost answer is found. `m:w` grows with each change, and each compares it. See "Rows of stores that change one
row at a time" of docs/formats/rows.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec

from oneread.counters.rows import (
    FORGOTTEN,
    INCREMENTS,
    NOTHING,
    SETTINGS,
    CounterSettings,
    Sums,
    WindowSize,
    encode_settings,
    encode_struct,
    encode_sums,
    number_of,
    start_of,
    sums_of_amounts,
    window_key,
    window_size_of,
)
from oneread.counters.settings import PLACING, SettingsRow
from oneread.counters.wanted import Add
from oneread.counters.windows import WINDOW, first_kept, windows_in, windows_of_add
from oneread.errors import Corrupt
from oneread.store.keys import VIEW_BYTES
from oneread.store.requests import ABSENT, CheckAndMutate
from oneread.store.rows import REMOVED, UNDECODABLE, VALUE, WRITES, Cell, Row, RowMutation
from oneread.transactions.intents import FENCED, HISTORY, REMEMBERED, HistoryEntry, decode_version, encode_version

T = TypeVar("T")

SEALED: Final = b"m:e"
"""The column of a shard that says which epoch it knows: adds of earlier ones are refused."""
TOKEN: Final = b"m:t:"
SHOWN: Final = b"m:s"
"""The column of a shard of a counter that entities show: whether it has marked the counter since the last copy."""

SLOTS: Final = 256
"""Tokens are spread over so many slots, and these over the rows there are."""


def slot_row(token: bytes, shards: int) -> int:
    """The number of the row that the slot of a token is in."""
    return token[0] * shards // SLOTS


class ShardRow(NamedTuple):
    """A shard as it was read; `sums` is None where nothing was added since the counter was made.

    `marked` says whether it has marked the counter since the last copy, and is None where no entity shows the counter.
    `increments` are those of the store, of which `forgotten` were deleted: they do not change `writes`.
    """

    key: bytes
    writes: int | None = None
    sums: Sums | None = None
    sealed: int = 0
    history: Sequence[HistoryEntry] = ()
    windows: Mapping[bytes, Sums] = {}
    tokens: Mapping[bytes, Cell] = {}
    marked: bool | None = None
    increments: int = 0
    forgotten: int = 0

    @property
    def total(self) -> Sums:
        """All that counts."""
        return (self.sums or NOTHING).plus(self.increments - self.forgotten)

    def token(self, token: bytes) -> bytes | None:
        """The id of the add that counted a token in this row; None if none did."""
        cell = self.tokens.get(TOKEN + token)
        return None if cell is None else cell.value

    def replaced_by(self, writes: int | None) -> bytes | None:
        """The id of the change that came after so many writes; None where the history does not reach back."""
        return next((each.commit for each in self.history if each.replaced == (writes or 0)), None)


class ShardChange:
    """One change of a shard, from the row `before`; `after` is the row as it is then, without its tokens.

    It is made at the time `now`; `stamp` is the number of the change.
    """

    def __init__(self, row: ShardRow, now: int, commit: bytes = FENCED) -> None:
        self.before = row
        self.now = now
        self._commit = commit
        self.stamp = next_stamp(row.writes, now)
        self._cells: dict[bytes, bytes] = {}
        self._removed: dict[bytes, int] = {}
        history = [*row.history, HistoryEntry(row.writes or 0, commit)][-REMEMBERED:]
        self.after = row._replace(writes=self.stamp, history=history, windows=dict(row.windows), tokens={})

    def add(self, wanted: Add, settings: CounterSettings) -> None:
        """Adds to the sums, and to the window of each size."""
        self.set_sums((self.before.sums or NOTHING).plus(wanted.amount))
        before = self.before.windows
        for size, start in windows_of_add(wanted, settings, self.now):
            column = window_column(size, start)
            sums = before.get(column)
            if sums is None:
                newest = max([start, *[start_of(each) for each in before if window_size_of(each) == size]])
                first = first_kept(newest, settings.windows[size], size, self.now)
                if start < first:
                    continue  # expired: only the value counts it
                self.remove_windows(
                    each
                    for each in before
                    if window_size_of(each) not in settings.windows
                    or (window_size_of(each) == size and start_of(each) < first)
                )
                sums = NOTHING
            self.set_window(column, sums.plus(wanted.amount))

    def note(self, token: bytes, epoch: int) -> None:
        """Says that this commit counted a token here, in an epoch."""
        self._cells[TOKEN + token] = self._commit
        self.seal(epoch)

    def seal(self, epoch: int) -> None:
        """Refuses adds with a token of earlier epochs."""
        self.after = self.after._replace(sealed=max(epoch, self.before.sealed))
        self._cells[SEALED] = encode_version(self.after.sealed)

    def set_sums(self, sums: Sums | None) -> None:
        self.after = self.after._replace(sums=sums)
        self._cells[VALUE] = REMOVED if sums is None else encode_sums(sums)

    def forget(self, increments: int) -> None:
        """Says that so many of the store's increments do not count: those that come meanwhile do."""
        self.after = self.after._replace(forgotten=increments)
        self._cells[FORGOTTEN] = increments.to_bytes(8, "big", signed=True)

    def set_window(self, column: bytes, sums: Sums) -> None:
        self.after.windows[column] = sums  # type: ignore[index]
        self._cells[column] = encode_sums(sums)

    def set_windows(self, windows: Mapping[bytes, Sums]) -> None:
        """Gives the row these windows in place of its own."""
        self.remove_windows(self.before.windows.keys() - windows.keys())
        for column, sums in windows.items():
            self.set_window(column, sums)

    def remove_windows(self, columns: Iterable[bytes]) -> None:
        """Deletes windows at the stamp of this change: none is put at or below it later, since that compares `m:w`."""
        for each in columns:
            self.after.windows.pop(each, None)  # type: ignore[attr-defined]
            self._removed[each] = self.stamp

    def mark(self, *, marked: bool) -> None:
        """Says whether this row has marked the counter, which entities show."""
        self.after = self.after._replace(marked=marked)
        self._cells[SHOWN] = bytes([marked])

    def request(self, *, has_history: bool = False) -> CheckAndMutate:
        """The compare-and-set that does it: once, however late, and however often it is made."""
        cells = {**self._cells, HISTORY: encode_struct(self.after.history)}
        made = _swap(self.before.key, self.before.writes, self.stamp, cells, self._removed)
        return msgspec.structs.replace(made, has_history=has_history)


def _swap(
    key: bytes, seen: int | None, stamp: int, cells: Mapping[bytes, bytes], removed: Mapping[bytes, int] | None = None
) -> CheckAndMutate:
    """Writes cells, and the stamp as the number of the change, unless another change came first."""
    puts = {column: Cell(value, stamp) for column, value in cells.items()}
    puts[WRITES] = Cell(encode_version(stamp), stamp)
    expected = ABSENT if seen is None else encode_version(seen)
    return CheckAndMutate("counts", WRITES, expected, RowMutation(key, puts, dict(removed or {})))


def next_stamp(writes: int | None, now: int) -> int:
    """The stamp of a change, which grows with each, also where a clock was set back."""
    return now if writes is None else max(now, writes + 1)


def window_column(size: WindowSize, start: int) -> bytes:
    """The column of a shard that has one of its windows."""
    return WINDOW + window_key(b"", size, start)[VIEW_BYTES:]


def settings_request(found: SettingsRow, wanted: SettingsRow, now: int) -> tuple[CheckAndMutate, SettingsRow]:
    """The compare-and-set that makes settings the wanted ones, and the row as it is then."""
    stamp = next_stamp(found.writes, now)
    settings = REMOVED if wanted.settings is None else encode_settings(wanted.settings)
    cells = {VALUE: settings, PLACING: encode_struct(wanted.placing)}
    return _swap(SETTINGS + found.name, found.writes, stamp, cells), wanted._replace(writes=stamp)


def read_shard_row(key: bytes, row: Row | None) -> ShardRow:
    """A shard as it was read, with both families. Raises Corrupt."""
    if row is None:
        return ShardRow(key)
    value = row.get(VALUE)
    return ShardRow(
        key,
        _number(row, WRITES),
        None if value is None or value.value == REMOVED else sums_of_amounts(value.value),
        _number(row, SEALED) or 0,
        () if INCREMENTS in row and WRITES not in row else _decode(row, HISTORY, _decode_history),
        windows_in(row),
        {column: cell for column, cell in row.items() if column.startswith(TOKEN)},
        row[SHOWN].value != _UNMARKED if SHOWN in row else None,
        number_of(row, INCREMENTS),
        number_of(row, FORGOTTEN),
    )


_UNMARKED: Final = bytes([False])

_decode_history: Final = msgspec.msgpack.Decoder(list[HistoryEntry]).decode


def _number(row: Row, column: bytes) -> int | None:
    cell = row.get(column)
    return None if cell is None else decode_version(cell.value)


def _decode(row: Row, column: bytes, decode: Callable[[bytes], T]) -> T:
    try:
        return decode(row[column].value)
    except (KeyError, *UNDECODABLE) as error:
        raise Corrupt("this row of a counter is unreadable; restore a backup, or drop it", column=column) from error
