"""The order of keys is the order of values, for every kind, direction and range; hostile bytes are refused."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from oneread.encoding import ordered
from oneread.encoding.codec import Codec, KeyElement
from oneread.encoding.ranges import KeyBounds, prefix_range
from oneread.encoding.values import complement, take_value
from oneread.errors import Corrupt
from tests.unit.encoding.plain import decode, encode

TEXT = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    st.text(st.sampled_from("\x00\x01\x02ae\u0301\u00e9\U0001f600\uffff"), max_size=6),
)
BYTES = st.one_of(st.binary(max_size=6), st.lists(st.sampled_from([0, 1, 2, 254, 255]), max_size=6).map(bytes))
INTS = st.one_of(
    st.integers(),
    st.integers(-3, 1100),
    st.builds(
        lambda bits, step, sign: sign * (2**bits + step),
        st.integers(0, 2200),
        st.integers(-2, 2),
        st.sampled_from([1, -1]),
    ),
)
DECIMALS = st.one_of(
    st.decimals(allow_nan=False, allow_infinity=False),
    st.decimals(-1000, 1000, places=2),
    st.builds(lambda digits, exponent: Decimal(digits).scaleb(exponent), st.integers(-120, 120), st.integers(-30, 30)),
)
ZONES = st.integers(-23, 23).map(lambda hours: timezone(timedelta(hours=hours)))
KINDS = {
    "bool": (bool, st.booleans()),
    "int": (int, INTS),
    "float": (float, st.floats(allow_nan=False)),
    "Decimal": (Decimal, DECIMALS),
    "str": (str, TEXT),
    "bytes": (bytes, BYTES),
    "date": (date, st.dates()),
    "datetime": (
        datetime,
        st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=ZONES),
    ),
    "timedelta": (timedelta, st.timedeltas()),
    "UUID": (UUID, st.uuids()),
}
SCALARS = st.one_of(*(values for _, values in KINDS.values()))
ANYTHING = st.recursive(st.none() | SCALARS, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=8)


def sign(one, other):
    return (one > other) - (one < other)


@st.composite
def shapes(draw):
    """A declared key of up to three elements, its codec, and a strategy of its tuples."""
    elements, strategies = [], []
    for number in range(draw(st.integers(1, 3))):
        kind, values = KINDS[draw(st.sampled_from(sorted(KINDS)))]
        none = draw(st.sampled_from([None, "first", "last"]))
        elements.append(KeyElement(f"f{number}", kind, descending=draw(st.booleans()), none=none))
        strategies.append(values if none is None else st.none() | values)
    return Codec(tuple(elements)), st.tuples(*strategies)


def compare(elements, one, other):
    """The order two tuples must have, by the declaration and Python's own comparison."""
    for element, left, right in zip(elements, one, other, strict=False):
        if left is None or right is None:
            order = (left is None) - (right is None)
            order = order if element.none == "last" else -order
        else:
            order = -sign(left, right) if element.descending else sign(left, right)
        if order:
            return order
    return sign(len(one), len(other))


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
def test_keys_of_one_kind_sort_as_the_values_in_both_directions(name, data):
    kind, values = KINDS[name]
    one, other = data.draw(values), data.draw(values)
    key, other_key = encode((one,)), encode((other,))
    assert sign(key, other_key) == sign(one, other)
    assert sign(encode((one,), descending=(0,)), encode((other,), descending=(0,))) == sign(other, one)
    (back,) = decode(key)
    assert back == one
    assert type(back) is kind
    assert key == other_key or not key.startswith(other_key)


@given(st.data())
def test_keys_of_declared_elements_sort_as_declared(data):
    codec, tuples = data.draw(shapes())
    one, other = data.draw(tuples), data.draw(tuples)
    shared = data.draw(st.integers(0, len(one)))
    other = one[:shared] + other[shared:]  # ties in the first elements are where the later ones matter
    assert sign(codec.encode(one), codec.encode(other)) == compare(codec.elements, one, other)
    part = data.draw(st.integers(0, len(one)))
    assert sign(codec.encode(one[:part]), codec.encode(other)) == compare(codec.elements, one[:part], other)


@given(st.data())
def test_both_faces_write_the_same_bytes_and_read_them_back(data):
    codec, tuples = data.draw(shapes())
    values = data.draw(tuples)
    key = codec.encode(values)
    positions = range(len(values))
    descending = [position for position in positions if codec.elements[position].descending]
    none_last = [position for position in positions if codec.elements[position].none == "last"]
    assert key == encode(values, descending=descending, none_last=none_last)
    assert key == b"".join(codec.parts[position].put(values[position]) for position in positions)
    assert codec.decode(key) == values == decode(key)
    assert [type(value) for value in codec.decode(key)] == [type(value) for value in values]
    lead, tail = data.draw(st.binary(max_size=3)), data.draw(st.binary(max_size=3))
    assert codec.decode_prefix(lead + key + tail, len(lead)) == (values, len(lead + key))


@given(st.lists(ANYTHING, max_size=3).map(tuple), st.sets(st.integers(0, 2)))
def test_any_tuple_comes_back_and_is_the_beginning_of_no_other(values, descending):
    key = encode(values, descending=descending)
    assert ordered.encode(values) == encode(values)
    assert decode(key) == values
    for value in decode(key):
        assert getattr(value, "tzinfo", None) in (None, UTC)


@given(
    st.lists(st.tuples(TEXT, INTS, st.none() | DECIMALS), min_size=2, max_size=2),
    st.sampled_from([False, True]),
)
def test_nested_tuples_sort_as_tuples(pair, descending):
    def python(value):
        return value[0], value[1], value[2] is not None, value[2] or 0

    one, other = pair
    direction = (1,) if descending else ()
    keys = [encode((0, (value[:2], value[2]), ""), descending=direction) for value in pair]
    expected = sign(python(one), python(other))
    assert sign(*keys) == (-expected if descending else expected)


@given(st.lists(st.lists(TEXT | INTS, max_size=3).map(tuple), max_size=8), st.sets(st.integers(0, 2)), st.data())
def test_a_prefix_range_holds_exactly_the_tuples_with_that_prefix(rows, descending, data):
    prefix = data.draw(st.sampled_from(rows))[:2] if rows else ()
    inside = prefix_range(encode(prefix, descending=descending))
    for row in rows:
        assert (encode(row, descending=descending) in inside) == (row[: len(prefix)] == prefix)


BOUNDS = {
    "since": lambda value, bound: value >= bound,
    "after": lambda value, bound: value > bound,
    "until": lambda value, bound: value < bound,
    "through": lambda value, bound: value <= bound,
}


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
def test_a_bounded_range_holds_exactly_the_values_between(name, data):
    kind, values = KINDS[name]
    none = data.draw(st.sampled_from([None, "first", "last"]))
    element = KeyElement("b", kind, descending=data.draw(st.booleans()), none=none)
    codec = Codec((KeyElement("a", int), element, KeyElement("c", str)))
    pool = data.draw(st.lists(values, min_size=1, max_size=5))
    names = data.draw(st.sets(st.sampled_from(sorted(BOUNDS)), min_size=1, max_size=2))
    bounds = {name: data.draw(st.sampled_from(pool)) for name in sorted(names)}
    bounded = codec.bounded_range((1,), KeyBounds(**bounds), prefix=b"\xff")
    for group in (0, 1, 2):
        for value in [*pool, *([] if none is None else [None])]:
            between = value is not None and all(BOUNDS[name](value, bound) for name, bound in bounds.items())
            assert (b"\xff" + codec.encode((group, value, "x")) in bounded) == (group == 1 and between)


@pytest.mark.parametrize("name", ["str", "bytes"])
@given(data=st.data())
def test_a_range_of_beginnings_holds_exactly_what_begins_so(name, data):
    kind, values = KINDS[name]
    codec = Codec((KeyElement("a", kind, descending=data.draw(st.booleans()), none="last"), KeyElement("b", int)))
    start, tails = data.draw(values), data.draw(st.lists(values, max_size=4))
    inside = codec.bounded_range((), KeyBounds(), starts_with=start)
    for value in [*tails, *(start + tail for tail in tails), start, start[:-1]]:
        assert (codec.encode((value, 1)) in inside) == value.startswith(start)
    assert codec.encode((None, 1)) not in inside


def directions(data):
    """Which elements of a decodable key descend or hold a None that sorts last, by their first bytes."""
    descending, none_last, offset, position = set(), set(), 0, 0
    while offset < len(data):
        if data[offset] == 0xFE:
            none_last.add(position)
        elif data[offset] >= 0x80:
            descending.add(position)
        _, offset = take_value(data, complement(data), offset)
        position += 1
    return {"descending": descending, "none_last": none_last}


@given(st.one_of(st.binary(max_size=12), st.lists(ANYTHING, max_size=2).map(tuple).map(encode)), st.data())
def test_hostile_bytes_are_corrupt_or_the_one_form_of_a_tuple(key, data):
    if key and data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(key) - 1))
        middle = data.draw(st.binary(max_size=2))
        key = key[:place] + middle + key[place + data.draw(st.integers(0, 2)) :]
    codec, _ = data.draw(shapes())
    try:
        typed = codec.decode(key)
    except Corrupt:
        pass
    else:
        assert codec.encode(typed) == key
    try:
        values = decode(key)
    except Corrupt:
        return
    # Inside a tuple an element may descend by itself, and decode does not say which: such keys have no one form here.
    assume(not any(isinstance(value, tuple) for value in values))
    assert encode(values, **directions(key)) == key
