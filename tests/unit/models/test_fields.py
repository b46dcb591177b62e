"""UUIDs of version 7: the RFC's example, the bits in their places, and the order."""

from uuid import RFC_4122

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneread.errors import UsageError
from oneread.models.fields import uuid7

MILLISECONDS = st.integers(0, 2**48 - 1)
RANDOM = st.integers(0, 2**74 - 1)


def test_the_example_of_the_rfc():
    made = uuid7(0x017F22E279B0, 0xCC3 << 62 | 0x18C4DC0C0C07398F)
    assert str(made) == "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"


@given(MILLISECONDS, RANDOM)
def test_every_bit_is_in_its_place(milliseconds, random):
    made = uuid7(milliseconds, random)
    assert (made.version, made.variant) == (7, RFC_4122)
    assert made.int >> 80 == milliseconds
    assert (made.int >> 64 & 0xFFF) << 62 | made.int & (1 << 62) - 1 == random


@given(RANDOM, RANDOM)
def test_a_later_instant_makes_a_greater_uuid(random, other):
    assert uuid7(5, random) < uuid7(6, other)


@pytest.mark.parametrize("wrong", [(-1, 0), (2**48, 0), (0, -1), (0, 2**74)])
def test_numbers_out_of_range_are_refused(wrong):
    with pytest.raises(UsageError, match="out of its range"):
        uuid7(*wrong)
