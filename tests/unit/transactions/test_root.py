"""The commit row: its cells there and back, and a version that only ever grows."""

import pytest

from oneread.errors import Conflict, Corrupt
from oneread.store.rows import Cell
from oneread.transactions.root import AHEAD_MILLISECONDS, NOTHING, Root, next_version, parse, row_of


@pytest.mark.parametrize("root", [Root(5), Root(5, b"body"), Root(5, None, b"e"), Root(2**40, b"body", b"e")])
def test_a_row_says_what_was_put_into_it(root):
    row = row_of(root)
    assert parse(row) == root
    assert {cell.stamp for cell in row.values()} == {root.version}


def test_no_row_is_nothing():
    assert parse(None) is NOTHING
    assert NOTHING.version == 0


def test_a_row_without_a_version_is_corrupt():
    with pytest.raises(Corrupt) as refusal:
        parse({b"d:b": Cell(b"body", 1)})
    assert refusal.value.facts["columns"] == [b"d:b"]


@pytest.mark.parametrize(("now", "seen", "next_one"), [(100, 0, 100), (100, 99, 100), (100, 100, 101), (100, 500, 501)])
def test_a_version_is_the_time_or_one_more_than_the_last(now, seen, next_one):
    assert next_version(now, seen) == next_one


def test_a_version_more_than_a_minute_ahead_is_refused():
    assert next_version(1000, 1000 + AHEAD_MILLISECONDS) == 1001 + AHEAD_MILLISECONDS
    with pytest.raises(Conflict) as refusal:
        next_version(1000, 1001 + AHEAD_MILLISECONDS)
    assert refusal.value.retryable
    assert refusal.value.facts == {"version": 1001 + AHEAD_MILLISECONDS, "now": 1000}
