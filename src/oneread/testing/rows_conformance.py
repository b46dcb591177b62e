"""The contract of rows where engines have batches, encodings and threads, in executable form.

Part of `EngineConformance`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import ClassVar, Final, TypeVar

import pytest

from oneread.store.engine import Engine, LocalReads, RowTransaction
from oneread.store.requests import ABSENT, CheckAndMutate, Increment, Mutate, Read, Scan
from oneread.store.rows import REMOVED, TABLES, Cell, Row, RowMutation, RowRange
from oneread.testing.local_conformance import ALL, Ask, pairs, put
from oneread.testing.transaction_conformance import require

T = TypeVar("T")

MANY: Final = 1_200
LARGE: Final = 1 << 20
CELLS: Final = 3
CHANGES: Final = 40
NOW: Final = 1_700_000_000_000
KEYS: Final = (b"\x00", b"\x00\x00", b"\x00a", b"a", b"a\x00", b"a\x00\x00", b"a\x01", bytes(range(256)), b"\xff" * 9)
VALUES: Final = (b"", b"\x00", b"\x00\x00", b"1\x00", b"\n", bytes(range(256)), b"\xff", REMOVED + b"\x00", REMOVED * 2)
COLUMNS: Final = (b"d:b", b"d:b\x00", b"d:bb", b"d:c:\x00", b"d:c:\xff\x00\n", b"m:b", b"m:" + b"e" * 100)
STAMPS: Final = (1, 1 << 31, 1 << 32, NOW, NOW + 1, NOW + 1_000, 1 << 52)


class RowsConformance:
    """What rows hold and how they are read, however many and large they are."""

    deletes_while_read: ClassVar[bool] = True
    """Whether columns come and go while a row is read; false where that misleads the server of a test."""

    def test_any_bytes_are_a_key(self, ask: Ask) -> None:
        ask(Mutate("views", [put(key, b"%d" % place) for place, key in enumerate(KEYS)]))
        rows: list[Row] = [{b"d:b": Cell(b"%d" % place, 1)} for place in range(len(KEYS))]
        found = ask(Read("views", [*KEYS, b"b\x00", b"a\x00\x00\x00"]))
        assert found == [*rows, None, None]
        assert ask(Scan("views", ALL, 100)) == sorted(zip(KEYS, rows, strict=True))
        assert [key for key, _row in ask(Scan("views", RowRange(b"a\x00", b"a\x01"), 100))] == [b"a\x00", b"a\x00\x00"]

    @pytest.mark.parametrize("value", VALUES, ids=repr)
    def test_any_bytes_are_a_value(self, ask: Ask, engine: Engine, value: bytes) -> None:
        row: Row = {b"d:b": Cell(value, 3), b"d:v": Cell(value, 4)}
        ask(Mutate("roots", [RowMutation(b"a", row)]))
        assert ask(Read("roots", [b"a"])) == [row]
        assert ask(Scan("roots", ALL, 9, families="dm")) == [(b"a", row)]
        if isinstance(engine, LocalReads):
            assert engine.point("roots", b"a", b"d:v") == (value, 4)
            assert pairs(engine.column("roots", ALL, 9, b"d:v")) == [(b"a", value)]

    def test_any_bytes_are_a_column_after_its_family(self, ask: Ask) -> None:
        row: Row = {column: Cell(b"%d" % place, 5) for place, column in enumerate(COLUMNS)}
        ask(Mutate("roots", [RowMutation(b"a", row)]))
        assert ask(Read("roots", [b"a"], "dm")) == [row]
        ask(Mutate("roots", [RowMutation(b"a", deletes={b"d:b": 5, b"d:c:": 9, b"m:": 9})]))
        del row[b"d:b"]
        assert ask(Scan("roots", ALL, 9, families="dm")) == [(b"a", row)]
        assert ask(CheckAndMutate("roots", b"d:b\x00", b"1", RowMutation(b"a", delete_row=5))) is True
        assert ask(Read("roots", [b"a"], "dm")) == [None]

    def test_what_was_answered_and_asked_is_the_callers_to_change(self, ask: Ask, engine: Engine) -> None:
        row: Row = {b"d:b": Cell(b"1", 1), b"m:e": Cell(b"2", 1)}
        given, keys = dict(row), [b"a", b"b"]
        rows = [RowMutation(b"a", given)]
        ask(Mutate("roots", rows))
        given.clear()
        rows.clear()
        asked: list[Callable[[], Row]] = [
            lambda: ask(Read("roots", keys, "dm"))[0],
            lambda: ask(Scan("roots", ALL, 9, families="dm"))[0][1],
        ]
        for read in asked * 2:
            found = read()
            assert found == row
            found.clear()
        if engine.capabilities.spans_rows:
            engine.transaction(lambda inside: changed_by_its_caller(inside, row), 5)
            assert ask(Read("roots", keys, "dm")) == [row, row]

    @pytest.mark.parametrize("stamp", STAMPS)
    def test_stamps_are_exact_milliseconds(self, ask: Ask, stamp: int) -> None:
        ask(Mutate("roots", [put(b"a", b"1", stamp), put(b"b", b"1", stamp)]))
        ask(Mutate("roots", [put(b"a", b"older", stamp - 1), RowMutation(b"b", deletes={b"d:b": stamp - 1})]))
        assert ask(Read("roots", [b"a", b"b"])) == [{b"d:b": Cell(b"1", stamp)}] * 2
        ask(Mutate("roots", [put(b"a", b"newer", stamp + 1), RowMutation(b"b", delete_row=stamp)]))
        assert ask(Read("roots", [b"a", b"b"])) == [{b"d:b": Cell(b"newer", stamp + 1)}, None]

    def test_each_table_has_rows_of_its_own(self, ask: Ask) -> None:
        for table in TABLES:
            ask(Mutate(table, [put(b"a", table.encode())]))
        for table in TABLES:
            ask(Mutate(table, [RowMutation(b"b", delete_row=9)]))
            assert ask(Scan(table, ALL, 9)) == [(b"a", {b"d:b": Cell(table.encode(), 1)})]

    def test_a_request_for_nothing_does_nothing(self, ask: Ask) -> None:
        assert ask(Read("roots", [])) == []
        ask(Mutate("roots", []))
        ask(Mutate("roots", [RowMutation(b"a", deletes={b"d:b": 5}), RowMutation(b"b", delete_row=5)]))
        assert ask(Scan("roots", ALL, 9, families="dm")) == []

    def test_an_increment_changes_its_column_alone(self, ask: Ask) -> None:
        ask(Mutate("counts", [put(b"a", b"1", 5), put(b"a", b"2", 5, b"m:e"), put(b"b", b"3", 5)]))
        assert [ask(Increment("counts", b"a", column, 2)) for column in (b"d:n", b"d:o", b"d:n")] == [2, 2, 4]
        assert ask(Increment("counts", b"b", b"d:n", -1)) == -1
        (row, other) = ask(Read("counts", [b"a", b"b"], "dm"))
        assert (row.pop(b"d:n").value, row.pop(b"d:o").value) == (b"\x00" * 7 + b"\x04", b"\x00" * 7 + b"\x02")
        assert row == {b"d:b": Cell(b"1", 5), b"m:e": Cell(b"2", 5)}
        assert other.pop(b"d:n").value == b"\xff" * 8
        assert other == {b"d:b": Cell(b"3", 5)}

    def test_a_check_is_of_one_column_of_one_row(self, ask: Ask) -> None:
        ask(Mutate("roots", [put(b"a", b"1"), put(b"a", b"2", 1, b"m:b"), put(b"b", b"3")]))
        refused = [(b"d:b", b"2"), (b"m:b", b"1"), (b"d:b", b"3"), (b"d:v", b"1"), (b"d:b", ABSENT)]
        changed = put(b"a", b"4", 2, b"d:v")
        assert [ask(CheckAndMutate("roots", column, value, changed)) for column, value in refused] == [False] * len(
            refused
        )
        assert [set(row) for row in ask(Read("roots", [b"a", b"b"], "dm"))] == [{b"d:b", b"m:b"}, {b"d:b"}]
        assert ask(CheckAndMutate("roots", b"d:v", ABSENT, changed)) is True

    @pytest.mark.parametrize("reverse", [False, True])
    def test_a_scan_answers_more_rows_than_a_batch_has(self, ask: Ask, engine: Engine, *, reverse: bool) -> None:
        """Rows of writers alone, and removed ones, lie between those that readers count."""
        if reverse:
            require(engine, "reverse_scan")
        keys = [b"%04d" % place for place in range(MANY)]
        hidden = put(b"", REMOVED) if not engine.capabilities.spans_rows else put(b"", b"", 1, b"m:e")
        cells = [{b"d:b": Cell(key, 1)} if place % 3 else hidden.puts for place, key in enumerate(keys)]
        ask(Mutate("views", [RowMutation(key, row) for key, row in zip(keys, cells, strict=True)]))
        every, shown = list(keys), [key for place, key in enumerate(keys) if place % 3]
        if reverse:
            every.reverse()
            shown.reverse()
        for limit in (255, 256, 257, 700, 799, 800, 801, 1_199, 10_000):
            assert [key for key, _row in ask(Scan("views", ALL, limit, reverse))] == shown[:limit]
            assert [key for key, _row in ask(Scan("views", ALL, limit, reverse, "dm"))] == every[:limit]
        inside = [key for key in shown if b"0100" <= key < b"1100"]
        assert [key for key, _row in ask(Scan("views", RowRange(b"0100", b"1100"), 10_000, reverse))] == inside
        asked = [*every[::-1], b"none", *every[:5]]
        assert ask(Read("views", asked, "dm")) == [cells[int(key)] if key != b"none" else None for key in asked]

    def test_large_rows_are_answered_whole(self, ask: Ask) -> None:
        values = [bytes([place]) * LARGE for place in range(1, 9)]
        for value in values:
            ask(Mutate("roots", [put(value[:1], value)]))
        assert [row[b"d:b"].value for _key, row in ask(Scan("roots", ALL, 100))] == values
        assert [row[b"d:b"].value for row in ask(Read("roots", [value[:1] for value in values]))] == values

    @pytest.mark.parametrize("checked", [False, True])
    def test_a_reader_sees_a_row_before_a_change_or_after_it(self, engine: Engine, *, checked: bool) -> None:
        """A change puts cells of both families, and deletes a column of the change before.

        The emulator of Bigtable shows some rows without a column that was just put. It copies the cells of a row while
        it holds the row, but not the list of its columns, which the next delete moves in place while the copy is sent.
        Bigtable itself makes all changes of a row at once, in their order.
        """

        def change(number: int) -> None:
            cell = Cell(b"%d" % number, number)
            last, gone = (b"d:w", b"d:v") if number % 2 and self.deletes_while_read else (b"d:v", b"d:w")
            deletes = {gone: number - 1} if self.deletes_while_read else {}
            mutation = RowMutation(b"a", {b"d:b": cell, b"m:e": cell, last: cell}, deletes)
            if checked and number > 1:
                assert engine.answer(CheckAndMutate("roots", b"m:e", b"%d" % (number - 1), mutation)) is True
            else:
                engine.answer(Mutate("roots", [mutation]))

        change(1)
        reads: list[Callable[[], Row]] = [
            lambda: engine.answer(Read("roots", [b"a"], "dm"))[0],
            lambda: engine.answer(Scan("roots", ALL, 1, families="dm"))[0][1],
        ]
        for seen in seen_while_changing(change, reads):
            assert [row for row in seen if len(row) != CELLS or len({*row.values()}) != 1] == []

    def test_what_is_read_together_is_of_one_moment(self, engine: Engine) -> None:
        require(engine, "spans_rows")
        if not isinstance(engine, LocalReads):
            pytest.skip("the engine has no local reads")

        def change(number: int) -> None:
            row: Row = {b"d:b": Cell(b"%d" % number, 1)}
            engine.transaction(lambda rows: replaced(rows, row), 30)

        def replaced(rows: RowTransaction, row: Row) -> None:
            rows.replace("counts", {b"g": row})
            rows.replace("views", {b"a1": row, b"b1": row})

        def look() -> set[bytes | None]:
            value, firsts = engine.together("counts", b"g", b"d:b", [("views", b"a", 1), ("views", b"b", 1)])
            return {value, *(value for column in firsts for _key, value in pairs(column))}

        change(1)
        (seen,) = seen_while_changing(change, [look])
        assert [values for values in seen if len(values) != 1] == []


def seen_while_changing(change: Callable[[int], None], looks: list[Callable[[], T]]) -> list[list[T]]:
    """What each look sees while another thread calls `change` with 2, 3 and so on; both happen `CHANGES` times."""
    ended = threading.Event()
    looked = [0] * len(looks)

    def write() -> None:
        try:
            for number in count(2):
                change(number)
                if number > CHANGES and min(looked) >= CHANGES:
                    return
        finally:
            ended.set()

    def look(place: int) -> list[T]:
        seen = []
        try:
            while not ended.is_set():
                seen.append(looks[place]())
                looked[place] += 1
        finally:
            looked[place] += CHANGES
        return seen

    with ThreadPoolExecutor(len(looks) + 1) as pool:
        looking = [pool.submit(look, place) for place in range(len(looks))]
        pool.submit(write).result(60)
        return [each.result(60) for each in looking]


def changed_by_its_caller(rows: RowTransaction, row: Row) -> None:
    """Replaces row `b` by `row`, and changes the dicts that were given and read."""
    given = dict(row)
    rows.replace("roots", {b"b": given})
    for each in (given, *rows.read("roots", [b"a", b"b"], "dm")):
        assert each == row
        assert each is not None
        each.clear()
    for _key, seen in rows.scan("roots", ALL, 9, families="dm"):
        assert seen == row
        seen.clear()
