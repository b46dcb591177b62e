"""Remembered values: no reader puts an older value over a newer one, and the age is never told too small."""

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations

import pytest

from oneread.counters.cache import CounterCache, GreatestSeen
from oneread.counters.reading import read_remembered
from oneread.counters.rows import VALUE, Sums, encode_sums, name_key, shard_key
from oneread.store.rows import Cell

NAME = name_key("votes")


class Store:
    """A counter of one shard whose scans take time: what a scan finds is decided when it is answered."""

    def __init__(self):
        self.truth = 0
        self.seconds = 0.0
        self.cache = CounterCache(lambda: self.seconds)

    def rows(self):
        return [(shard_key(NAME, 0), {VALUE: Cell(encode_sums(Sums(self.truth, 0)), 1)})]


def finish(plan, store):
    """Answers scans at once until the plan ends."""
    try:
        plan.send(store.rows())
        while True:
            plan.send(store.rows())
    except StopIteration as stop:
        return stop.value.sums.value


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_a_slow_reader_never_brings_an_old_value_back(order):
    store = Store()
    readers = []
    for _ in range(3):  # all begin, and scan; each scan finds another value
        plan = read_remembered(store.cache, NAME, 60)
        next(plan)
        store.truth += 1
        readers.append((plan, store.rows()))
    seen = []
    for each in order:  # the answers arrive in any order
        plan, rows = readers[each]
        try:
            plan.send(rows)
        except StopIteration as stop:
            seen.append(stop.value.sums.value)
        else:
            seen.append(finish(plan, store))
    assert seen == sorted(seen)
    assert max(seen) <= store.truth


@pytest.mark.parametrize("exact", range(3))
@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_no_reader_shows_less_than_an_exact_one_has(order, exact):
    store = Store()
    readers = []
    for number in range(3):  # one of them takes nothing that is remembered
        plan = read_remembered(store.cache, NAME, 0 if number == exact else 60)
        next(plan)
        store.truth += 1
        readers.append((plan, store.rows()))
    seen = []
    for each in order:
        plan, rows = readers[each]
        try:
            plan.send(rows)
        except StopIteration as stop:
            seen.append(stop.value.sums.value)
        else:
            seen.append(finish(plan, store))
        with pytest.raises(StopIteration) as stop:
            next(read_remembered(store.cache, NAME, 60))
        seen.append(stop.value.value.sums.value)
    assert seen == sorted(seen)


def test_a_reader_that_found_as_much_as_a_faster_one_scans_once():
    """So that many exact readers of one counter cost a request each."""
    store = Store()
    first, second = (read_remembered(store.cache, NAME, 0) for _ in range(2))
    for each in (first, second):
        next(each)
        store.truth += 1
    for plan in (first, second):
        with pytest.raises(StopIteration):
            plan.send(store.rows())


def test_a_value_that_was_forgotten_meanwhile_is_not_put_back():
    store = Store()
    assert finish(begun(read_remembered(store.cache, NAME, 0)), store) == 0
    plan = begun(read_remembered(store.cache, NAME, 0))
    old = store.rows()
    store.cache.forget(NAME)
    store.truth += 1
    plan.send(old)  # scans again
    assert finish(plan, store) == 1


def begun(plan):
    next(plan)
    return plan


def test_the_age_counts_from_before_the_scan():
    store = Store()
    plan = read_remembered(store.cache, NAME, 60)
    next(plan)
    store.seconds += 5
    assert finish(plan, store) == 0
    assert store.cache.age(store.cache.get(NAME)) == 5
    store.seconds += 54
    with pytest.raises(StopIteration):
        next(read_remembered(store.cache, NAME, 60))
    store.seconds += 2
    next(read_remembered(store.cache, NAME, 60))  # scans again


def test_the_memory_is_bounded():
    cache = CounterCache(most=3)
    for number in range(10):
        assert cache.replace(b"%d" % number, None, object())
    assert [cache.get(b"%d" % number) is None for number in range(10)] == [True] * 7 + [False] * 3


def test_the_child_of_a_fork_waits_for_no_thread_of_its_parent():
    cache = CounterCache()
    with cache._lock:
        pid = os.fork()
        if pid == 0:
            os._exit(0 if cache.replace(NAME, None, object()) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_what_was_shown_never_falls_and_the_oldest_is_forgotten():
    seen = GreatestSeen(most=2)
    assert [seen.show("a", value) for value in (5, 3, 7, 7)] == [5, 5, 7, 7]
    seen.show("b", 1)
    seen.show("a", 1)
    seen.show("c", 1)
    assert [seen.get(name) for name in "abc"] == [7, 0, 1]


def test_what_many_threads_show_never_falls():
    seen = GreatestSeen()

    def show(thread):
        found = [seen.show("a", value) for value in range(thread, 4000, 4)]
        assert found == sorted(found)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(show, range(4)))
    assert seen.get("a") == 3999


def test_a_child_of_a_fork_can_show_what_its_parent_was_about_to():
    seen = GreatestSeen()
    with seen._lock:
        child = os.fork()
        if not child:
            os._exit(seen.show("a", 3))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
