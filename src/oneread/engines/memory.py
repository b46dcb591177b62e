"""The memory engine: rows in sorted lists, for tests and for data that may be lost.

It is also the strictest engine: it refuses what the contract leaves undefined, so that a test finds it before a
cluster does. See "The store contract" of the architecture page.
"""

from __future__ import annotations

import os
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from itertools import islice
from typing import Any, Final, TypeVar

from oneread.engines import embedded
from oneread.engines.guard import Guard
from oneread.errors import Closed, InvalidValue, Unavailable, Unsupported
from oneread.store.engine import Capabilities, Column, FirstUnder, RowReads, Statistics, TableSize, read_by
from oneread.store.requests import CheckAndMutate, Found, Read, Replace, Request, Scan
from oneread.store.rows import TABLES, Families, Row, RowMutation, RowRange, Table

T = TypeVar("T")

CAPABILITIES: Final = embedded.CAPABILITIES

PATIENCE: Final = 30.0
"""Seconds that a write outside a transaction waits for its turn."""

_NAMED: Final[dict[str, MemoryEngine]] = {}


def named(name: str) -> MemoryEngine:
    """Opens the store of this process that has a name, a new one the first time."""
    return _NAMED.setdefault(name, MemoryEngine()).reopened()


def forget(name: str) -> None:
    """Forgets a named store; those who have it open keep it."""
    _NAMED.pop(name, None)


class MemoryEngine:
    """An open store that lives as long as this object.

    `strict` refuses what the contract leaves undefined: a put at or below an earlier delete, an empty value in a
    checked column.
    """

    def __init__(self, *, strict: bool = True) -> None:
        self._rows: dict[Table, _TableRows] = {table: _TableRows() for table in TABLES}
        self._checker = _ContractChecker() if strict else None
        self._turn = Guard()  # held for a whole transaction
        self._latch = Guard()  # held while rows are read or changed, never while a caller's code runs
        self._copies: list[dict[Table, _TableRows]] = []  # at most one: the rows as they are, for snapshots
        self._applying: list[_Transaction] = []  # at most one: of the holder of the latch, or interrupted
        self._closed = False
        self._cursor_key = os.urandom(32)

    def reopened(self) -> MemoryEngine:
        """Another engine on the same rows: each is closed by itself, and may be opened when the others are closed."""
        made = copy(self)
        made._closed = False  # noqa: SLF001 - an engine of this class
        return made

    def __repr__(self) -> str:
        return "MemoryEngine()"

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    def answer(self, request: Request[Any]) -> Any:
        if type(request) is Read or type(request) is Scan:
            self._check_open()
            return self._look(lambda: read_by(_Rows(self._rows), request))
        if type(request) is Replace:
            raise Unsupported(embedded.NEEDS_TRANSACTION)
        return self.transaction(lambda transaction: transaction.write(request), PATIENCE)

    def point(self, table: Table, key: bytes, column: bytes) -> tuple[bytes, int] | None:
        self._check_open()
        if self._applying:
            self._look(_nothing)
        row = self._rows[table].get(key)
        cell = None if row is None else row.get(column)
        return None if cell is None else (cell.value, cell.stamp)

    def column(self, table: Table, within: RowRange, limit: int, column: bytes, *, reverse: bool = False) -> Column:
        self._check_open()
        return self._look(lambda: self._rows[table].column(within, limit, column, reverse=reverse))

    def together(
        self, table: Table, key: bytes, column: bytes, firsts: Sequence[FirstUnder]
    ) -> tuple[bytes | None, list[Column]]:
        self._check_open()

        def found() -> tuple[bytes | None, list[Column]]:
            cell = self._rows[table].rows.get(key, {}).get(column)
            rows = [self._rows[each].column(RowRange.under(prefix), most, column) for each, prefix, most in firsts]
            return None if cell is None else cell.value, rows

        return self._look(found)

    def transaction(self, run: Callable[[_Transaction], T], timeout: float) -> T:
        hold = self._turn.take(timeout)
        if hold is None:
            raise Unavailable("other transactions took too long; nothing was written; try again", seconds=timeout)
        try:
            self._check_open()
            if self._applying:
                self._look(_nothing)
            attempt = _Transaction(self._rows, self._checker)
            result = run(attempt)
            self._look(lambda: self._apply(attempt))
            return result
        finally:
            hold.give_back()

    def snapshot(self, run: Callable[[RowReads], T]) -> T:
        self._check_open()

        def copied() -> dict[Table, _TableRows]:
            if not self._copies:
                self._copies.append({table: each.copy() for table, each in self._rows.items()})
            return self._copies[0]

        return run(_Rows(self._look(copied), self._check_open))

    def cursor_key(self) -> bytes:
        return self._cursor_key

    def statistics(self) -> Statistics:
        self._check_open()
        return self._look(
            lambda: Statistics({table: TableSize(len(rows.keys), rows.size()) for table, rows in self._rows.items()})
        )

    def close(self) -> None:
        hold = self._turn.take(PATIENCE)
        if hold is None:
            raise Unavailable("a transaction takes too long; the store is still open; close it again", seconds=PATIENCE)
        self._closed = True
        hold.give_back()

    def _look(self, work: Callable[[], T]) -> T:
        """Runs `work` while nothing changes the rows; first finishes applying an interrupted transaction."""
        hold = self._latch.take(PATIENCE)
        if hold is None:
            raise Unavailable("another thread holds the rows too long; try again", seconds=PATIENCE)
        try:
            if self._applying:
                self._apply(self._applying[0])
            return work()
        finally:
            hold.give_back()

    def _apply(self, attempt: _Transaction) -> None:
        self._copies.clear()
        self._applying[:] = [attempt]
        attempt.apply()
        self._applying.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the store was closed before this call")


def _nothing() -> None:
    """Work for a `_look` that only finishes an interrupted transaction."""


_FEW: Final = 64
"""Up to this many added or removed keys are inserted one by one; for more the keys are sorted again."""


class _TableRows:
    """One table: rows by key, and the keys in order."""

    __slots__ = ("get", "keys", "rows")

    def __init__(self) -> None:
        self.rows: dict[bytes, Row] = {}
        self.keys: list[bytes] = []
        self.get = self.rows.get

    def copy(self) -> _TableRows:
        """These rows as they are now; a row is never changed, only replaced."""
        made = _TableRows()
        made.rows.update(self.rows)
        made.keys.extend(self.keys)
        return made

    def size(self) -> int:
        """Bytes of keys, columns' names and values."""
        cells = (len(column) + len(cell.value) for row in self.rows.values() for column, cell in row.items())
        return sum(map(len, self.keys)) + sum(cells)

    def update(self, written: dict[bytes, Row | None]) -> None:
        """Puts and removes rows. An interrupted update is repeated: keys are added last and removed first."""
        rows, keys = self.rows, self.keys
        removed = [key for key, row in written.items() if row is None and key in rows]
        kept = {key: row for key, row in written.items() if row is not None}
        new = [key for key in kept if not self._has(key)]
        rows.update(kept)
        if len(removed) + len(new) > _FEW:
            dropped = set(removed)
            keys[:] = sorted([*(key for key in keys if key not in dropped), *sorted(new)])  # two sorted runs: one merge
        else:
            for key in new:
                insort(keys, key)
            for key in removed:
                if self._has(key):
                    del keys[bisect_left(keys, key)]
        for key in removed:
            del rows[key]

    def _has(self, key: bytes) -> bool:
        place = bisect_left(self.keys, key)
        return place < len(self.keys) and self.keys[place] == key

    def between(self, wanted: RowRange, *, reverse: bool) -> Iterator[Found]:
        keys, rows = self.keys, self.rows
        places = range(bisect_left(keys, wanted.start), bisect_left(keys, wanted.stop) if wanted.stop else len(keys))
        return ((keys[place], rows[keys[place]]) for place in (reversed(places) if reverse else places))

    def column(self, within: RowRange, limit: int, column: bytes, *, reverse: bool = False) -> Column:
        rows = self.between(within, reverse=reverse)
        found = [*islice(((key, row[column].value) for key, row in rows if column in row), limit)]
        return [key for key, _value in found], [value for _key, value in found]


class _Rows:
    """Rows of one moment."""

    def __init__(self, rows: dict[Table, _TableRows], check: Callable[[], None] | None = None) -> None:
        self._rows = rows
        self._check = check

    def read(self, table: Table, keys: list[bytes], families: Families = "d") -> list[Row | None]:
        if self._check is not None:
            self._check()
        get = self._rows[table].get
        return [_copy_for(get(key), families) for key in keys]

    def scan(
        self, table: Table, within: RowRange, limit: int, *, reverse: bool = False, families: Families = "d"
    ) -> list[Found]:
        if self._check is not None:
            self._check()
        return _first(self._rows[table].between(within, reverse=reverse), limit, families)


def _first(found: Iterator[Found], limit: int, families: Families) -> list[Found]:
    return [(key, dict(row)) for key, row in embedded.first(found, limit, families)]


def _copy_for(row: Row | None, families: str) -> Row | None:
    """What a reader gets: a copy, so that it cannot change the store's own dict."""
    if row is None:
        return None
    return embedded.readable(row) if families == "d" else dict(row)


class _Transaction(embedded.RowWrites):
    """One attempt: reads see its own writes before the store's, and nothing reaches the store until `apply`."""

    def __init__(self, rows: dict[Table, _TableRows], checker: _ContractChecker | None) -> None:
        self._rows = rows
        self._checker = checker
        self._written: dict[Table, dict[bytes, Row | None]] = {table: {} for table in TABLES}
        self._notes: list[Callable[[], object]] = []

    def apply(self) -> None:
        """Puts the transaction's rows into the store; may be repeated."""
        for table, written in self._written.items():
            if written:
                self._rows[table].update(written)
        for note in self._notes:
            note()

    def row(self, table: Table, key: bytes) -> Row | None:
        written = self._written[table]
        return written[key] if key in written else self._rows[table].get(key)

    def put(self, table: Table, key: bytes, row: Row | None) -> None:
        if row is None:
            embedded.check_key(table, key)
        else:
            embedded.check_row(table, key, row)
        self._written[table][key] = row

    def change(self, table: Table, mutation: RowMutation, row: Row | None) -> None:
        if self._checker is not None:
            self._notes.append(self._checker.check_mutation(table, mutation))
        super().change(table, mutation, row)

    def read(self, table: Table, keys: list[bytes], families: Families = "d") -> list[Row | None]:
        return [_copy_for(self.row(table, key), families) for key in keys]

    def scan(
        self, table: Table, within: RowRange, limit: int, *, reverse: bool = False, families: Families = "d"
    ) -> list[Found]:
        stored = self._rows[table].between(within, reverse=reverse)
        written = self._written[table]
        found = embedded.merged(stored, written, within, reverse=reverse) if written else stored
        return _first(found, limit, families)

    def check_and_mutate(self, asked: CheckAndMutate) -> bool:
        if self._checker is not None:
            self._notes.append(self._checker.check_condition(asked))
        return super().check_and_mutate(asked)

    def replace(self, table: Table, rows: Mapping[bytes, Row | None]) -> None:
        for key, row in rows.items():
            self.put(table, key, dict(row) if row else None)
            if self._checker is not None:
                self._notes.append(self._checker.forget(table, key))


class _ContractChecker:
    """Remembers deletes and checked columns, to refuse what the contract leaves undefined.

    Each check returns what to remember once the transaction has committed.
    """

    def __init__(self) -> None:
        self._deleted: dict[tuple[Table, bytes], dict[bytes, int]] = {}
        self._checked: set[tuple[Table, bytes]] = set()

    def check_mutation(self, table: Table, mutation: RowMutation) -> Callable[[], None]:
        deleted = self._deleted.get((table, mutation.key), {})
        for column, cell in mutation.puts.items():
            last = max(deleted.get(column, -1), deleted.get(b"", -1))
            if cell.stamp <= last:
                raise InvalidValue(
                    "a put at or below the stamp of an earlier delete is undefined",
                    table=table,
                    key=mutation.key,
                    column=column,
                    stamp=cell.stamp,
                    deleted=last,
                )
            if not cell.value and (table, column) in self._checked:
                raise InvalidValue("a checked column never holds an empty value", table=table, column=column)
        return lambda: self._note(table, mutation)

    def check_condition(self, asked: CheckAndMutate) -> Callable[[], None]:
        put = asked.mutation.puts.get(asked.column)
        if asked.expected == b"" or (put is not None and not put.value):
            raise InvalidValue("a checked column never holds an empty value", table=asked.table, column=asked.column)
        return lambda: self._checked.add((asked.table, asked.column))

    def forget(self, table: Table, key: bytes) -> Callable[[], object]:
        return lambda: self._deleted.pop((table, key), None)

    def _note(self, table: Table, mutation: RowMutation) -> None:
        stamps = dict(mutation.deletes)
        if mutation.delete_row is not None:
            stamps[b""] = mutation.delete_row
        deleted = self._deleted.setdefault((table, mutation.key), {}) if stamps else {}
        for column, last in stamps.items():
            deleted[column] = max(last, deleted.get(column, -1))
