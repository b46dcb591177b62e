"""Commits of rows that belong to no entity, on a store that changes one row at a time: see `SystemCommitter`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from oneread.errors import Conflict, OutcomeUnknown, Unsupported
from oneread.plans.counted import CountedStore
from oneread.plans.effects import Now, Random, Separately, Sleep
from oneread.plans.plan import Plan
from oneread.plans.retry import ATTEMPTS, backoff
from oneread.plans.scans import check_ascending
from oneread.store.engine import RowTransaction
from oneread.store.requests import ABSENT, CheckAndMutate, Found, Mutate, Read, Scan
from oneread.store.rows import (
    REMOVED,
    VALUE,
    WRITES,
    Cell,
    Families,
    Row,
    RowMutation,
    RowRange,
    Table,
    later,
    living,
)
from oneread.transactions.intents import encode_version
from oneread.transactions.journal import Journal
from oneread.transactions.journal_recovery import Recovery
from oneread.transactions.lost_answers import pause_for_answer
from oneread.transactions.system_rows import FENCE, FENCE_ROW, SCHEMA_ROW, Swap

T = TypeVar("T")

REPAIRED: Final = b"m:r"
"""The column of a sum's row that names its last repair."""

_ONE: Final = "this store changes one row at a time, and this changes several"


class _BufferedRows(RowTransaction):
    """The rows of a function that reads several, each once, and changes one, which is kept until it has ended."""

    def __init__(self, store: CountedStore) -> None:
        self._store = store
        self.seen: dict[tuple[Table, bytes], Row | None] = {}
        self.written: dict[tuple[Table, bytes], Row | None] = {}

    def read(self, table: Table, keys: list[bytes], families: Families = "d") -> list[Row | None]:
        lacking = [key for key in keys if (table, key) not in self.seen]
        if lacking:
            found = self._store.read(table, lacking, "dm")
            self.seen.update({(table, key): row for key, row in zip(lacking, found, strict=True)})
        return [
            _shown((self.written if (table, key) in self.written else self.seen)[table, key], families) for key in keys
        ]

    def scan(
        self, table: Table, within: RowRange, limit: int, *, reverse: bool = False, families: Families = "d"
    ) -> list[Found]:
        return self._store.scan(table, within, limit, reverse=reverse, families=families)

    def replace(self, table: Table, rows: Mapping[bytes, Row | None]) -> None:
        fence = rows.get(FENCE_ROW) if table == "system" else None
        for key, row in rows.items():
            if key != FENCE_ROW or table != "system":
                self.written[table, key] = row
            if key == SCHEMA_ROW and row is not None and fence is not None:
                self.written[table, key] = {**row, FENCE: fence[VALUE]}


def _shown(row: Row | None, families: Families) -> Row | None:
    """A row without its removed cells, as a reader of these families sees it."""
    if row is None:
        return None
    return {column: cell for column, cell in (living(row) or {}).items() if chr(column[0]) in families} or None


class RowSystem:
    """Each change is a compare-and-set of the one row that it changes. `recovery` is of commits in the `journal`."""

    waits_for_older = True

    def __init__(self, journal: Journal | None = None) -> None:
        self.journal = Journal() if journal is None else journal
        self.recovery = Recovery(self.journal)

    def end_older(self) -> Plan[None]:
        return self.recovery.end_older()

    def together(self, run: Callable[[CountedStore], T], swaps: Sequence[Swap] = ()) -> Plan[T]:
        """Looks at the rows to swap, runs a function that may change one row, and swaps; again while others change it.

        Raises:
            Conflict: a row to swap is not as it was seen.
            Unsupported: the function changes several rows.
        """
        for number in range(ATTEMPTS):
            result, rows = yield from Separately(lambda store: _buffered(run, store, swaps))
            if len(rows.written) > 1:
                raise Unsupported(_ONE, rows=[key for _table, key in rows.written])
            if (yield from _write(rows)):
                for each in swaps:
                    if each.wanted != each.seen:
                        yield from self.swap(each)
                return result
            yield from Sleep(backoff(number, (yield from Random())))
        raise Conflict("other programs change this row all the time; try again")

    def run(self, make: Callable[[], Plan[T]]) -> Plan[T]:
        """The plan as it is."""
        return make()

    def swap(self, each: Swap) -> Plan[None]:
        """One compare-and-set; a read more where the row was removed before.

        Raises:
            Conflict: the row is not as it was seen.
        """
        (row,) = yield from Read("system", [_row_of(each)], "dm")
        _check(each, row)
        if each.wanted != each.seen:
            now = yield from Now()
            wanted = None if each.wanted is None else {VALUE: Cell(each.wanted, now)}
            if not (yield from _replace("system", each.key, row, wanted)):
                raise each.lost()

    def sweep(self, table: Table, within: RowRange, limit: int, swaps: Sequence[Swap] = ()) -> Plan[int]:
        """Deletes what it finds at its own stamps: what is put later is not hidden by it.

        In `system` the cells stay as removed ones, so that a put that comes late is not taken for new.
        """
        for each in swaps:
            yield from self.swap(each)
        stays = table == "system"
        rows = yield from Scan(table, within, limit, families="d" if stays else "dm")
        check_ascending(table, within, rows)
        gone = [_without(key, row, stays=stays) for key, row in rows]
        if gone:
            yield from Mutate(table, gone)
        return len(gone)


def _row_of(each: Swap) -> bytes:
    return SCHEMA_ROW if each.key == FENCE_ROW else each.key


def _check(each: Swap, row: Row | None) -> None:
    """Raises the swap's error unless its row is as it was seen."""
    cell = (row or {}).get(FENCE if each.key == FENCE_ROW else VALUE)
    if (None if cell is None or cell.value == REMOVED else cell.value) != each.seen:
        raise each.lost()


def _without(key: bytes, row: Row, *, stays: bool) -> RowMutation:
    """The removal of a row's cells, by delete or by removed cells."""
    if stays:
        return RowMutation(key, {column: Cell(REMOVED, cell.stamp + 1) for column, cell in row.items()})
    return RowMutation(key, deletes={column: cell.stamp for column, cell in row.items()})


def _buffered(run: Callable[[CountedStore], T], store: CountedStore, swaps: Sequence[Swap]) -> tuple[T, _BufferedRows]:
    rows = _BufferedRows(store)
    for each in swaps:
        rows.read("system", [_row_of(each)])
        _check(each, rows.seen["system", _row_of(each)])
    return run(store.over(rows)), rows


def _write(rows: _BufferedRows) -> Plan[bool]:
    """Writes the one row that a function changed, if it changed one; False where that was changed meanwhile."""
    if not rows.written:
        return True
    ((place, row),) = rows.written.items()
    table, key = place
    seen = rows.seen[place] if place in rows.seen else (yield from Read(table, [key], "dm"))[0]
    return (yield from _replace(table, key, seen, row))


def _replace(table: Table, key: bytes, seen: Row | None, wanted: Row | None) -> Plan[bool]:
    """Replaces the cells of a row unless it was changed; whether it did. Removed cells stay, as removed ones.

    Raises:
        OutcomeUnknown: the answer was lost, and others changed the row since.
        Unavailable: too many answers were lost.
    """
    gone = {column: REMOVED for column in (seen or {}) if wanted is None or column not in wanted}
    values = gone | {column: cell.value for column, cell in (wanted or {}).items()}
    stamp = later(seen, max([cell.stamp for cell in (wanted or {}).values()], default=0))
    cells = {column: Cell(value, stamp) for column, value in values.items()}
    cells[WRITES] = Cell(encode_version(stamp), stamp)
    expected = ABSENT if seen is None or WRITES not in seen else seen[WRITES].value
    swap = CheckAndMutate(table, WRITES, expected, RowMutation(key, cells))
    lost = 0
    while True:
        try:
            return (yield from swap)
        except OutcomeUnknown:
            (row,) = yield from Read(table, [key], "dm")
            if row == cells:
                return True
            if row != seen:
                raise
            lost += 1
            yield from pause_for_answer(lost)
