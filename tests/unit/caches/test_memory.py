"""The cache in memory: named ones are shared by the process, others are not, and all can be lost."""

from oneread.caches.memory import MemoryCache, named
from oneread.store.cache import CacheAdd, CacheIncrement, CacheRead


def test_named_numbers_are_shared():
    first, second = MemoryCache(named("one"), "scope"), MemoryCache(named("one"), "scope")
    first.answer(CacheAdd("a", 1))
    assert second.answer(CacheIncrement("a", 1)) == 2
    assert MemoryCache(named("two"), "scope").answer(CacheRead("a")) is None
    assert MemoryCache().answer(CacheRead("a")) is None
    assert repr(first) == "<MemoryCache: 1 numbers>"


def test_a_lost_cache_is_empty_and_its_tokens_do_not_come_again():
    cache = MemoryCache()
    cache.answer(CacheAdd("a", 1))
    token = cache.answer(CacheRead("a")).token
    cache.lose()
    assert cache.answer(CacheRead("a")) is None
    cache.answer(CacheAdd("a", 1))
    assert cache.answer(CacheRead("a")).token != token
