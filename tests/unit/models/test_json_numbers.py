"""Numbers in JSON: floats that are not finite are texts, text for numbers has one form, digits are never lost."""

import json
import math
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from oneread import Aggregate, Index, Key, Model, Ref, Schema, ascending, by, connect, shown, to_json, total
from oneread.database.typed_keys import WantedType, value
from oneread.errors import InvalidKey, InvalidValue
from oneread.models.json_form import form
from oneread.transfer.load import RecordReader


class Size(msgspec.Struct):
    ratio: float
    price: Decimal = Decimal(0)


class Level(Model[int]):
    number: Key[int]
    height: float | None = None
    depth: float = 0.0
    several: list[float] = []  # noqa: RUF012 - a struct copies it
    by_name: dict[str, float] = {}  # noqa: RUF012
    size: Size | None = None
    pair: tuple[float, str] | None = None
    price: Decimal = Decimal(0)
    prices: list[Decimal] = []  # noqa: RUF012
    whole: int = 0
    text: str = ""
    either: float | None = None
    anything: Any = None
    counted: float = 0.0


class ByHeight(Index[Level]):
    whole: int = ascending(Level.whole)
    height: float | None = shown(Level.height)
    size: Size | None = shown(Level.size)


class Heights(Aggregate[Level]):
    text: str = by(Level.text)
    counted: float = total(Level.counted)


class Mark(Model[float]):
    at_height: Key[float]


class Pin(Model[int]):
    number: Key[int]
    mark: Ref[Mark]
    price: Decimal = Decimal(0)


SCHEMA = Schema(Level, ByHeight, Heights, Mark, Pin)
INF, NAN = math.inf, math.nan


@pytest.fixture
def db(url):
    with connect(url, SCHEMA, workers=0) as opened:
        yield opened


@pytest.mark.parametrize("number", [INF, -INF, NAN])
def test_a_float_that_is_not_finite_is_a_text_which_may_be_sent_back(db, number):
    size = Size(number, Decimal("1.50"))
    given = Level(number=1, height=number, depth=-number, several=[1.0, number], by_name={"a": number}, size=size)
    db.save(msgspec.structs.replace(given, pair=(number, "NaN"), price=Decimal("2.50")))
    for result in (db.get(Level, 1), db.page(Level), db.page(ByHeight), [*db.page(Level)], {"x": db.get(Level, 1)}):
        text = to_json(result)
        shown_as = text.replace(b'"next":null,"previous":null', b"").replace(b'"either":null,"anything":null', b"")
        assert b"null" not in shown_as
        json.loads(text, parse_constant=pytest.fail)
    text = to_json(db.get(Level, 1))
    spelled = "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    assert json.loads(text)["size"] == {"ratio": spelled, "price": "1.50"}
    assert json.loads(text)["pair"] == [spelled, "NaN"]
    for found in (form(Level).decode(text), form(Level).convert(json.loads(text))):
        assert to_json(found) == text
        assert repr(found) == repr(db.get(Level, 1))
    assert math.isclose(form(Level).changes(b'{"height":"Infinity"}')["height"], INF)


def test_other_texts_are_not_floats_and_other_fields_take_them_as_text():
    for text in ("inf", "infinity", "nan", "+Infinity", "1.5", ""):
        with pytest.raises(InvalidValue) as error:
            form(Level).decode(json.dumps({"number": 1, "size": {"ratio": text}}).encode())
        assert [fault.place for fault in error.value.facts["faults"]] == [("size", "ratio")]
    found = form(Level).decode(b'{"number":1,"text":"Infinity","anything":"NaN","height":"Infinity"}')
    assert (found.text, found.anything, found.height) == ("Infinity", "NaN", INF)
    with pytest.raises(InvalidValue):
        form(Level).decode(b'{"number":1,"depth":null}')


def test_results_beside_entities_and_totals_are_spelled_too(db):
    assert to_json({"x": INF, "y": [-INF, 1.5]}) == b'{"x":"Infinity","y":["-Infinity",1.5]}'
    db.save(Level(number=1, text="a", counted=1e308))
    db.save(Level(number=2, text="a", counted=1e308))
    assert b"null" not in to_json(db.get(Heights, "a"))
    db.save(Mark(at_height=INF))
    db.save(Pin(number=1, mark=Mark.at(INF)))
    assert to_json(db.get(Pin, 1)) == b'{"number":1,"mark":"Infinity","price":"0"}'


def test_the_schema_says_which_texts_a_float_may_be():
    found = form(Level).schema()
    number = {"anyOf": [{"type": "number"}, {"enum": ["Infinity", "-Infinity", "NaN"]}]}
    assert found.schema["properties"]["depth"] == number
    assert found.schema["properties"]["several"]["items"] == number
    assert found.parts["Size"]["properties"]["ratio"] == number
    assert found.schema["properties"]["whole"]["type"] == "integer"


LOOSE = ["1_0", "1__0", " 1", "1 ", "1\n", "\uff11\uff12", "\u0663", "+1", "01", ".5", "5.", "1e", "0x1", "NaN", ""]
STRICT = ["0", "12", "-2.50", "1e5", "1E+2", "0E-7", "123456789012345678901234567890.5"]


@pytest.mark.parametrize("text", LOOSE)
def test_text_for_a_number_has_the_form_of_numbers_in_json(db, text):
    bodies = {
        ("price",): {"price": text},
        ("prices", 1): {"prices": ["1", text]},
        ("size", "price"): {"size": {"ratio": 1, "price": text}},
    }
    for place, fields in bodies.items():
        for read in (lambda body: form(Level).decode(json.dumps(body).encode()), form(Level).convert):
            with pytest.raises(InvalidValue) as error:
                read({"number": 1} | fields)
            assert [fault.place for fault in error.value.facts["faults"]] == [place]
    for column in ("price", "whole", "height"):
        if text and (column, text) != ("height", "NaN"):
            reader = RecordReader(db.operations.catalog, Level, {}, ["number", column])
            with pytest.raises(InvalidValue):
                reader.entity(["1", text])
            with pytest.raises(InvalidValue):
                RecordReader(db.operations.catalog, Level, {}).entity(json.dumps({"number": 1, column: text}).encode())
    for kind in (int, float, Decimal):
        if (kind, text) != (float, "NaN"):
            with pytest.raises(InvalidKey):
                value(Level, WantedType("number", kind), text)


@pytest.mark.parametrize("text", STRICT)
def test_numbers_as_text_keep_their_digits(db, text):
    assert str(form(Level).decode(json.dumps({"number": 1, "price": text}).encode()).price) == str(Decimal(text))
    (found,) = [RecordReader(db.operations.catalog, Level, {}, ["number", "price"]).entity(["1", text])]
    assert str(found.price) == str(Decimal(text))
    assert value(Level, WantedType("number", Decimal), text) == Decimal(text)


def test_digits_of_decimals_beside_a_spelled_float_are_kept():
    found = form(Level).decode(b'{"number":1,"height":"Infinity","price":12345678901234567.89,"prices":[0.10]}')
    assert (found.price, str(found.prices[0])) == (Decimal("12345678901234567.89"), "0.10")


@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**64, 10**40])
def test_ints_are_numbers_with_all_their_digits(db, number):
    """Browsers round beyond 2**53; the page of the web says what to do about it."""
    db.save(Level(number=1, whole=number))
    assert f'"whole":{number},'.encode() in to_json(db.page(Level))
    assert form(Level).decode(to_json(db.get(Level, 1))).whole == number
