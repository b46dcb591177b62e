import threading

import pytest

from oneread.engines.memory import MemoryEngine
from oneread.errors import InvalidKey, InvalidValue, LimitExceeded
from oneread.store.requests import ABSENT, CheckAndMutate, Increment, Mutate, Read, Scan
from oneread.store.rows import Cell, RowMutation, RowRange

ALL = RowRange(b"", b"")


def put(stamp, value=b"1", column=b"d:b"):
    return Mutate("roots", [RowMutation(b"a", {column: Cell(value, stamp)})])


@pytest.fixture
def engine():
    return MemoryEngine()


@pytest.mark.parametrize("delete", [RowMutation(b"a", deletes={b"d:b": 5}), RowMutation(b"a", delete_row=5)])
@pytest.mark.parametrize("stamp", [4, 5])
def test_a_put_at_or_below_an_earlier_delete_is_refused(engine, delete, stamp):
    engine.answer(Mutate("roots", [delete]))
    engine.answer(Mutate("roots", [RowMutation(b"a", deletes={b"d:b": 1})]))
    with pytest.raises(InvalidValue, match="delete"):
        engine.answer(put(stamp))
    engine.answer(put(6))


def test_what_was_deleted_may_be_stated_again_and_is_forgotten(engine):
    engine.answer(Mutate("roots", [RowMutation(b"a", delete_row=5)]))
    engine.transaction(lambda inside: inside.replace("roots", {b"a": {b"d:b": Cell(b"1", 1)}}), 1)
    engine.answer(put(2))
    assert engine.point("roots", b"a", b"d:b") == (b"1", 2)


def test_a_refused_mutation_leaves_no_memory_of_its_deletes(engine):
    with pytest.raises(InvalidKey):
        engine.answer(Mutate("roots", [RowMutation(b"a", delete_row=5), RowMutation(b"", {b"d:b": Cell(b"1", 1)})]))
    engine.answer(put(1))


@pytest.mark.parametrize(
    "asked",
    [
        CheckAndMutate("roots", b"d:b", b"", RowMutation(b"a")),
        CheckAndMutate("roots", b"d:b", ABSENT, RowMutation(b"a", {b"d:b": Cell(b"", 1)})),
    ],
)
def test_an_empty_value_in_a_check_is_refused(engine, asked):
    with pytest.raises(InvalidValue, match="empty"):
        engine.answer(asked)


def test_an_empty_value_in_a_column_that_was_checked_is_refused(engine):
    engine.answer(CheckAndMutate("roots", b"d:b", ABSENT, RowMutation(b"a", {b"d:v": Cell(b"", 1)})))
    with pytest.raises(InvalidValue, match="empty"):
        engine.answer(put(1, b""))


def test_a_negative_stamp_is_refused(engine):
    with pytest.raises(InvalidValue, match="stamp"):
        engine.answer(put(-1))


def test_a_put_at_or_below_a_delete_of_its_own_mutation_is_refused(engine):
    with pytest.raises(InvalidValue, match="delete"):
        engine.answer(Mutate("roots", [RowMutation(b"a", {b"d:b": Cell(b"1", 5)}, {b"d:b": 5})]))


def test_an_increment_after_a_delete_is_stamped_now(engine):
    engine.answer(Mutate("roots", [RowMutation(b"a", delete_row=1 << 40)]))
    assert engine.answer(Increment("roots", b"a", b"d:n", 2)) == 2
    assert engine.point("roots", b"a", b"d:n")[1] > 1 << 40


def test_only_eight_bytes_can_be_incremented(engine):
    engine.answer(put(1, b"text", b"d:n"))
    with pytest.raises(InvalidValue, match="8 bytes"):
        engine.answer(Increment("roots", b"a", b"d:n", 1))


def test_a_counter_that_overflows_stays_as_it_was(engine):
    engine.answer(Increment("roots", b"a", b"d:n", 2**63 - 1))
    with pytest.raises(LimitExceeded, match="64 bits"):
        engine.answer(Increment("roots", b"a", b"d:n", 1))
    assert engine.answer(Increment("roots", b"a", b"d:n", 0)) == 2**63 - 1


def test_what_is_handed_out_is_not_the_stores_own(engine):
    engine.answer(put(1))
    for row in (*engine.answer(Read("roots", [b"a"], "dm")), *dict(engine.answer(Scan("roots", ALL, 1))).values()):
        row.clear()
    given = {b"d:b": Cell(b"2", 2)}
    engine.transaction(lambda inside: inside.replace("roots", {b"b": given}), 1)
    given.clear()
    assert [row[b"d:b"].value for _, row in engine.answer(Scan("roots", ALL, 9))] == [b"1", b"2"]


@pytest.mark.parametrize("many", [10, 1000])
def test_many_rows_at_once_stay_in_order(engine, many):
    rows = {b"%06d" % (number * 7919 % many): {b"d:b": Cell(b"1", 1)} for number in range(many)}
    engine.transaction(lambda inside: inside.replace("roots", rows), 1)
    engine.transaction(lambda inside: inside.replace("roots", dict.fromkeys(list(rows)[::2])), 1)
    assert [key for key, _ in engine.answer(Scan("roots", ALL, many))] == sorted(list(rows)[1::2])


def test_reading_does_not_wait_for_a_transaction(engine):
    engine.answer(put(1))

    def work(_answer):
        reader.start()
        reader.join(30)
        return seen

    seen = []
    reader = threading.Thread(target=lambda: seen.extend(engine.answer(Read("roots", [b"a"]))))
    assert engine.transaction(work, 1) == [{b"d:b": Cell(b"1", 1)}]
