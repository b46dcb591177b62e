"""docs/formats/rows.md is the law of documents: its tables are the vectors."""

import dataclasses
import html
import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from oneread.models.layout import Layout
from oneread.models.model import Key, Model
from oneread.models.references import Copy, Ref

PAGE = (Path(__file__).parents[3] / "docs" / "formats" / "rows.md").read_text(encoding="utf-8")


class Colour(Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Customer(Model[int]):
    number: Key[int]
    name: str


class Buyer(Copy[Customer]):
    name: str


NAMES = {
    each.__name__: each
    for each in (Buyer, Colour, Customer, Decimal, Point, Ref, UUID, date, datetime, time, timedelta)
} | {"UTC": UTC}


def vectors(heading):
    """The rows of the table under this heading row."""
    table = PAGE.partition(f"| {heading} |\n")[2].partition("\n\n")[0].strip().splitlines()[1:]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table]
    return [[html.unescape(re.sub("</?code>", "", cell.strip("`"))) for cell in row] for row in cells]


NARROW = [(*row, b"\x00\x07", b"") for row in vectors("field's type | value | element")]
WIDE = [(*row, b"\x80\x07", b"\xc1") for row in vectors("field's type | value | wide element")]


@pytest.mark.parametrize(("annotation", "source", "element", "prefix", "mark"), NARROW + WIDE)
def test_a_vector_is_what_the_code_writes_and_reads(annotation, source, element, prefix, mark):
    cls = msgspec.defstruct("One", [("it", eval(annotation, NAMES))], kw_only=True)
    one = cls(it=eval(source, NAMES))
    for layout, head in ((Layout(cls, 7), prefix), (Layout(cls, None), mark)):
        doc = head + b"\x91" + bytes.fromhex(element)
        assert layout.encode(one).hex() == doc.hex()
        assert layout.decode(doc) == one
        assert layout.decode_many([doc, doc]) == [one, one]


def test_the_page_has_vectors():
    assert len(NARROW) > 20
    assert len(WIDE) == 3
