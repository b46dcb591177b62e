"""Sums of heat are the same in whatever order they are added, and stay when cells are folded."""

import random
from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneread.heat.axis import PLACES, AxisPlaces
from oneread.heat.cells import (
    HOT_KEYS,
    OTHER,
    PAGES,
    STORED_CELLS,
    Amounts,
    CellKey,
    EndCount,
    HeatDetails,
    HotCount,
    PageCount,
    SlowCount,
    bounded,
    cells_of,
    decode_sums,
    encode_sums,
    merge,
    packed,
)
from oneread.heat.counts import HOT_OF_ALL, RANGES, CallRecord, HeatCounts, RecordingReads, Touched

AMOUNTS = st.builds(Amounts, *[st.integers(0, 1 << 40)] * 5)
KEYS = st.builds(
    CellKey,
    st.sampled_from(["roots", "views", "counts"]),
    st.binary(min_size=4, max_size=6),
    st.booleans(),
    st.sampled_from(["get", "save"]),
    st.sampled_from(["Vote", ""]),
)
CELLS = st.dictionaries(KEYS, AMOUNTS, max_size=20)


def whole(cells):
    return [sum(column) for column in zip(*[*cells.values(), Amounts()], strict=True)]


def stored(cells, chance):
    hot = [HotCount("roots", bytes([chance.randrange(9)]), 9, 1, chance.choice(["read", "write", "lost"]))]
    slow = [SlowCount(chance.randrange(1000), 5, "p", "get", "Vote", 1, 1)]
    ends = [EndCount("views", bytes([chance.randrange(2)]), 9, chance.randrange(9))]
    pages = [PageCount("ab"[chance.randrange(2)], *[chance.randrange(9) for _ in range(3)])]
    return packed(cells, HeatDetails(hot, slow, ends, pages), sampled=chance.random(), processes=chance.randrange(5))


@given(st.lists(CELLS, min_size=1, max_size=4), st.randoms(use_true_random=False), st.booleans())
def test_any_order_has_one_sum(every, chance, of_one_time):
    rows = [stored(cells, chance) for cells in every]
    found = {encode_sums(merge(order, of_one_time=of_one_time)) for order in permutations(rows)}
    assert len(found) == 1
    merged = decode_sums(found.pop())
    assert whole(dict(cells_of(merged))) == [sum(column) for column in zip(*map(whole, every), strict=True)]
    if of_one_time:
        nested = merge([merge(rows[:1], of_one_time=True), *rows[1:]], of_one_time=True)
        assert nested == merged


@given(CELLS, st.integers(1, 20))
def test_folding_keeps_sums(cells, most):
    found = bounded(cells, most)
    assert whole(found) == whole(cells)
    assert found == bounded(dict(reversed(cells.items())), most)
    if len(cells) <= most:
        assert found is cells


def test_the_hottest_are_kept_apart_and_the_rest_is_of_its_declaration():
    cells = {CellKey("views", b"\0\1\0\1%d" % number, True, "save", "Vote"): Amounts(number) for number in range(3000)}
    found = bounded(cells, STORED_CELLS)
    assert len(found) == STORED_CELLS // 2 + 1
    other = found[CellKey("views", b"\0\1\0\1", True, OTHER, "")]
    assert other.requests == sum(range(3000 - STORED_CELLS // 2))


def test_too_many_declarations_are_one():
    cells = {
        CellKey("views", (number + (1 << 24)).to_bytes(4, "big"), True, "save", "Vote"): Amounts(1)
        for number in range(1, 3000)
    }
    found = bounded(cells, STORED_CELLS)
    assert len(found) <= STORED_CELLS
    assert found[CellKey("system", b"", True, OTHER, "")].requests > 1500


def test_the_format_stays():
    cells = {CellKey("roots", b"\0\1\x15\7", True, "save", "Vote"): Amounts(1, 2, 3, 4, 5)}
    hot = [HotCount("roots", b"\0\1\x15\7", 9, 1, "write")]
    slow = [SlowCount(7, 8, "1-a", "save", "Vote", 1, 2)]
    ends = [EndCount("roots", b"\0\1", 6, 5)]
    stored = encode_sums(packed(cells, HeatDetails(hot, slow, ends), sampled=0.5, processes=1))
    assert stored.hex() == (
        "87a773616d706c6564cb3fe0000000000000a970726f63657373657301a66361757365739192a473617665a4566f7465"
        "a563656c6c739199a5726f6f7473c40400011507c3000102030405"
        "a3686f749195a5726f6f7473c404000115070901a57772697465a4736c6f7791970708a3312d61a473617665a4566f74650102"
        "a4656e64739194a5726f6f7473c40200010605"
    )
    pages = [PageCount("Vote", 2, 3, 40)]
    with_pages = encode_sums(packed(cells, HeatDetails(hot, slow, ends, pages), sampled=0.5, processes=1))
    assert with_pages.hex() == "88" + stored.hex()[2:] + "a570616765739194a4566f7465020328"
    assert decode_sums(with_pages).pages == pages


def test_of_pages_those_are_kept_that_pass_over_most_rows():
    counts = HeatCounts()
    for number in range(PAGES + 10):
        for _ in range(2):
            counts.take(CallRecord("page", f"View{number:03}", 0, 0.1, [], (1, number)))
    kept = counts.sums(3.0, 1.0, "p").pages
    assert kept == [PageCount(f"View{number:03}", 6, 6, 6 * number) for number in range(10, PAGES + 10)]
    counts.reset()
    assert counts.sums(3.0, 1.0, "p").pages == []


@pytest.mark.parametrize("damaged", [b"", b"\xc1", b"\x80", b"\x91\x01"])
def test_a_damaged_row_counts_nothing(damaged):
    assert decode_sums(damaged) is None


def test_each_list_that_a_group_reads_is_noted():
    class Engine:
        def together(self, _table, _key, _column, firsts):
            return b"group", [([b"key"], [b"value"]) for _first in firsts]

    noted = []
    reads = RecordingReads(Engine(), noted.append)
    assert reads.together("counts", b"at", b"d:b", [("views", b"least", 1)]) == (b"group", [([b"key"], [b"value"])])
    assert [(each.table, each.at, each.rows) for each in noted] == [
        ("counts", b"at", [(b"at", 5)]),
        ("views", b"least", [(b"key", 8)]),
    ]


@pytest.mark.parametrize("rows", [1, 63, 64, 1000, 5000, 30_000])
def test_the_ranges_of_an_axis_have_about_equally_many_rows(rows):
    counted = AxisPlaces()
    keys, page = [b"%06d" % number for number in range(rows)], 1 + rows // 7
    for begin in range(0, rows, page):
        counted.add([(key, {}) for key in keys[begin : begin + page]])
    axis = counted.axis(7, "verify")
    assert len(counted.found) <= 2 * PLACES
    assert len({after - before for (before, _key), (after, _next) in pairwise(counted.found)}) <= 1
    assert (axis.at, sum(axis.rows), len(axis.rows), axis.by) == (7, rows, min(rows, RANGES), "verify")
    assert axis.firsts[0] == b"%06d" % 0
    assert max(axis.rows) <= 2 + rows / RANGES * 1.2


def touching(counts, *keys, table="roots"):
    for key in keys:
        counts.take(CallRecord("get", "Vote", 0, 0.001, [Touched(table, key, False, True, False, [(key, 10)])]))


def firsts(counts):
    return sorted({key.first for key in counts.cells})


def test_few_keys_are_counted_one_by_one():
    counts = HeatCounts()
    touching(counts, *[b"\0\1%02d" % number for number in range(RANGES)] * 3)
    assert len(firsts(counts)) == RANGES
    assert {each.requests for each in counts.cells.values()} == {3}


def test_many_keys_are_counted_by_ranges_that_follow_them():
    counts = HeatCounts(random.Random(1))
    keys = [b"\0\1%05d" % number for number in range(5000)]
    touching(counts, *keys)
    assert len(firsts(counts)) <= 2 * RANGES
    counts.reset()
    touching(counts, *keys)
    assert len(firsts(counts)) <= RANGES + 1
    amounts = sorted(each.requests for each in counts.cells.values())
    assert sum(amounts) == 5000
    assert amounts[-1] < 400


def test_memory_does_not_grow():
    counts = HeatCounts()
    chance = random.Random(2)
    for place in range(200):
        touching(counts, *[place.to_bytes(2, "big") + chance.randbytes(3) for _ in range(100)])
    assert len(counts.cells) <= 4096
    assert sum(map(len, counts._hot.values())) <= HOT_OF_ALL
    assert len(encode_sums(counts.sums(1.0, 1.0, "p"))) < 50_000
    assert sum(each.requests for each in counts.cells.values()) == 20_000


def test_the_hottest_key_is_found_among_many():
    counts = HeatCounts()
    chance = random.Random(3)
    for _ in range(3000):
        touching(counts, b"\0\1hot", b"\0\1" + chance.randbytes(3))
    sums = counts.sums(2.0, 0.5, "p")
    assert (sums.hot[0].key, sums.hot[0].most - sums.hot[0].surplus) == (b"\0\1hot", 6000)


def written(counts, *keys, lost=False):
    for key in keys:
        touched = Touched("roots", key, True, True, lost, [(key, 10)])
        counts.take(CallRecord("save", "Vote", 0, 0.1, [touched]))


def test_what_is_read_most_leaves_place_for_what_is_written_and_lost():
    counts = HeatCounts()
    for number in range(100):
        touching(counts, *[bytes([0, kind, number]) for kind in range(5) for _ in range(3)])
    written(counts, b"\0\7w")
    written(counts, b"\0\7l", lost=True)
    hot = counts.sums(1.0, 1.0, "p").hot
    assert [(each.key, each.most) for each in hot if each.operation == "lost"] == [(b"\0\7l", 1)]
    assert {each.key for each in hot if each.operation == "write"} == {b"\0\7l", b"\0\7w"}
    assert [each.operation for each in hot].count("read") == HOT_KEYS


def ends(counts, factor=1.0):
    return [(each.rows, each.outside) for each in counts.sums(factor, 1.0, "p").ends]


def test_rows_at_an_end_are_counted_once_however_often_they_are_put():
    counts = HeatCounts()
    written(counts, *[bytes([0, 1, number]) for number in range(10, 90) for _ in range(2)])
    assert ends(counts) == [(80, 79)]
    counts.reset()
    assert ends(counts) == []
    written(counts, b"\0\1\5", b"\0\1\6", b"\0\1\xff")
    assert ends(counts, 2.0) == [(6, 4)]
    counts.forget()
    written(counts, b"\0\1\1")
    assert ends(counts) == [(1, 0)]


def test_rows_that_are_removed_or_read_are_at_no_end():
    counts = HeatCounts()
    counts.take(CallRecord("delete", "Vote", 0, 0.1, [Touched("roots", b"\0\1", True, True, False, [(b"\0\1\1", 3)])]))
    touching(counts, b"\0\1\1", b"\0\1\2")
    assert ends(counts) == []


def test_the_slowest_calls_are_kept():
    counts = HeatCounts()
    touched = [Touched("roots", b"\0\1", False, True, False, [(b"\0\1", 10)])]
    for number in range(100):
        counts.take(CallRecord("get", "Vote", number, number / 1000, touched))
    slow = counts.sums(1.0, 1.0, "p").slow
    assert [each.microseconds for each in slow] == [1000 * number for number in range(99, 83, -1)]
