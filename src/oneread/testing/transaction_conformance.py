"""The short ways of a transaction in executable form: they answer what `read` and `replace` do."""

from __future__ import annotations

from typing import Any

import pytest

from oneread.store.engine import Engine, RowTransaction
from oneread.store.requests import Read, Scan
from oneread.store.rows import MAX_STAMP, Cell, EntityRow, Row, cells_of_entity
from oneread.testing.local_conformance import ALL


def require(engine: Engine, capability: str) -> None:
    """Skips the test when the engine does not declare the capability."""
    if not getattr(engine.capabilities, capability):
        pytest.skip(f"the engine does not declare {capability}")


class TransactionConformance:
    """What rows of values and rows of entities are, read and replaced without their cells."""

    def test_values_alone_are_stored_as_their_rows_are(self, engine: Engine) -> None:
        require(engine, "spans_rows")
        values: dict[bytes, bytes | None] = {b"a": b"", b"b": b"\x00" * 300, b"c": None, b"d": b"4"}

        def run(rows: RowTransaction) -> list[Any]:
            rows.replace("views", {b"c": {b"d:b": Cell(b"3", 1)}, b"d": {b"d:b": Cell(b"5", 9), b"m:s": Cell(b"6", 9)}})
            rows.replace_values("views", values, 7)
            rows.replace_values("counts", {b"a": b"1"}, MAX_STAMP)
            return rows.scan("views", ALL, 10, families="dm")

        expected = [(key, {b"d:b": Cell(value, 7)}) for key, value in values.items() if value is not None]
        assert engine.transaction(run, 5) == expected
        assert engine.answer(Scan("views", ALL, 10, families="dm")) == expected
        assert engine.answer(Read("counts", [b"a"])) == [{b"d:b": Cell(b"1", MAX_STAMP)}]

    def test_what_is_read_as_values_and_as_entities_is_what_its_rows_are(self, engine: Engine) -> None:
        require(engine, "spans_rows")
        living = EntityRow(7, b"body", b"record", 7)
        followed = EntityRow(9, b"b" * 300, b"", 8)
        late, deleted = EntityRow(1 << 60, b"", b"", 2), EntityRow(5, None, b"record")
        roots = {b"a": living, b"b": followed, b"c": deleted, b"d": late}
        numbered: Row = {**cells_of_entity(living), b"m:s1": Cell(b"\x05", 7)}
        other: Row = {b"d:v": Cell(b"\x00" * 8, 7), b"d:b": Cell(b"body", 7), b"m:e": Cell(b"record", 7)}

        def run(rows: RowTransaction) -> list[Any]:
            before = rows.read_roots([b"a", b"n"]), rows.read_values("counts", [b"x", b"y", b"z"])
            rows.replace_roots(roots)
            rows.replace_roots({b"n": numbered, b"o": other})
            rows.replace("counts", {b"x": {b"d:b": Cell(b"1", 3)}, b"y": {b"m:s": Cell(b"2", 4)}})
            return [*before, *look(rows)]

        def look(rows: RowTransaction) -> list[Any]:
            return [rows.read_roots([*roots, b"n", b"o", b"p"]), rows.read_values("counts", [b"x", b"y", b"z"])]

        after = [living, followed, cells_of_entity(deleted), late, numbered, other, None]
        cells = [Cell(b"1", 3), None, None]
        assert engine.transaction(run, 5) == [[None, None], [None] * 3, after, cells]
        assert engine.transaction(look, 5) == [after, cells]
        stored: list[Row | None] = [cells_of_entity(each) for each in roots.values()]
        assert engine.answer(Read("roots", [*roots, b"n", b"o"], "dm")) == [*stored, numbered, other]
