"""The row format: one row is one LMDB value, its shape first, so that a read touches only the columns it needs.

A shape is the row's column names; rows of one model share it, so it is parsed once and cached with the struct that
reads its numbers. See docs/formats/lmdb.md.
"""

from __future__ import annotations

import functools
import struct
from typing import Final, TypeVar

from oneread.engines import embedded
from oneread.errors import Corrupt
from oneread.store.rows import Cell, Families, Row, Table

Known = TypeVar("Known")

_LONG = struct.Struct("<BI")  # a zero, then the length of a shape that does not fit one byte
_CELL = struct.Struct("<IqI")  # where the value starts, its stamp, where it ends
_STAMPED = struct.Struct("<qI").pack  # a stamp, and where the value ends
_STEP: Final = 12  # from one cell to the next: the end of one is the start of the next
_LONGEST_SHORT: Final = 255
_KEPT: Final = 4096  # cached shapes; a store has a few per model


class Shape:
    """The columns of a row in the order of their values: those of family `d` first, each family sorted."""

    __slots__ = ("at", "columns", "head", "opening", "readable", "unpack", "unpack_readable", "values")

    def __init__(self, columns: tuple[bytes, ...], head: bytes) -> None:
        count = len(columns)
        self.columns = columns
        self.head = head
        self.readable = tuple(column for column in columns if column.startswith(b"d:"))
        self.at = {column: len(head) + _STEP * place for place, column in enumerate(columns)}
        self.values = len(head) + 4 + _STEP * count
        self.opening = head + self.values.to_bytes(4, "little")
        self.unpack = struct.Struct("<I" + "qI" * count)
        self.unpack_readable = struct.Struct("<I" + "qI" * len(self.readable))


_read_shapes: dict[bytes, Shape] = {}
_written_shapes: dict[tuple[bytes, ...], Shape] = {}


def encode(table: Table, key: bytes, row: Row) -> bytes:
    """The bytes of a row; refuses one that exceeds a limit."""
    shape = _written_shapes.get(tuple(row)) or _new_shape(table, row)
    values_at = shape.values
    try:
        if len(row) == 1:  # index rows, sums, back-references: most rows there are
            (cell,) = row.values()
            value = cell.value
            end = values_at + len(value)
            if end > embedded.MAX_VALUE:
                embedded.check_row(table, key, row)
            return shape.opening + _STAMPED(cell.stamp, end) + value
        values: list[bytes] = []
        numbers: list[int] = [values_at]
        end = values_at
        for column in shape.columns:
            cell = row[column]
            value = cell.value
            values.append(value)
            end += len(value)
            numbers += (cell.stamp, end)
        if end > embedded.MAX_VALUE:
            embedded.check_row(table, key, row)
        return b"".join((shape.head, shape.unpack.pack(*numbers), *values))
    except struct.error:
        embedded.check_row(table, key, row)
        raise


def decode(table: Table, key: bytes, value: bytes, families: Families) -> Row | None:
    """The cells of a row that a reader of `families` sees; None where it sees none."""
    shape = _read_shapes.get(value[: value[0]]) if value else None
    if shape is None:
        shape = _parsed_shape(table, key, value)
    try:
        if families == "d":
            columns = shape.readable
            numbers = shape.unpack_readable.unpack_from(value, len(shape.head))
        else:
            columns = shape.columns
            numbers = shape.unpack.unpack_from(value, len(shape.head))
    except struct.error as failure:
        raise _corrupt(table, key, value) from failure
    row: Row = {}
    start = numbers[0]
    place = 1
    for column in columns:
        end = numbers[place + 1]
        if end < start:
            raise _corrupt(table, key, value)
        row[column] = Cell(value[start:end], numbers[place])
        start = end
        place += 2
    if start > len(value) or numbers[0] != shape.values:
        raise _corrupt(table, key, value)
    return row or None


def decode_cell(table: Table, key: bytes, value: bytes, column: bytes) -> Cell | None:
    """One cell of a row: what `decode` gives for that column, without the others."""
    try:
        shape = _read_shapes.get(value[: value[0]]) or _parsed_shape(table, key, value)
        start, stamp, end = _CELL.unpack_from(value, shape.at[column])
    except KeyError:
        return None
    except (struct.error, IndexError) as failure:
        raise _corrupt(table, key, value) from failure
    if shape.values <= start <= end <= len(value):
        return Cell(value[start:end], stamp)
    raise _corrupt(table, key, value)


@functools.lru_cache(_KEPT)
def only_column(column: bytes) -> tuple[bytes, int]:
    """The head of a row whose only column is this one, and the offset of its value."""
    head = _head((column,))
    return head, len(head) + 4 + _STEP


def decode_value(table: Table, key: bytes, value: bytes, column: bytes) -> bytes | None:
    """The value of one cell of a row."""
    cell = decode_cell(table, key, value, column)
    return None if cell is None else cell.value


unpack_cell = _CELL.unpack_from
"""Where a cell's value starts, its stamp, and where it ends."""


def place_of(table: Table, key: bytes, value: bytes, column: bytes) -> tuple[bytes, int, int]:
    """The head of a row that has a column, where the numbers of that column are, and where the values start."""
    shape = _read_shapes.get(value[: value[0]]) or _parsed_shape(table, key, value)
    return shape.head, shape.at[column], shape.values


def _new_shape(table: Table, row: Row) -> Shape:
    """The shape of a row that is about to be written for the first time."""
    for column in row:
        embedded.check_column(table, column)
    columns = tuple(sorted(row))  # d: sorts before m:
    shape = Shape(columns, _head(columns))
    _keep(_written_shapes, tuple(row), shape)
    return shape


def _head(columns: tuple[bytes, ...]) -> bytes:
    names = b"".join(bytes((len(column),)) + column for column in columns)
    if len(names) < _LONGEST_SHORT:
        return bytes((len(names) + 1,)) + names
    return _LONG.pack(0, len(names) + _LONG.size) + names


def _parsed_shape(table: Table, key: bytes, value: bytes) -> Shape:
    """The shape that `value` opens with."""
    try:
        if value[0]:
            size, place = value[0], 1
        else:
            (_, size), place = _LONG.unpack_from(value), _LONG.size
        head = value[:size]
        if len(head) != size:
            raise _corrupt(table, key, value)
        columns: list[bytes] = []
        while place < size:
            stop = place + 1 + head[place]
            columns.append(head[place + 1 : stop])
            place = stop
    except (IndexError, struct.error) as failure:
        raise _corrupt(table, key, value) from failure
    shape = Shape(tuple(columns), head)
    if place != size or not columns or columns != sorted(set(columns)) or _head(shape.columns) != head:
        raise _corrupt(table, key, value)
    if head[0]:
        _keep(_read_shapes, head, shape)
    return shape


def _keep(shapes: dict[Known, Shape], known: Known, shape: Shape) -> None:
    """Caches a shape; drops all when there are too many, so that each is parsed once more."""
    if len(shapes) >= _KEPT:
        shapes.clear()
    shapes[known] = shape


def _corrupt(table: Table, key: bytes, value: bytes) -> Corrupt:
    return Corrupt("a row's bytes are not in the row format", table=table, key=key, bytes=len(value), head=value[:32])
