"""Requests of the store contract as messages of Bigtable, and what is refused before anything is sent.

A stamp of n milliseconds is n,000 microseconds: tables of the usual granularity take no others. A table may hold older
versions of a cell until they are collected, so every filter takes the newest version first and looks at values then.
Limits are those of the embedded engines, which are tighter than Bigtable's, so that what one store takes another does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from oneread.engines.bigtable.messages import MESSAGES
from oneread.engines.embedded import check_column, check_row
from oneread.errors import InvalidValue, LimitExceeded
from oneread.store.rows import REMOVED, Families, Row, RowMutation, RowRange, Table

LONGEST_KEY: Final = 4096
"""Bytes of a key: Bigtable's limit. A range that names a longer one is refused."""
MOST_MUTATIONS: Final = 100_000
"""Mutations of one request: Bigtable's limit."""
MOST_KEYS: Final = 1000
"""Keys of one read: with the longest of them it is within Bigtable's limit of 512 KiB."""
LARGEST_FILTER: Final = 20_480
"""Bytes of a filter: Bigtable's limit."""
MOST_BYTES: Final = 32 << 20
"""Bytes of one batch, roughly; one row is sent whatever it takes."""
LAST_STAMP: Final = ((1 << 63) - 1) // 1000 - 1
"""The greatest stamp, in milliseconds: in microseconds it has 63 bits, and so has the end of its delete."""

OWN_FAMILY: Final = "o"
"""The family of the engine's own cells, which no request of the store contract sees."""
ALL_FAMILIES: Final = ("d", "m", OWN_FAMILY)
_MICROS: Final = 1000
_PER_ROW: Final = 100  # bytes of a row in a batch besides its values and names

RowChanges: TypeAlias = "tuple[bytes, list[Any]]"
"""A row's key and the mutations of it."""

_Filter: Final = MESSAGES["RowFilter"]
_Chain: Final = MESSAGES["FilterChain"]
_Mutation: Final = MESSAGES["Mutation"]
_SetCell: Final = MESSAGES["SetCell"]
_DeleteFromColumn: Final = MESSAGES["DeleteFromColumn"]
_TimestampRange: Final = MESSAGES["TimestampRange"]
_RowSet: Final = MESSAGES["RowSet"]
_RowRange: Final = MESSAGES["RowRange"]
_ValueRange: Final = MESSAGES["ValueRange"]
_ColumnRange: Final = MESSAGES["ColumnRange"]


def chain(*filters: Any) -> Any:
    """A filter whose parts follow one after the other."""
    return _Filter(chain=_Chain(filters=filters))


def _values(**bounds: bytes) -> Any:
    return _Filter(value_range_filter=_ValueRange(**bounds))


_NEWEST: Final = _Filter(cells_per_column_limit_filter=1)
_LIVING: Final = _Filter(
    interleave=MESSAGES["FilterInterleave"](
        filters=[_values(end_value_open=REMOVED), _values(start_value_open=REMOVED)]
    )
)
"""Values before and behind REMOVED: there is no filter "not equal"."""

READ_FILTERS: Final[dict[Families, Any]] = {
    "d": chain(_Filter(family_name_regex_filter="d"), _NEWEST, _LIVING),
    "dm": chain(_Filter(family_name_regex_filter="d|m"), _NEWEST),
}
"""What readers of these families see: the newest cells, for `d` without removed ones."""

COLUMNS_ALONE: Final = chain(READ_FILTERS["dm"], _Filter(strip_value_transformer=True))
"""The names of a row's columns, without values."""


def column_filter(family: str, qualifier: bytes) -> Any:
    """The newest cell of one column."""
    only = _ColumnRange(family_name=family, start_qualifier_closed=qualifier, end_qualifier_closed=qualifier)
    return chain(_Filter(column_range_filter=only), _NEWEST)


def predicate(column: bytes, expected: bytes | None) -> Any:
    """Passes the newest cell of a column if it has the expected value; any value when None is expected.

    Raises LimitExceeded where the value is too large: there is no filter "equal", so a range has it at both ends.
    """
    newest = column_filter(*split(column))
    if expected is None:
        return newest
    made = chain(newest, _values(start_value_closed=expected, end_value_closed=expected))
    if made.ByteSize() > LARGEST_FILTER:
        raise LimitExceeded(
            "the expected value is too large for a condition of Bigtable",
            column=column, bytes=len(expected), limit=LARGEST_FILTER // 2,
        )  # fmt: skip
    return made


def split(column: bytes) -> tuple[str, bytes]:
    """Family and qualifier of a column's name."""
    family, _colon, qualifier = column.partition(b":")
    return family.decode(), qualifier


def rows_of_keys(keys: Sequence[bytes]) -> Any | None:
    """The rows with these keys; None for no keys: an empty set means every row to Bigtable."""
    return _RowSet(row_keys=keys) if keys else None


def rows_of_range(within: RowRange) -> Any:
    """The rows of a range. A bound that is too long for a key is cut: no key lies between it and its beginning."""
    start, stop = within.start, within.stop
    bounds: dict[str, bytes] = {}
    if len(start) > LONGEST_KEY:
        bounds["start_key_open"] = start[:LONGEST_KEY]
    elif start:
        bounds["start_key_closed"] = start
    if len(stop) > LONGEST_KEY:
        bounds["end_key_closed"] = stop[:LONGEST_KEY]
    elif stop:
        bounds["end_key_open"] = stop
    return _RowSet(row_ranges=[_RowRange(**bounds)])


def check_mutations(table: Table, changes: Iterable[RowMutation]) -> None:
    """Refuses what Bigtable would refuse, or apply in part; and a row that is too large by this request alone."""
    puts: dict[bytes, Row] = {}
    for mutation in changes:
        key = mutation.key
        puts[key] = {**puts[key], **mutation.puts} if key in puts else mutation.puts
        check_row(table, key, puts[key])
        _check_change(table, mutation)


def _check_change(table: Table, mutation: RowMutation) -> None:
    for column in mutation.deletes:
        check_column(table, column)
    stamps = [*(cell.stamp for cell in mutation.puts.values()), *mutation.deletes.values()]
    if mutation.delete_row is not None:
        stamps.append(mutation.delete_row)
    for stamp in stamps:
        if not 0 <= stamp <= LAST_STAMP:
            raise InvalidValue(
                "a stamp is a whole number of milliseconds that Bigtable can hold in microseconds",
                table=table, key=mutation.key, stamp=stamp, limit=LAST_STAMP,
            )  # fmt: skip
    if len(mutation.puts) + len(mutation.deletes) > MOST_MUTATIONS:
        raise LimitExceeded("the row has too many changes at once", table=table, key=mutation.key, limit=MOST_MUTATIONS)


def mutations(mutation: RowMutation, columns: Iterable[bytes] = ()) -> list[Any]:
    """The changes of a row, deletes first; `columns` are those that a delete of the whole row takes."""
    deletes = dict(mutation.deletes)
    if mutation.delete_row is not None:
        for column in columns:
            deletes[column] = max(mutation.delete_row, deletes.get(column, -1))
    made = [_deleted(column, last) for column, last in deletes.items()]
    for column, cell in mutation.puts.items():
        family, qualifier = split(column)
        made.append(
            _Mutation(
                set_cell=_SetCell(
                    family_name=family,
                    column_qualifier=qualifier,
                    timestamp_micros=cell.stamp * _MICROS,
                    value=cell.value,
                )
            )
        )
    return made


def _deleted(column: bytes, last: int) -> Any:
    """Every version up to a stamp: the end of a range of stamps is exclusive, and in microseconds."""
    family, qualifier = split(column)
    until = _TimestampRange(end_timestamp_micros=(last + 1) * _MICROS)
    return _Mutation(
        delete_from_column=_DeleteFromColumn(family_name=family, column_qualifier=qualifier, time_range=until)
    )


def batches(rows: Sequence[RowChanges]) -> Iterator[list[RowChanges]]:
    """Rows in requests within the limits, in which a key is once: Bigtable applies them in any order."""
    batch: list[RowChanges] = []
    keys: set[bytes] = set()
    changes = size = 0
    for key, made in rows:
        own = len(key) + _PER_ROW + sum(each.ByteSize() for each in made)
        if batch and (key in keys or changes + len(made) > MOST_MUTATIONS or size + own > MOST_BYTES):
            yield batch
            batch, keys, changes, size = [], set(), 0, 0
        batch.append((key, made))
        keys.add(key)
        changes, size = changes + len(made), size + own
    if batch:
        yield batch
