import pytest

from oneread.caches.memcached import MemcachedCache
from oneread.caches.memory import MemoryCache, MemoryNumbers
from oneread.testing.cache_conformance import CacheConformance
from tools.servers.memcached import memcached_server


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
