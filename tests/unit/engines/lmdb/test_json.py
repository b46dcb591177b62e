"""JSON that compiled code writes of documents: to the byte what Python writes of their rows, or none.

`test_sanitized` runs these with every wrong access to memory ending the process.
"""

import itertools
import json
import random
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Annotated
from uuid import UUID

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from oneread import Copy, Index, Key, Model, Ref, Schema, by, connect, reference, shown, to_json
from oneread.database.pages import UnseenRows, rows_as_json
from oneread.engines.lmdb import binding
from oneread.errors import Corrupt
from oneread.models.json_form import form
from oneread.models.json_table import json_table
from oneread.models.layout import Layout

native = pytest.importorskip("oneread_native", reason="oneread-native is not installed")

TEXTS = st.text(max_size=8) | st.text('"\\/\x00\x08\t\n\x0c\r\x1f\x7f\u2028é😀', max_size=8) | st.just("x" * 70_000)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-40, 40) | st.sampled_from([2**63, 2**64 - 1, 2**64, -(2**70)])
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [*map(Decimal, ("0", "-0", "0.000000", "0.0000000", "-0.000001", "0.0000001", "1E+2", "1.50", "1e-7", "9" * 40))]
)
ZONES = st.sampled_from([UTC, timezone(timedelta(hours=-5, minutes=-30))])
INSTANTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=ZONES)


class Maker(Model[str, int]):
    name: Key[str]
    number: Key[int]
    price: Decimal | None = None
    since: datetime | None = None


class Made(Copy[Maker]):
    missing_ok = True
    price: Decimal | None
    since: datetime | None


class Place(Model[UUID]):
    code: Key[UUID]


class Thing(Model[int]):
    number: Key[int]
    group: int
    text: str | None
    whole: int
    price: Decimal
    made_at: datetime
    is_new: bool | None
    uuid: UUID
    day: date | None
    data: bytes
    texts: list[str | None]
    instants: list[list[datetime]] | None
    place: Ref[Place] | None = reference(missing_ok=True)
    makers: Annotated[list[Ref[Maker]], msgspec.Meta(max_length=3)] = reference(missing_ok=True)
    maker: Made | None


class Things(Index[Thing]):
    group: int = by(Thing.group)
    text: str | None = msgspec.field(name="a text é", default=shown(Thing.text))
    whole: int = shown(Thing.whole)
    price: Decimal = shown(Thing.price)
    made_at: datetime = shown(Thing.made_at)
    is_new: bool | None = shown(Thing.is_new)
    uuid: UUID = shown(Thing.uuid)
    day: date | None = shown(Thing.day)
    data: bytes = shown(Thing.data)
    texts: list[str | None] = shown(Thing.texts)
    instants: list[list[datetime]] | None = shown(Thing.instants)
    place: Ref[Place] | None = shown(Thing.place)
    maker: Made | None = shown(Thing.maker)


class MakersOfThings(Index[Thing]):
    group: int = by(Thing.group)
    makers: Annotated[list[Ref[Maker]], msgspec.Meta(max_length=3)] = shown(Thing.makers)


class ThingsOfMaker(Index[Thing]):
    maker: Made | None = by(Thing.maker)
    whole: int = shown(Thing.whole)


THINGS = Schema(Maker, Place, Thing, Things, MakersOfThings, ThingsOfMaker)
PLACES = st.none() | st.builds(Place.at, st.uuids())
MAKERS = st.sampled_from([("a", 1), ("b", -1), ("absent", 2)])
GIVEN = st.fixed_dictionaries(
    {
        "text": st.none() | TEXTS,
        "whole": NUMBERS,
        "price": DECIMALS,
        "made_at": INSTANTS,
        "is_new": st.none() | st.booleans(),
        "uuid": st.uuids(),
        "day": st.none() | st.dates(),
        "data": st.binary(max_size=8),
        "texts": st.lists(st.none() | TEXTS, max_size=3),
        "instants": st.none() | st.lists(st.lists(INSTANTS, max_size=2), max_size=2),
        "place": PLACES,
        "makers": st.lists(MAKERS.map(lambda key: Maker.at(*key)), max_size=3),
        "maker": st.none() | MAKERS.map(lambda key: Made.of(*key)),
    }
)


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    if not binding.NATIVE:
        pytest.skip("a process has one binding to LMDB, and this one has the other")
    with connect(f"lmdb://{tmp_path_factory.mktemp('store')}?durability=none", THINGS, workers=0) as db:
        db.save(Maker(name="a", number=1, price=Decimal("1.5"), since=datetime(2000, 2, 29, 1, 2, 3, 4, tzinfo=UTC)))
        db.save(Maker(name="b", number=-1))
        yield db


NEXT = itertools.count()


def pages(db, things):
    """Pages of these things, of both views."""
    group, makers = next(NEXT), {each["maker"].ref.key for each in things if each["maker"] is not None}
    db.save_all([Thing(number=next(NEXT), group=group, **each) for each in things])
    for equal in [(Things, group), (MakersOfThings, group), *((ThingsOfMaker, Made.of(*key)) for key in makers)]:
        yield db.page(*equal, limit=9)
        yield db.page(*equal, limit=2, backward=True)


@given(st.lists(GIVEN, min_size=1, max_size=4))
def test_json_of_documents_is_json_of_their_rows(db, things):
    for page in pages(db, things):
        written, whole = rows_as_json(page), to_json(page)
        rows = page.rows
        assert written is None or written == to_json(rows)
        assert whole == to_json(page)
        assert json.loads(whole)["rows"] == json.loads(to_json(rows))


USUAL = {
    "text": "a\n", "whole": -5, "price": Decimal("1.50"), "made_at": datetime(2026, 12, 1, tzinfo=UTC), "is_new": True,
    "uuid": UUID(int=7), "day": date(2026, 12, 1), "data": b"\xff", "texts": ["a", None], "instants": None,
    "place": Place.at(UUID(int=1)), "makers": [Maker.at("a", 1)], "maker": Made.of("a", 1),
}  # fmt: skip


def test_usual_rows_are_written_by_compiled_code(db):
    of_group = itertools.islice(pages(db, [USUAL, USUAL | {"text": None, "maker": None, "place": None}]), 4)
    for page in of_group:
        assert rows_as_json(page) == to_json([*page])
        assert rows_as_json(page) is None, "a program has looked at them"


def test_a_page_is_not_parsed_where_json_was_asked_for_last(db, monkeypatch):
    def page():
        return next(pages(db, [USUAL, USUAL]))

    expected = page()
    decoder, parsed = expected._rows.decoder, []
    parse = decoder.parse_rows
    monkeypatch.setattr(decoder, "parse_rows", lambda docs: parsed.append(len(docs)) or parse(docs))
    for look in (to_json, len, list, repr):
        to_json(page())
        parsed.clear()
        found = page()
        look(found)
        assert parsed == ([] if look in {to_json, len} else [2])
        assert [row.maker for row in found] == [row.maker for row in expected]
        assert parsed == [2]
        parsed.clear()
        page()
        assert parsed == [2]


def test_a_limit_of_a_field_is_checked_when_the_page_is_read(db):
    pages_of_makers = itertools.islice(pages(db, [USUAL]), 2, 4)
    for page in pages_of_makers:
        to_json(page)
        assert rows_as_json(page) is not None
        assert page._rows.decoder.write_checked(page._rows.values) is None


def test_a_damaged_row_is_corrupt_when_the_page_is_read(db):
    page = next(pages(db, [USUAL, USUAL]))
    to_json(page)
    unseen = page._rows
    assert unseen.decoder.is_seen_as_json
    with pytest.raises(Corrupt):
        UnseenRows(unseen.decoder, [*unseen.values, unseen.values[0][:-1]])


@pytest.mark.parametrize("other", [{"price": Decimal("1E+2")}, {"whole": 2**63}, {"price": Decimal("1e-7")}], ids=str)
def test_other_values_are_left_to_python(db, other):
    page = next(pages(db, [USUAL, USUAL | other]))
    assert rows_as_json(page) is None
    assert to_json(page) == to_json(page.map(lambda row: row))


def mutated(chance, data):
    """Bytes with a change: another byte, some that are cut off, or repeated."""
    at = chance.randrange(len(data))
    return chance.choice(
        [data[:at], data[at:], data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :], data[:at] * 2]
    )


def test_hostile_documents_are_what_python_reads_or_nothing(db):
    chance, page = random.Random(1), next(pages(db, [USUAL, USUAL | {"text": "long" * 100}]))
    decoder, values = page._rows.decoder, page._rows.values
    compared = 0
    for _ in range(20_000):
        document = mutated(chance, chance.choice(values))
        written = decoder.write_checked([document])
        try:
            rows = decoder.parse_rows([document])
        except Corrupt:
            assert written is None
            continue
        decoder.settle_rows(rows)
        assert written is None or written == to_json(rows)
        compared += written is not None
    assert compared > 100


TYPED = {Decimal: 3, date: 7}
DIGITS = st.from_regex(r"-?[0-9]{1,3}(\.[0-9]{1,9})?", fullmatch=True) | st.from_regex(
    r"-?0\.0{5,7}[0-9]?", fullmatch=True
)
DAYS = st.builds(
    "{:04}-{:02}-{:02}".format,
    st.sampled_from([0, 1, 1900, 2000, 2023, 2024]),
    st.sampled_from([0, 1, 2, 4, 12, 13]),
    st.sampled_from([0, 1, 28, 29, 30, 31, 32]),
)


@given(st.tuples(st.just(Decimal), DIGITS) | st.tuples(st.just(date), DAYS))
@example((Decimal, "0.0000001"))
@example((date, "2023-02-29"))
@example((date, "1900-02-29"))
def test_a_text_is_written_as_what_python_reads_in_it(given_text):
    kind, text = given_text
    writer = native.JsonForm(msgspec.msgpack.encode((12, 1, [(b"{", 0, (TYPED[kind], 0, (), 0))], 0)))
    document = msgspec.msgpack.encode([text])
    try:
        expected = msgspec.json.encode(msgspec.msgpack.decode(document, type=list[kind])[0])
    except msgspec.ValidationError:
        expected = None
    assert writer.write_all([document]) in {None, expected and b"[{%b}]" % expected}


def test_hostile_tables_are_refused(db):
    chance, page = random.Random(1), next(pages(db, [USUAL]))
    decoder, values = page._rows.decoder, page._rows.values
    table = json_table(form(Things), decoder.layout.fields).table
    made = 0
    for _ in range(5_000):
        try:
            hostile = native.JsonForm(mutated(chance, table))
        except ValueError:
            continue
        made += 1
        hostile.write_all(values)
    assert made > 10


def test_arguments_of_other_types_are_refused(db):
    page = next(pages(db, [USUAL]))
    writer = native.JsonForm(json_table(form(Things), page._rows.decoder.layout.fields).table)
    assert writer.write_all([]) == b"[]"
    for wrong in (None, (b"",), ["text"]):
        with pytest.raises(TypeError):
            writer.write_all(wrong)
    for wrong in ("text", None, 1):
        with pytest.raises(TypeError):
            native.JsonForm(wrong)


class Floats(Model[int]):
    number: Key[int]
    size: float


class FloatsBySize(Index[Floats]):
    size: float = by(Floats.size)


class Ordered(Index[Thing]):
    number: int = by(Thing.number)


class Careful(Copy[Maker]):
    price: Decimal | None

    def __post_init__(self):
        raise ValueError("not today")


class Short(Copy[Maker]):
    number: Annotated[int, msgspec.Meta(lt=5)]


class Others(Model[int]):
    number: Key[int]
    careful: Careful
    short: Short
    at: datetime
    named: Ref[Maker]


class CarefulOthers(Index[Others]):
    number: int = by(Others.number)
    careful: Careful = shown(Others.careful)


class ShortOthers(Index[Others]):
    number: int = by(Others.number)
    short: Short = shown(Others.short)


class PlainOthers(Index[Others]):
    number: int = by(Others.number)
    at: datetime = shown(Others.at)
    named: Ref[Maker] = shown(Others.named)


@pytest.mark.parametrize(("rows", "checks"), [(CarefulOthers, False), (ShortOthers, False), (PlainOthers, True)])
def test_a_table_checks_only_what_decoding_cannot_refuse(rows, checks):
    assert json_table(form(rows), Layout(rows, None).fields).checks is checks


@pytest.mark.parametrize(("row", "has_table"), [(Ordered, True), (FloatsBySize, False), (Thing, False)])
def test_a_class_with_other_types_has_no_table(row, has_table):
    written = form(row)
    assert (json_table(written, written.fields) is not None) is has_table
