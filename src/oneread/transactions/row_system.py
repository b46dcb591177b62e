"""Commits of rows that belong to no entity, on a store that changes one row at a time: see `SystemCommitter`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from oneread.errors import Conflict, Unsupported
from oneread.plans.counted import CountedStore
from oneread.plans.effects import Now, Random, Separately, Sleep
from oneread.plans.plan import Plan
from oneread.plans.retry import backoff
from oneread.store.requests import ABSENT, CheckAndMutate, Found, Read
from oneread.store.rows import REMOVED, Cell, Families, Row, RowMutation, RowRange, Table, living, rows_of_values
from oneread.transactions.system_rows import FENCE_ROW, Swap
from oneread.transactions.unit_of_work import VALUE, later

T = TypeVar("T")

ATTEMPTS: Final = 30
"""Times that a change of one row is tried while others change the row."""

_NO_SWEEP: Final = "rows of earlier views are not removed yet from a store that changes one row at a time"
_ONE: Final = "this store changes one row at a time, and this changes several"


class _BufferedRows:
    """The rows of a function that reads several and changes one, which is kept until the function has ended."""

    def __init__(self, store: CountedStore) -> None:
        self._store = store
        self.seen: dict[tuple[Table, bytes], Row | None] = {}
        self.written: dict[tuple[Table, bytes], Row | None] = {}

    def read(self, table: Table, keys: list[bytes], families: Families = "d") -> list[Row | None]:
        found = self._store.read(table, keys, "dm")
        self.seen.update({(table, key): row for key, row in zip(keys, found, strict=True)})
        return [_shown(self.written.get((table, key), row), families) for key, row in zip(keys, found, strict=True)]

    def scan(
        self, table: Table, within: RowRange, limit: int, *, reverse: bool = False, families: Families = "d"
    ) -> list[Found]:
        return self._store.scan(table, within, limit, reverse=reverse, families=families)

    def replace(self, table: Table, rows: Mapping[bytes, Row | None]) -> None:
        for key, row in rows.items():
            if (table, key) != ("system", FENCE_ROW):  # what it says is in the schema row, which programs read here
                self.written[table, key] = row

    def replace_values(self, table: Table, values: Mapping[bytes, bytes | None], stamp: int) -> None:
        self.replace(table, rows_of_values(values, stamp))


def _shown(row: Row | None, families: Families) -> Row | None:
    """A row without its removed cells, as a reader of these families sees it."""
    if row is None:
        return None
    return {column: cell for column, cell in (living(row) or {}).items() if chr(column[0]) in families} or None


class RowSystem:
    """Each change is a compare-and-set of the one row that it changes."""

    def together(self, run: Callable[[CountedStore], T], swaps: Sequence[Swap] = ()) -> Plan[T]:
        """Runs a function that may change one row, again while others change that row; then the swaps.

        Raises:
            Unsupported: it changes several rows.
        """
        for number in range(ATTEMPTS):
            result, rows = yield from Separately(lambda store: _buffered(run, store))
            if len(rows.written) > 1:
                raise Unsupported(_ONE, rows=[key for _table, key in rows.written])
            for (table, key), row in rows.written.items():
                if (table, key) not in rows.seen:
                    rows.seen[table, key] = (yield from Read(table, [key], "dm"))[0]
                if not (yield from _replace(table, key, rows.seen[table, key], row)):
                    break
            else:
                for each in swaps:
                    yield from self.swap(each)
                return result
            yield from Sleep(backoff(number, (yield from Random())))
        raise Conflict("other programs change this row all the time; try again")

    def swap(self, each: Swap) -> Plan[None]:
        """One compare-and-set; a read more where the row was removed before.

        Raises:
            Conflict: the row is not as it was seen.
        """
        (row,) = yield from Read("system", [each.key], "dm")
        held = None if row is None else row[VALUE].value
        if (None if held == REMOVED else held) != each.seen:
            raise each.lost()
        if each.wanted != each.seen:
            now = yield from Now()
            wanted = None if each.wanted is None else {VALUE: Cell(each.wanted, now)}
            if not (yield from _replace("system", each.key, row, wanted)):
                raise each.lost()

    def sweep(self, table: Table, within: RowRange, limit: int, swaps: Sequence[Swap] = ()) -> Plan[int]:
        raise Unsupported(_NO_SWEEP, table=table, start=within.start, limit=limit, swaps=len(swaps))

    def purge(self, keys: Sequence[bytes]) -> Plan[None]:
        raise Unsupported("rows of deleted entities are not removed on this store yet", rows=len(keys))


def _buffered(run: Callable[[CountedStore], T], store: CountedStore) -> tuple[T, _BufferedRows]:
    rows = _BufferedRows(store)
    return run(store.over(rows)), rows


def _replace(table: Table, key: bytes, seen: Row | None, wanted: Row | None) -> Plan[bool]:
    """Replaces the cells of a row unless its value was changed; whether it did. Removed cells stay, as removed ones."""
    gone = {column: REMOVED for column in (seen or {}) if wanted is None or column not in wanted}
    values = gone | {column: cell.value for column, cell in (wanted or {}).items()}
    stamp = later(seen, max([cell.stamp for cell in (wanted or {}).values()], default=0))
    expected = ABSENT if seen is None or VALUE not in seen else seen[VALUE].value
    cells = {column: Cell(value, stamp) for column, value in values.items()}
    return (yield from CheckAndMutate(table, VALUE, expected, RowMutation(key, cells)))


ROW_SYSTEM: Final = RowSystem()
