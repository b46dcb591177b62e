"""Whatever a model holds comes back from its document, and any other bytes are refused as corrupt."""

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneread.errors import Corrupt
from oneread.models.layout import Layout, Layouts
from oneread.models.model import Key, Model
from oneread.models.references import Copy, Ref


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Near(Model[int]):
    number: Key[int]
    name: str


class Far(Model[UUID, date, Decimal, datetime, timedelta, Colour]):
    id: Key[UUID]
    day: Key[date]
    price: Key[Decimal]
    moment: Key[datetime]
    span: Key[timedelta]
    colour: Key[Colour]
    name: str


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
INTS = st.integers(-(2**63), 2**64 - 1) | st.integers() | st.integers(-(2**200), 2**200)
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False)
ZONES = st.integers(-23, 23).map(lambda hours: timezone(timedelta(hours=hours))) | st.just(UTC)
MOMENTS = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 28), timezones=ZONES)
SPANS = st.timedeltas(timedelta(days=-90_000_000), timedelta(days=90_000_000))
COLOURS = st.sampled_from(Colour)
NEAR = st.builds(Ref, st.tuples(INTS))
FAR = st.builds(Ref, st.tuples(st.uuids(), st.dates(), DECIMALS, MOMENTS, SPANS, COLOURS))

KINDS = {
    "bool": (bool, st.booleans()),
    "int": (int, INTS),
    "float": (float, st.floats(allow_nan=False)),
    "str": (str, TEXT),
    "bytes": (bytes, st.binary(max_size=5)),
    "decimal": (Decimal, DECIMALS),
    "uuid": (UUID, st.uuids()),
    "date": (date, st.dates()),
    "time": (time, st.times()),
    "timedelta": (timedelta, SPANS),
    "datetime": (datetime, MOMENTS),
    "enum": (Colour, COLOURS),
    "near": (Ref[Near], NEAR),
    "far": (Ref[Far], FAR),
    "any": (Any, st.recursive(st.none() | st.booleans() | INTS | TEXT, lambda inner: st.lists(inner, max_size=3))),
}
HASHABLE = tuple(name for name in KINDS if name not in ("any", "near"))


def containers(name):
    """The kind by itself, and inside everything that can hold it."""
    kind, values = KINDS[name]
    yield kind, values
    yield kind | None if name != "any" else kind, st.none() | values
    yield list[kind], st.lists(values, max_size=3)
    yield list[list[kind] | None], st.lists(st.none() | st.lists(values, max_size=2), max_size=2)
    yield dict[str, kind], st.dictionaries(TEXT, values, max_size=3)
    yield tuple[kind, int], st.tuples(values, INTS)
    yield tuple[kind, ...], st.lists(values, max_size=3).map(tuple)
    if name in HASHABLE:
        yield set[kind], st.sets(values, max_size=3)
        yield frozenset[kind] | None, st.frozensets(values, max_size=3) | st.none()
    if name in ("str", "int", "uuid", "date", "datetime", "enum", "far"):
        yield dict[kind, INTS_OR_NONE], st.dictionaries(values, st.none() | INTS, max_size=3)


INTS_OR_NONE = int | None


def model(name):
    parts = list(containers(name))
    annotations = {"code": Key[str]} | {f"f{number}": kind for number, (kind, _) in enumerate(parts)}
    copied = {"name": str, "shown": parts[0][0], "many": parts[2][0]}
    far = KINDS["far"][1]
    shown = type(Copy)("Shown", (Copy,), {"__annotations__": copied, "__module__": __name__})
    shown.type_arguments = (Far,)
    space = {"__annotations__": annotations | {"copy": shown | None}, "__module__": __name__}
    cls = type(Model)("Held", (Model,), space)
    copies = st.builds(shown, ref=far, deleted=st.booleans(), name=TEXT, shown=parts[0][1], many=parts[2][1])
    values = {f"f{number}": strategy for number, (_, strategy) in enumerate(parts)}
    return cls, shown, st.builds(cls, code=TEXT, copy=st.none() | copies, **values)


MADE = {name: model(name) for name in KINDS}
LAYOUTS = {name: Layout(cls, 0x7FFF) for name, (cls, _, _) in MADE.items()}
BARE = {name: Layout(cls, None) for name, (cls, _, _) in MADE.items()}


def same(seen, entity, name):
    cls, shown, _ = MADE[name]
    assert seen == entity
    assert type(seen) is cls
    assert seen.copy is None or (type(seen.copy), seen.copy.ref.refers_to) == (shown, Far)
    for field in cls.__struct_fields__:
        assert same_types(getattr(seen, field), getattr(entity, field)), field


def same_types(one, other):
    if isinstance(one, Ref):  # one that was read knows its class, whether or not the one that was saved did
        return isinstance(other, Ref) and one.refers_to in (Near, Far) and same_types(one.key, other.key)
    if type(one) is not type(other):
        return False
    if isinstance(one, datetime):
        return one.utcoffset() == timedelta(0)
    if isinstance(one, list | tuple):
        return all(map(same_types, one, other))
    return not isinstance(one, Decimal) or str(one) == str(other)


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
def test_what_is_encoded_comes_back(name, data):
    entity = data.draw(MADE[name][2])
    for layout in (LAYOUTS[name], BARE[name]):
        doc, seen = layout.validated(entity)
        same(seen, entity, name)
        same(layout.decode(doc), entity, name)
        assert layout.encode(seen) == layout.encode(layout.decode(doc))


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
def test_many_come_back_in_their_order(name, data):
    entities = data.draw(st.lists(MADE[name][2], max_size=3))
    layout = LAYOUTS[name]
    layouts = Layouts()
    layouts.add(layout)
    docs = [layout.encode(entity) for entity in entities]
    for many in (layout.decode_many(docs), layouts.decode_many(docs), [layouts.decode(doc) for doc in docs]):
        assert many == entities
        for seen, entity in zip(many, entities, strict=True):
            same(seen, entity, name)


def plain_values():
    leaves = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | TEXT | st.binary(max_size=20)
    extensions = st.builds(msgspec.msgpack.Ext, st.integers(-1, 2), st.binary(max_size=12))
    return st.recursive(leaves | extensions, lambda inner: st.lists(inner, max_size=6) | st.dictionaries(TEXT, inner))


@pytest.mark.parametrize("name", ["any", "far", "int"])
@given(
    head=st.sampled_from([b"\x7f\xff", b"\xff\xff", b"\xc1", b""]),
    body=st.binary(max_size=60) | st.lists(plain_values(), max_size=14).map(msgspec.msgpack.encode),
)
def test_any_bytes_are_a_document_or_corrupt(name, head, body):
    for layout in (LAYOUTS[name], BARE[name]):
        for call in (layout.decode, lambda doc, layout=layout: layout.decode_many([doc])):
            try:
                seen = call(head + body)
            except Corrupt:
                continue
            layout.encode(seen[0] if isinstance(seen, list) else seen)


@pytest.mark.parametrize("name", ["far", "int"])
@given(data=st.data())
def test_a_damaged_document_is_read_or_corrupt(name, data):
    layout = LAYOUTS[name]
    doc = bytearray(layout.encode(data.draw(MADE[name][2])))
    place = data.draw(st.integers(0, len(doc) - 1))
    doc[place] ^= data.draw(st.integers(1, 255))
    for damaged in (bytes(doc), bytes(doc[:place])):
        try:
            layout.decode(damaged)
        except Corrupt:
            continue
