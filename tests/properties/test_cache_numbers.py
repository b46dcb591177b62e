"""The numbers of a cache: a reader of a range looks at one that the writer of any row of the range changes."""

from hypothesis import given
from hypothesis import strategies as st

from oneread.encoding.codec import Codec, KeyElement
from oneread.encoding.ordered import encode
from oneread.encoding.ranges import KeyBounds, prefix_range
from oneread.plans.cache_numbers import EVERY_ELEMENT, NEVER_CACHED, NumberNames
from oneread.store.rows import RowRange

TYPES = {int: st.integers(-3, 300), str: st.text("ab\0\1\xff", max_size=3), bytes: st.binary(max_size=3)}
PREFIX = b"\0\5\0\1"


@st.composite
def keys(draw):
    """A codec, values of several of its keys, and how many elements a range gives."""
    kinds = draw(st.lists(st.sampled_from([*TYPES]), min_size=1, max_size=3))
    elements = [KeyElement(f"f{place}", kind, descending=draw(st.booleans())) for place, kind in enumerate(kinds)]
    values = draw(st.lists(st.tuples(*(TYPES[kind] for kind in kinds)), min_size=1, max_size=6))
    return Codec(tuple(elements)), values, draw(st.integers(0, len(kinds)))


@given(
    keys(), st.integers(0, 4), st.sampled_from(["whole", "behind", "before", "bounded"]),
    st.binary(max_size=2), st.integers(0, 4),
)  # fmt: skip
def test_the_writer_of_each_row_of_a_range_changes_the_number_of_the_range(found, depth, form, behind, more):
    codec, several, width = found
    readers = NumberNames(lambda _table, _prefix: depth)
    writers = [readers, NumberNames(lambda _table, _prefix: depth + more), NumberNames(lambda *_: EVERY_ELEMENT)]
    rows = [PREFIX + codec.encode(values) + behind for values in several]
    given_values = several[0][:width]
    start, stop = prefix_range(PREFIX + codec.prefix_encoder(width)(given_values))
    if form == "behind":
        start = max(start, rows[-1] + b"\0")
    elif form == "before":
        stop = min(stop or rows[-1], rows[-1])
    elif form == "bounded" and width < len(codec.elements):
        start, stop = codec.bounded_range(given_values, KeyBounds(since=several[-1][width]), prefix=PREFIX)
    within = RowRange(start, stop or b"")
    number = readers.of_range("views", within)
    assert number is not None or start[:4] != PREFIX
    for row in rows:
        if within.start <= row < within.stop:
            for writer in writers:
                assert number in writer.of_written("views", row)
        for writer in writers:
            assert readers.of_key("views", row) in writer.of_written("views", row)


def names_of(*values, depth=EVERY_ELEMENT):
    return NumberNames(lambda _table, _prefix: depth).of_written("views", PREFIX + encode(values))


def test_each_prefix_of_a_key_has_a_number_of_its_own():
    assert len(set(names_of(1, "a", 2))) == 4
    assert names_of(1, "a", 2)[:3] == names_of(1, "a", 3)[:3]
    assert names_of(1, "a", 2)[3] != names_of(1, "a", 3)[3]
    assert names_of(1, "a", 2, depth=1) == names_of(1, "a", 2)[:2]
    assert names_of(1, "a", 2, depth=NEVER_CACHED) == []


def test_tables_are_apart_and_system_has_no_numbers():
    names = NumberNames(lambda _table, _prefix: 1)
    assert names.of_written("views", PREFIX) != names.of_written("counts", PREFIX)
    assert names.of_written("system", PREFIX) == []
    assert names.of_key("system", PREFIX) is None
    assert names.of_range("system", RowRange.under(PREFIX)) is None
    assert names.of_range("views", RowRange.under(b"\0")) is None


def test_a_range_over_several_views_has_no_number():
    names = NumberNames(lambda _table, _prefix: 1)
    assert names.of_range("views", RowRange(PREFIX, b"")) is None
    assert names.of_range("views", RowRange(PREFIX, b"\0\6\0\1")) is None
