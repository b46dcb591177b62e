"""A unit of work sees its own writes, and settles deltas and claims once, at the end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneread.engines.memory import MemoryEngine
from oneread.errors import AlreadyExists, Corrupt
from oneread.plans.effects import Atomically
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.requests import Read, Scan
from oneread.store.rows import VALUE, Cell, RowRange
from oneread.transactions import outbox
from oneread.transactions.deltas import decode_amounts
from oneread.transactions.derived_writes import DerivedWrites
from oneread.transactions.unit_of_work import UnitOfWork


@pytest.fixture
def driver():
    return SyncDriver(MemoryEngine())


def run(driver, body):
    """One unit in one transaction: the body applies, the end is flushed."""

    def plan(store):
        unit = UnitOfWork(store)
        body(unit)
        unit.flush(100)

    return driver.run(Atomically(plan).__iter__(), Trace())


def applied(driver, *several):
    def body(unit):
        for operations in several:
            unit.apply(operations, 7)

    run(driver, body)


def shown(driver, table, key):
    (row,) = driver.run(Read(table, [key]).__iter__(), Trace())
    return None if row is None else row[VALUE].value


def test_a_scan_sees_what_the_unit_put_and_took_away(driver):
    applied(driver, DerivedWrites({b"a": b"1", b"c": b"1", b"e": b"1"}))

    def body(unit):
        unit.apply(DerivedWrites({b"b": b"2"}, [b"c"]), 8)
        found = unit.scan("views", RowRange(b"a", b""), 2)
        assert [key for key, _row in found] == [b"a", b"b"]
        found = unit.scan("views", RowRange(b"b", b"e"), 9)
        assert [key for key, _row in found] == [b"b"]

    run(driver, body)
    rows = driver.run(Scan("views", RowRange(b"", b""), 9).__iter__(), Trace())
    assert [key for key, _row in rows] == [b"a", b"b", b"e"]


KEYS = st.sampled_from([b"a", b"b", b"c"])
PUTS = st.dictionaries(KEYS, st.sampled_from([b"1", b"2"]))
COMMITS = st.lists(st.tuples(PUTS, st.sets(KEYS), st.sampled_from([7, 8]), st.booleans()))
"""Rows put, rows removed, the version of the commit, and whether something looks at the changes behind it."""


@given(COMMITS)
def test_rows_of_views_are_written_alike_as_values_and_as_cells(commits):
    def written(*, as_cells):
        driver, trace, looks = SyncDriver(MemoryEngine()), Trace(), []

        def plan(store):
            unit = UnitOfWork(store)
            if as_cells:
                unit.mark()
            for puts, deletes, version, is_looked_at in commits:
                unit.apply(DerivedWrites(puts, sorted(deletes)), version)
                if is_looked_at:
                    looks.append(dict(unit.changed("views")))
            unit.flush(100)

        driver.run(Atomically(plan).__iter__(), trace)
        return looks, trace.cost, driver.run(Scan("views", RowRange(b"", b""), 9).__iter__(), Trace())

    assert written(as_cells=False) == written(as_cells=True)


def test_deltas_of_one_row_meet(driver):
    applied(
        driver, DerivedWrites(deltas=[(b"g", [1, 5], 1), (b"g", [1, 7], 1)]), DerivedWrites(deltas=[(b"g", [1, 5], -1)])
    )
    assert decode_amounts(shown(driver, "counts", b"g")) == [1, 7]
    applied(driver, DerivedWrites(deltas=[(b"g", [1, 7], -1)]))
    assert shown(driver, "counts", b"g") is None


def test_deltas_that_come_to_nothing_write_nothing(driver):
    applied(driver, DerivedWrites(deltas=[(b"g", [1, 5], 1), (b"g", [1, 5], -1)]))
    assert shown(driver, "counts", b"g") is None


CLAIM = b"claim"


@pytest.mark.parametrize(
    ("steps", "owner"),
    [
        ([("B", "take")], AlreadyExists),
        ([("A", "release"), ("B", "take")], b"B"),
        ([("B", "take"), ("A", "release")], b"B"),
        ([("A", "release")], None),
        ([("A", "release"), ("A", "take")], b"A"),
        ([("A", "release"), ("B", "take"), ("B", "release")], None),
        ([("B", "take"), ("B", "release")], b"A"),
        ([("B", "take"), ("B", "release"), ("A", "release")], None),
        ([("B", "take"), ("A", "release"), ("B", "release"), ("C", "take")], b"C"),
        ([("A", "release"), ("B", "take"), ("C", "take")], AlreadyExists),
    ],
)
def test_a_unique_value_changes_hands_within_a_unit(driver, steps, owner):
    applied(driver, DerivedWrites(claimed={CLAIM: b"A"}))
    operations = [
        DerivedWrites(claimed={CLAIM: who.encode()})
        if what == "take"
        else DerivedWrites(released={CLAIM: who.encode()})
        for who, what in steps
    ]
    if owner is AlreadyExists:
        with pytest.raises(AlreadyExists) as refusal:
            applied(driver, *operations)
        assert "owner" in refusal.value.facts
        assert shown(driver, "counts", CLAIM) == b"A"
    else:
        applied(driver, *operations)
        assert shown(driver, "counts", CLAIM) == owner


def test_tasks_lie_in_the_outbox_until_they_are_done(driver):
    def body(unit):
        key = outbox.add_task(unit, b"source", 5)
        assert unit.tasks == [key]

    run(driver, body)
    ((key, row),) = driver.run(Scan("system", outbox.TASKS, 9).__iter__(), Trace())
    assert outbox.read_task(row) == outbox.Task(b"source")
    assert key.endswith(b"source")


@pytest.mark.parametrize("row", [{VALUE: Cell(b"\xff", 1)}, {b"d:v": Cell(b"x", 1)}, {VALUE: Cell(b"\x01", 1)}])
def test_a_task_that_is_none_is_corrupt(row):
    with pytest.raises(Corrupt):
        outbox.read_task(row)


def test_back_references_of_a_source_lie_together():
    within = outbox.holders_of(b"ab")
    assert within.start <= outbox.back_reference_key(b"ab", b"x") < within.stop
    held = outbox.holds_on(b"ab")
    assert held.start <= outbox.hold_key(b"ab", b"x") < held.stop
