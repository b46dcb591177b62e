"""The memory engine: rows in sorted lists, for tests and for data that may be lost.

It is also the strictest engine: it refuses what the contract leaves undefined, so that a test finds it before a
cluster does. See "The store contract" of the architecture page.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Final, TypeVar

from oneread.engines import embedded
from oneread.engines.delete_rules import RemovingDeletes, StrictDeletes
from oneread.engines.guard import Guard
from oneread.engines.sorted_rows import SortedRows
from oneread.errors import Closed, InvalidUrl, Unavailable, Unsupported
from oneread.store.engine import (
    Capabilities,
    Column,
    FirstUnder,
    RowReads,
    RowTransaction,
    Statistics,
    TableSize,
    read_by,
)
from oneread.store.requests import CheckAndMutate, Found, Read, Replace, Request, Scan
from oneread.store.rows import (
    TABLES,
    Families,
    Row,
    RowMutation,
    RowRange,
    Table,
)

T = TypeVar("T")

CAPABILITIES: Final = embedded.CAPABILITIES

PATIENCE: Final = 30.0
"""Seconds that a write outside a transaction waits for its turn."""

_NAMED: Final[dict[str, MemoryEngine]] = {}


def named(name: str, *, read_only: bool = False) -> MemoryEngine:
    """Opens the store of this process that has a name, a new one the first time.

    Raises InvalidUrl where there is none, and it is only to be read.
    """
    if read_only and name not in _NAMED:
        raise InvalidUrl(embedded.NO_STORE, name=name)
    return _NAMED.setdefault(name, MemoryEngine()).reopened(read_only=read_only)


def forget(name: str) -> None:
    """Forgets a named store; those who have it open keep it."""
    _NAMED.pop(name, None)


class MemoryEngine:
    """An open store that lives as long as this object.

    `new_rules` makes the rules of deletes; the strict ones refuse what the contract leaves undefined.
    """

    def __init__(self, new_rules: Callable[[], RemovingDeletes] = StrictDeletes) -> None:
        self._rows: dict[Table, SortedRows] = {table: SortedRows() for table in TABLES}
        self._rules = new_rules()
        self._turn = Guard()  # held for a whole transaction
        self._latch = Guard()  # held while rows are read or changed, never while a caller's code runs
        self._copies: list[dict[Table, SortedRows]] = []  # at most one: the rows as they are, for snapshots
        self._applying: list[_Transaction] = []  # at most one: of the holder of the latch, or interrupted
        self._closed = False
        self._read_only = False
        self._cursor_key = os.urandom(32)

    def reopened(self, *, read_only: bool = False) -> MemoryEngine:
        """Another engine on the same rows: each is closed by itself, and may be opened when the others are closed."""
        made = copy(self)
        made._closed, made._read_only = False, read_only  # noqa: SLF001 - an engine of this class
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
        if self._read_only:
            raise Unsupported(embedded.READ_ONLY)
        hold = self._turn.take(timeout)
        if hold is None:
            raise Unavailable("other transactions took too long; nothing was written; try again", seconds=timeout)
        try:
            self._check_open()
            if self._applying:
                self._look(_nothing)
            attempt = _Transaction(self._rows, self._rules)
            result = run(attempt)
            self._look(lambda: self._apply(attempt))
            return result
        finally:
            hold.give_back()

    def snapshot(self, run: Callable[[RowReads], T]) -> T:
        self._check_open()

        def copied() -> dict[Table, SortedRows]:
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


class _Rows:
    """Rows of one moment."""

    def __init__(self, rows: dict[Table, SortedRows], check: Callable[[], None] | None = None) -> None:
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


class _Transaction(embedded.RowWrites, RowTransaction):
    """One attempt: reads see its own writes before the store's, and nothing reaches the store until `apply`."""

    def __init__(self, rows: dict[Table, SortedRows], rules: RemovingDeletes) -> None:
        self._rows = rows
        self._rules = rules
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
        seen, note = self._rules.apply(table, mutation)
        self._notes.append(note)
        super().change(table, seen, row)

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
        self._notes.append(self._rules.check(asked))
        return super().check_and_mutate(asked)

    def replace(self, table: Table, rows: Mapping[bytes, Row | None]) -> None:
        for key, row in rows.items():
            self.put(table, key, dict(row) if row else None)
            self._notes.append(self._rules.forget(table, key))
