"""docs/formats/rows.md is the law of what is set aside: its vector is written and read to the byte."""

import re
from pathlib import Path

import msgspec

from oneread.store.rows import Cell
from oneread.transactions import outbox

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "formats" / "rows.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Holders set aside")[2].partition("\n## ")[0]
VECTOR = re.compile(r"^\| `([0-9a-f ]+)` \| `([0-9a-f]+)` \|$", re.MULTILINE)
SOURCE, HOLDER = bytes.fromhex("00011507"), bytes.fromhex("00050341001501")
SHOWN = outbox.SetAside(SOURCE, HOLDER, "InvalidValue", "too long here", 1, 1000, bytes(range(8)))


def test_the_row_of_the_page_is_what_is_written_and_read():
    ((key, value),) = VECTOR.findall(SECTION)
    row = {b"d:b": Cell(bytes.fromhex(value), 1000)}
    assert outbox.aside_key(SOURCE, HOLDER) == bytes.fromhex(key)
    assert outbox.read_aside((bytes.fromhex(key), row)) == (bytes.fromhex(key), SHOWN)
    assert msgspec.msgpack.encode(SHOWN).hex() == value


def test_the_digest_is_the_one_of_the_page():
    rows = {SOURCE: {b"d:v": Cell(b"\x01", 7), b"d:b": Cell(b"ab", 7)}, HOLDER: None}
    plain = b"d:b" + (2).to_bytes(8, "big") + b"ab" + b"d:v" + (1).to_bytes(8, "big") + b"\x01" + b"\x00" + b"\x00"
    assert outbox.digest(rows, SOURCE, HOLDER) == outbox.blake2b(plain, digest_size=8).digest()
