"""A plan inside a transaction makes the rows that it makes on a store which changes one row at a time."""

from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from oneread.engines.lmdb import LmdbEngine
from oneread.engines.memory import MemoryEngine
from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.plans.effects import Atomically, Now, Random, Together
from oneread.plans.inside import run_plan
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.requests import ABSENT, CheckAndMutate, Mutate, Read, Scan
from oneread.store.rows import REMOVED, Cell, RowMutation, RowRange, living

ALL = RowRange(b"", b"")
KEYS, COLUMNS = (b"a", b"b", b"c"), (b"d:b", b"d:x", b"m:y")
VALUES = st.sampled_from([b"1", b"2", REMOVED])
PLACES = st.tuples(st.sampled_from(KEYS), st.sampled_from(COLUMNS))


def read(key):
    (row,) = yield from Read("views", [key], "dm")
    return row


def shown(row):
    return None if row is None else living(row)


def put(places, value):
    """One request of several rows, of which one may be meant twice."""
    before = yield from Together([read(key) for key, _column in places])
    stamp = yield from Now()
    yield from Mutate("views", [RowMutation(key, {column: Cell(value, stamp)}) for key, column in places])
    return [*map(shown, before)]


def remove(place):
    key, column = place
    row = shown((yield from read(key))) or {}
    if column in row:
        yield from Mutate("views", [RowMutation(key, deletes={column: row[column].stamp})])


def remove_row(key):
    if shown((yield from read(key))) is not None:
        yield from Mutate("views", [RowMutation(key, delete_row=(yield from Now()))])


def swap(place, right, value):
    """A compare-and-set as commits make it; of what is not there, or not any more, where it is not `right`."""
    key, column = place
    row = yield from read(key)
    cell = (row or {}).get(column)
    expected = (ABSENT if cell is None else cell.value) if right else b"other"
    stamp = yield from Now()
    cells = {column: Cell(value, stamp), b"m:w": Cell(b"w", stamp)}
    return (yield from CheckAndMutate("views", column, expected, RowMutation(key, cells)))


def look(start, reverse):
    found = yield from Scan("views", RowRange(start, b""), 100, reverse, "dm")
    return [(key, shown(row)) for key, row in found if shown(row) is not None]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just(put), st.lists(PLACES, min_size=1, max_size=3), VALUES),
        st.tuples(st.just(remove), PLACES),
        st.tuples(st.just(remove_row), st.sampled_from(KEYS)),
        st.tuples(st.just(swap), PLACES, st.booleans(), VALUES),
        st.tuples(st.just(look), st.sampled_from(KEYS), st.booleans()),
    ),
    max_size=12,
)


def every(steps):
    answers = [(yield from Now()), (yield from Random())]
    for step, *given_values in steps:
        answers.append((yield from step(*given_values)))
    return answers


def outcome(engine, plan):
    """What a plan answers, the requests that it makes, and the rows that it leaves."""
    driver, trace = SyncDriver(engine, count(7).__next__, lambda: 0.5), Trace()
    answers = driver.run(plan, trace)
    rows = engine.answer(Scan("views", ALL, 100, families="dm"))
    driver.close()
    left = [(key, row) for key, each in rows if (row := living(each)) is not None]
    return answers, trace.cost.requests, left


def inside(steps):
    return iter(Atomically(lambda store: run_plan(store, every(steps))))


@given(STEPS)
def test_a_plan_makes_the_rows_that_it_makes_one_row_at_a_time(steps):
    by_row = outcome(OneRowMemoryEngine(), every(steps))
    assert outcome(MemoryEngine(), inside(steps)) == by_row


@given(STEPS)
@settings(max_examples=max(5, settings().max_examples // 5), deadline=None)
def test_so_it_does_on_disk(tmp_path_factory, steps):
    engine = LmdbEngine(str(tmp_path_factory.mktemp("inside")), durability="none")
    assert outcome(engine, inside(steps)) == outcome(OneRowMemoryEngine(), every(steps))


def test_a_removed_cell_is_absent_and_a_row_of_none_too():
    engine, cell = MemoryEngine(), Cell(b"1", 5)
    driver = SyncDriver(engine)

    def plan():
        yield from Mutate("views", [RowMutation(b"a", {b"d:b": cell, b"d:x": Cell(REMOVED, 5)}), RowMutation(b"b")])
        yield from Mutate("views", [RowMutation(b"c", {b"d:b": cell})])
        first = yield from CheckAndMutate("views", b"d:x", ABSENT, RowMutation(b"a", {b"d:b": Cell(b"2", 6)}))
        last = yield from CheckAndMutate("views", b"d:b", b"1", RowMutation(b"c", {b"d:b": Cell(REMOVED, 6)}))
        return first, last, (yield from CheckAndMutate("views", b"d:b", b"1", RowMutation(b"a", {b"d:b": cell})))

    trace = Trace()
    answers = driver.run(iter(Atomically(lambda store: run_plan(store, plan()))), trace)
    assert answers == (True, True, False)
    assert engine.answer(Scan("views", ALL, 9, families="dm")) == [(b"a", {b"d:b": Cell(b"2", 6)})]
    assert (trace.cost.requests, trace.cost.rows, trace.cost.rounds) == (5, 6, 1)
