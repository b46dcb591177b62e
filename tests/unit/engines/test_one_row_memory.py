"""A memory engine that changes one row at a time: late puts, faults between rows, latency."""

import time

import pytest

from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.errors import InvalidKey, InvalidValue, OutcomeUnknown, Unavailable, Unsupported
from oneread.store.engine import LocalReads, Snapshots
from oneread.store.requests import ABSENT, CheckAndMutate, Mutate, Read, Replace, Scan
from oneread.store.rows import Cell, RowMutation, RowRange

ALL = RowRange(b"", b"")


def put(stamp, value=b"1", column=b"d:b", key=b"a"):
    return RowMutation(key, {column: Cell(value, stamp)})


def values(engine, key=b"a"):
    (row,) = engine.answer(Read("roots", [key], "dm"))
    return {} if row is None else {column: (cell.value, cell.stamp) for column, cell in row.items()}


DELETES = [RowMutation(b"a", deletes={b"d:b": 5}), RowMutation(b"a", delete_row=5)]


@pytest.mark.parametrize("delete", DELETES)
@pytest.mark.parametrize(("deletes", "stays"), [("hide", False), ("remove", True)])
@pytest.mark.parametrize("stamp", [4, 5])
def test_an_older_put_after_a_delete(delete, deletes, stays, stamp):
    engine = OneRowMemoryEngine(deletes)
    engine.answer(Mutate("roots", [delete]))
    engine.answer(Mutate("roots", [put(stamp)]))
    assert values(engine) == ({b"d:b": (b"1", stamp)} if stays else {})
    engine.answer(Mutate("roots", [put(6, b"2")]))
    assert values(engine) == {b"d:b": (b"2", 6)}


@pytest.mark.parametrize("delete", DELETES)
def test_a_compaction_forgets_deletes(delete):
    engine = OneRowMemoryEngine("hide")
    engine.answer(Mutate("roots", [delete]))
    engine.compact()
    engine.answer(Mutate("roots", [put(5)]))
    assert values(engine) == {b"d:b": (b"1", 5)}


def test_a_store_that_does_not_hide_has_nothing_to_forget():
    engine = OneRowMemoryEngine("remove")
    engine.answer(Mutate("roots", [put(1)]))
    engine.compact()
    assert values(engine) == {b"d:b": (b"1", 1)}


def test_a_delete_hides_the_greatest_stamp_that_it_was_given():
    engine = OneRowMemoryEngine("hide")
    for stamp in (5, 3):
        engine.answer(Mutate("roots", [RowMutation(b"a", deletes={b"d:b": stamp})]))
    engine.answer(Mutate("roots", [put(4), put(2, b"1", b"d:v")]))
    assert values(engine) == {b"d:v": (b"1", 2)}


def test_a_check_sees_what_a_delete_hides_as_absent():
    """A lease that is deleted hides the next one with an older stamp: two workers own it."""
    engine = OneRowMemoryEngine("hide")
    engine.answer(Mutate("system", [RowMutation(b"a", deletes={b"d:l": 5})]))
    claim = CheckAndMutate("system", b"d:l", ABSENT, put(1, b"me", b"d:l"))
    assert [engine.answer(claim), engine.answer(claim)] == [True, True]
    assert engine.answer(Read("system", [b"a"])) == [None]


def test_an_empty_value_in_a_checked_column_is_refused():
    engine = OneRowMemoryEngine()
    with pytest.raises(InvalidValue, match="empty"):
        engine.answer(CheckAndMutate("roots", b"d:b", b"", RowMutation(b"a")))
    engine.answer(CheckAndMutate("roots", b"d:b", ABSENT, put(1)))
    with pytest.raises(InvalidValue, match="empty"):
        engine.answer(Mutate("roots", [put(2, b"")]))


class Fails:
    """Raises before the row with a number, or in place of the answer."""

    def __init__(self, at=None, failure=None):
        self.at, self.failure, self.seen = at, failure, []

    def before(self, request, written):
        self.seen.append((type(request), written))
        if written == self.at:
            raise self.failure

    def after(self, _request, answer):
        self.seen.append(answer)
        if self.at is None and self.failure is not None:
            raise self.failure


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_fault_between_two_rows_leaves_those_before_it(at):
    engine = OneRowMemoryEngine(faults=(faults := Fails(at, Unavailable("not done"))))
    with pytest.raises(Unavailable):
        engine.answer(Mutate("roots", [put(1, key=key) for key in (b"a", b"b", b"c")]))
    faults.at = faults.failure = None
    assert [key for key, _row in engine.answer(Scan("roots", ALL, 9))] == [b"a", b"b", b"c"][:at]


def test_a_lost_answer_is_of_a_request_that_was_done():
    engine = OneRowMemoryEngine(faults=(faults := Fails()))
    faults.failure = OutcomeUnknown("the answer was lost")
    with pytest.raises(OutcomeUnknown):
        engine.answer(CheckAndMutate("roots", b"d:b", ABSENT, put(1)))
    faults.failure = None
    assert values(engine) == {b"d:b": (b"1", 1)}
    assert faults.seen[:2] == [(CheckAndMutate, 0), True]


def test_no_row_is_written_where_one_is_beyond_a_limit():
    engine = OneRowMemoryEngine()
    with pytest.raises(InvalidKey):
        engine.answer(Mutate("roots", [put(1), put(1, key=b"")]))
    assert engine.answer(Scan("roots", ALL, 9)) == []


def test_every_request_takes_its_latency():
    engine = OneRowMemoryEngine(latency=0.02)
    started = time.monotonic()
    engine.answer(Mutate("roots", [put(1)]))
    engine.answer(Read("roots", [b"a"]))
    assert time.monotonic() - started >= 0.04


def test_it_promises_no_more_than_one_row():
    engine = OneRowMemoryEngine()
    capabilities = engine.capabilities
    assert (capabilities.spans_rows, capabilities.snapshot, capabilities.local) == (False, False, False)
    assert not isinstance(engine, LocalReads)
    assert not isinstance(engine, Snapshots)
    with pytest.raises(Unsupported):
        engine.transaction(lambda _rows: None, 1)
    with pytest.raises(Unsupported):
        engine.answer(Replace("roots", {b"a": None}))
    assert repr(engine) == "OneRowMemoryEngine(deletes='hide')"


def test_it_is_closed_by_itself_and_its_rows_stay():
    first = OneRowMemoryEngine()
    second = first.reopened()
    first.answer(Mutate("roots", [put(1)]))
    first.close()
    assert values(second) == {b"d:b": (b"1", 1)}
    assert second.cursor_key() == first.cursor_key()
    assert second.statistics().tables["roots"].rows == 1
