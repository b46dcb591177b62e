"""Redis 7, by redis-py.

Redis has no compare-and-set of its own, so a script compares: what is to be replaced is named by its own bytes, or by
their SHA-1 where they are a value. A connection that the server has closed is noticed before a request is sent on it,
and nothing is ever sent twice. See docs/decisions/0099-caches-for-reads.md.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha1
from typing import Any, Final, NamedTuple

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import OutOfMemoryError, RedisError, ResponseError
from redis.retry import Retry

from oneread.errors import Closed, Corrupt, LimitExceeded, OutcomeUnknown, StoreError, Unavailable
from oneread.store.cache import (
    MOST,
    CacheAdd,
    CachedNumber,
    CachedValue,
    CacheEntry,
    CacheFetch,
    CacheFill,
    CacheIncrement,
    CachePlace,
    CacheRead,
    CacheReplace,
    CacheSwap,
)
from oneread.store.requests import Request

PORT: Final = 6379
TIMEOUT_SECONDS: Final = 1.0

_FOREIGN: Final = "Redis holds something else than a number under this key; remove the key"

_SWAP: Final = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2]) return 1 end
return 0
"""
# The answer is read as text: a number of Lua is a float, and has 53 bits.
_INCREMENT: Final = """
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
redis.call('INCRBY', KEYS[1], ARGV[1])
return redis.call('GET', KEYS[1])
"""
_PUT_UNCHANGED: Final = """
local found = redis.call('GET', KEYS[1])
if found and redis.sha1hex(found) == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3]) return 1 end
return 0
"""


class RedisPlace(NamedTuple):
    """One Redis server and what is needed to be let in."""

    host: str
    port: int = PORT
    database: int = 0
    username: str | None = None
    password: str | None = None
    tls: bool = False
    timeout: float = TIMEOUT_SECONDS

    def __repr__(self) -> str:
        return f"{self.host}:{self.port}/{self.database}"  # trackers of errors show local variables


class RedisCache:
    """One Redis server. Each thread that asks has a connection for itself; one is opened when it is needed.

    `scope` begins every key, so that stores which share the server stay apart.
    """

    def __init__(self, place: RedisPlace, scope: str) -> None:
        self._place = place
        self._prefix = f"oneread:{scope}:"
        self._closed = False
        self._client = Redis(
            host=place.host,
            port=place.port,
            db=place.database,
            username=place.username,
            password=place.password,
            ssl=place.tls,
            socket_timeout=place.timeout,
            socket_connect_timeout=place.timeout,
            retry=Retry(NoBackoff(), 0),  # an increment must not be made twice
            protocol=2,  # with 3 redis-py does not look for late answers on connections of its pool
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._place}>"

    @property
    def local(self) -> bool:
        return False

    def answer(self, request: Request[Any]) -> Any:
        if self._closed:
            raise Closed("the cache was closed before this call")
        if isinstance(request, CachePlace):
            return self._key(request.key)
        ask, changes = _ANSWERS[type(request)]
        self._connect()
        try:
            return ask(self, request)
        except (RedisError, OSError, ValueError) as error:
            raise self._failure(error, changes=changes) from error
        except BaseException as error:
            if not isinstance(error, StoreError):  # interrupted: an answer may come on a connection of the pool
                self._client.connection_pool.disconnect(inuse_connections=False)
            raise

    def close(self) -> None:
        self._closed = True
        self._client.close()

    def _connect(self) -> None:
        """Makes sure that the pool has a connection that works: one that fails here has changed nothing."""
        pool = self._client.connection_pool
        try:
            pool.release(pool.get_connection())
        except (RedisError, OSError) as error:
            text = "Redis does not answer, or refuses this name and password; nothing was changed"
            raise Unavailable(text, **self._facts()) from error

    def _key(self, text: str) -> str:
        return self._prefix + text

    def _facts(self) -> dict[str, object]:
        return {"server": f"{self._place.host}:{self._place.port}", "timeout": self._place.timeout}

    def _failure(self, error: Exception, *, changes: bool) -> StoreError:
        if isinstance(error, OutOfMemoryError):
            return LimitExceeded("Redis has no memory left and may not evict", **self._facts())
        if changes:
            return OutcomeUnknown("Redis did not answer: this may be counted or not, put or not", **self._facts())
        return Unavailable("Redis did not answer in time", **self._facts())

    def _number(self, request: Any, found: Any) -> int:
        number = int(found) if found.isdigit() and len(found) <= len(str(MOST)) else MOST + 1
        if number > MOST:
            raise Corrupt(_FOREIGN, value=found, key=self._key(request.key), **self._facts())
        return number

    def _read(self, request: CacheRead) -> CachedNumber | None:
        try:
            found: Any = self._client.get(self._key(request.key))
        except ResponseError as error:  # a list, say
            raise Corrupt(_FOREIGN, key=self._key(request.key), **self._facts()) from error
        return None if found is None else CachedNumber(self._number(request, found), found)

    def _increment(self, request: CacheIncrement) -> int | None:
        try:
            found: Any = self._client.eval(_INCREMENT, 1, self._key(request.key), request.amount)
        except OutOfMemoryError:
            raise
        except ResponseError:  # not a number, or one beyond 63 bits, where Redis's own increments end
            return self._increment_unsigned(request)
        return None if found is None else self._number(request, found)

    def _increment_unsigned(self, request: CacheIncrement) -> int | None:
        while (found := self._read(CacheRead(request.key))) is not None:
            value = (found.value + request.amount) & MOST
            if self._swap(CacheSwap(request.key, found.token, value)):
                return value
        return None

    def _add(self, request: CacheAdd) -> bool:
        return bool(self._client.set(self._key(request.key), request.value, nx=True))

    def _swap(self, request: CacheSwap) -> bool:
        return bool(self._client.eval(_SWAP, 1, self._key(request.key), request.token, request.value))

    def _fetch(self, request: CacheFetch) -> list[CachedValue | None]:
        found: Any = self._client.mget([self._key(key) for key in request.keys])
        return [None if each is None else CachedValue(each, sha1(each).hexdigest().encode()) for each in found]  # noqa: S324 - what the script computes, and no secret

    def _fill(self, request: CacheFill) -> list[bool]:
        with self._client.pipeline(transaction=False) as several:
            for entry in request.entries:
                self._put(several, entry, request.seconds)
            return [bool(each) for each in several.execute()]

    def _put(self, several: Any, entry: CacheEntry, seconds: int) -> None:
        key = self._key(entry.key)
        if entry.token is None:
            several.set(key, entry.value, nx=True, ex=seconds)
        else:
            several.eval(_PUT_UNCHANGED, 1, key, entry.token, entry.value, seconds)

    def _replace(self, request: CacheReplace) -> None:
        with self._client.pipeline(transaction=False) as several:
            for key, value in request.values.items():
                several.set(self._key(key), value, ex=request.seconds)
            several.execute()


_ANSWERS: Final[dict[type[Request[Any]], tuple[Callable[[RedisCache, Any], Any], bool]]] = {
    CacheRead: (RedisCache._read, False),  # noqa: SLF001 - the class's own table
    CacheIncrement: (RedisCache._increment, True),  # noqa: SLF001 - the class's own table
    CacheAdd: (RedisCache._add, True),  # noqa: SLF001 - the class's own table
    CacheSwap: (RedisCache._swap, True),  # noqa: SLF001 - the class's own table
    CacheFetch: (RedisCache._fetch, False),  # noqa: SLF001 - the class's own table
    CacheFill: (RedisCache._fill, True),  # noqa: SLF001 - the class's own table
    CacheReplace: (RedisCache._replace, True),
}
"""How each request is asked, and whether it changes anything."""
