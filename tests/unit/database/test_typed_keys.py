"""The words of a key, as links of pages and command lines have them: read again, they are the same values."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneread.database.typed_keys import WantedType, value, word


class Colour(Enum):
    RED = "r"
    GREEN = 2


KINDS = {
    str: st.text(),
    int: st.integers(),
    bool: st.booleans(),
    float: st.floats(allow_nan=False),
    Decimal: st.decimals(allow_nan=False, allow_infinity=False),
    bytes: st.binary(),
    datetime: st.datetimes(timezones=st.just(UTC)),
    date: st.dates(),
    timedelta: st.timedeltas(timedelta(days=-1000), timedelta(days=100_000)),
    UUID: st.uuids(),
    Colour: st.sampled_from(Colour),
}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_a_word_reads_as_its_value(kind, data):
    stored = data.draw(KINDS[kind])
    read = value(type, WantedType("part", kind), word(stored))
    assert (read, type(read)) == (stored, type(stored))


def test_none_is_a_word_of_its_own():
    assert value(type, WantedType("part", str, optional=True), word(None)) is None
    assert word("@none") == "@@none"
