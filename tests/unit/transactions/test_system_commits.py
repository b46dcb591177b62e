"""System rows of a store that changes one row at a time: one compare-and-set each, again when it is lost."""

import pytest

from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.errors import Conflict, OutcomeUnknown, Unsupported
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.requests import CheckAndMutate, Mutate, Read, Scan
from oneread.store.rows import REMOVED, VALUE, WRITES, Cell, RowMutation, RowRange
from oneread.transactions import system_commits
from oneread.transactions.intents import encode_version
from oneread.transactions.system_commits import RowSystem
from oneread.transactions.system_rows import FENCE, FENCE_ROW, SCHEMA_ROW, Swap

KEY = b"row"


class Store:
    def __init__(self):
        self.engine, self.made = OneRowMemoryEngine(), []
        self.capabilities = self.engine.capabilities
        self.driver = SyncDriver(self, lambda: 1000, lambda: 0.0)
        self.before = lambda _request: None

    def answer(self, request):
        self.made.append(request)
        self.before(request)
        return self.engine.answer(request)

    def run(self, plan):
        self.made.clear()
        return self.driver.run(plan, Trace())

    def value(self, key=KEY, column=VALUE):
        (row,) = self.engine.answer(Read("system", [key], "dm"))
        return None if row is None else row[column].value

    def change(self, value, stamp):
        """What another program does."""
        cells = {VALUE: Cell(value, stamp), WRITES: Cell(encode_version(stamp), stamp)}
        self.engine.answer(Mutate("system", [RowMutation(KEY, cells)]))


@pytest.fixture
def store():
    return Store()


def swap(seen, wanted, key=KEY):
    return Swap(key, seen, wanted, lambda: Conflict("lost"))


def test_a_row_is_made_changed_removed_and_made_again(store):
    for seen, wanted in [(None, b"1"), (b"1", b"2"), (b"2", None), (None, b"3"), (b"3", b"1")]:
        store.run(RowSystem().swap(swap(seen, wanted)))
        assert store.value() == (REMOVED if wanted is None else wanted)
        assert [type(each) for each in store.made] == [Read, CheckAndMutate]


def test_a_row_that_is_only_looked_at_is_not_written(store):
    store.run(RowSystem().swap(swap(None, None)))
    assert [type(each) for each in store.made] == [Read]


@pytest.mark.parametrize("seen", [None, b"x"])
def test_a_row_that_is_not_as_it_was_is_a_conflict(store, seen):
    store.run(RowSystem().swap(swap(None, b"1")))
    with pytest.raises(Conflict, match="lost"):
        store.run(RowSystem().swap(swap(seen, b"2")))
    assert store.value() == b"1"


def test_a_row_that_changes_between_the_look_and_the_change_is_a_conflict(store):
    def change(request):
        if type(request) is CheckAndMutate:
            store.change(b"other", 5000)

    store.before = change
    with pytest.raises(Conflict, match="lost"):
        store.run(RowSystem().swap(swap(None, b"1")))
    assert store.value() == b"other"


def adding(store, amount=1, key=KEY):
    (row,) = store.read("system", [key])
    number = 0 if row is None else int(row[VALUE].value)
    store.replace("system", {key: {VALUE: Cell(b"%d" % (number + amount), 0)}})
    assert store.read("system", [key])[0][VALUE].value == b"%d" % (number + amount), "it reads its own change"
    return number


def test_a_function_that_changes_one_row_is_run_again_when_others_change_it(store):
    left = [3]

    def others(request):
        if type(request) is CheckAndMutate and left[0]:
            left[0] -= 1
            stamp = 2000 + 10 * left[0]
            store.change(b"%d" % (10 + stamp), 9000 - stamp)

    store.before = others
    before = store.run(RowSystem().together(adding))
    assert store.value() == b"%d" % (before + 1)
    assert before > 10


def test_it_ends_with_the_swaps(store):
    assert store.run(RowSystem().together(adding, [swap(None, b"1", b"other")])) == 0
    assert (store.value(), store.value(b"other")) == (b"1", b"1")


def test_a_row_that_others_change_all_the_time_is_a_conflict(store, monkeypatch):
    monkeypatch.setattr(system_commits, "ATTEMPTS", 2)
    stamps = iter(range(5000, 6000))

    def others(request):
        if type(request) is CheckAndMutate:
            stamp = next(stamps)
            store.change(b"%d" % stamp, stamp)

    store.before = others
    with pytest.raises(Conflict, match="all the time"):
        store.run(RowSystem().together(adding))


def test_a_function_may_change_a_row_that_it_did_not_read_or_remove_one(store):
    store.run(RowSystem().together(lambda rows: rows.replace("system", {KEY: {VALUE: Cell(b"1", 5)}})))
    assert store.value() == b"1"
    store.run(RowSystem().together(lambda rows: rows.replace("system", {KEY: None})))
    assert store.value() == REMOVED
    assert store.run(RowSystem().together(lambda rows: rows.read("system", [KEY]))) == [None]
    assert store.run(RowSystem().together(lambda rows: rows.scan("system", RowRange(b"", b""), 9))) == []


def test_a_function_that_changes_nothing_writes_nothing(store):
    store.run(RowSystem().together(lambda rows: rows.read("system", [KEY])))
    assert [type(each) for each in store.made] == [Read]


def test_several_rows_are_refused_and_nothing_is_written(store):
    def two(rows):
        for key in (b"a", b"b"):
            adding(rows, 1, key)

    with pytest.raises(Unsupported, match="several"):
        store.run(RowSystem().together(two))
    assert store.value(b"a") is store.value(b"b") is None


def test_a_value_that_comes_again_is_another_one(store):
    """A late request compares how often the row was changed, not what it holds."""
    late = []

    def keep(request):
        if type(request) is CheckAndMutate:
            late.append(request)

    store.before = keep
    store.run(RowSystem().swap(swap(None, b"1")))
    for seen, wanted in [(b"1", b"2"), (b"2", b"1"), (b"1", None), (None, b"1")]:
        store.run(RowSystem().swap(swap(seen, wanted)))
    assert [store.engine.answer(each) for each in late] == [False] * 5
    assert store.value() == b"1"


class Losing:
    """Loses the answers of some requests, done or not."""

    def __init__(self, store, *done):
        self.done, self.engine = list(done), store.engine
        store.engine = self

    def answer(self, request):
        if type(request) is CheckAndMutate and self.done:
            if self.done.pop(0):
                self.engine.answer(request)
            raise OutcomeUnknown("lost")
        return self.engine.answer(request)


@pytest.mark.parametrize("done", [(True,), (False,), (False, False, True)])
def test_a_lost_answer_is_found_in_the_row(store, done):
    Losing(store, *done)
    assert store.run(RowSystem().together(adding)) == 0
    assert store.value() == b"1"


def test_a_lost_answer_that_others_have_written_over_is_unknown(store):
    losing = Losing(store, True)
    whole = losing.answer

    def answer(request):
        if type(request) is Read and not losing.done:
            losing.answer = whole
            store.change(b"other", 9000)
        return whole(request)

    losing.answer = answer
    with pytest.raises(OutcomeUnknown):
        store.run(RowSystem().together(adding))
    assert store.value() == b"other"


def test_the_fence_is_a_cell_of_the_schema_row(store):
    def both(rows):
        rows.replace("system", {SCHEMA_ROW: {VALUE: Cell(b"s", 1)}, FENCE_ROW: {VALUE: Cell(b"f", 1)}})

    store.run(RowSystem().together(both))
    assert (store.value(SCHEMA_ROW), store.value(SCHEMA_ROW, FENCE), store.value(FENCE_ROW)) == (b"s", b"f", None)
    store.run(RowSystem().swap(swap(b"f", b"f", FENCE_ROW)))
    for check in (
        lambda: RowSystem().swap(swap(b"g", b"g", FENCE_ROW)),
        lambda: RowSystem().together(adding, [swap(None, None, FENCE_ROW)]),
        lambda: RowSystem().sweep("views", RowRange(b"a", b"b"), 9, [swap(b"g", b"g", FENCE_ROW)]),
    ):
        with pytest.raises(Conflict, match="lost"):
            store.run(check())
    assert store.value() is None


def test_a_change_of_a_row_that_was_looked_at_meanwhile_is_seen(store):
    """The function and the checks see one moment of each row, and the change is of that moment."""
    others = [b"3", b"7"]

    def change(request):
        if type(request) is CheckAndMutate and others:
            store.change(others.pop(), 9000 - len(others))

    store.before = change
    with pytest.raises(Conflict, match="lost"):
        store.run(RowSystem().together(adding, [swap(None, None)]))
    assert store.value() == b"7"


def test_rows_are_swept_at_their_own_stamps(store):
    def put(key, stamp):
        cells = {VALUE: Cell(b"1", stamp), b"m:w": Cell(b"2", stamp + 3)}
        store.engine.answer(Mutate("counts", [RowMutation(key, cells)]))

    for number in range(5):
        put(b"a%d" % number, 10 * number)
    assert store.run(RowSystem().sweep("counts", RowRange(b"a1", b"b"), 3)) == 3
    assert [type(each) for each in store.made] == [Scan, Mutate]
    assert store.run(RowSystem().sweep("counts", RowRange(b"a1", b"b"), 3)) == 1
    assert store.run(RowSystem().sweep("counts", RowRange(b"a1", b"b"), 3)) == 0
    left = store.engine.answer(Scan("counts", RowRange(b"a", b"b"), 9, families="dm"))
    assert [key for key, _row in left] == [b"a0"]
    put(b"a4", 50)
    assert store.engine.answer(Scan("counts", RowRange(b"a4", b"b"), 9, families="dm"))


def test_a_sweep_leaves_removed_cells(store):
    for key in (b"a", b"b", b"c"):
        store.run(Mutate("system", [RowMutation(key, {VALUE: Cell(b"1", 7)})]).__iter__())
    assert store.run(RowSystem().sweep("system", RowRange(b"a", b"z"), 2)) == 2
    assert [store.value(key) for key in (b"a", b"b", b"c")] == [REMOVED, REMOVED, b"1"]
    (row,) = store.run(Read("system", [b"a"], "dm").__iter__())
    assert row == {VALUE: Cell(REMOVED, 8)}
    lost = Swap(b"c", b"2", b"2", lambda: Conflict("lost"))
    with pytest.raises(Conflict, match="lost"):
        store.run(RowSystem().sweep("system", RowRange(b"a", b"z"), 2, [lost]))
    assert store.value(b"c") == b"1"
