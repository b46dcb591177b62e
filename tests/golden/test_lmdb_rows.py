"""The vectors of docs/formats/lmdb.md: what one release wrote every later one of that format reads.

`python -m tests.golden.test_lmdb_rows` writes their bytes again.
"""

import re
from pathlib import Path

import pytest

from oneread.engines.lmdb import row_format
from oneread.store.rows import Cell

PAGE = Path(__file__).resolve().parents[2] / "docs" / "formats" / "lmdb.md"
CELL = re.compile(r"`([^=`]+)=([0-9a-f]*)@(\d+)`")
BYTES = re.compile(r"`([0-9a-f]*)` \|$")


def row_of(line):
    return {name.encode(): Cell(bytes.fromhex(value), int(stamp)) for name, value, stamp in CELL.findall(line)}


def vectors():
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if row := row_of(line):
            yield row, bytes.fromhex(BYTES.findall(line)[0])


def with_bytes(line):
    row = row_of(line)
    return BYTES.sub(f"`{row_format.encode('roots', b'k', row).hex()}` |", line) if row else line


def test_the_page_has_vectors_of_every_form():
    assert {written[0] >> 5 for _row, written in vectors()} == set(range(6))


@pytest.mark.parametrize(("row", "written"), list(vectors()))
def test_a_row_is_written_as_the_page_says(row, written):
    assert row_format.encode("roots", b"k", row) == written


@pytest.mark.parametrize(("row", "written"), list(vectors()))
def test_what_the_page_says_is_read_as_the_row(row, written):
    assert row_format.decode("roots", b"k", written, "dm") == row
    for column, cell in row.items():
        assert row_format.decode_cell("roots", b"k", written, column) == (cell.value, cell.stamp)


if __name__ == "__main__":
    lines = PAGE.read_text(encoding="utf-8").splitlines(keepends=True)
    PAGE.write_text("".join(map(with_bytes, lines)), encoding="utf-8")
