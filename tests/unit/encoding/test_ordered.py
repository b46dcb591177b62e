"""Tuples and bytes without a declaration: what is refused, by which name, and which bytes are not a key."""

import re
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import MAX_EMAX, MIN_ETINY, Decimal, localcontext
from enum import Enum, IntEnum, StrEnum
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest

from oneread.encoding.ordered import encode
from oneread.encoding.values import DEPTH, digest
from oneread.errors import Corrupt, InvalidKey
from tests.unit.encoding import plain as by_elements
from tests.unit.encoding.plain import decode


class Point(NamedTuple):
    x: int
    y: int


class Colour(Enum):
    RED = "red"


class Size(IntEnum):
    SMALL = 1


class Mood(StrEnum):
    GOOD = "good"


class Text(str):
    __slots__ = ()


def nested(depth):
    value = ()
    for _ in range(depth - 1):
        value = (value,)
    return value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "NaN has no place"),
        (Decimal("NaN"), "NaN and infinite"),
        (Decimal("sNaN"), "NaN and infinite"),
        (Decimal("Infinity"), "NaN and infinite"),
        (datetime(2020, 1, 1), "naive"),
        ("\ud800", "surrogate"),
        (object(), "this type"),
        ([], "this type"),
        (bytearray(b"a"), "this type"),
        (1j, "this type"),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=1))), "outside"),
        (datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))), "outside"),
        (nested(DEPTH + 1), "nest"),
        ((float("nan"),), "NaN has no place"),
    ],
)
def test_what_cannot_be_a_key_is_refused_with_its_position(value, message):
    with pytest.raises(InvalidKey, match=message) as refused:
        encode(("a", value))
    assert refused.value.facts["field"] == "[1]"


def test_a_time_zone_that_knows_no_offset_is_naive():
    class Nowhere(ZoneInfo):
        def utcoffset(self, _when):
            return None

    with pytest.raises(InvalidKey, match="naive"):
        encode((datetime(2020, 1, 1, tzinfo=Nowhere("UTC")),))


@pytest.mark.parametrize(
    ("value", "plain"),
    [(Point(1, 2), (1, 2)), (Colour.RED, "red"), (Size.SMALL, 1), (Mood.GOOD, "good"), (Text("a"), "a")],
)
def test_enums_and_subclasses_are_the_values_they_stand_for(value, plain):
    assert encode((value,)) == encode((plain,))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (-0.0, 0.0),
        (Decimal("1.10"), Decimal("1.1")),
        (Decimal("-0E+5"), Decimal(0)),
        (Decimal("1E+2"), Decimal(100)),
        (datetime(2020, 7, 1, 14, tzinfo=ZoneInfo("Europe/Paris")), datetime(2020, 7, 1, 12, tzinfo=UTC)),
    ],
)
def test_equal_values_have_equal_bytes(one, other):
    assert encode((one,)) == encode((other,))


def test_kinds_that_python_calls_equal_are_different_keys():
    assert len({encode((one,)) for one in (1, 1.0, Decimal(1), True)}) == 4


def test_the_fold_of_a_local_time_is_another_instant():
    paris = ZoneInfo("Europe/Paris")
    first, second = (datetime(2020, 10, 25, 2, 30, tzinfo=paris, fold=fold) for fold in (0, 1))
    assert encode((first,)) < encode((second,))


@pytest.mark.parametrize("text", ["1234567891234567.89", "1.25E-30", "-1.25E+30"])
def test_a_decimal_does_not_depend_on_the_callers_context(text):
    value = Decimal(text)
    expected = encode((value,))
    with localcontext() as context:
        context.prec, context.capitals, context.Emax = 2, 0, 1
        assert encode((value,)) == expected
        (back,) = decode(expected)
    assert back == value


def test_whole_decimals_come_back_without_an_exponent_while_they_are_short():
    assert str(decode(encode((Decimal("1E+27"),)))[0]) == "1" + "0" * 27
    assert str(decode(encode((Decimal("1E+28"),)))[0]) == "1E+28"


@pytest.mark.parametrize(
    "value", [Decimal(f"1E{MAX_EMAX}"), Decimal(f"-9.9E{MAX_EMAX}"), Decimal(f"1E{MIN_ETINY}"), Decimal("7" * 5000)]
)
def test_decimals_at_the_ends_of_their_range_come_back(value):
    assert decode(encode((value,))) == (value,)


@pytest.mark.parametrize("bits", [63, 64, 65, 8 * 247, 8 * 247 + 1, 8 * 255, 8 * 256, 8 * 65536])
def test_ints_where_their_length_grows_sort_and_come_back(bits):
    numbers = [sign * (2**bits + step) for sign in (-1, 1) for step in (-1, 0, 1)]
    keys = [encode((number,)) for number in sorted(numbers)]
    assert keys == sorted(keys)
    assert [decode(key)[0] for key in keys] == sorted(numbers)


def test_the_length_of_a_very_long_int_has_a_length():
    assert encode((2 ** (8 * 247),)).hex() == "1df8f801" + "00" * 247
    assert encode((-(2 ** (8 * 247)),)).hex() == "0b0707fe" + "ff" * 247


def test_none_is_first_or_last_whatever_the_direction():
    values = ["", "\U0010ffff", b"\xff", -(2**99), (None,), timedelta.max, date.max]
    for descending in ((), (0,)):
        keys = [by_elements.encode((value,), descending=descending) for value in values]
        assert by_elements.encode((None,), descending=descending) < min(keys)
        assert by_elements.encode((None,), descending=descending, none_last=(0,)) > max(keys)
    assert decode(by_elements.encode((None, None), none_last=(1,))) == (None, None)


def test_concatenated_keys_are_concatenated_tuples():
    one, two = ("a", None), (Decimal("1.5"), (1,))
    assert decode(encode(one) + by_elements.encode(two, descending=(0, 1))) == one + two


NOT_KEYS = {
    "an end without a tuple": "00",
    "an unknown tag": "05",
    "the middle of the tags": "7f",
    "its complement": "80",
    "the highest byte": "ff",
    "a text without an end": "0361",
    "text that is not UTF-8": "03ff00",
    "a surrogate in UTF-8": "03eda08000",
    "an escape of nothing": "030103610000",
    "an escape cut off": "020100",
    "a tuple without an end": "0414",
    "a leading zero in an int": "1500",
    "a leading zero in a negative int": "13ff",
    "a torn int": "1601",
    "a long int that is short": "1d08ffffffffffffffff",
    "a long int with a leading zero": "1d0900ffffffffffffffff",
    "a long length that is short": "1df8f7" + "01" * 247,
    "a long length with a leading zero": "1df90001" + "01" * 256,
    "a length beyond the data": "1dffffffffffffffffff01",
    "a negative length beyond the data": "0b000000000000000001",
    "-0.0": "217fffffffffffffff",
    "NaN": "21fff8000000000000",
    "a torn float": "218000",
    "a Decimal without digits": "251400",
    "a Decimal that begins with 0": "25141200",
    "a Decimal that ends with 0": "25142100",
    "a Decimal with a nibble of no digit": "2514b0",
    "a Decimal whose digits do not end": "251422",
    "a Decimal with a zero nibble within": "25140200",
    "a Decimal with an exponent that is not an int": "25032000",
    "a Decimal with an exponent too great": "251cffffffffffffffff20",
    "a Decimal with an exponent too small": "250c000000000000000020",
    "a torn UUID": "30" + "00" * 15,
    "day 0": "31000000",
    "a day after the last": "31ffffff",
    "an instant before the first": "320000000000000000",
    "an instant after the last": "32ffffffffffffffff",
    "a timedelta too long": "331d09ffffffffffffffffff",
    "a timedelta longer than anything": "331d80" + "ff" * 128,
    "a timedelta of no int": "330300",
    "tuples too deep": "04" * 100_000,
}


@pytest.mark.parametrize("key", NOT_KEYS.values(), ids=NOT_KEYS.keys())
def test_bytes_that_are_not_a_key_are_corrupt_in_both_directions(key):
    data = bytes.fromhex(key)
    for hostile in (data, bytes(255 - byte for byte in data)):
        with pytest.raises(Corrupt) as refused:
            decode(hostile)
        assert not re.search(r"\d", refused.value.message)


def test_a_digest_is_sixteen_bytes_of_blake2b():
    assert digest(b"").hex() == "cae66941d9efbd404e4d88758ea67670"
