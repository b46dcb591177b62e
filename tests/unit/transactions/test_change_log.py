"""The change log: its numbers, entries and keys, as they are stored."""

import re
from pathlib import Path

import pytest

from oneread.errors import Corrupt
from oneread.store.rows import Cell
from oneread.transactions.change_log import (
    KEYS_OF_ENTRY,
    LOGS,
    entries_from,
    epoch_of,
    last_entry,
    log_of,
    new_entries,
    number_of,
    owning_log,
    read_entry,
    stamp_of,
)

PAGE = Path(__file__).parents[3] / "docs" / "formats" / "rows.md"
LOG = log_of(b"\x00\x07\x00\x01", 3)


def added(row, keys, now=1000):
    """The rows that a transaction adds, and the state after it."""
    rows = dict(new_entries(LOG, row, keys, now))
    return rows, rows[LOG]


def test_the_stored_form():
    """As docs/formats/rows.md says."""
    rows, _row = added(None, [b"ab", b"\x00"])
    assert b"changes:" + bytes.fromhex("0007000100000003") == LOG
    assert rows == {
        LOG + bytes.fromhex("0000000000000001"): {b"d:b": Cell(bytes.fromhex("92c4026162c40100"), 1000)},
        LOG: {b"d:b": Cell(bytes.fromhex("0000000000000001"), 1000)},
    }
    lines = re.findall(r"^\| `(6368616e6765733a [0-9a-f ]+)` \| `([0-9a-f]+)` \|$", PAGE.read_text(), re.MULTILINE)
    assert {bytes.fromhex(key): bytes.fromhex(value) for key, value in lines} == {
        key: row[b"d:b"].value for key, row in rows.items()
    }


def test_numbers_follow_each_other_over_transactions_and_pieces():
    rows, row = added(None, [b"a"])
    assert last_entry(LOG, row) == 1
    many = [bytes([number // 256, number % 256]) for number in range(2 * KEYS_OF_ENTRY + 1)]
    rows, row = added(row, many)
    assert last_entry(LOG, row) == 4
    entries = {number_of(key): read_entry(key, each) for key, each in rows.items() if key != LOG}
    assert list(entries) == [2, 3, 4]
    assert [len(each) for each in entries.values()] == [KEYS_OF_ENTRY, KEYS_OF_ENTRY, 1]
    assert [key for each in entries.values() for key in each] == many


def test_stamps_never_go_back():
    _rows, row = added(None, [b"a"], now=1000)
    rows, row = added(row, [b"b"], now=400)
    assert {stamp_of(each) for each in rows.values()} == {1000}
    rows, _row = added(row, [b"c"], now=1001)
    assert {stamp_of(each) for each in rows.values()} == {1001}


def test_keys_say_whose_they_are_and_sort_by_number():
    before = [{b"d:b": Cell(last.to_bytes(8, "big"), 1)} for last in (0, 254, 255, 2**40)]
    keys = [next(iter(dict(new_entries(LOG, row, [b"a"], 1)))) for row in before]
    assert keys == sorted(keys)
    assert all(owning_log(key) == LOG and LOGS.start <= key < LOGS.stop for key in (*keys, LOG))
    within = entries_from(LOG, 256)
    assert [within.start <= key < within.stop for key in keys] == [False, False, True, True]
    assert not within.start <= LOG < within.stop
    assert epoch_of(LOG) == 3
    other = log_of(b"\x00\x07\x00\x02", 3)
    assert not within.start <= other < within.stop


@pytest.mark.parametrize("value", [b"", b"\x91\x01", b"\xa1x", b"\xc0", b"\x92\xa1a\x01", b"\xff" * 9, b"\x01" * 7])
def test_damaged_rows_are_corrupt(value):
    row = {b"d:b": Cell(value, 1)}
    with pytest.raises(Corrupt, match="last entry of a change log"):
        last_entry(LOG, row)
    with pytest.raises(Corrupt, match="last entry of a change log"):
        added(row, [b"a"])
    with pytest.raises(Corrupt, match="an entry of a change log"):
        read_entry(LOG, row)
    with pytest.raises(Corrupt):
        last_entry(LOG, {b"m:x": Cell(b"", 1)})


@pytest.mark.parametrize("key", [LOG, LOG + b"1", LOG + b"123456789", b""])
def test_other_keys_are_not_entries(key):
    with pytest.raises(Corrupt, match="not an entry"):
        number_of(key)
