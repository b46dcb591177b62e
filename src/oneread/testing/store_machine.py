"""Any sequence of requests, compared with a plain dict that follows the store contract.

Undefined requests are not made: a put is always newer than an earlier delete of its column, and a checked column is
never empty. See "The store contract" of the architecture page.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from oneread.plans.counted import CountedStore
from oneread.plans.effects import Atomically
from oneread.plans.plan import Plan
from oneread.store.engine import Engine, LocalReads, read_by
from oneread.store.requests import CheckAndMutate, Increment, Mutate, Read, Replace, Request, Scan
from oneread.store.rows import REMOVED, Cell, Families, Row, RowMutation, RowRange, Table

Drive: TypeAlias = Callable[[Plan[Any]], Any]
"""Runs a plan to its end against the engine under test."""

COUNTER: Final = b"d:n"

keys = st.binary(min_size=1, max_size=3) | st.sampled_from([b"a", b"b", b"ab", b"a\x00", b"\xff", b"\xff\xff"])
columns = st.sampled_from([b"d:b", b"d:v", b"d:c:x", b"m:e", b"m:h"])
stamps = st.integers(1, 40)
cells = st.builds(Cell, st.binary(min_size=1, max_size=12) | st.just(REMOVED), stamps)
rows = st.dictionaries(columns, cells, min_size=1, max_size=4)
bounds = st.just(b"") | keys
ranges = st.builds(RowRange, bounds, bounds)
families: st.SearchStrategy[Families] = st.sampled_from(["d", "dm"])
tables: st.SearchStrategy[Table] = st.sampled_from(["roots", "views"])
mutations = st.builds(
    RowMutation,
    key=keys,
    puts=st.dictionaries(columns, cells, max_size=3),
    deletes=st.dictionaries(columns, stamps, max_size=2),
    delete_row=st.none() | stamps,
)


class UndoneOnPurpose(Exception):
    """Raised by a plan to see that nothing of it is stored."""


class PlainRows:
    """The contract over plain dicts; `deleted` has the stamps that a put must be newer than.

    With `hides_removed` readers of the family `d` do not see removed cells.
    """

    def __init__(self, *, hides_removed: bool = False) -> None:
        self._hides_removed = hides_removed
        self.rows: dict[Table, dict[bytes, Row]] = {"roots": {}, "views": {}, "counts": {}, "system": {}}
        self.deleted: dict[tuple[Table, bytes, bytes], int] = {}

    def answer(self, request: Request[Any]) -> Any:
        return _ANSWERS[type(request)](self, request)

    def defined(self, table: Table, mutation: RowMutation) -> RowMutation:
        """The mutation with stamps newer than what it deletes and what was deleted before."""
        puts = {
            column: Cell(cell.value, max(cell.stamp, 1 + self._deleted_at(table, mutation, column)))
            for column, cell in mutation.puts.items()
        }
        return RowMutation(mutation.key, puts, mutation.deletes, mutation.delete_row)

    def _deleted_at(self, table: Table, mutation: RowMutation, column: bytes) -> int:
        return max(
            mutation.deletes.get(column, 0),
            mutation.delete_row or 0,
            self.deleted.get((table, mutation.key, column), 0),
            self.deleted.get((table, mutation.key, b""), 0),
        )

    def read(self, asked: Read) -> list[Row | None]:
        return [self._seen(asked.table, key, asked.families) for key in asked.keys]

    def scan(self, asked: Scan) -> list[tuple[bytes, Row]]:
        start, stop = asked.range.start, asked.range.stop
        inside = [key for key in self.rows[asked.table] if start <= key and (not stop or key < stop)]
        found = [
            (key, row)
            for key in sorted(inside, reverse=asked.reverse)
            if (row := self._seen(asked.table, key, asked.families))
        ]
        return found[: asked.limit]

    def mutate(self, asked: Mutate) -> None:
        for mutation in asked.rows:
            self._change(asked.table, mutation)

    def check_and_mutate(self, asked: CheckAndMutate) -> bool:
        cell = self.rows[asked.table].get(asked.mutation.key, {}).get(asked.column)
        if (None if cell is None else cell.value) != asked.expected:
            return False
        self._change(asked.table, asked.mutation)
        return True

    def replace(self, asked: Replace) -> None:
        for key, row in asked.rows.items():
            self.rows[asked.table].pop(key, None)
            if row:
                self.rows[asked.table][key] = dict(row)
            self.deleted = {
                (table, known, column): at
                for (table, known, column), at in self.deleted.items()
                if (table, known) != (asked.table, key)
            }

    def _seen(self, table: Table, key: bytes, wanted: Families) -> Row | None:
        row = self.rows[table].get(key, {})
        hidden = REMOVED if self._hides_removed and wanted == "d" else None
        return {
            column: cell for column, cell in row.items() if chr(column[0]) in wanted and cell.value != hidden
        } or None

    def _change(self, table: Table, mutation: RowMutation) -> None:
        row = self.rows[table].pop(mutation.key, {})
        gone = dict(mutation.deletes)
        if mutation.delete_row is not None:
            gone[b""] = mutation.delete_row
        for column, last in gone.items():
            place = (table, mutation.key, column)
            self.deleted[place] = max(last, self.deleted.get(place, 0))
            for victim in list(row):
                if column in (b"", victim) and row[victim].stamp <= last:
                    del row[victim]
        for column, cell in mutation.puts.items():
            if column not in row or cell.stamp >= row[column].stamp:
                row[column] = cell
        if row:
            self.rows[table][mutation.key] = row


_ANSWERS: Final[dict[type[Any], Callable[[PlainRows, Any], Any]]] = {
    Read: PlainRows.read,
    Scan: PlainRows.scan,
    Mutate: PlainRows.mutate,
    CheckAndMutate: PlainRows.check_and_mutate,
    Replace: PlainRows.replace,
}


class StoreMachine(RuleBasedStateMachine):
    """Makes the same requests of an engine and of the oracle; answers must be equal. It closes the engine."""

    def __init__(self, engine: Engine, drive: Drive) -> None:
        super().__init__()
        self.engine = engine
        self.drive = drive
        self.oracle = PlainRows(hides_removed=not engine.capabilities.spans_rows)
        self.totals: dict[bytes, int] = {}

    def teardown(self) -> None:
        self.engine.close()

    def same(self, request: Request[Any]) -> None:
        assert self.drive(iter(request)) == self.oracle.answer(request)

    @initialize(table=tables, given=st.lists(mutations, max_size=5, unique_by=lambda mutation: mutation.key))
    def start(self, table: Table, given: list[RowMutation]) -> None:
        self.mutate(table, given)

    @rule(table=tables, given=st.lists(mutations, max_size=3, unique_by=lambda mutation: mutation.key))
    def mutate(self, table: Table, given: list[RowMutation]) -> None:
        self.same(Mutate(table, [self.oracle.defined(table, mutation) for mutation in given]))

    @rule(table=tables, column=columns, expected=st.none() | st.binary(min_size=1, max_size=1), mutation=mutations)
    def check_and_mutate(self, table: Table, column: bytes, expected: bytes | None, mutation: RowMutation) -> None:
        self.same(CheckAndMutate(table, column, expected, self.oracle.defined(table, mutation)))

    @rule(table=tables, column=columns, mutation=mutations)
    def check_the_stored_value(self, table: Table, column: bytes, mutation: RowMutation) -> None:
        cell = self.oracle.rows[table].get(mutation.key, {}).get(column)
        self.check_and_mutate(table, column, None if cell is None else cell.value, mutation)

    @rule(key=keys, amount=st.integers(-(2**40), 2**40))
    def increment(self, key: bytes, amount: int) -> None:
        total = self.totals[key] = self.totals.get(key, 0) + amount
        assert self.drive(iter(Increment("counts", key, COUNTER, amount))) == total

    @rule(table=tables, asked=st.lists(keys, max_size=4), wanted=families)
    def read(self, table: Table, asked: list[bytes], wanted: Families) -> None:
        self.same(Read(table, asked, wanted))

    @rule(table=tables, wanted=ranges, limit=st.integers(1, 6), reverse=st.booleans(), seen=families)
    def scan(self, table: Table, wanted: RowRange, limit: int, reverse: bool, seen: Families) -> None:  # noqa: FBT001
        reverse = reverse and self.engine.capabilities.reverse_scan
        self.same(Scan(table, wanted, limit, reverse, seen))

    @rule(
        table=tables,
        stated=st.dictionaries(keys, st.none() | rows, max_size=3),
        again=st.dictionaries(keys, st.none() | rows, max_size=2),
        wanted=ranges,
        refused=st.booleans(),
    )
    def atomically(
        self,
        table: Table,
        stated: dict[bytes, Row | None],
        again: dict[bytes, Row | None],
        wanted: RowRange,
        refused: bool,  # noqa: FBT001
    ) -> None:
        """A transaction sees its own writes, and stores all of them or none."""
        if not self.engine.capabilities.spans_rows:
            return
        oracle = copy.deepcopy(self.oracle)
        before: Read | Scan = Scan(table, wanted, 4)
        after: list[Read | Scan] = [Read(table, [*stated, *again], "dm"), Scan(table, wanted, 5, True, "dm")]
        expected = [oracle.answer(before)]
        for written in (stated, again):
            oracle.answer(Replace(table, written))
        expected += [oracle.answer(request) for request in after]

        def run(store: CountedStore) -> list[Any]:
            answers = [read_by(store, before)]
            for written in (stated, again):
                store.replace(table, written)
            answers += [read_by(store, request) for request in after]
            if refused:
                raise UndoneOnPurpose(answers)
            return answers

        try:
            answers = self.drive(iter(Atomically(run)))
        except UndoneOnPurpose as refusal:
            assert refused
            (answers,) = refusal.args
        else:
            assert not refused
            self.oracle = oracle
        assert answers == expected

    @invariant()
    def every_cell_is_the_oracles(self) -> None:
        for table in ("roots", "views"):
            stored = self.drive(iter(Scan(table, RowRange(b"", b""), 1000, families="dm")))
            assert dict(stored) == self.oracle.rows[table]
            for key, row in stored:
                for column in (b"d:b", b"m:e"):
                    if isinstance(self.engine, LocalReads):
                        cell = row.get(column)
                        found = None if cell is None else (cell.value, cell.stamp)
                        assert self.engine.point(table, key, column) == found
