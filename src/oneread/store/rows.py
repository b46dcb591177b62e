"""Rows as every engine has them: a few named columns, each a value with its stamp.

A column's name begins with its family: `d:` for what reads need, `m:` for what only writers need. A stamp is whole
milliseconds since 1970; the newest stamp wins and an equal stamp is overwritten. See "The store contract" of the
architecture page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from oneread.encoding.ranges import prefix_range

Families: TypeAlias = Literal["d", "dm"]
"""The families of a read: `d` is what readers need, `dm` everything."""

Table: TypeAlias = Literal["roots", "views", "counts", "system"]
"""The four tables of every store."""

TABLES: Final[tuple[Table, ...]] = ("roots", "views", "counts", "system")


MAX_STAMP: Final = (1 << 63) - 1
"""The greatest stamp of a cell."""


REMOVED: Final = b"\xc1"
"""The value of a cell that was removed, on stores that change one row at a time: newer than what it removes.

Msgpack never writes it, so no stored value equals it. Engines without `spans_rows` do not show such cells of family
`d` to readers of that family; `dm` shows all.
"""


VALUE: Final = b"d:b"
"""The one column of rows that are not root rows: index rows, sums, claims, tasks."""


class Cell(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One value of a row and the stamp it was written with."""

    value: bytes
    stamp: int


Row: TypeAlias = dict[bytes, Cell]
"""Column name (family included, as in `b"d:b"`) to cell. An absent row is None, never an empty dict."""


def rows_of_values(values: Mapping[bytes, bytes | None], stamp: int) -> dict[bytes, Row | None]:
    """Rows that have `VALUE` alone, all with this stamp; None for those without a value."""
    return {key: None if value is None else {VALUE: Cell(value, stamp)} for key, value in values.items()}


def living(row: Row) -> Row | None:
    """A row without its removed cells; None where none is left."""
    return {column: cell for column, cell in row.items() if cell.value != REMOVED} or None


class RowRange(msgspec.Struct, frozen=True, gc=False):
    """The keys k with start <= k < stop, in byte order. An empty `stop` means "to the end of the table"."""

    start: bytes
    stop: bytes

    @classmethod
    def under(cls, prefix: bytes) -> RowRange:
        """Every key that begins with these bytes."""
        start, stop = prefix_range(prefix)
        return cls(start, stop or b"")

    def behind(self, key: bytes) -> RowRange:
        """The part of this range after a key."""
        return RowRange(key + b"\x00", self.stop)

    @property
    def is_empty(self) -> bool:
        return bool(self.stop) and self.start >= self.stop


class RowMutation(msgspec.Struct, frozen=True, gc=False):
    """The changes of one row, applied as one: deletes first, then puts.

    Arguments:
        key: the row.
        puts: column to the cell it gets, unless the row has a newer stamp there.
        deletes: column to a stamp T; removes the cell when its stamp is <= T. A put at or below T afterwards is
            undefined.
        delete_row: a stamp T that deletes every cell with a stamp <= T.
    """

    key: bytes
    puts: Row = {}
    deletes: dict[bytes, int] = {}
    delete_row: int | None = None
