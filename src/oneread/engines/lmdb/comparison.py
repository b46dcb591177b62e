"""Comparing all that is of one kind of entities, by calls of oneread-native within one snapshot.

A call takes some milliseconds at most, without the interpreter's lock. See docs/design/native.md.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from oneread.engines.lmdb import binding, row_format
from oneread.engines.lmdb.transaction import Tables, program_of
from oneread.errors import Corrupt, OnereadError
from oneread.store.engine import CORE_TABLES, ComparedRows, LeftRow, WantedRows
from oneread.store.rows import RowRange, Table

_SECRET_BYTES: Final = 16


def begin_comparison(asked: tuple[Sequence[bytes], int, int], reading: SnapshotReading) -> NativeComparison | None:
    """Begins a comparison by programs, the rows of a batch, and the sources to keep; None where Python compares."""
    programs, batch, kept = asked
    if binding.Comparison is None:
        return None
    found = [program_of(each) for each in programs]
    if None in found:
        return None
    return NativeComparison(reading, binding.Comparison(tuple(found), secrets.token_bytes(_SECRET_BYTES), batch, kept))


class SnapshotReading(NamedTuple):
    """A read transaction, and what makes the errors to raise."""

    transaction: Any
    tables: Tables
    failed: Callable[[binding.Error, None], OnereadError]


class NativeComparison:
    """A `KindComparison` within one read transaction."""

    def __init__(self, reading: SnapshotReading, comparison: Any) -> None:
        self._reading, self._tables, self._failed = reading
        self._comparison = comparison

    def roots(self, latest: int, within: RowRange, batches: int) -> ComparedRows | None:
        tables = tuple([self._tables[each] for each in CORE_TABLES])
        try:
            found = self._reading.compare_roots(tables, self._comparison, within.start, within.stop, batches, latest)
        except binding.Error as failure:
            self._raise(failure)
        return _compared("roots", found)

    def rows(self, wanted: WantedRows, within: RowRange, batches: int) -> ComparedRows | None:
        table, width, kinds, *places = wanted
        asked = (self._tables[table], self._comparison, within.start, within.stop, batches)
        try:
            found = self._reading.compare_rows(*asked, width, (b"".join(kinds), *places))
        except binding.Error as failure:
            self._raise(failure)
        return _compared(table, found)

    def expect(self, rows: Iterable[tuple[bytes, bytes]], numbers: Iterable[tuple[bytes, Sequence[int]]]) -> None:
        self._comparison.expect(tuple(rows), tuple([(key, tuple(each)) for key, each in numbers]))

    def is_even(self) -> bool:
        even: bool = self._comparison.is_even()
        return even

    def _raise(self, failure: binding.Error) -> NoReturn:
        raise self._failed(failure, None) from failure


def _compared(table: Table, found: Any) -> ComparedRows | None:
    """What was compared; None for a reason why Python has to do it."""
    if type(found) is str:
        return None
    rows, last, groups, documents, others, requests = found
    left: list[LeftRow] = []
    for key, value, is_expected, place in others:
        try:
            row = row_format.decode(table, key, value, "dm")
        except Corrupt:
            return None
        if row is None:
            return None
        left.append(LeftRow(key, row, is_expected, place))
    (count, size), *further = requests
    size += sum([len(cell.value) for each in left if not each.is_expected for cell in each.row.values()])
    return ComparedRows(rows, last, groups, documents, left, [(count, size), *further])
