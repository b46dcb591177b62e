"""Rows as every engine has them: a few named columns, each a value with its stamp.

A column's name begins with its family: `d:` for what reads need, `m:` for what only writers need. A stamp is whole
milliseconds since 1970; the newest stamp wins and an equal stamp is overwritten. See "The store contract" of the
architecture page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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

Msgpack never writes it, so no stored value equals it. Engines of one row at a time do not show such cells of family
`d` to readers of that family; `dm` shows all.
"""


UNDECODABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for a value that is damaged: of text that is not UTF-8, and of arrays in arrays, too."""


VALUE: Final = b"d:b"
"""The one column of rows that are not root rows: index rows, sums, claims, tasks."""

WRITES: Final = b"m:w"
"""The column that grows with each change of a row, and that each change compares: a value may come again.

Only on stores that change one row at a time.
"""


class Cell(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One value of a row and the stamp it was written with."""

    value: bytes
    stamp: int


Row: TypeAlias = dict[bytes, Cell]
"""Column name (family included, as in `b"d:b"`) to cell. An absent row is None, never an empty dict."""


class EntityRow(msgspec.Struct, frozen=True, gc=False):
    """One root row. Version 0 means it was never written; without a body the entity was never saved, or is deleted.

    `emitted` is the record, `own` the own version, 0 without a body.
    """

    version: int = 0
    body: bytes | None = None
    emitted: bytes | None = None
    own: int = 0

    @property
    def entity(self) -> tuple[bytes | None, int]:
        """The document and the own version: an entity has changed where they differ, whatever else the row has."""
        return self.body, self.own


VERSION: Final = b"d:v"
EMITTED: Final = b"m:e"
"""The columns of a root row besides `VALUE`, which has the body."""


def cells_of_entity(root: EntityRow) -> Row:
    """The cells of a root row: the body is stamped with the own version, the others with the row's."""
    version = root.version
    row = {VERSION: Cell(version.to_bytes(8, "big"), version)}
    if root.body is not None:
        row[VALUE] = Cell(root.body, root.own)
    if root.emitted is not None:
        row[EMITTED] = Cell(root.emitted, version)
    return row


def as_entity_row(row: Row | None) -> EntityRow | Row | None:
    """The root row of a living entity, if these are just its cells; any other row as it is."""
    if row is None or row.keys() != _OF_AN_ENTITY:
        return row
    body, emitted, version = row[VALUE], row[EMITTED], row[VERSION]
    root = EntityRow(version.stamp, body.value, emitted.value, body.stamp)
    return root if emitted.stamp == version.stamp and version.value == version.stamp.to_bytes(8, "big") else row


def row_of_root(root: EntityRow | Row | None) -> Row | None:
    """The cells of what `as_entity_row` made."""
    return cells_of_entity(root) if isinstance(root, EntityRow) else root


_OF_AN_ENTITY: Final = {VALUE, VERSION, EMITTED}


def later_than(cell: Cell, now: int) -> int:
    """A stamp newer than that of a cell; `now` unless the clock was set back."""
    return now if cell.stamp < now else min(MAX_STAMP, cell.stamp + 1)


def later(row: Row | None, now: int) -> int:
    """A stamp newer than those of the row before, even when the clock was set back."""
    return max([later_than(cell, now) for cell in row.values()], default=now) if row else now


def rows_of_values(values: Mapping[bytes, bytes | None], stamp: int) -> dict[bytes, Row | None]:
    """Rows that have `VALUE` alone, all with this stamp; None for those without a value."""
    return {key: None if value is None else {VALUE: Cell(value, stamp)} for key, value in values.items()}


def values_of_rows(rows: Iterable[Row | None]) -> list[Cell | None]:
    """The cells of rows that have `VALUE` alone; None for absent ones."""
    return [None if row is None else row.get(VALUE) for row in rows]


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


def changed(row: Row | None, mutation: RowMutation) -> Row | None:
    """The row after `mutation`: deletes first, then puts; a newer stamp wins, an equal one is overwritten."""
    cells = dict(row) if row else {}
    if mutation.delete_row is not None:
        last = mutation.delete_row
        cells = {column: cell for column, cell in cells.items() if cell.stamp > last}
    for column, last in mutation.deletes.items():
        current = cells.get(column)
        if current is not None and current.stamp <= last:
            del cells[column]
    for column, cell in mutation.puts.items():
        current = cells.get(column)
        if current is None or current.stamp <= cell.stamp:
            cells[column] = cell
    return cells or None


def holds_expected(row: Row | None, column: bytes, expected: bytes | None) -> bool:
    """Whether `column` holds exactly `expected`, or is absent when that is None."""
    cell = row.get(column) if row else None
    return cell is None if expected is None else cell is not None and cell.value == expected
