"""Sizes: no value of a declared type takes more bytes than its size says, and what is not bounded is named."""

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneread import Key, Model, Ref
from oneread.costs.sizes import OPEN, Size, Sizes, element, greatest
from oneread.encoding.ordered import encode
from oneread.models.types import type_of


class Mood(Enum):
    GLAD = "glad"
    OTHERWISE = "otherwise"


class Point(msgspec.Struct, frozen=True):
    x: float
    name: Annotated[str, msgspec.Meta(max_length=3)]


class Chain(msgspec.Struct, frozen=True):
    next: "Chain | None" = None


class Thing(Model[int]):
    number: Key[int]


SHORT = Annotated[str, msgspec.Meta(max_length=10)]
SMALL = Annotated[int, msgspec.Meta(ge=-5, le=2**20)]
BOUNDED = {
    bool: st.booleans(),
    float: st.floats(allow_nan=False),
    UUID: st.uuids(),
    date: st.dates(),
    time: st.times(),
    datetime: st.datetimes(timezones=st.just(UTC)),
    timedelta: st.timedeltas(),
    SHORT: st.text(max_size=10, alphabet=st.characters(codec="utf-8")),
    SMALL: st.integers(-5, 2**20),
    SHORT | None: st.none() | st.text(max_size=10, alphabet=st.characters(codec="utf-8")),
    Annotated[bytes, msgspec.Meta(max_length=300)]: st.binary(max_size=300),
    Annotated[list[SMALL], msgspec.Meta(max_length=20)]: st.lists(st.integers(-5, 2**20), max_size=20),
    Annotated[dict[SHORT, bool], msgspec.Meta(max_length=5)]: st.dictionaries(
        st.text(max_size=10, alphabet=st.characters(codec="utf-8")), st.booleans(), max_size=5
    ),
    tuple[bool, float]: st.tuples(st.booleans(), st.floats(allow_nan=False)),
    Literal["a", 7]: st.sampled_from(["a", 7]),
    Mood: st.sampled_from(list(Mood)),
    bool | float: st.booleans() | st.floats(allow_nan=False),
    Point: st.builds(Point, x=st.floats(allow_nan=False), name=st.text(max_size=3, alphabet="äb")),
}
_pack = msgspec.msgpack.Encoder(uuid_format="bytes").encode


@given(st.data())
def test_a_value_is_never_larger_than_its_size(data):
    annotation = data.draw(st.sampled_from(list(BOUNDED)))
    value = data.draw(BOUNDED[annotation])
    size = Sizes({}).field(type_of(annotation, {}, Thing, "field"))
    assert size.open == frozenset()
    assert len(_pack(value)) <= size.most
    assert size.typical <= size.most


@pytest.mark.parametrize(
    "annotation", [str, int, bytes, Decimal, list[bool], dict[str, int], Any, Chain, dict], ids=str
)
def test_what_no_declaration_bounds_is_named(annotation):
    size = Sizes({"Chain": Chain}).field(type_of(annotation, {"Chain": Chain}, Thing, "field"))
    assert size.most >= OPEN
    assert size.open
    assert all(name.startswith("Thing.field") for name in size.open)


def test_a_reference_is_as_long_as_a_key():
    assert Sizes({}).field(type_of(Ref[Thing], {})).open == frozenset()
    assert Sizes({"Thing": Thing}).document(Thing).open == frozenset()


KEYS = {
    bool: st.booleans(),
    float: st.floats(allow_nan=False),
    UUID: st.uuids(),
    date: st.dates(),
    datetime: st.datetimes(timezones=st.just(UTC)),
    timedelta: st.timedeltas(),
    Mood: st.sampled_from(list(Mood)),
}


@given(st.data())
def test_an_element_of_a_key_is_never_larger_than_its_size(data):
    kind = data.draw(st.sampled_from(list(KEYS)))
    value = data.draw(KEYS[kind])
    assert len(encode((value,))) <= element(kind).most


@given(st.text(max_size=10, alphabet=st.characters(codec="utf-8")))
def test_text_in_a_key_is_bounded_by_its_characters(text):
    assert len(encode((text,))) <= element(str, (msgspec.Meta(max_length=10),)).most
    assert element(str).most == 200


def test_sizes_add_up():
    one, two = Size(10, 2, frozenset("a")), Size(20, 1)
    assert one.plus(two) == Size(30, 3, frozenset("a"))
    assert one.times(0).open == frozenset()
    assert greatest((one, two)) == Size(20, 2, frozenset("a"))
    assert greatest(()) == Size(0, 0)
    assert one.within(5)[:2] == (5, 2)
