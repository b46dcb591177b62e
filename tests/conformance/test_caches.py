"""The contract of caches, on each of them."""

import pytest

from oneread.caches.memcached import MemcachedCache
from oneread.caches.memory import MemoryCache, MemoryNumbers
from oneread.caches.redis import RedisCache, RedisPlace
from oneread.testing.cache_conformance import CacheConformance
from tools.servers.memcached import memcached_server
from tools.servers.redis import redis_on_a_port


class TestMemoryCache(CacheConformance):
    @pytest.fixture
    def open_cache(self):
        numbers = MemoryNumbers()
        return lambda scope: MemoryCache(numbers, scope)


class TestMemcached(CacheConformance):
    @pytest.fixture
    def open_cache(self):
        with memcached_server() as server:
            yield lambda scope: MemcachedCache("127.0.0.1", server.port, scope)


class TestRedis(CacheConformance):
    @pytest.fixture
    def open_cache(self):
        with redis_on_a_port() as server:
            yield lambda scope: RedisCache(RedisPlace("127.0.0.1", server.port), scope)
