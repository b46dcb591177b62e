"""What conformance, which looks through a prefix of keys, does not see: bounds of the table, batches, limits."""

from contextlib import closing

import msgspec
import pytest

from oneread.engines.hbase import HbaseEngine
from oneread.engines.hbase import engine as engines
from oneread.engines.hbase import pool as pools
from oneread.engines.hbase import rows as structures
from oneread.errors import InvalidValue, LimitExceeded, OutcomeUnknown, Unavailable, Unsupported
from oneread.store.requests import ABSENT, CheckAndMutate, Increment, Mutate, Read, Replace, Scan
from oneread.store.rows import MAX_STAMP, REMOVED, Cell, RowMutation, RowRange
from tests.failures.stores import until

ALL = RowRange(b"", b"")


def put(key, value=b"1", stamp=5, column=b"d:b"):
    return RowMutation(key, {column: Cell(value, stamp)})


class Ending:
    """A call that ends at once: with an answer, or an error."""

    def __init__(self, end):
        self._end = end

    def make(self):
        yield from ()
        if isinstance(self._end, Exception):
            raise self._end
        return self._end


@pytest.fixture
def whole(hbase_options, numbers):
    """A store with tables of its own: bounds may be open."""
    given = msgspec.structs.replace(
        hbase_options, prefix=f"{hbase_options.prefix}w{next(numbers)}_", compression="none"
    )
    opened = HbaseEngine(given)
    yield opened
    opened.close()


def test_open_bounds_lead_to_the_ends_of_the_table(whole):
    keys = [
        b"\x00",
        b"\x00\x00",
        b"\x01",
        b"a",
        b"a\x00",
        b"a\xff",
        b"b",
        b"\xff",
        b"\xff\xff" + b"k" * 509,
        b"\xff" * 511,
    ]
    whole.answer(Mutate("roots", [put(key) for key in keys]))
    for start in (b"", *keys):
        for stop in (b"", *keys):
            within = RowRange(start, stop)
            inside = [key for key in keys if start <= key and (not stop or key < stop)]
            assert [key for key, _row in whole.answer(Scan("roots", within, 99))] == inside
            assert [key for key, _row in whole.answer(Scan("roots", within, 99, reverse=True))] == inside[::-1]


def test_nothing_of_the_engine_itself_is_seen(whole):
    whole.cursor_key()
    assert whole.answer(Scan("system", ALL, 10, families="dm")) == []
    assert whole.answer(Read("system", [b"cursor-key"], "dm")) == [None]
    whole.answer(Mutate("system", [put(b"cursor-key"), RowMutation(b"cursor-key", deletes={b"d:b": 9})]))
    with closing(HbaseEngine(whole._options)) as again:
        assert again.cursor_key() == whole.cursor_key()


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_of_several_calls_is_one(room, monkeypatch, reverse):
    monkeypatch.setattr(engines, "SCAN_ROWS", 3)
    keys = [b"%02d" % number for number in range(11)]
    room.answer(Mutate("roots", [put(key, REMOVED if key in (b"02", b"03", b"10") else b"1") for key in keys]))
    living = [key for key in keys if key not in (b"02", b"03", b"10")]
    wanted = living[::-1] if reverse else living
    for limit in (1, 3, 4, 7, 8, 9, 50):
        found = [key for key, _row in room.answer(Scan("roots", ALL, limit, reverse))]
        assert found == wanted[:limit]


def test_many_keys_are_read_in_several_calls(room, monkeypatch):
    monkeypatch.setattr(engines, "READ_KEYS", 3)
    room.answer(Mutate("roots", [put(b"%d" % number, b"%d" % number) for number in range(8)]))
    asked = [b"7", b"0", b"x", b"3", b"3", b"", b"5", b"k" * 600, b"1", b"2"]
    found = room.answer(Read("roots", asked))
    values = [None if row is None else row[b"d:b"].value for row in found]
    assert values == [b"7", b"0", None, b"3", b"3", None, b"5", None, b"1", b"2"]


def test_removed_cells_that_were_overwritten_uncover_nothing(room):
    for stamp, value in enumerate([b"old", REMOVED], 1):
        room.answer(Mutate("roots", [put(b"a", value, stamp)]))
    assert room.answer(Scan("roots", ALL, 9)) == []
    room.answer(Mutate("roots", [put(b"a", b"late", 1)]))
    assert room.answer(Scan("roots", ALL, 9)) == []
    assert room.answer(Read("roots", [b"a"])) == [None]


def kinds(rows):
    return [
        (each.method, each.structures if each.method == "mutateRow" else len(each.structures))
        for each in structures.batches(rows)
    ]


def test_changes_become_as_few_calls_as_they_can(monkeypatch):
    assert kinds([]) == []
    assert kinds([RowMutation(b"a")]) == []
    assert kinds([put(b"a"), put(b"b")]) == [("putMultiple", 2)]
    deletes = [RowMutation(b"a", delete_row=5), RowMutation(b"b", deletes={b"d:b": 5, b"m:e": 6})]
    assert kinds([put(b"c"), *deletes]) == [("putMultiple", 1), ("deleteMultiple", 2)]
    both = RowMutation(b"d", {b"d:b": Cell(b"1", 9)}, {b"d:v": 5}, 5)
    assert kinds([both]) == [("mutateRow", structures.row_mutations(both))]
    monkeypatch.setattr(structures, "BATCH_ROWS", 2)
    assert kinds([put(b"%d" % number) for number in range(5)]) == [
        ("putMultiple", 2),
        ("putMultiple", 2),
        ("putMultiple", 1),
    ]
    monkeypatch.setattr(structures, "BATCH_BYTES", 10)
    assert kinds([put(b"a", b"1" * 50), put(b"b", b"1" * 50)]) == [("putMultiple", 1), ("putMultiple", 1)]


def test_changes_of_one_row_come_in_their_order(room):
    room.answer(Mutate("roots", [put(b"a", b"%d" % number) for number in range(5)]))
    assert room.answer(Read("roots", [b"a"])) == [{b"d:b": Cell(b"4", 5)}]
    assert kinds([put(b"a"), put(b"a", b"2"), put(b"b")]) == [("putMultiple", 1), ("putMultiple", 2)]


@pytest.mark.parametrize(
    ("mutation", "error"),
    [
        (put(b"a", b"1", MAX_STAMP), InvalidValue),
        (put(b"a", b"1", -1), InvalidValue),
        (RowMutation(b"a", deletes={b"d:b": -1}), InvalidValue),
        (RowMutation(b"a", deletes={b"x:b": 1}), InvalidValue),
        (RowMutation(b"a", delete_row=-1), InvalidValue),
        (RowMutation(b"a", delete_row=MAX_STAMP + 1), InvalidValue),
        (put(b"a", bytes(structures.MAX_VALUE + 1)), LimitExceeded),
    ],
)
def test_what_hbase_would_not_take_is_refused_before_anything_is_sent(room, mutation, error):
    with pytest.raises(error):
        room.answer(Mutate("roots", [put(b"b"), mutation]))
    with pytest.raises(error):
        room.answer(CheckAndMutate("roots", b"d:b", ABSENT, mutation))
    assert room.answer(Scan("roots", ALL, 9)) == []


def test_the_greatest_stamps_are_stored_and_deleted(room):
    room.answer(Mutate("roots", [put(b"a", b"1", MAX_STAMP - 1), put(b"b", b"1", MAX_STAMP - 1)]))
    assert room.answer(Read("roots", [b"a"])) == [{b"d:b": Cell(b"1", MAX_STAMP - 1)}]
    gone = [RowMutation(b"a", delete_row=MAX_STAMP), RowMutation(b"b", deletes={b"d:b": MAX_STAMP})]
    room.answer(Mutate("roots", gone))
    assert room.answer(Read("roots", [b"a", b"b"])) == [None, None]


@pytest.mark.parametrize("expected", [b"", ABSENT])
def test_a_checked_column_never_holds_an_empty_value(room, expected):
    with pytest.raises(InvalidValue, match="empty"):
        room.answer(CheckAndMutate("roots", b"d:v", expected, put(b"a", b"", 5, b"d:v")))


def test_a_check_that_changes_nothing_compares(room):
    room.answer(Mutate("roots", [put(b"a")]))
    asked = [CheckAndMutate("roots", b"d:b", expected, RowMutation(b"a")) for expected in (b"1", b"2", ABSENT)]
    assert [room.answer(each) for each in asked] == [True, False, False]


def test_a_refused_check_of_a_row_with_a_history_may_have_been_made(room):
    """Its Thrift2 server repeats a check, unless it is told not to, and answers for the second time."""
    room.answer(Mutate("roots", [put(b"a")]))
    asked = CheckAndMutate("roots", b"d:b", b"2", put(b"a", b"3", 6), has_history=True)
    with pytest.raises(OutcomeUnknown, match="look whether"):
        room.answer(asked)
    assert room.answer(msgspec.structs.replace(asked, expected=b"1")) is True


def test_only_eight_bytes_are_counted_and_64_bits(room):
    room.answer(Mutate("counts", [put(b"a", b"12", 5, b"d:n")]))
    with pytest.raises(InvalidValue, match="8 bytes"):
        room.answer(Increment("counts", b"a", b"d:n", 1))
    with pytest.raises(LimitExceeded):
        room.answer(Increment("counts", b"b", b"d:n", 1 << 63))


def test_deletes_that_hbase_leaves_out_are_not_passed_over(engine, monkeypatch):
    monkeypatch.setattr(pools, "_RepeatedCall", lambda *_given, **_named: Ending(["left"]))
    with pytest.raises(OutcomeUnknown):
        engine.answer(Mutate("roots", [RowMutation(b"a", delete_row=5)]))


def test_changes_of_which_some_are_made_are_not_said_to_be_undone(engine, monkeypatch):
    ends = [None, Unavailable("no time is left"), Unavailable("no time is left")]
    monkeypatch.setattr(pools, "_RepeatedCall", lambda *_given, **_named: Ending(ends.pop(0)))
    with pytest.raises(OutcomeUnknown, match="only some"):
        engine.answer(Mutate("roots", [put(b"a"), put(b"a")]))
    with pytest.raises(Unavailable):
        engine.answer(Mutate("roots", [put(b"a"), put(b"a")]))


def test_all_calls_of_a_request_have_one_deadline(room, monkeypatch):
    monkeypatch.setattr(engines, "READ_KEYS", 1)
    deadlines = []
    repeated = pools._RepeatedCall

    def noted(pool, call, deadline, **named):
        deadlines.append(deadline)
        return repeated(pool, call, deadline, **named)

    monkeypatch.setattr(pools, "_RepeatedCall", noted)
    assert room.answer(Read("roots", [b"a", b"b", b"c"])) == [None] * 3
    assert len(deadlines) == 3
    assert len(set(deadlines)) == 1


def test_a_cursor_key_that_was_deleted_by_hand_is_made_again(whole):
    whole.cursor_key()
    gone = [engines.service.TDelete(row=b"cursor-key")]
    whole._pool.call("deleteMultiple", repeats=False, table=whole._tables["system"], tdeletes=gone)
    with closing(HbaseEngine(whole._options)) as again:
        until(lambda: len(key_or_none(again) or b"") == 32)


def key_or_none(engine):
    try:
        return engine.cursor_key()
    except Unavailable:  # the clock still shows the millisecond of the delete
        return None


def test_a_cursor_key_that_does_not_appear_is_unavailable(engine, monkeypatch):
    monkeypatch.setattr(engine._pool, "call", lambda *_given, **_named: engines.service.TResult(columnValues=[]))
    with pytest.raises(Unavailable, match="cursor key"):
        engine.cursor_key()


def test_an_answer_for_fewer_rows_is_not_one(engine, monkeypatch):
    monkeypatch.setattr(pools, "_RepeatedCall", lambda *_given, **_named: Ending([]))
    with pytest.raises(Unavailable):
        engine.answer(Read("roots", [b"a", b"b"]))


def test_what_needs_a_transaction_is_refused(engine):
    with pytest.raises(Unsupported):
        engine.answer(Replace("roots", {}))
    with pytest.raises(Unsupported):
        engine.transaction(lambda _rows: None, 1)
    assert "prefix" in repr(engine)


def test_large_rows_come_and_go_whole(room):
    value = bytes(range(256)) * 16_384
    room.answer(Mutate("roots", [put(b"%d" % number, value) for number in range(3)]))
    found = room.answer(Read("roots", [b"0", b"1", b"2"]))
    assert all(row[b"d:b"].value == value for row in found)
