"""The vectors of docs/formats/lmdb.md: what one release wrote every later one reads."""

import re
from pathlib import Path

import pytest

from oneread.engines.lmdb import row_format
from oneread.store.rows import Cell

PAGE = Path(__file__).resolve().parents[2] / "docs" / "formats" / "lmdb.md"
CELL = re.compile(r"`([^=`]+)=([0-9a-f]*)@(\d+)`")


def vectors():
    for line in PAGE.read_text().splitlines():
        cells = CELL.findall(line)
        if cells:
            row = {name.encode(): Cell(bytes.fromhex(value), int(stamp)) for name, value, stamp in cells}
            yield row, bytes.fromhex(re.findall(r"`([0-9a-f]+)` \|$", line)[0])


def test_the_page_has_vectors():
    assert len(list(vectors())) >= 5


@pytest.mark.parametrize(("row", "written"), list(vectors()))
def test_a_row_is_written_as_the_page_says(row, written):
    assert row_format.encode("roots", b"k", row) == written


@pytest.mark.parametrize(("row", "written"), list(vectors()))
def test_what_the_page_says_is_read_as_the_row(row, written):
    assert row_format.decode("roots", b"k", written, "dm") == row
    for column, cell in row.items():
        assert row_format.decode_cell("roots", b"k", written, column) == cell
