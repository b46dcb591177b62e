"""A unit that goes back to a mark is as if nothing had been put or applied since, whatever that was."""

from decimal import Decimal
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneread.engines.memory import MemoryEngine
from oneread.errors import AlreadyExists, NotUnique
from oneread.plans.effects import Atomically
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.requests import Scan
from oneread.store.rows import TABLES, VALUE, Cell, EntityRow, RowRange
from oneread.transactions import outbox
from oneread.transactions.derived_writes import DerivedWrites
from oneread.transactions.unit_of_work import UnitOfWork

KEYS = st.sampled_from([b"k", b"l", b"m"])
OWNERS = st.sampled_from([b"one", b"two"])
APPLIED = st.builds(
    DerivedWrites,
    puts=st.dictionaries(KEYS, OWNERS, max_size=2),
    deletes=st.lists(KEYS, max_size=2),
    deltas=st.lists(
        st.tuples(KEYS.map(b"sum:".__add__), st.sampled_from([[1, 5], [1, Decimal("0.5")], [1, None]]), st.just(1)),
        max_size=2,
    ),
    released=st.dictionaries(KEYS.map(b"claim:".__add__), OWNERS, max_size=1),
    claimed=st.dictionaries(KEYS.map(b"claim:".__add__), OWNERS, max_size=1),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("apply"), APPLIED),
        st.tuples(st.just("put"), KEYS, st.one_of(st.none(), OWNERS)),
        st.tuples(st.just("root"), KEYS, OWNERS),
        st.tuples(st.just("task"), KEYS),
        st.tuples(st.just("follow"), KEYS),
    ),
    max_size=4,
)


def done(unit, steps):
    for verb, *rest in steps:
        if verb == "apply":
            unit.apply(rest[0], 7)
        elif verb == "put":
            key, shown = rest
            if shown is None:
                unit.remove("roots", key)
            else:
                unit.put("roots", key, {VALUE: Cell(shown, 7)})
        elif verb == "root":
            if unit.roots.get(rest[0]) is None:
                unit.put_root(rest[0], EntityRow(7, rest[1], b"\x80", 7))
        elif verb == "task":
            outbox.add_task(unit, rest[0], 7)
        else:
            unit.followed[rest[0]] = None


def written(driver):
    return {
        table: driver.run(Scan(table, RowRange(b"", b""), 99, families="dm").__iter__(), Trace()) for table in TABLES
    }


def flush(unit, store):
    unit.store = store
    unit.flush(100)


def check(unit, mark, store):
    unit.store = store
    unit.check_since(mark)


def outcome(before, parts):
    """What a unit says of itself and leaves in the store; a part that is not kept, or is refused, is taken back."""
    driver = SyncDriver(MemoryEngine())
    seen = []

    def run(several, store):
        unit = UnitOfWork(store)
        unit.load("roots", [b"k", b"l", b"m"])
        for part, kept in several:
            mark = unit.mark()
            try:
                done(unit, part)
            except AlreadyExists:
                unit.restore(mark)
            else:
                if not kept:
                    unit.restore(mark)
        seen.append((unit.tasks, list(unit.followed), dict(unit.roots), unit.roots.plain.copy()))
        unit.flush(100)

    for several in ([(before, True)], parts):
        try:
            driver.run(Atomically(partial(run, several)).__iter__(), Trace())
        except AlreadyExists:
            seen.append("taken")
    return seen, written(driver)


@given(before=STEPS, first=STEPS, second=STEPS, third=STEPS)
def test_parts_taken_back_leave_no_trace(before, first, second, third):
    kept = [(first, True), (third, True)]
    assert outcome(before, [kept[0], (second, False), kept[1]]) == outcome(before, kept)


def test_marks_nest():
    unit = UnitOfWork()
    outer = unit.mark()
    unit.apply(DerivedWrites({b"a": b"1"}, deltas=[(b"g", [1], 1)]), 7)
    inner = unit.mark()
    unit.apply(DerivedWrites({b"a": b"2"}, deltas=[(b"g", [1], 1)], claimed={b"c": b"one"}), 8)
    outbox.add_task(unit, b"source", 8)
    unit.restore(inner)
    driver = SyncDriver(MemoryEngine())
    driver.run(Atomically(partial(flush, unit)).__iter__(), Trace())
    assert [len(rows) for rows in written(driver).values()] == [0, 1, 1, 0]
    unit.restore(outer)
    driver = SyncDriver(MemoryEngine())
    driver.run(Atomically(partial(flush, unit)).__iter__(), Trace())
    assert not any(written(driver).values())
    assert unit.tasks == []


def test_a_claim_is_taken_back_with_what_it_released():
    unit = UnitOfWork()
    unit.apply(DerivedWrites(claimed={b"taken": b"one"}), 7)
    mark = unit.mark()
    unit.apply(DerivedWrites(puts={b"a": b"1"}, released={b"own": b"two"}, claimed={b"taken": b"two"}), 8)
    driver = SyncDriver(MemoryEngine())
    with pytest.raises(NotUnique):
        driver.run(Atomically(partial(check, unit, mark)).__iter__(), Trace())
    unit.restore(mark)
    unit.apply(DerivedWrites(claimed={b"own": b"two"}), 9)
    driver.run(Atomically(partial(flush, unit)).__iter__(), Trace())
    assert sorted(key for key, _row in written(driver)["counts"]) == [b"own", b"taken"]
    assert written(driver)["views"] == []
