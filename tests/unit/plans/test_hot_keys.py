"""Hot keys are counted in flat memory, and the hottest are found whatever else there is."""

import os
import random
import signal
from collections import Counter

import pytest

from oneread.plans.hot_keys import HotKeys, LostSwaps
from oneread.store.requests import CheckAndMutate, Mutate
from oneread.store.rows import Cell, RowMutation


def swap(key, table="counts"):
    return CheckAndMutate(table, b"d:b", None, RowMutation(key, {}))


def lose(hot, *keys):
    for key in keys:
        hot.note(swap(key), False)


def test_few_rows_are_counted_exactly():
    hot = HotKeys(kept=3)
    lose(hot, b"a", b"b", b"a", b"a", b"b", b"c")
    hot.note(swap(b"a"), True)
    assert hot.lost(2) == [LostSwaps("counts", b"a", 3, 0), LostSwaps("counts", b"b", 2, 0)]


def test_a_row_takes_the_place_of_the_least_one():
    hot = HotKeys(kept=2)
    lose(hot, b"a", b"a", b"b", b"c")
    assert hot.lost(9) == [LostSwaps("counts", b"a", 2, 0), LostSwaps("counts", b"c", 2, 1)]


@pytest.mark.parametrize("seed", range(5))
def test_the_hottest_are_found_among_many_with_bounds_that_hold(seed):
    """Space-Saving: a row with more than 1/kept of all is kept, and no count is off by more than that."""
    chance, hot = random.Random(seed), HotKeys(kept=50)
    keys = [b"%d" % int(chance.paretovariate(0.9)) for _ in range(5000)]
    lose(hot, *keys)
    true, found = Counter(keys), {each.key: each for each in hot.lost(50)}
    assert len(hot._counts) == 50
    assert {key for key, count in true.items() if count > 100} <= found.keys()
    for key, each in found.items():
        assert each.most - each.surplus <= true[key] <= each.most
        assert each.surplus <= 100


def test_rows_that_are_put_at_an_end_are_counted():
    hot = HotKeys()
    cells = {b"d:b": Cell(b"1", 1)}
    for number in range(100):
        hot.note(Mutate("views", [RowMutation(b"\0\1\0\1" + bytes([number]), cells)]), None)
        hot.note(Mutate("views", [RowMutation(b"\0\2\0\1" + bytes([(50 + number * 37) % 101]), cells)]), None)
        hot.note(swap(b"\0\3" + bytes([255 - number]), "roots"), True)
        hot.note(Mutate("views", [RowMutation(b"\0\1\0\1zz", deletes={b"d:b": 1})]), None)
        hot.note(Mutate("counts", [RowMutation(b"\0\1\0\1" + bytes([number]), cells)]), None)
    found = {place: (put.rows, put.outside) for place, put in hot.ends.items()}
    assert found.keys() == {("views", b"\0\1\0\1"), ("views", b"\0\2\0\1"), ("roots", b"\0\3")}
    assert found["views", b"\0\1\0\1"] == found["roots", b"\0\3"] == (100, 99)
    assert found["views", b"\0\2\0\1"][1] < 10


def test_who_listens_is_called_for_each():
    hot, seen = HotKeys(), []
    hot.when_lost = lambda *place: seen.append(place)
    lose(hot, b"a", b"a")
    assert seen == [("counts", b"a")] * 2


def test_the_child_of_a_fork_counts_though_a_thread_of_the_parent_was_counting():
    hot = HotKeys()
    with hot._lock:
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            lose(hot, b"a")
            os._exit(0 if hot.lost(1) == [LostSwaps("counts", b"a", 1, 0)] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
