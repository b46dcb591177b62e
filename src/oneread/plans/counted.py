"""The store as a function sees it inside a transaction, or outside of one: each request is a call, and is counted.

`Atomically` and `Separately` run such functions. See "Plans" of the architecture page.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from oneread.plans.trace import Trace, bytes_of, bytes_of_found
from oneread.store.engine import (
    CompiledComparisons,
    DecidedSaves,
    Engine,
    KindComparison,
    RowReads,
    RowTransaction,
    SaveQuestions,
    StoredRow,
)
from oneread.store.requests import CheckAndMutate, Found, Mutate, Read, Replace, Scan
from oneread.store.rows import (
    VALUE,
    Cell,
    EntityRow,
    Families,
    Row,
    RowMutation,
    RowRange,
    Table,
    changed,
    holds_expected,
    living,
    row_of_root,
    rows_of_values,
)

NO_ROWS: Final[Mapping[bytes, Row | None]] = MappingProxyType({})


class CountedStore:
    """Rows, and the time and chance of the driver.

    `now` is the database's clock in milliseconds since 1970, `chance` a number from 0 (included) to 1 (excluded).
    `changed` collects what is put in place of rows, with its table, unless it is None.
    """

    __slots__ = ("_rows", "_trace", "chance", "changed", "now")

    def __init__(self, rows: RowTransaction, now: Callable[[], int], chance: Callable[[], float], trace: Trace) -> None:
        self._rows = rows
        self._trace = trace
        self.now = now
        self.chance = chance
        self.changed: list[tuple[Table, Collection[bytes]]] | None = None

    def over(self, rows: RowTransaction) -> CountedStore:
        """The same store with other rows, which ask this one and count what they ask."""
        return CountedStore(rows, self.now, self.chance, Trace())

    @property
    def rows(self) -> RowTransaction:
        """The rows, for what a move does beside the operation: neither counted nor shown to observers."""
        return self._rows

    def read(self, table: Table, keys: list[bytes], families: Families = "d") -> list[Row | None]:
        """`Read`: one request, a row for each key."""
        found = self._rows.read(table, keys, families)
        trace = self._trace
        if trace.observers:
            trace.show(Read(table, keys, families), found)
        trace.count(len(keys), bytes_of(found))
        return found

    def read_roots(self, keys: list[bytes]) -> list[EntityRow | Row | None]:
        """`Read` of rows of `roots`: those that have just the cells of a living entity as `EntityRow`."""
        found = self._rows.read_roots(keys)
        trace = self._trace
        if trace.observers:
            trace.show(Read("roots", keys, "dm"), [*map(row_of_root, found)])
        size = 0
        for root in found:
            if root is not None:
                size += _size_of_root(root)
        trace.count(len(keys), size)
        return found

    def replace_roots(self, roots: Mapping[bytes, EntityRow | Row]) -> None:
        """`Replace` of rows of `roots`."""
        self._rows.replace_roots(roots)
        if self.changed is not None:
            self.changed.append(("roots", roots))
        trace = self._trace
        if trace.observers:
            trace.show(Replace("roots", {key: row_of_root(root) for key, root in roots.items()}), None)
        size = 0
        for key, root in roots.items():
            size += len(key) + _size_of_root(root)
        trace.count(len(roots), size)

    def read_values(self, table: Table, keys: list[bytes]) -> list[Cell | None]:
        """`Read` of rows that have `VALUE` alone: their cells."""
        found = self._rows.read_values(table, keys)
        trace = self._trace
        if trace.observers:
            trace.show(Read(table, keys, "dm"), [None if cell is None else {VALUE: cell} for cell in found])
        size = 0
        for cell in found:
            if cell is not None:
                size += len(cell.value)
        trace.count(len(keys), size)
        return found

    @property
    def has_core(self) -> bool:
        """Whether compiled code may be asked. Observers see requests, which only Python makes one by one."""
        return getattr(self._rows, "has_core", False) and self.changed is None and not self._trace.observers

    def read_root(self, key: bytes) -> EntityRow | Row | None:
        """A root row, for a question to compiled code. Counts nothing, as `decide_saves`: `write_decided` does."""
        (found,) = self._rows.read_roots([key])
        return found

    def decide_saves(self, asked: SaveQuestions) -> DecidedSaves | None:
        """What follows from saving entities, decided by compiled code; None where Python has to decide it."""
        rows: Any = self._rows
        decided: DecidedSaves | None = rows.decide_saves(asked)
        return decided

    def decided_rows(self, table: Table, rows: Sequence[StoredRow]) -> dict[bytes, Row | None]:
        """Rows that were decided, or read for that; counts nothing."""
        store: Any = self._rows
        found: dict[bytes, Row | None] = store.decided_rows(table, rows)
        return found

    def write_decided(self, decided: DecidedSaves, views: Mapping[bytes, Row | None] = NO_ROWS) -> None:
        """Writes what was decided, and counts its requests as Python makes them.

        Where rows of `views` follow from decided ones, all of them are one request.
        """
        rows: Any = self._rows
        rows.write_decided(decided)
        requests = decided.requests
        if views:
            rows.replace("views", views)
            *others, (count, size) = requests
            requests = (*others, (count + len(views), size + bytes_of_found(views.items())))
        for count, size in requests:
            self._trace.count(count, size)

    def scan(
        self, table: Table, within: RowRange, limit: int, *, reverse: bool = False, families: Families = "d"
    ) -> list[Found]:
        """`Scan`: one request, as many rows as it finds."""
        found = self._rows.scan(table, within, limit, reverse=reverse, families=families)
        trace = self._trace
        if trace.observers:
            trace.show(Scan(table, within, limit, reverse, families), found)
        trace.count(len(found), bytes_of_found(found))
        return found

    def replace(self, table: Table, rows: Mapping[bytes, Row | None]) -> None:
        """`Replace`: one request, a row for each; Unsupported outside of a transaction."""
        self._rows.replace(table, rows)
        if self.changed is not None:
            self.changed.append((table, rows))
        trace = self._trace
        if trace.observers:
            trace.show(Replace(table, rows), None)
        trace.count(len(rows), bytes_of_found(rows.items()))

    def mutate(self, asked: Mutate) -> None:
        """What `Mutate` does; a removed cell is absent then, and so is a row that has no other."""
        for each in asked.rows:
            (row,) = self._rows.read(asked.table, [each.key], "dm")
            self._change(asked.table, each, row)
        self._trace.note(asked, None)

    def check_and_mutate(self, asked: CheckAndMutate) -> bool:
        """What `CheckAndMutate` does and answers; a removed cell is absent then, and so is a row that has no other."""
        (row,) = self._rows.read(asked.table, [asked.mutation.key], "dm")
        holds = holds_expected(row, asked.column, asked.expected)
        if holds:
            self._change(asked.table, asked.mutation, row)
        self._trace.note(asked, holds)
        return holds

    def _change(self, table: Table, mutation: RowMutation, row: Row | None) -> None:
        after = changed(row, mutation)
        self._rows.replace(table, {mutation.key: None if after is None else living(after)})
        if self.changed is not None:
            self.changed.append((table, (mutation.key,)))

    def replace_values(self, table: Table, values: Mapping[bytes, bytes | None], stamp: int) -> None:
        """`Replace` of rows that have `VALUE` alone, all with this stamp; None removes a row."""
        self._rows.replace_values(table, values, stamp)
        if self.changed is not None:
            self.changed.append((table, values))
        trace = self._trace
        if trace.observers:
            trace.show(Replace(table, rows_of_values(values, stamp)), None)
        size = sum(map(len, values)) + sum(map(len, filter(None, values.values())))
        trace.count(len(values), size)


def _size_of_root(root: EntityRow | Row) -> int:
    """The bytes of all cells."""
    if not isinstance(root, EntityRow):
        return bytes_of((root,))
    return _VERSION_BYTES + len(root.body or b"") + len(root.emitted or b"")


_VERSION_BYTES: Final = 8


class CompiledReads:
    """What compiled code reads of a snapshot, where the engine has it."""

    __slots__ = ("_rows", "_trace")

    def __init__(self, rows: RowReads, trace: Trace) -> None:
        self._rows = rows
        self._trace = trace

    def comparison(self, programs: Sequence[bytes], batch: int, kept: int) -> KindComparison | None:
        """Begins a comparison of a kind; None where Python has to compare it.

        Counts nothing: `count` does. Observers see requests, which only Python makes one by one.
        """
        if not isinstance(self._rows, CompiledComparisons) or self._trace.observers:
            return None
        return self._rows.comparison(programs, batch, kept)

    def count(self, requests: Iterable[tuple[int, int]]) -> None:
        """Counts requests, as Python makes them, by their rows and bytes."""
        for rows, size in requests:
            self._trace.count(rows, size)


class SingleRequests(RowTransaction):
    """The rows of an engine outside of a transaction: each read is by itself."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def read(self, table: Table, keys: list[bytes], families: Families = "d") -> list[Row | None]:
        found: list[Row | None] = self._engine.answer(Read(table, keys, families))
        return found

    def scan(
        self, table: Table, within: RowRange, limit: int, *, reverse: bool = False, families: Families = "d"
    ) -> list[Found]:
        found: list[Found] = self._engine.answer(Scan(table, within, limit, reverse, families))
        return found

    def replace(self, table: Table, rows: Mapping[bytes, Row | None]) -> None:
        """Raises Unsupported."""
        self._engine.answer(Replace(table, rows))
