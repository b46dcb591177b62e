"""Requests as messages, and what is refused before anything is sent."""

import pytest

from oneread.engines.bigtable import wire
from oneread.engines.bigtable.messages import MESSAGES
from oneread.engines.embedded import MAX_COLUMN, MAX_KEY, keys_to_ask
from oneread.errors import InvalidValue, LimitExceeded
from oneread.store.rows import Cell, RowMutation, RowRange

LONG = b"k" * wire.LONGEST_KEY


def test_stamps_are_whole_milliseconds_and_deletes_end_behind_theirs():
    made = wire.mutations(RowMutation(b"a", {b"d:b": Cell(b"1", 7)}, {b"m:e": 5}))
    deleted, put = made
    assert deleted.delete_from_column.time_range.end_timestamp_micros == 6000
    assert deleted.delete_from_column.time_range.start_timestamp_micros == 0
    assert (deleted.delete_from_column.family_name, deleted.delete_from_column.column_qualifier) == ("m", b"e")
    assert (put.set_cell.timestamp_micros, put.set_cell.column_qualifier) == (7000, b"b")


def test_a_row_is_deleted_by_the_names_of_its_columns():
    made = wire.mutations(RowMutation(b"a", deletes={b"d:b": 9}, delete_row=5), [b"d:b", b"d:v"])
    ends = {
        each.delete_from_column.column_qualifier: each.delete_from_column.time_range.end_timestamp_micros
        for each in made
    }
    assert ends == {b"b": 10_000, b"v": 6000}


def test_the_greatest_stamp_fits_with_the_end_of_its_delete():
    last = wire.LAST_STAMP
    put = RowMutation(b"a", {b"d:b": Cell(b"1", last)}, {b"d:v": last}, last)
    wire.check_mutations("roots", [put])
    (made,) = wire.mutations(RowMutation(b"a", deletes={b"d:v": last}))
    assert made.delete_from_column.time_range.end_timestamp_micros < 1 << 63


@pytest.mark.parametrize("stamp", [-1, wire.LAST_STAMP + 1, (1 << 63) - 1])
@pytest.mark.parametrize("way", ["put", "delete", "row"])
def test_other_stamps_are_refused(stamp, way):
    made = {
        "put": RowMutation(b"a", {b"d:b": Cell(b"1", stamp)}),
        "delete": RowMutation(b"a", deletes={b"d:b": stamp}),
        "row": RowMutation(b"a", delete_row=stamp),
    }
    with pytest.raises(InvalidValue, match="stamp"):
        wire.check_mutations("roots", [made[way]])


def test_a_deleted_column_is_of_a_family():
    with pytest.raises(InvalidValue, match="family"):
        wire.check_mutations("roots", [RowMutation(b"a", deletes={b"o:cursor_key": 1})])


def test_a_row_has_so_many_changes_at_once():
    puts = {b"d:%d" % number: Cell(b"", 1) for number in range(wire.MOST_MUTATIONS)}
    wire.check_mutations("roots", [RowMutation(b"a", puts)])
    with pytest.raises(LimitExceeded, match="changes"):
        wire.check_mutations("roots", [RowMutation(b"a", puts, {b"m:e": 1})])


@pytest.mark.parametrize(
    ("within", "bounds"),
    [
        (RowRange(b"", b""), {}),
        (RowRange(b"a", b"b"), {"start_key_closed": b"a", "end_key_open": b"b"}),
        (RowRange(LONG, LONG + b"\x01"), {"start_key_closed": LONG, "end_key_closed": LONG}),
        (RowRange(LONG + b"\x00", b""), {"start_key_open": LONG}),
    ],
)
def test_ranges_never_have_a_longer_bound_than_a_key(within, bounds):
    (made,) = wire.rows_of_range(within).row_ranges
    assert made == MESSAGES["RowRange"](**bounds)


def test_keys_that_no_table_can_hold_are_not_asked_for():
    longest = b"k" * MAX_KEY
    assert list(keys_to_ask([b"b", b"a", longest, b"b", longest + b"k", b""], wire.MOST_KEYS)) == [
        [b"a", b"b", longest]
    ]
    assert list(keys_to_ask([b"", longest + b"k"], wire.MOST_KEYS)) == []
    assert wire.rows_of_keys([]) is None


def test_the_keys_of_a_read_are_within_the_limit_of_a_request():
    keys = [b"%0*d" % (MAX_KEY, number) for number in range(wire.MOST_KEYS + 1)]
    parts = list(keys_to_ask(reversed(keys), wire.MOST_KEYS))
    assert parts == [keys[:-1], keys[-1:]]
    names = {"table_name": "t" * 500, "app_profile_id": "p" * 50}
    asked = MESSAGES["ReadRowsRequest"](
        **names, rows=wire.rows_of_keys(parts[0]), filter=wire.READ_FILTERS["d"], rows_limit=1
    )
    assert asked.ByteSize() <= 512 << 10


def test_a_condition_is_within_the_limit_of_a_filter():
    column = b"d:" + b"q" * (MAX_COLUMN - 2)
    assert 19_000 < wire.predicate(column, bytes(9900)).ByteSize() <= 20_480
    assert wire.predicate(b"d:v", bytes(10_200)).ByteSize() <= 20_480
    for size in (10_240, 1 << 20):
        with pytest.raises(LimitExceeded, match="too large"):
            wire.predicate(b"d:v", bytes(size))


def rows(*sizes):
    return [
        (b"%d" % at, wire.mutations(RowMutation(b"a", {b"d:b": Cell(bytes(size), 1)}))) for at, size in enumerate(sizes)
    ]


def test_batches_are_within_the_limits(monkeypatch):
    monkeypatch.setattr(wire, "MOST_BYTES", 1000)
    monkeypatch.setattr(wire, "MOST_MUTATIONS", 3)
    lengths = [[len(each) for each in [*wire.batches(rows(*sizes))]] for sizes in ([], [1] * 7, [500, 500, 9, 5000, 1])]
    assert lengths == [[], [3, 3, 1], [1, 2, 1, 1]]


def test_a_key_is_once_in_a_batch_and_batches_keep_the_order():
    (first, changes), second = rows(1, 2)
    given = [(first, changes), second, (first, changes), (first, changes)]
    assert [[key for key, _made in batch] for batch in wire.batches(given)] == [[b"0", b"1"], [b"0"], [b"0"]]
