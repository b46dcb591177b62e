"""docs/formats/keys.md is the law: its tables are the vectors, and the code knows no tag that the page does not."""

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest

from oneread.encoding import framing
from oneread.encoding.values import TAGS
from oneread.store.keys import spread_part, spread_parts
from tests.unit.encoding.plain import decode, encode

PAGE = (Path(__file__).parents[3] / "docs" / "formats" / "keys.md").read_text(encoding="utf-8")
NAMES = {kind.__name__: kind for kind in (Decimal, UUID, date, datetime, timedelta, float)} | {
    "UTC": UTC,
    "__builtins__": {},
}


def rows(heading):
    """The cells of the table under this heading row."""
    table = PAGE.partition(f"| {heading} |\n")[2].partition("\n\n")[0].strip().splitlines()[1:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table]


ASCENDING = [[cell.strip("`") for cell in row] for row in rows("tuple | key")]
DESCENDING = [[cell.strip("`") for cell in row] for row in rows("tuple | key, descending")]


@pytest.mark.parametrize(("source", "key"), ASCENDING)
def test_a_vector_is_what_the_code_writes_and_reads(source, key):
    values = eval(source, NAMES)
    assert encode(values).hex() == key
    assert decode(bytes.fromhex(key)) == values


@pytest.mark.parametrize(("source", "key"), DESCENDING)
def test_a_descending_vector_is_what_the_code_writes_and_reads(source, key):
    values = eval(source, NAMES)
    assert encode(values, descending=(0,)).hex() == key
    assert decode(bytes.fromhex(key)) == values


SPREAD = [[cell.strip("`") for cell in row] for row in rows("key | N | spread byte")]


@pytest.mark.parametrize(("key", "ranges", "byte"), SPREAD)
def test_a_spread_byte_is_what_the_code_puts_before_a_key(key, ranges, byte):
    assert spread_part(bytes.fromhex(key), int(ranges)).hex() == byte
    assert spread_parts(int(ranges)) == tuple(bytes([0x80 + number]) for number in range(int(ranges)))


def test_no_element_of_a_models_key_begins_like_a_spread_byte():
    assert max(frozenset().union(*TAGS.values())) < spread_parts(2)[0][0]


def test_the_page_and_the_code_know_the_same_tags():
    on_page = set()
    for cell, *_ in rows("tag | kind | body"):
        first, *last = (int(tag, 16) for tag in re.findall(r"`(..)`", cell))
        on_page |= set(range(first, (last or [first])[0] + 1))
    assert on_page == {framing.NONE_FIRST, framing.NONE_LAST}.union(*TAGS.values())


def test_every_tag_of_the_page_has_a_vector():
    first_bytes = {key[:2] for _, key in ASCENDING}
    short_ints = {
        f"{tag:02x}" for tag in (*range(0x0D, 0x12), *range(0x17, 0x1C))
    }  # the first two and the last of each sign do
    tags = {f"{tag:02x}" for tag in {framing.NONE_FIRST}.union(*TAGS.values())}
    assert tags - short_ints <= first_bytes
