"""Rows, ranges and changes of the store contract as structures of Thrift2, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from oneread.engines import embedded
from oneread.engines.hbase.thrift2 import DELETE_COLUMNS, service
from oneread.errors import InvalidValue, LimitExceeded
from oneread.store.requests import CheckAndMutate, Found
from oneread.store.rows import MAX_STAMP, REMOVED, Cell, Families, Row, RowMutation, RowRange, Table

MAX_VALUE: Final = (10 << 20) - (4 << 10)
"""Bytes of a value: with its key and column it is a cell, of which HBase takes up to 10 MB."""

LAST_STAMP: Final = MAX_STAMP - 1
"""The greatest stamp: HBase takes the one above as "now"."""

BATCH_BYTES: Final = 1 << 20
"""Bytes of the rows of one call, unless one row has more."""

BATCH_ROWS: Final = 1000

LIVING: Final = b"ValueFilter(!=,'binary:" + REMOVED + b"')"
"""Leaves out removed cells at the server, and rows without others."""

_OF_FAMILIES: Final[dict[Families, Sequence[Any]]] = {
    "d": [service.TColumn(family=b"d")],
    "dm": [service.TColumn(family=b"d"), service.TColumn(family=b"m")],
}


def split(column: bytes) -> tuple[bytes, bytes]:
    """Family and qualifier of a column's name."""
    family, _colon, qualifier = column.partition(b":")
    return family, qualifier


def row_of(result: Any) -> Row:
    """The cells of a result."""
    return {each.family + b":" + each.qualifier: Cell(each.value, each.timestamp) for each in result.columnValues}


def living_row_of(result: Any) -> Row:
    """The cells of a result without removed ones."""
    return {
        each.family + b":" + each.qualifier: Cell(each.value, each.timestamp)
        for each in result.columnValues
        if each.value != REMOVED
    }


def found_of(result: Any) -> Found:
    """One row of a scan."""
    return result.row, row_of(result)


def get_of(key: bytes, families: Families) -> Any:
    return service.TGet(row=key, columns=_OF_FAMILIES[families], maxVersions=1)


def scan_of(within: RowRange, limit: int, families: Families, *, reverse: bool) -> Any:
    """A scan of HBase: its start is inclusive and its stop exclusive, in both directions."""
    start, stop = _clipped(within.start), _clipped(within.stop)
    if reverse:
        start, stop = before(stop), before(start)
    return service.TScan(
        startRow=start,
        stopRow=stop,
        columns=_OF_FAMILIES[families],
        caching=limit,
        limit=limit,
        maxVersions=1,
        reversed=reverse,
        filterString=LIVING if families == "d" else None,
    )


def before(bound: bytes) -> bytes:
    """The last key below a bound that a row can have, or one between that and the bound; empty for an open bound."""
    if not bound or bound == b"\x00":
        return b""
    if bound[-1] == 0:
        return bound[:-1]
    return (bound[:-1] + bytes([bound[-1] - 1])).ljust(embedded.MAX_KEY, b"\xff")


def _clipped(bound: bytes) -> bytes:
    """A bound that no row can tell from the given one: rows have shorter keys."""
    return bound[: embedded.MAX_KEY + 1]


class Batch(NamedTuple):
    """Changes of different rows that one method makes, as its arguments."""

    method: str
    name: str
    structures: Any


def batches(rows: Sequence[RowMutation]) -> Iterator[Batch]:
    """The calls that make these changes. Changes of one row come in their order, each row's as one."""
    part: dict[bytes, RowMutation] = {}
    size = 0
    for mutation in rows:
        if not (mutation.puts or mutation.deletes or mutation.delete_row is not None):
            continue
        bytes_of = _size_of(mutation) + len(mutation.key)
        if part and (mutation.key in part or size + bytes_of > BATCH_BYTES or len(part) == BATCH_ROWS):
            yield from _calls([*part.values()])
            part, size = {}, 0
        part[mutation.key] = mutation
        size += bytes_of
    yield from _calls([*part.values()])


def _calls(rows: Sequence[RowMutation]) -> Iterator[Batch]:
    puts: list[Any] = []
    deletes: list[Any] = []
    several: list[Any] = []
    for mutation in rows:
        removed = _deletes_of(mutation)
        if not removed:
            puts.append(_put_of(mutation))
        elif len(removed) == 1 and not mutation.puts:
            deletes += removed
        else:
            several.append(row_mutations(mutation))
    if puts:
        yield Batch("putMultiple", "tputs", puts)
    if deletes:
        yield Batch("deleteMultiple", "tdeletes", deletes)
    for each in several:
        yield Batch("mutateRow", "trowMutations", each)


def row_mutations(mutation: RowMutation) -> Any:
    """The deletes and then the puts of a row, as one."""
    parts = [service.TMutation(deleteSingle=each) for each in _deletes_of(mutation)]
    if mutation.puts:
        parts.append(service.TMutation(put=_put_of(mutation)))
    return service.TRowMutations(row=mutation.key, mutations=parts)


def _put_of(mutation: RowMutation) -> Any:
    cells = [service.TColumnValue(*split(column), cell.value, cell.stamp) for column, cell in mutation.puts.items()]
    return service.TPut(row=mutation.key, columnValues=cells)


def _deletes_of(mutation: RowMutation) -> list[Any]:
    """A delete of the row and one of its columns. With columns HBase ignores the delete's own stamp: each has its."""
    key, deletes = mutation.key, list[Any]()
    if mutation.delete_row is not None:
        deletes.append(service.TDelete(row=key, timestamp=min(mutation.delete_row, LAST_STAMP)))
    if mutation.deletes:
        columns = [
            service.TColumn(*split(column), timestamp=min(last, LAST_STAMP))
            for column, last in mutation.deletes.items()
        ]
        deletes.append(service.TDelete(row=key, columns=columns, deleteType=DELETE_COLUMNS))
    return deletes


def check_mutations(table: Table, rows: Sequence[RowMutation]) -> None:
    """Refuses changes that exceed a limit, before anything is sent; what a row has already is not counted."""
    together: dict[bytes, int] = {}
    for mutation in rows:
        key = mutation.key
        embedded.check_row(table, key, mutation.puts)
        for column, cell in mutation.puts.items():
            _check_cell(table, key, column, cell)
        for column, last in mutation.deletes.items():
            embedded.check_column(table, column)
            _check_delete(table, column, last)
        if mutation.delete_row is not None:
            _check_delete(table, b"", mutation.delete_row)
        size = together[key] = together.get(key, 0) + _size_of(mutation)
        if size > embedded.MAX_ROW:
            raise LimitExceeded("the row is too large", table=table, key=key, bytes=size, limit=embedded.MAX_ROW)


def _size_of(mutation: RowMutation) -> int:
    return sum(len(column) + len(cell.value) for column, cell in mutation.puts.items())


def _check_cell(table: Table, key: bytes, column: bytes, cell: Cell) -> None:
    size = len(cell.value)
    if size > MAX_VALUE:
        raise LimitExceeded("a cell is too large", table=table, key=key, column=column, bytes=size, limit=MAX_VALUE)
    if cell.stamp > LAST_STAMP:
        raise InvalidValue("HBase has no stamp as late as this", table=table, column=column, stamp=cell.stamp)


def _check_delete(table: Table, column: bytes, last: int) -> None:
    if not 0 <= last <= MAX_STAMP:  # HBase repeats such a request until it gives up
        raise InvalidValue(
            "a stamp is a whole number of milliseconds since 1970", table=table, column=column, stamp=last
        )


def check_expected(asked: CheckAndMutate) -> None:
    """Refuses empty values in the checked column: HBase takes them for an absent one."""
    embedded.check_column(asked.table, asked.column)
    put = asked.mutation.puts.get(asked.column)
    if asked.expected == b"" or (put is not None and not put.value):
        raise InvalidValue("a checked column never holds an empty value", table=asked.table, column=asked.column)
