"""Cache-first counters against plain Python: adds, losses of the cache, restarts, foreign values, in any order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneread import Key, Model, Schema, connect
from oneread.counters.cache_first import cache_key
from oneread.counters.wanted import MOST_GROWTH
from oneread.store.cache import CacheAdd, CacheRead, CacheSwap

NAMES = ("a", "a b\n", "ä" * 90)


class Nothing(Model[int]):
    number: Key[int]


SCHEMA = Schema(Nothing)

names = st.sampled_from(NAMES)
steps = st.one_of(
    st.tuples(st.just("add"), names, st.integers(1, MOST_GROWTH) | st.integers(1, 3), st.sampled_from([1e-6, 0.5, 1])),
    st.tuples(st.just("read"), names),
    st.tuples(st.just("look"), names),
    st.tuples(st.just("lose")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("lower"), names),
)


class Both:
    """A store with a cache, and what is known of each counter."""

    def __init__(self, url):
        self.db = connect(url, SCHEMA, cache="memory://")
        self.cache = self.db._driver.cache
        self.added = dict.fromkeys(NAMES, 0)
        self.shown = dict.fromkeys(NAMES, 0)
        self.stored = dict.fromkeys(NAMES, 0)

    def add(self, name, amount, chance):
        self.added[name] += amount
        self.db.cache_counter(name, chance_to_write=chance, shards=3).add(amount)
        if chance == 1:
            seen = self.db.cache_counter(name).look()
            assert seen.stored == seen.value

    def read(self, name):
        self.show(name, self.db.cache_counter(name).read())

    def look(self, name):
        seen = self.db.cache_counter(name).look()
        assert seen.stored == self.db.cache_counter(name).stored() == self.stored[name]
        assert seen.unsaved == max(0, seen.value - seen.stored)
        self.show(name, seen.value)

    def show(self, name, value):
        assert self.shown[name] <= value <= self.added[name]
        assert value >= self.stored[name]
        self.shown[name] = value

    def lose(self):
        self.cache.lose()

    def restart(self):
        plans = self.db.operations.cache_counters
        plans.seen = type(plans.seen)()
        if not any(self.cache.answer(CacheRead(cache_key(name))) for name in NAMES):
            self.shown = dict(self.stored)
        else:
            self.shown = dict.fromkeys(NAMES, 0)

    def lower(self, name):
        """Another program puts a number in the cache that is too small."""
        key = cache_key(name)
        found = self.cache.answer(CacheRead(key))
        if found is None:
            self.cache.answer(CacheAdd(key, 0))
        else:
            self.cache.answer(CacheSwap(key, found.token, 0))

    def compare(self):
        for name in NAMES:
            stored = self.db.cache_counter(name).stored()
            assert self.stored[name] <= stored <= self.added[name]
            self.stored[name] = stored


@pytest.mark.parametrize("url", ["memory://", "memory://?span=row"])
@given(done=st.lists(steps, max_size=40))
def test_a_value_is_between_what_is_stored_and_what_was_counted(url, done):
    both = Both(url)
    lowered = False
    with both.db:
        for verb, *arguments in done:
            if verb == "restart" and lowered:
                continue  # a new process cannot know that the cache was lowered by another program
            lowered = lowered or verb == "lower"
            getattr(both, verb)(*arguments)
            both.compare()
        assert not both.db.operations.spans_rows or both.db.verify().clean
