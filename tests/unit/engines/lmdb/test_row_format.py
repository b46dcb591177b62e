import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneread.engines.lmdb import row_format
from oneread.errors import Corrupt, InvalidValue, LimitExceeded
from oneread.store.rows import Cell

NAMES = st.binary(max_size=6) | st.binary(min_size=100, max_size=253)
COLUMNS = st.builds(lambda family, name: family + name, st.sampled_from([b"d:", b"m:"]), NAMES)
CELLS = st.builds(Cell, st.binary(max_size=20), st.integers(0, 2**63 - 1))
ROWS = st.dictionaries(COLUMNS, CELLS, min_size=1, max_size=6)
ROW = {b"d:b": Cell(b"body", 2), b"d:v": Cell(b"version", 3), b"m:e": Cell(b"emitted", 4)}


@given(ROWS)
def test_a_row_comes_back(row):
    value = row_format.encode("roots", b"k", row)
    readable = {column: cell for column, cell in row.items() if column.startswith(b"d:")}
    assert row_format.decode("roots", b"k", value, "dm") == row
    assert row_format.decode("roots", b"k", value, "d") == (readable or None)
    for column, cell in row.items():
        assert row_format.decode_cell("roots", b"k", value, column) == cell
    assert row_format.decode_cell("roots", b"k", value, b"d:" + b"longer than NAMES") is None


@given(ROWS)
def test_the_order_of_the_columns_given_does_not_matter(row):
    backwards = dict(reversed(row.items()))
    assert row_format.encode("roots", b"k", row) == row_format.encode("roots", b"k", backwards)


def reads(value):
    row_format.decode("roots", b"k", value, "dm")
    row_format.decode("roots", b"k", value, "d")
    for column in (b"d:b", b"m:e"):
        row_format.decode_cell("roots", b"k", value, column)


@given(st.binary(max_size=60) | st.builds(lambda size, rest: bytes([size]) + rest, st.integers(0, 9), st.binary()))
def test_garbage_is_corrupt_or_a_row_and_never_another_error(value):
    with contextlib.suppress(Corrupt):
        reads(value)


@given(st.data())
def test_a_flipped_byte_is_corrupt_or_a_row_and_never_another_error(data):
    value = bytearray(row_format.encode("roots", b"k", ROW))
    value[data.draw(st.integers(0, len(value) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(Corrupt):
        reads(bytes(value))


@pytest.mark.parametrize("size", range(len(row_format.encode("roots", b"k", ROW))))
def test_a_torn_row_is_corrupt(size):
    torn = row_format.encode("roots", b"k", ROW)[:size]
    with pytest.raises(Corrupt, match="roots") as failure:
        row_format.decode("roots", b"k", torn, "dm")
    assert failure.value.facts["key"] == b"k"
    with pytest.raises(Corrupt):
        row_format.decode_cell("roots", b"k", torn, b"m:e")


def shaped(head):
    return head + struct.pack("<IqIqI", len(head) + 28, 1, len(head) + 28, 1, len(head) + 28)


@pytest.mark.parametrize(
    "head",
    [
        b"\x01",
        b"\x09\x03m:e\x03d:b",
        b"\x09\x03d:b\x03d:b",
        b"\x09\x03d:b\x09d:v",
        b"\x00\x0d\x00\x00\x00\x03d:b\x03d:v",
        b"\x00\xff\xff\xff\xff\x03d:b",
        b"\x00\x00",
    ],
    ids=["no columns", "out of order", "twice", "a name too long", "needlessly long", "no end", "cut short"],
)
def test_a_shape_in_another_order_or_form_is_corrupt(head):
    with pytest.raises(Corrupt):
        row_format.decode("roots", b"k", shaped(head), "dm")


@pytest.mark.parametrize("family", ["d", "dm"])
def test_an_end_before_its_start_is_corrupt(family):
    head = b"\x09\x03d:b\x03d:v"
    start = len(head) + 28
    value = head + struct.pack("<IqIqI", start, 1, start + 2, 1, start + 1) + b"abc"
    with pytest.raises(Corrupt):
        row_format.decode("roots", b"k", value, family)
    with pytest.raises(Corrupt):
        row_format.decode_cell("roots", b"k", value, b"d:v")


@pytest.mark.parametrize("stamp", [-(2**63) - 1, 2**63])
def test_a_stamp_that_does_not_fit_is_refused(stamp):
    with pytest.raises(InvalidValue, match="stamp"):
        row_format.encode("roots", b"k", {b"d:b": Cell(b"", stamp)})


@pytest.mark.parametrize("column", [b"d:" + b"x" * 254, b"b", b"x:b"])
def test_a_column_that_cannot_be_is_refused(column):
    with pytest.raises((InvalidValue, LimitExceeded)):
        row_format.encode("roots", b"k", {column: Cell(b"", 1)})


def test_the_shapes_that_are_remembered_are_bounded(monkeypatch):
    monkeypatch.setattr(row_format, "_KEPT", 8)
    monkeypatch.setattr(row_format, "_read_shapes", {})
    monkeypatch.setattr(row_format, "_written_shapes", {})
    for number in range(100):
        row = {b"d:%d" % number: Cell(b"", 1)}
        assert row_format.decode("roots", b"k", row_format.encode("roots", b"k", row), "d") == row
        assert len(row_format._read_shapes) <= 8
        assert len(row_format._written_shapes) <= 8
