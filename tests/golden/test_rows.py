"""docs/formats/rows.md is the law of rows: its program writes exactly the rows of its table."""

import json
import re
from pathlib import Path

import msgspec
import pytest

from tests.golden.rows import rows_of

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "formats" / "rows.md").read_text(encoding="utf-8")
EXAMPLE = PAGE[PAGE.index("## A store, row by row") :]
ROW = re.compile(r"^\| (\w+) \| `([0-9a-f ]+)` \| `([\w:]+)` \| (\d+) \| `([0-9a-f]*)` \|$", re.MULTILINE)


def promised():
    """The rows of the page's table."""
    return [
        (table, bytes.fromhex(key), column.encode(), int(stamp), bytes.fromhex(value))
        for table, key, column, stamp, value in ROW.findall(EXAMPLE)
    ]


@pytest.fixture(scope="module")
def written():
    """The rows that the page's program writes, without the schema."""
    namespace = {"__name__": "__page__"}
    program = EXAMPLE.partition("```python\n")[2].partition("```")[0]
    exec(compile(program, "rows.md", "exec", dont_inherit=True), namespace)
    with namespace["db"] as database:
        return [row for row in rows_of(database) if row[1] != b"schema"]


def test_the_page_has_every_kind_of_row():
    assert {(table, column) for table, _key, column, _stamp, _value in promised()} == {
        ("roots", b"d:v"),
        ("roots", b"d:b"),
        ("roots", b"m:e"),
        ("views", b"d:b"),
        ("counts", b"d:b"),
        ("system", b"d:b"),
    }


def test_the_program_writes_exactly_the_rows_of_the_page(written):
    assert written == promised()


def test_the_record_is_what_the_page_says():
    documented = json.loads(EXAMPLE.partition("```text\n")[2].partition("```")[0])
    stored = next(value for _table, _key, column, _stamp, value in promised() if column == b"m:e")
    assert plain(msgspec.msgpack.decode(stored)) == documented


def plain(value):
    """A record with bytes in hexadecimal."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(plain(token)): plain(each) for token, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list) else value
