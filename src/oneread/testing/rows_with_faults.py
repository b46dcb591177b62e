"""The rows of a transaction whose requests may meet faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from oneread.store.engine import RowTransaction
from oneread.store.requests import Found
from oneread.store.rows import Cell, EntityRow, Families, Row, RowRange, Table


class RowsWithFaults:
    """The rows of a transaction; `meet` decides the fate of each request before it is made."""

    def __init__(self, rows: RowTransaction, meet: Callable[[], None]) -> None:
        self._rows = rows
        self._meet = meet

    def read(self, table: Table, keys: list[bytes], families: Families = "d") -> list[Row | None]:
        self._meet()
        return self._rows.read(table, keys, families)

    def scan(
        self, table: Table, within: RowRange, limit: int, *, reverse: bool = False, families: Families = "d"
    ) -> list[Found]:
        self._meet()
        return self._rows.scan(table, within, limit, reverse=reverse, families=families)

    def replace(self, table: Table, rows: Mapping[bytes, Row | None]) -> None:
        self._meet()
        self._rows.replace(table, rows)

    def read_roots(self, keys: list[bytes]) -> list[EntityRow | Row | None]:
        self._meet()
        return self._rows.read_roots(keys)

    def replace_roots(self, roots: Mapping[bytes, EntityRow | Row]) -> None:
        self._meet()
        self._rows.replace_roots(roots)

    def read_values(self, table: Table, keys: list[bytes]) -> list[Cell | None]:
        self._meet()
        return self._rows.read_values(table, keys)

    def replace_values(self, table: Table, values: Mapping[bytes, bytes | None], stamp: int) -> None:
        self._meet()
        self._rows.replace_values(table, values, stamp)
