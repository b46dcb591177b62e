"""The contract of local reads in executable form: what `Read` and `Scan` answer. Part of `EngineConformance`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pytest

from oneread.store.engine import Column, Engine, LocalReads
from oneread.store.requests import Mutate, Read, Request, Scan
from oneread.store.rows import Cell, RowMutation, RowRange

Ask: TypeAlias = Callable[[Request[Any]], Any]
"""Makes one request of the engine under test, by a plan."""

ALL: Final = RowRange(b"", b"")


def put(key: bytes, value: bytes, stamp: int = 1, column: bytes = b"d:b") -> RowMutation:
    return RowMutation(key, {column: Cell(value, stamp)})


def pairs(column: Column) -> list[tuple[bytes, bytes]]:
    return [*zip(*column, strict=True)]


class LocalReadsConformance:
    """What `point`, `column` and `together` answer; skipped for engines without them."""

    @pytest.fixture
    def local(self, engine: Engine) -> LocalReads:
        if not isinstance(engine, LocalReads):
            pytest.skip("the engine has no local reads")
        return engine

    @pytest.mark.parametrize("column", [b"d:b", b"d:v", b"m:e", b"d:none"])
    def test_a_point_answers_what_a_read_does(self, ask: Ask, local: LocalReads, column: bytes) -> None:
        ask(Mutate("roots", [put(b"a", b"1"), put(b"a", b"2", 2, b"d:v"), put(b"a", b"3", 3, b"m:e")]))
        (row,) = ask(Read("roots", [b"a"], "dm"))
        cell = row.get(column)
        assert local.point("roots", b"a", column) == (None if cell is None else (cell.value, cell.stamp))
        assert local.point("roots", b"none", column) is None

    @pytest.mark.parametrize("reverse", [False, True])
    def test_a_column_answers_what_a_scan_does(self, ask: Ask, local: LocalReads, *, reverse: bool) -> None:
        ask(Mutate("roots", [put(b"a", b"1"), put(b"b", b"2", 2, b"d:v"), put(b"c", b"3"), put(b"d", b"4")]))
        within = RowRange(b"a", b"d")
        scanned = ask(Scan("roots", within, 10, reverse))
        expected = [(key, row[b"d:b"].value) for key, row in scanned if b"d:b" in row]
        assert pairs(local.column("roots", within, 10, b"d:b", reverse=reverse)) == expected
        assert pairs(local.column("roots", within, 1, b"d:b", reverse=reverse)) == expected[:1]

    @pytest.mark.parametrize("reverse", [False, True])
    @pytest.mark.parametrize("column", [b"d:b", b"d:v", b"m:e"])
    def test_a_column_of_rows_of_several_shapes(
        self, ask: Ask, local: LocalReads, column: bytes, *, reverse: bool
    ) -> None:
        for number, names in enumerate(("b e", "b e", "b", "b v e", "v", "b v e", "b e", "e", "b e", "b")):
            key = bytes([number])
            columns = {"b": b"d:b", "v": b"d:v", "e": b"m:e"}
            puts = [put(key, key * (number + 1) + name.encode(), 7, columns[name]) for name in names.split()]
            ask(Mutate("roots", puts))
        scanned = ask(Scan("roots", ALL, 20, reverse, families="dm"))
        expected = [(key, row[column].value) for key, row in scanned if column in row]
        assert pairs(local.column("roots", ALL, 20, column, reverse=reverse)) == expected
        assert pairs(local.column("roots", ALL, 3, column, reverse=reverse)) == expected[:3]

    def test_a_column_of_more_rows_than_are_read_in_one_step(self, ask: Ask, local: LocalReads) -> None:
        keys = [place.to_bytes(2, "big") for place in range(300)]
        ask(Mutate("roots", [put(key, key, 1, b"d:b" if place % 7 else b"d:v") for place, key in enumerate(keys)]))
        having = [key for place, key in enumerate(keys) if place % 7]
        for start, stop in ((0, 300), (10, 74), (10, 75), (200, 200)):
            within = RowRange(start.to_bytes(2, "big"), stop.to_bytes(2, "big"))
            inside = [(key, key) for key in having if within.start <= key < within.stop]
            for limit in (1, 63, 64, 65, 128, 200, 1000):
                assert pairs(local.column("roots", within, limit, b"d:b")) == inside[:limit]
                assert pairs(local.column("roots", within, limit, b"d:b", reverse=True)) == inside[::-1][:limit]

    @pytest.mark.parametrize("most", [1, 2, 70, 100])
    def test_what_is_read_together_is_what_is_read_apart(self, ask: Ask, local: LocalReads, most: int) -> None:
        rows = [put(b"a" + bytes([place]), b"%d" % place, 1, b"d:v" if place % 2 else b"d:b") for place in range(1, 80)]
        ask(Mutate("views", [*rows, put(b"b", b"other"), put(b"c", b"", 1, b"m:e"), put(b"c\xff", b"last")]))
        ask(Mutate("counts", [put(b"g", b"1"), put(b"h", b"2", 1, b"d:v")]))
        prefixes = [b"a", b"b", b"c", b"none", b"c\xff"]
        apart = [local.column("views", RowRange.under(prefix), most, b"d:b") for prefix in prefixes]
        for key, value in ((b"g", b"1"), (b"h", None), (b"none", None)):
            found, firsts = local.together("counts", key, b"d:b", [("views", prefix, most) for prefix in prefixes])
            assert found == value
            assert [pairs(each) for each in firsts] == [pairs(each) for each in apart]
        assert local.together("counts", b"g", b"d:b", []) == (b"1", [])
