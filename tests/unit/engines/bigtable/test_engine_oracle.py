"""The official client is the oracle: each reads what the other wrote."""

import warnings
from uuid import uuid4

import pytest
from google.cloud.bigtable.data import (
    BigtableDataClient,
    ReadRowsQuery,
    RowMutationEntry,
    SetCell,
)
from google.cloud.bigtable.data import (
    RowRange as OfficialRange,
)
from google.cloud.bigtable.data.read_modify_write_rules import IncrementRule
from google.cloud.bigtable.data.row_filters import CellsColumnLimitFilter, PassAllFilter
from hypothesis import given, settings
from hypothesis import strategies as st

from oneread.engines.bigtable import BigtableEngine, BigtableOptions, emulated
from oneread.store.requests import CheckAndMutate, Increment, Mutate, Read, Scan
from oneread.store.rows import Cell, RowMutation, RowRange
from oneread.testing.store_machine import cells, columns, keys, mutations

ALL = RowRange(b"", b"")
FEW = settings(max_examples=30, deadline=None)
rows_of_cells = st.dictionaries(keys, st.dictionaries(columns, cells, min_size=1, max_size=3), min_size=1, max_size=5)


@pytest.fixture
def instance():
    return f"i{uuid4().hex}"


@pytest.fixture
def engine(emulator, instance):
    engine = BigtableEngine(BigtableOptions("test", instance), emulated(emulator.host))
    yield engine
    engine.close()


@pytest.fixture
def table(monkeypatch, emulator, engine, instance):  # noqa: ARG001 - the engine makes the table
    """The official client's table of root rows."""
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", emulator.host)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # that it asks an emulator
        client = BigtableDataClient(project="test")
    yield client.get_table(instance, "roots")
    client.close()


def seen_officially(table, keys=None, ranges=None):
    """The rows that the official client finds, as the store contract has them."""
    query = ReadRowsQuery(row_keys=keys, row_ranges=ranges, row_filter=CellsColumnLimitFilter(1))
    return [
        (
            row.row_key,
            {
                cell.family.encode() + b":" + cell.qualifier: Cell(cell.value, cell.timestamp_micros // 1000)
                for cell in row.cells
            },
        )
        for row in table.read_rows(query)
    ]


def write_officially(table, rows):
    """Writes rows by the official client, in one batch."""
    table.bulk_mutate_rows(
        [RowMutationEntry(key, [put(column, cell) for column, cell in row.items()]) for key, row in rows.items()]
    )


def put(column, cell):
    family, _colon, qualifier = column.partition(b":")
    return SetCell(family.decode(), qualifier, cell.value, timestamp_micros=cell.stamp * 1000)


def clear(engine):
    """Removes what an example left."""
    found = engine.answer(Scan("roots", ALL, 1000, families="dm"))
    engine.answer(Mutate("roots", [RowMutation(key, delete_row=1 << 40) for key, _row in found]))


def test_the_official_client_reads_what_the_engine_wrote(engine, table):
    @FEW
    @given(st.lists(mutations, max_size=6, unique_by=lambda each: each.key))
    def is_read(changes):
        clear(engine)
        engine.answer(Mutate("roots", changes))
        assert engine.answer(Scan("roots", ALL, 100, families="dm")) == seen_officially(table)

    is_read()


def test_the_engine_reads_what_the_official_client_wrote_forward_and_backward(engine, table):
    @FEW
    @given(rows_of_cells, keys, keys, st.integers(1, 4))
    def is_read(rows, one, other, limit):
        clear(engine)
        write_officially(table, rows)
        expected = seen_officially(table)
        assert dict(expected) == rows
        assert engine.answer(Scan("roots", ALL, 100, families="dm")) == expected
        assert engine.answer(Scan("roots", ALL, 100, reverse=True, families="dm")) == expected[::-1]
        start, stop = sorted((one, other))
        part = seen_officially(table, ranges=[OfficialRange(start, stop)]) if start < stop else []
        assert engine.answer(Scan("roots", RowRange(start, stop), limit, families="dm")) == part[:limit]
        backward = engine.answer(Scan("roots", RowRange(start, stop), limit, reverse=True, families="dm"))
        assert backward == part[::-1][:limit]
        assert engine.answer(Read("roots", [*rows], "dm")) == [*rows.values()]

    is_read()


def test_rows_by_key(engine, table):
    write_officially(table, {b"a": {b"d:b": Cell(b"1", 1)}, b"b": {b"m:e": Cell(b"2", 2)}})
    asked = [b"b", b"x", b"a"]
    rows = dict(seen_officially(table, keys=asked))
    assert engine.answer(Read("roots", asked, "dm")) == [rows.get(key) for key in asked]
    assert len(rows) == 2


def test_conditions_and_increments_of_both(engine, table):
    engine.answer(Mutate("roots", [RowMutation(b"a", {b"d:b": Cell(b"1", 1)})]))
    table.read_modify_write_row(b"a", [IncrementRule("d", b"n", 5)])
    assert engine.answer(Increment("roots", b"a", b"d:n", -2)) == 3
    changes = [put(b"d:b", Cell(b"2", 2))]
    assert table.check_and_mutate_row(b"a", PassAllFilter(flag=True), true_case_mutations=changes) is True
    changed = RowMutation(b"a", {b"d:b": Cell(b"3", 3)})
    assert engine.answer(CheckAndMutate("roots", b"d:b", b"1", changed)) is False
    assert engine.answer(CheckAndMutate("roots", b"d:b", b"2", changed)) is True
    assert seen_officially(table, keys=[b"a"])[0][1][b"d:b"] == Cell(b"3", 3)
