import contextlib

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from oneread.engines.lmdb import row_format
from oneread.errors import Corrupt, InvalidKey, InvalidValue, LimitExceeded
from oneread.store.rows import Cell, rows_of_values

NAMES = st.binary(max_size=6) | st.binary(min_size=100, max_size=253)
COLUMNS = st.builds(lambda family, name: family + name, st.sampled_from([b"d:", b"m:"]), NAMES)
STAMPS = st.integers(0, 2**63 - 1) | st.sampled_from(
    [0, *(2**bits - less for bits in (45, 48) for less in (1, 0)), 2**63 - 1]
)
VALUES = st.binary(max_size=20) | st.builds(bytes, st.sampled_from([255, 256, 65_535, 65_536]))
CELLS = st.builds(Cell, VALUES, STAMPS)
SPELLED = st.dictionaries(COLUMNS, CELLS, min_size=1, max_size=6)
ALONE = st.builds(lambda cell: {b"d:b": cell}, CELLS)


def root_row(version, body, record, own=None, **others):
    """An entity's row; `others` are further columns of family m:."""
    return {
        b"d:b": Cell(body, version if own is None else own),
        b"d:v": Cell(version.to_bytes(8, "big"), version),
        b"m:e": Cell(record, version),
        **{b"m:" + name.encode(): cell for name, cell in others.items()},
    }


ROOTS = st.builds(root_row, STAMPS, VALUES, VALUES, st.none() | STAMPS)
GROUPS = st.builds(root_row, STAMPS, VALUES, VALUES, st.none() | STAMPS, s=CELLS, t=CELLS)
ODD_ROOTS = st.builds(dict.__or__, ROOTS, st.dictionaries(COLUMNS | st.sampled_from([b"d:v", b"m:e"]), CELLS))
ENTRIES = st.builds(lambda body, shown_by: {b"d:b": body, b"m:s": shown_by}, CELLS, CELLS)
ROWS = SPELLED | ALONE | ENTRIES | ROOTS | GROUPS | ODD_ROOTS
FORMS = {
    "spelled": {b"d:b": Cell(b"body", 2), b"d:v": Cell(b"version", 3), b"m:e": Cell(b"emitted", 4)},
    "one": {b"d:b": Cell(b"body", 2)},
    "entry": {b"d:b": Cell(b"body", 2), b"m:s": Cell(b"shown by", 3)},
    "root": root_row(7, b"body", b"record"),
    "own": root_row(7, b"body", b"record", 5),
    "more": root_row(7, b"body", b"record", 5, s=Cell(b"\1", 6)),
}
LAST = {"one": b"d:b", "entry": b"d:b", "root": b"m:e", "own": b"m:e"}
"""The cell whose value ends with the row."""


def torn():
    for form, row in FORMS.items():
        written = row_format.encode("roots", b"k", row)
        for size in range(len(written)):
            yield pytest.param(form, written[:size], id=f"{form} {size}")


@given(ROWS)
def test_a_row_comes_back(row):
    value = row_format.encode("roots", b"k", row)
    readable = {column: cell for column, cell in row.items() if column.startswith(b"d:")}
    assert row_format.decode("roots", b"k", value, "dm") == row
    assert row_format.decode("roots", b"k", value, "d") == (readable or None)
    for column, cell in row.items():
        assert row_format.decode_cell("roots", b"k", value, column) == (cell.value, cell.stamp)
    assert row_format.decode_cell("roots", b"k", value, b"d:" + b"longer than NAMES") is None


@given(ROWS)
def test_the_order_of_the_columns_given_does_not_matter(row):
    backwards = dict(reversed(row.items()))
    assert row_format.encode("roots", b"k", row) == row_format.encode("roots", b"k", backwards)


@pytest.mark.parametrize("form", [*enumerate(FORMS)], ids=lambda given: given[1])
def test_each_form_is_for_its_rows(form):
    number, name = form
    assert row_format.encode("roots", b"k", FORMS[name])[0] >> 5 == number


def test_the_head_of_a_row_is_short():
    """What the rows of a view, a back-reference and an entity take besides their values."""
    assert len(row_format.encode("views", b"k", {b"d:b": Cell(b"", 2**45 - 1)})) == 6
    assert len(row_format.encode("views", b"k", {b"d:b": Cell(b"", 2**45 - 1), b"m:s": Cell(b"", 2**48 - 1)})) == 14
    assert len(row_format.encode("roots", b"k", root_row(2**45 - 1, b"", b""))) == 8
    assert len(row_format.encode("roots", b"k", root_row(2**45 - 1, b"", b"", 2**48 - 1))) == 14


@given(st.builds(root_row, st.integers(0, 2**45 - 1), st.binary(max_size=99), st.binary(max_size=99), st.none()))
@example(root_row(0, b"", b""))
def test_the_version_of_an_entity_is_stored_once(row):
    assert row_format.encode("roots", b"k", row)[0] >> 5 == row_format.ROOT
    version = row[b"d:v"]
    another = row | {b"d:v": Cell(version.value[:-1] + bytes([version.value[-1] ^ 1]), version.stamp)}
    assert row_format.encode("roots", b"k", another)[0] == row_format.SPELLED


def reads(value):
    row_format.decode("roots", b"k", value, "dm")
    row_format.decode("roots", b"k", value, "d")
    for column in (b"d:b", b"d:v", b"m:e"):
        row_format.decode_cell("roots", b"k", value, column)


@given(st.binary(max_size=60) | st.builds(lambda form, rest: bytes([form]) + rest, st.integers(0, 9), st.binary()))
def test_garbage_is_corrupt_or_a_row_and_never_another_error(value):
    with contextlib.suppress(Corrupt):
        reads(value)


@given(st.data(), st.sampled_from(sorted(FORMS)))
def test_a_flipped_byte_is_corrupt_or_a_row_and_never_another_error(data, form):
    value = bytearray(row_format.encode("roots", b"k", FORMS[form]))
    value[data.draw(st.integers(0, len(value) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(Corrupt):
        reads(bytes(value))


def without_end_of(row, column, missing):
    cell = row[column]
    return row | {column: Cell(cell.value[: len(cell.value) - missing], cell.stamp)}


@pytest.mark.parametrize(("form", "value"), [*torn()])
def test_a_torn_row_is_corrupt_or_only_its_last_value_is_cut(form, value):
    """Which its decoder finds: it is an array or a map."""
    row, last = FORMS[form], LAST.get(form)
    missing = len(row_format.encode("roots", b"k", row)) - len(value)
    if last is not None and missing <= len(row[last].value):
        cut = without_end_of(row, last, missing)
        assert row_format.decode("roots", b"k", value, "dm") == cut
        for column, cell in cut.items():
            assert row_format.decode_cell("roots", b"k", value, column) == (cell.value, cell.stamp)
        return
    with pytest.raises(Corrupt, match="roots") as failure:
        row_format.decode("roots", b"k", value, "dm")
    assert failure.value.facts["key"] == b"k"
    with pytest.raises(Corrupt):
        row_format.decode_cell("roots", b"k", value, b"m:e")
    try:
        body = row_format.decode_cell("roots", b"k", value, b"d:b")
    except Corrupt:
        return
    assert body == (row[b"d:b"].value, row[b"d:b"].stamp)  # it is whole, and what follows it is not


@pytest.mark.parametrize("form", ["spelled", "more"])
def test_a_row_with_more_than_it_says_is_corrupt(form):
    value = row_format.encode("roots", b"k", FORMS[form]) + b"\0"
    with pytest.raises(Corrupt):
        row_format.decode("roots", b"k", value, "dm")
    with pytest.raises(Corrupt):
        row_format.decode_cell("roots", b"k", value, b"m:e")


@pytest.mark.parametrize("first", range(256))
def test_a_first_byte_of_no_form_is_corrupt(first):
    spelled = row_format.encode("roots", b"k", FORMS["spelled"])
    if 0 < first < 32 or first >= 6 << 5:
        with pytest.raises(Corrupt):
            row_format.decode("roots", b"k", bytes([first]) + spelled[1:], "dm")


@given(st.lists(st.sampled_from([*FORMS]) | st.none(), max_size=5), st.data())
def test_the_bodies_of_rows_are_those_of_each(forms, data):
    """In one step where all have the same form, else one by one."""
    one = data.draw(st.sampled_from([*FORMS]))
    values = [row_format.encode("roots", b"k", FORMS[form or one]) for form in forms]
    values = [value[: data.draw(st.integers(14, 40))] for value in values]
    try:
        each = [row_format.decode_cell("roots", b"k", value, b"d:b") for value in values]
    except Corrupt:
        return
    rows = [(b"%d" % number, value) for number, value in enumerate(values)]
    found = row_format.decode_column("roots", rows, b"d:b")
    assert [*found[1]] == [cell[0] for cell in each]
    assert [*found[0]] == [key for key, _value in rows]


@pytest.mark.parametrize(
    "cells",
    [[], [(b"m:e", 1, b""), (b"d:b", 1, b"")], [(b"d:b", 1, b"")] * 2, [(b"d:b", -1, b"")], [(b"d:b", 2**63, b"")]],
    ids=["no cells", "out of order", "twice", "a stamp below 0", "a stamp beyond 63 bits"],
)
def test_cells_that_no_row_has_are_corrupt(cells):
    spelled = msgspec.msgpack.encode(cells)
    with pytest.raises(Corrupt):
        row_format.decode("roots", b"k", bytes([row_format.SPELLED]) + spelled, "dm")


@pytest.mark.parametrize("stamp", [-(2**63) - 1, -1, 2**63])
@pytest.mark.parametrize("form", FORMS)
def test_a_stamp_that_does_not_fit_is_refused(form, stamp):
    for column in FORMS[form]:
        with pytest.raises(InvalidValue, match="stamp"):
            row_format.encode("roots", b"k", FORMS[form] | {column: Cell(b"", stamp)})


@pytest.mark.parametrize("column", [b"d:" + b"x" * 254, b"b", b"x:b"])
@pytest.mark.parametrize("form", FORMS)
def test_a_column_that_cannot_be_is_refused(form, column):
    with pytest.raises((InvalidValue, LimitExceeded)):
        row_format.encode("roots", b"k", FORMS[form] | {column: Cell(b"", 1)})


@given(values=st.dictionaries(st.binary(min_size=1, max_size=511), st.none() | VALUES), stamp=STAMPS)
@example(values={b"k": bytes(70_000)}, stamp=2**45)
def test_values_alone_are_the_bytes_of_their_rows(values, stamp):
    quick, written = {}, {}
    row_format.encode_values("views", values, stamp, quick)
    row_format.encode_rows("views", rows_of_values(values, stamp), written)
    assert list(quick.items()) == list(written.items())


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        (b"", b"1", InvalidKey),
        (bytes(512), b"1", LimitExceeded),
        (bytes(512), None, LimitExceeded),
        (b"k", bytes((10 << 20) + 1), LimitExceeded),
    ],
)
def test_values_alone_keep_to_the_limits(key, value, error):
    with pytest.raises(error):
        row_format.encode_values("views", {key: value}, 1, {})
