"""Declared keys: the types they take, the errors that name the field, and the same bytes as without a declaration."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, Flag, IntEnum, IntFlag, StrEnum
from uuid import UUID

import pytest

from oneread.encoding.codec import Codec, KeyElement
from oneread.encoding.ranges import KeyBounds
from oneread.errors import Corrupt, InvalidDeclaration, InvalidKey
from tests.unit.encoding.plain import encode


class Colour(Enum):
    RED = "red"
    CRIMSON = "red"  # noqa: PIE796  an alias
    BLUE = 2
    PAIR = (1, "x")


class Size(IntEnum):
    SMALL = 1


class Mood(StrEnum):
    GOOD = "good"


class Right(IntFlag):
    READ = 1
    WRITE = 2


class Text(str):
    __slots__ = ()


class Pair(tuple):
    __slots__ = ()


VALUES = {
    bool: True,
    int: 5,
    float: 1.5,
    Decimal: Decimal("1.5"),
    str: "a",
    bytes: b"a",
    date: date(2020, 1, 1),
    datetime: datetime(2020, 1, 1, tzinfo=UTC),
    timedelta: timedelta(1),
    UUID: UUID(int=1),
    tuple: (1, ("a", None)),
    Colour: Colour.BLUE,
}
FORMS = [{"descending": descending, "none": none} for descending in (False, True) for none in (None, "first", "last")]


def one(kind, **options):
    return Codec((KeyElement("field", kind, **options),))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", VALUES)
def test_a_field_takes_its_type_and_refuses_every_other_by_name(kind, form):
    codec = one(kind, **form)
    for other, value in VALUES.items():
        if other is kind or (kind is float and other is int):
            continue
        with pytest.raises(InvalidKey, match="declared type") as refused:
            codec.encode((value,))
        assert refused.value.facts["field"] == "field"
    value = VALUES[kind]
    key = codec.encode((value,))
    assert key == codec.parts[0].put(value)
    assert key == encode((value,), descending=(0,) if form["descending"] else ())
    (decoded,) = codec.decode(key)
    assert decoded == value
    assert type(decoded) is type(value)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", VALUES)
def test_a_field_reads_no_other_types_element(kind, form):
    codec = one(kind, **form)
    descending = (0,) if form["descending"] else ()
    for other, value in VALUES.items():
        if other is not kind and Colour not in (kind, other):  # a member is its value, an int here
            with pytest.raises(Corrupt):
                codec.decode(encode((value,), descending=descending))
            with pytest.raises(Corrupt):
                codec.decode_prefix(b"x" + encode((value,), descending=descending), 1)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", VALUES)
def test_none_goes_where_it_is_declared_and_is_refused_elsewhere(kind, form):
    codec = one(kind, **form)
    if form["none"] is None:
        with pytest.raises(InvalidKey, match="None has no place") as refused:
            codec.encode((None,))
        assert refused.value.facts == {"field": "field"}
        for foreign in (b"\x01", b"\xfe"):
            with pytest.raises(Corrupt):
                codec.decode(foreign)
    else:
        key = codec.encode((None,))
        assert key == {"first": b"\x01", "last": b"\xfe"}[form["none"]]
        assert codec.decode(key) == (None,)
        with pytest.raises(Corrupt):
            codec.decode({"first": b"\xfe", "last": b"\x01"}[form["none"]])


@pytest.mark.parametrize(
    ("kind", "value", "plain"),
    [(str, Text("a\0"), "a\0"), (str, Mood.GOOD, "good"), (int, Size.SMALL, 1), (tuple, Pair((1, 2)), (1, 2))],
)
def test_a_subclass_is_taken_for_what_it_extends(kind, value, plain):
    assert one(kind).encode((value,)) == encode((plain,))


def test_an_int_is_a_float_if_it_is_one_exactly():
    codec = one(float)
    assert codec.encode((2**60,)) == encode((2.0**60,))
    for inexact in (2**53 + 1, 10**400):
        with pytest.raises(InvalidKey, match="exact") as refused:
            codec.encode((inexact,))
        assert refused.value.facts["field"] == "field"
    with pytest.raises(InvalidKey, match="declared type"):
        codec.encode((True,))


@pytest.mark.parametrize(
    ("kind", "value"),
    [(float, float("nan")), (Decimal, Decimal("inf")), (str, "a\ud800"), (datetime, datetime(2020, 1, 1))],
)
def test_what_cannot_be_a_key_is_refused_with_the_fields_name(kind, value):
    for form in FORMS:
        with pytest.raises(InvalidKey) as refused:
            one(kind, **form).encode((value,))
        assert refused.value.facts["field"] == "field"


def test_members_come_back_as_members():
    codec = one(Colour, descending=True)
    for member in Colour:
        assert codec.decode(codec.encode((member,)))[0] is member
    with pytest.raises(Corrupt, match="no member"):
        codec.decode(encode((3,), descending=(0,)))
    with pytest.raises(InvalidKey, match="declared type"):
        codec.encode((Mood.GOOD,))


def test_flags_combine():
    codec = one(Right)
    for value in (Right.READ, Right.READ | Right.WRITE, Right(0), Right(64)):
        assert codec.decode(codec.encode((value,))) == (value,)
    with pytest.raises(Corrupt, match="no member"):
        codec.decode(encode((-1,)))


def test_strict_flags_refuse_combinations_they_do_not_have():
    class Strict(Flag):
        ONE = 1

    with pytest.raises(Corrupt, match="no member"):
        one(Strict).decode(encode((64,)))


def test_a_declaration_that_cannot_work_is_refused():
    class Odd(Enum):
        LIST = []  # noqa: RUF012  the point is that a list is not a key

    with pytest.raises(InvalidDeclaration, match="type") as refused:
        one(list)
    assert refused.value.facts == {"field": "field", "type": list}
    with pytest.raises(InvalidDeclaration, match="member") as refused:
        one(Odd)
    assert refused.value.facts["field"] == "field"
    with pytest.raises(InvalidDeclaration, match="same name"):
        Codec((KeyElement("a", str), KeyElement("a", int)))


def test_too_long_a_key_names_its_longest_element():
    codec = Codec((KeyElement("a", str), KeyElement("b", int)), max_length=10)
    assert len(codec.encode(("a" * 6, 1))) == 10
    with pytest.raises(InvalidKey, match="longer") as refused:
        codec.encode(("a" * 7, 1))
    assert refused.value.facts == {"field": "a", "length": 11, "limit": 10}


def test_too_long_an_element_is_named_even_when_the_key_is_not_too_long():
    codec = Codec((KeyElement("a", str, max_length=5), KeyElement("b", str)), max_length=100)
    assert codec.encode(("aaa", "b" * 50)) == encode(("aaa", "b" * 50))
    with pytest.raises(InvalidKey, match="too long") as refused:
        codec.encode(("aaaa", "b"))
    assert refused.value.facts == {"field": "a", "length": 6, "limit": 5}


def test_a_key_is_a_tuple_of_no_more_than_its_elements():
    codec = Codec((KeyElement("a", str), KeyElement("b", str)))
    assert codec.encode(()) == b""
    assert codec.encode(("a",)) == encode(("a",))
    for wrong in ("ab", ["a", "b"]):
        with pytest.raises(InvalidKey, match="tuple"):
            codec.encode(wrong)
    with pytest.raises(InvalidKey, match="more values"):
        codec.encode(("a", "b", "c"))


def test_a_prefix_has_an_encoder_of_its_own_with_the_same_bytes_and_errors():
    codec = Codec((KeyElement("a", str), KeyElement("b", int), KeyElement("c", str)), max_length=10)
    for count, values in ((0, ()), (1, ("a\0",)), (2, (Text("a"), -1)), (3, ("a", 1, "c"))):
        encoder = codec.prefix_encoder(count)
        assert encoder(values) == codec.encode(values)
        assert codec.prefix_encoder(count) is encoder
    with pytest.raises(InvalidKey, match="longer"):
        codec.prefix_encoder(1)(("a" * 9,))
    with pytest.raises(InvalidKey, match="declared type"):
        codec.prefix_encoder(1)((1,))
    with pytest.raises(InvalidKey, match="more values"):
        codec.prefix_range(("a", 1, "c", "d"))


def test_a_key_without_elements_is_empty():
    codec = Codec(())
    assert codec.encode(()) == b""
    assert codec.decode(b"") == ()
    assert codec.decode_prefix(b"rest") == ((), 0)
    for offset in (-1, 5):
        with pytest.raises(Corrupt, match="outside"):
            codec.decode_prefix(b"rest", offset)
        with pytest.raises(Corrupt, match="outside"):
            one(int, none="first").decode_prefix(b"\x01\x01\x01", offset)


def test_a_key_is_read_behind_raw_bytes_and_before_others():
    codec = Codec((KeyElement("a", str), KeyElement("b", int), KeyElement("at", datetime, descending=True)))
    values = ("x\0y", 300, datetime(2020, 1, 1, tzinfo=UTC))
    lead, tail = b"\x00\xff", b"\x00source key"
    key = lead + codec.encode(values) + tail
    decoded, end = codec.decode_prefix(key, len(lead))
    assert (decoded, key[end:]) == (values, tail)
    with pytest.raises(Corrupt, match="follow"):
        codec.decode(codec.encode(values) + b"x")
    for offset in (-1, len(key) + 1):
        with pytest.raises(Corrupt):
            codec.decode_prefix(key, offset)


@pytest.mark.parametrize("kind", VALUES)
def test_a_torn_key_is_corrupt_wherever_it_is_torn(kind):
    for form in FORMS:
        codec = Codec((KeyElement("a", kind, **form), KeyElement("b", kind)))
        key = codec.encode((VALUES[kind], VALUES[kind]))
        for length in range(len(key)):
            with pytest.raises(Corrupt):
                codec.decode(key[:length])


def test_bytes_that_the_fast_path_must_not_believe_are_corrupt():
    for kind, hostile in (
        (str, "03ff00"),
        (str, "03010300"),
        (bytes, "020103"),
        (int, "1500"),
        (int, "1601"),
        (int, "13ff"),
    ):
        with pytest.raises(Corrupt):
            one(kind).decode(bytes.fromhex(hostile))
        with pytest.raises(Corrupt):
            one(kind).decode_prefix(bytes.fromhex(hostile))


def test_a_prefix_range_is_that_of_its_values():
    codec = Codec((KeyElement("a", str), KeyElement("b", int)))
    inside = codec.prefix_range(("a",), prefix=b"\x07")
    assert b"\x07" + codec.encode(("a", 1)) in inside
    assert b"\x07" + codec.encode(("ab", 1)) not in inside


def test_bounds_are_checked_as_values_are():
    codec = Codec((KeyElement("a", str), KeyElement("b", int)))
    with pytest.raises(InvalidKey, match="declared type") as refused:
        codec.bounded_range(("a",), KeyBounds("x"))
    assert refused.value.facts["field"] == "b"
    with pytest.raises(InvalidKey, match="no element is left"):
        codec.bounded_range(("a", 1), KeyBounds(1))
    with pytest.raises(InvalidKey, match="start with"):
        codec.bounded_range(("a",), KeyBounds(), starts_with="1")
    with pytest.raises(InvalidKey, match="start with"):
        codec.bounded_range((), KeyBounds(), starts_with=b"a")
