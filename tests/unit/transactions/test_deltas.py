"""Sums are exact whatever is added, in whatever order it is taken back."""

from decimal import Decimal, localcontext

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneread.errors import Corrupt, LimitExceeded
from oneread.transactions.deltas import (
    Delta,
    add_to_row,
    amounts_by_row,
    decode_amounts,
    difference,
    encode_amounts,
    exact_number,
    from_wire,
    to_wire,
)

numbers = (
    st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False).map(Decimal)
    | st.decimals(allow_nan=False, allow_infinity=False, places=30, min_value=-(10**30), max_value=10**30)
)


@given(st.lists(numbers, max_size=8), st.randoms(use_true_random=False))
def test_what_is_added_and_taken_back_leaves_exactly_nothing(amounts, order):
    steps = [(amount, sign) for amount in amounts for sign in (1, -1)]
    order.shuffle(steps)
    delta = Delta()
    with localcontext() as context:
        context.prec = 2
        for amount, sign in steps:
            delta.add([sign, amount], 1 if sign > 0 else -1) if sign > 0 else delta.add([1, amount], -1)
    assert not any(delta.amounts)


@given(st.lists(numbers | st.none(), max_size=5))
def test_numbers_come_back_from_a_row_as_they_went(amounts):
    packed = msgspec.msgpack.decode(msgspec.msgpack.encode(to_wire(amounts)))
    assert from_wire(packed) == amounts
    assert decode_amounts(encode_amounts([amount or 0 for amount in amounts])) == [amount or 0 for amount in amounts]


def test_a_row_without_contributions_is_removed():
    delta = Delta()
    delta.add([1, Decimal("0.1"), None], 1)
    row = delta.onto(None)
    assert decode_amounts(row) == [1, Decimal("0.1"), 0]
    back = Delta()
    back.add([1, Decimal("0.1"), None], -1)
    assert back.onto(row) is None


@given(st.lists(st.lists(numbers | st.none(), min_size=1, max_size=4), min_size=1, max_size=4))
def test_a_row_that_is_added_to_has_the_sums_of_all(contributions):
    row, whole = None, Delta()
    for amounts in contributions:
        delta = Delta()
        delta.add([1, *amounts], 1)
        whole.add([1, *amounts], 1)
        row = delta.onto(row)
        assert decode_amounts(row) == whole.amounts


@given(st.lists(st.tuples(numbers | st.none(), numbers | st.none(), numbers), max_size=4), st.booleans())
def test_a_difference_adds_what_both_contributions_add(values, has_same):
    before, after, others = [1], [1], [7]
    for was, now, stored in values:
        before.append(was)
        after.append(was if has_same else now)
        others.append(stored)
    recorded = msgspec.msgpack.decode(msgspec.msgpack.encode(to_wire(before)))
    one = amounts_by_row([(b"k", difference(recorded, to_wire(after)), 1)])
    both = amounts_by_row([(b"k", before, -1), (b"k", after, 1)])
    assert one == both
    assert bool(one) <= (not has_same)
    row = encode_amounts(others)
    for added in one.values():
        assert decode_amounts(add_to_row(row, added)) == decode_amounts(add_to_row(row, both[b"k"]))


def test_a_number_that_cannot_be_read_is_not_added_to():
    delta = Delta()
    delta.add([1, Decimal(2)], 1)
    with pytest.raises(Corrupt):
        delta.onto(msgspec.msgpack.encode([1, "two"]))


def test_a_row_grows_by_a_number_that_it_did_not_have():
    first, second = Delta(), Delta()
    first.add([1, 5], 1)
    second.add([1, 5, 7], 1)
    assert decode_amounts(second.onto(first.onto(None))) == [2, 10, 7]


@pytest.mark.parametrize("number", [None, 0, 2**100, True])
def test_absent_values_and_ints_are_summed_as_they_are(number):
    assert exact_number(number) == number


@pytest.mark.parametrize("number", ["inf", "nan", "1e1201", "1e-1201", "1" * 1300])
def test_what_cannot_be_summed_exactly_is_refused(number):
    with pytest.raises(LimitExceeded) as refusal:
        exact_number(Decimal(number))
    assert "value" in refusal.value.facts


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b"\x91\xa3abc", msgspec.msgpack.encode([msgspec.msgpack.Ext(9, b"x")]), b"\x05"]
)
def test_a_row_that_is_none_of_ours_is_corrupt(data):
    with pytest.raises(Corrupt):
        decode_amounts(data)
