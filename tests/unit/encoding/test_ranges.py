"""Ranges of bytes: exact ends, empty ranges, and the values that are never between bounds."""

from oneread.encoding.ranges import ByteRange, KeyBounds, bounded_range, prefix_range, successor
from tests.unit.encoding.plain import encode


def test_the_successor_is_the_least_above_everything_with_the_prefix():
    assert successor(b"a") == b"b"
    assert successor(b"a\xff\xff") == b"b"
    assert successor(b"\xff") is None
    assert successor(b"") is None


def test_a_range_without_a_stop_goes_to_the_end():
    everything = prefix_range(b"")
    assert b"" in everything
    assert b"\xff" * 9 in everything
    assert 5 not in everything


def test_a_stop_is_out_and_a_start_is_in():
    bounded = ByteRange(b"b", b"d")
    assert [key in bounded for key in (b"a", b"b", b"c", b"d")] == [False, True, True, False]


def test_an_intersection_of_nothing_is_empty_and_well_formed():
    assert ByteRange(b"c", b"d").intersection(ByteRange(b"a", b"b")) == ByteRange(b"c", b"c")
    assert ByteRange(b"c", None).intersection(ByteRange(b"d", None)) == ByteRange(b"d", None)
    assert ByteRange(b"c", None).intersection(ByteRange(b"a", b"e")) == ByteRange(b"c", b"e")


def test_a_prefix_holds_no_longer_text():
    inside = prefix_range(encode(("a",)))
    assert encode(("a",)) in inside
    assert encode(("a", "b")) in inside
    for outside in (("ab",), ("a\x00",), ("a\x00b", 1), ("a\x01",), ("",), (b"a",), (("a",),)):
        assert encode(outside) not in inside


def test_none_is_between_no_bounds():
    for descending in ((), (1,)):
        for none_last in ((), (1,)):
            none = encode(("a", None), descending=descending, none_last=none_last)
            bounded = bounded_range(encode(("a",)), KeyBounds(), descending=bool(descending))
            assert none not in bounded
            assert encode(("a", 5), descending=descending) in bounded
            assert none in prefix_range(encode(("a",)))


def test_bounds_that_exclude_each_other_hold_nothing():
    prefix, low, high = encode(("a",)), encode((1,)), encode((2,))
    empty = bounded_range(prefix, KeyBounds(since=high, until=low))
    assert empty.start == empty.stop
