"""The root row: its cells there and back, and a version that only ever grows."""

import pytest

from oneread.errors import Corrupt
from oneread.store.rows import Cell
from oneread.transactions.root import AHEAD_MILLISECONDS, BODY, NO_ROOT, Root, encode_root, next_version, parse_root


@pytest.mark.parametrize("root", [Root(5), Root(5, b"body", own=5), Root(5, None, b"e"), Root(2**40, b"body", b"e", 3)])
def test_a_row_says_what_was_put_into_it(root):
    row = encode_root(root)
    assert parse_root(row) == root
    assert {column: cell.stamp for column, cell in row.items()} == {
        column: root.own if column == BODY else root.version for column in row
    }


def test_no_row_is_nothing():
    assert parse_root(None) is NO_ROOT
    assert NO_ROOT.version == 0


def test_a_row_without_a_version_is_corrupt():
    with pytest.raises(Corrupt) as refusal:
        parse_root({b"d:b": Cell(b"body", 1)})
    assert refusal.value.facts["columns"] == [b"d:b"]


@pytest.mark.parametrize(("now", "seen", "next_one"), [(100, 0, 100), (100, 99, 100), (100, 100, 101), (100, 500, 501)])
def test_a_version_is_the_time_or_one_more_than_the_last(now, seen, next_one):
    assert next_version(now, seen) == next_one


@pytest.mark.parametrize("seen", [1001 + AHEAD_MILLISECONDS, 1 << 50, (1 << 63) - 2])
def test_a_version_is_followed_however_far_ahead_of_the_clock_it_is(seen):
    follows = next_version(1000, seen)
    assert follows == seen + 1
    assert parse_root(encode_root(Root(follows))).version == follows


def test_the_greatest_version_there_is_cannot_be_followed():
    with pytest.raises(Corrupt) as refusal:
        next_version(1000, (1 << 63) - 1)
    assert refusal.value.facts == {"version": (1 << 63) - 1}
