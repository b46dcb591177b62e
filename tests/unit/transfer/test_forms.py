"""Forms: every type comes back from JSON exactly, or is written as its document."""

import math
from base64 import b64encode
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any
from uuid import UUID

import msgspec
import pytest

from oneread import CREATED, Copy, Key, Model, Ref, Schema, connect
from oneread.errors import InvalidValue
from oneread.models.set_order import order_sets
from oneread.plans.progress import no_progress
from oneread.transfer.csv_dump import CsvDump
from oneread.transfer.dump import Dump
from oneread.transfer.forms import ColumnForm, document_entity, document_text
from oneread.transfer.load import DumpReader, parse_head


class Colour(Enum):
    RED = 1
    BLUE = 2


class Inner(msgspec.Struct):
    size: float
    words: list[str] = []


class Thing(Model[str, bytes, datetime]):
    name: Key[str]
    seal: Key[bytes]
    since: Key[datetime]


class ShownThing(Copy[Thing]):
    missing_ok = True


class Everything(Model[int]):
    id: Key[int]
    text: str = ""
    maybe: str | None = None
    price: Decimal = Decimal(0)
    ratio: float = 0.0
    blob: bytes = b""
    day: date | None = None
    took: timedelta = timedelta(0)
    uuid: UUID | None = None
    colour: Colour = Colour.RED
    inner: Inner | None = None
    extra: dict[str, int] = msgspec.field(default_factory=dict)
    by_number: dict[int, str] = msgspec.field(default_factory=dict)
    pairs: tuple[int, str] | None = None
    words: set[str] = msgspec.field(default_factory=set)
    anything: Any = None
    thing: ShownThing | None = None
    deep: Annotated[list[Ref["Everything"]], msgspec.Meta(max_length=3)] = msgspec.field(default_factory=list)
    made: datetime = CREATED


SCHEMA = Schema(Thing, Everything)
NOON = datetime(2024, 5, 1, 12, 0, 0, 1, tzinfo=UTC)


@pytest.fixture
def db(url):
    with connect(url, SCHEMA) as opened:
        yield opened


@pytest.fixture
def form(db):
    return ColumnForm(db.operations.catalog.entity_types[Everything])


PLAIN = {
    "text": ["\x00", "\u2028", "é", '"', "\U0001f409"],
    "maybe": [None, ""],
    "price": [Decimal("1.10"), Decimal("1.1"), Decimal("-0"), Decimal("1E+30")],
    "ratio": [0.1, -0.0, 1e-300, 5e-324],
    "blob": [b"", b"\x00\xff"],
    "day": [None, date(1, 1, 1)],
    "took": [timedelta(days=-1, microseconds=3), timedelta(days=99999)],
    "uuid": [UUID(int=1)],
    "colour": [Colour.BLUE],
    "inner": [Inner(size=0.5, words=["a"])],
    "extra": [{"a": -1, "b": 2**80}],
    "by_number": [{1: "one", -2: "two"}],
    "pairs": [(1, "x")],
    "words": [{"a", ""}],
    "anything": [None, 1, 1.0, [1, {"a": "b"}], 2**70],
    "thing": [ShownThing.of("x", b"\x00", NOON)],
    "made": [NOON],
}
STRANGE = {
    "ratio": [math.nan, math.inf],
    "anything": [b"bytes", {"nested": [b"x"]}],
    "inner": [Inner(size=math.nan)],
}


def given(table):
    return [
        pytest.param({name: value}, id=f"{name}-{place}")
        for name, all_ in table.items()
        for place, value in enumerate(all_)
    ]


@pytest.mark.parametrize("fields", given(PLAIN))
def test_a_value_comes_back_from_json(form, fields):
    entity = Everything(**({"id": 1, "made": NOON} | fields))
    again = form.decode(form.encode(entity))
    assert again == entity
    assert repr(order_sets(again)) == repr(order_sets(entity))


@pytest.mark.parametrize("fields", given(STRANGE))
def test_what_json_would_not_bring_back_is_written_as_its_document(new_url, db, form, fields):
    assert form.encode(Everything(**({"id": 1, "made": NOON} | fields))) is None
    db.save(Everything(**({"id": 1} | fields)))
    lines = []
    db.dump(lines.append)
    assert b'"document"' in lines[1]
    assert b'"entity"' not in lines[1]
    with connect(new_url(), SCHEMA) as other:
        with other.bulk() as bulk:
            bulk.apply(DumpReader(other.operations.catalog, parse_head(lines[0])).change(lines[1]), 0)
        again = []
        other.dump(again.append)
        assert again == lines
    with pytest.raises(InvalidValue, match="dump JSON lines"):
        db.run(CsvDump(db.operations.catalog, Everything, lines.append, no_progress).write_lines())


def test_a_field_that_is_missing_takes_its_default(form):
    entity = form.decode(b'{"id":1}')
    assert entity.price == 0
    assert entity.made is CREATED
    assert entity.deep == []


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (b'{"id":"1"}', "id"),
        (b"{}", "id"),
        (b'{"id":1,"inner":{"size":"x"}}', "inner.size"),
        (b'{"id":1,"nonsense":1}', "nonsense"),
        (b'{"id":1,"made":"2024-05-01T12:00:00"}', "made"),
        (b'{"id":1,"thing":["x"]}', "thing"),
        (b'{"id":1,"blob":"*"}', "blob"),
        (b"\xff", "field=None"),
    ],
)
def test_what_does_not_fit_names_its_field(form, text, field):
    with pytest.raises(InvalidValue) as caught:
        form.decode(text)
    assert field in str(caught.value)


def test_values_of_others_may_be_text(form):
    entity = form.from_text(
        {
            "id": "7",
            "price": "1.10",
            "ratio": "0.5",
            "day": "2024-02-29",
            "colour": "2",
            "thing": ["x", "AA==", "2024-05-01T12:00:00.000001Z"],
            "made": "2024-05-01 12:00:00Z",
        }
    )
    assert (entity.id, entity.price, entity.colour) == (7, Decimal("1.10"), Colour.BLUE)
    assert entity.thing.ref == Ref(("x", b"\x00", NOON))


def test_a_table_has_a_column_for_each_part_of_a_key(db):
    db.save(Everything(id=1, thing=ShownThing.of("x", b"\x00", NOON)))
    db.save(Everything(id=2))
    lines = []
    assert db.dump_csv(lines.append, Everything) == 2
    header, first, second = (line.decode().rstrip("\n").split(",") for line in lines)
    place = header.index("thing.name")
    assert header[place : place + 3] == ["thing.name", "thing.seal", "thing.since"]
    assert first[place : place + 3] == ["x", "AA==", "2024-05-01T12:00:00.000001Z"]
    assert second[place : place + 3] == ["", "", ""]


@pytest.mark.parametrize("text", ["*", "", b64encode(b"\x00\xc1").decode(), b64encode(b"\x01\xc1").decode()])
def test_a_document_that_is_none_says_so(form, text):
    with pytest.raises(InvalidValue, match="document"):
        document_entity(form.entity_type.layout, text)


def test_a_document_comes_back_under_another_number(form):
    entity = Everything(id=1, anything=2**70, made=NOON)
    assert document_entity(form.entity_type.layout, document_text(form.entity_type.layout, entity)) == entity


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"model":"Nobody"}',
        b'{"model":"Everything"}',
        b'{"model":"Everything","entity":{"id":"x"}}',
        b'{"model":"Everything","entity":{"id":1},"held":["thing"],"document":"*"}',
        b'{"model":"Everything","deleted":["x"]}',
        b'{"model":"Everything","deleted":[1],"last":"*"}',
        b'{"model":"Everything","entity":{"id":1},"used":"//8="}',
        b'{"model":"Everything","more":1}',
    ],
)
def test_a_line_that_is_none_says_so(db, line):
    with pytest.raises(InvalidValue):
        DumpReader(db.operations.catalog, parse_head(b'{"oneread":1,"schema":"","models":[]}')).change(line)


def test_a_dump_of_some_models_holds_only_those(db):
    db.save(Thing(name="x", seal=b"", since=NOON))
    db.save(Everything(id=1))
    lines = []
    db.run(Dump(db.operations.catalog, db.operations.parts, [Thing], lines.append, no_progress).write_lines())
    assert len(lines) == 3
    assert parse_head(lines[0]).models == ("Thing",)


class Bounded(Model[int]):
    id: Key[int]
    count: int = 0

    def __post_init__(self):
        if self.count < 0:
            raise ValueError("below zero")


def test_a_record_that_its_model_refuses_does_not_fit(url):
    with connect(url, Schema(Bounded)) as db:
        refusing = ColumnForm(db.operations.catalog.entity_types[Bounded])
        with pytest.raises(InvalidValue, match="below zero"):
            refusing.decode(b'{"id":1,"count":-1}')
        with pytest.raises(InvalidValue, match="below zero"):
            refusing.from_text({"id": "1", "count": "-1"})
