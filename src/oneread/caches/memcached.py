"""memcached 1.6, by pymemcache.

A connection that the server has closed is noticed before a request is sent on it, so that a restart makes no outcome
unknown, and a new one is tried with `version`, which changes nothing. Once a request was sent and its answer did not
come, its connection is closed: the answer could still come, and would be taken for that of the next request. See
docs/decisions/0054-cache-first-counters.md.
"""

from __future__ import annotations

import os
import select
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheClientError, MemcacheError, MemcacheServerError, MemcacheUnexpectedCloseError

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

PORT: Final = 11211
TIMEOUT_SECONDS: Final = 1.0

_LONGEST: Final = 250
"""Bytes of a key: memcached's limit."""
_SAFE: Final = "!$&'()*+,/:;=?@[]^`{|}"
"""Printed as they are in a key, besides letters, digits and `_.-~`; not `#`, which begins a digest."""
_IDLE: Final = 64
"""Connections that are kept when nothing uses them."""


class MemcachedCache:
    """One memcached server. Each thread that asks has a connection for itself; one is opened when it is needed.

    `scope` begins every key, so that stores which share the server stay apart.
    """

    def __init__(self, host: str, port: int, scope: str, timeout: float = TIMEOUT_SECONDS) -> None:
        self._server = (host, port)
        self._prefix = f"oneread:{scope}:"
        self._timeout = timeout
        self._idle: deque[Client] = deque()
        self._closed = False
        _OPEN.add(self)

    def __repr__(self) -> str:
        host, port = self._server
        return f"<{type(self).__name__} {host}:{port}>"

    @property
    def local(self) -> bool:
        return False

    def answer(self, request: Request[Any]) -> Any:
        if self._closed:
            raise Closed("the cache was closed before this call")
        if isinstance(request, CachePlace):
            return self._key(request.key).decode()
        ask, changes = _ANSWERS[type(request)]
        client = self._connected()
        try:
            answer = ask(client, self._key, request)
        except BaseException as error:
            client.close()
            failure = self._failure(error, request, changes=changes)
            if failure is None:
                raise
            raise failure from error
        self._release(client)
        return answer

    def close(self) -> None:
        self._closed = True
        with suppress(IndexError):  # another thread may take the last one
            while True:
                self._idle.pop().close()

    def after_fork(self) -> None:
        """In the child of a fork: the connections are the parent's, and answers on them are for it."""
        inherited, self._idle = self._idle, deque()
        for client in inherited:
            client.close()

    def _connected(self) -> Client:
        """A connection that the server has not closed, and on which no late answer waits."""
        while self._idle:
            try:
                client = self._idle.pop()
            except IndexError:  # another thread took the last one
                break
            if not _has_something(client):
                return client
            client.close()
        client = Client(
            self._server,
            connect_timeout=self._timeout,
            timeout=self._timeout,
            no_delay=True,
            default_noreply=False,
        )
        try:
            client.version()
        except OSError as error:
            client.close()
            raise Unavailable("memcached does not answer; nothing was changed", **self._facts()) from error
        except MemcacheUnexpectedCloseError as error:
            client.close()
            raise Unavailable(_HUNG_UP, **self._facts()) from error
        except (MemcacheError, ValueError) as error:
            client.close()
            raise Unavailable(_OTHER, **self._facts()) from error
        except BaseException:
            client.close()
            raise
        return client

    def _release(self, client: Client) -> None:
        if self._closed or len(self._idle) >= _IDLE:
            client.close()
        else:
            self._idle.append(client)

    def _key(self, text: str) -> bytes:
        """The key in memcached: text as it is where that is allowed, %-escaped where not, a digest if it is long."""
        key = f"{self._prefix}{quote(text, safe=_SAFE)}".encode("ascii")
        if len(key) <= _LONGEST:
            return key
        return f"{self._prefix}#{blake2b(text.encode(), digest_size=20).hexdigest()}".encode("ascii")

    def _facts(self) -> dict[str, object]:
        host, port = self._server
        return {"server": f"{host}:{port}", "timeout": self._timeout}

    def _failure(self, error: BaseException, request: Any, *, changes: bool) -> StoreError | None:
        """What an error of the client means for the caller; None for one that is not the cache's."""
        facts = self._facts()
        if isinstance(request, _OF_ONE_KEY):
            facts = {"key": self._key(request.key).decode(), **facts}
        if isinstance(error, Corrupt):
            return Corrupt(error.message, **error.facts, **facts)
        if isinstance(error, MemcacheClientError) and b"non-numeric" in error.args[0]:
            return Corrupt(_FOREIGN, **facts)
        if isinstance(error, MemcacheServerError) and error.args and b"memory" in error.args[0]:
            return LimitExceeded("memcached has no memory left and may not evict; nothing was changed", **facts)
        if not isinstance(error, (OSError, MemcacheError, ValueError)):
            return None
        if changes:
            return OutcomeUnknown("memcached did not answer: this may be counted or not, put or not", **facts)
        return Unavailable("memcached did not answer in time", **facts)


_OTHER: Final = "this server does not speak memcached's protocol; nothing was changed"
_HUNG_UP: Final = (
    "this server hung up without an answer of memcached's protocol: another kind of server, or one just stopped; "
    "nothing was changed"
)
_FOREIGN: Final = "memcached holds something else than a number under this key; remove the key"


def _has_something(client: Client) -> bool:
    """Whether the idle connection is closed, or an answer to nothing arrived on it."""
    assert client.sock is not None  # it answered before
    poll = select.poll()
    poll.register(client.sock, select.POLLIN)
    return bool(poll.poll(0))


_Key: TypeAlias = Callable[[str], bytes]
"""From a key of the contract to one of memcached."""


def _read(client: Client, key: _Key, request: CacheRead) -> CachedNumber | None:
    found, token = client.gets(key(request.key))
    return None if found is None else CachedNumber(_number(found), token)


def _number(found: bytes) -> int:
    """The number in a value: decimal digits, behind which a decrement may have left spaces."""
    digits = found.rstrip(b" ")
    number = int(digits) if digits.isdigit() and len(digits) <= len(str(MOST)) else MOST + 1
    if number > MOST:
        raise Corrupt(_FOREIGN, value=found)
    return number


def _increment(client: Client, key: _Key, request: CacheIncrement) -> int | None:
    answer: int | None = client.incr(key(request.key), request.amount)
    return answer


def _add(client: Client, key: _Key, request: CacheAdd) -> bool:
    return bool(client.add(key(request.key), str(request.value).encode()))


def _swap(client: Client, key: _Key, request: CacheSwap) -> bool:
    return bool(client.cas(key(request.key), str(request.value).encode(), request.token))


def _fetch(client: Client, key: _Key, request: CacheFetch) -> list[CachedValue | None]:
    keys = [key(each) for each in request.keys]
    found = client.gets_many(keys)
    return [CachedValue(*found[each]) if each in found else None for each in keys]


def _fill(client: Client, key: _Key, request: CacheFill) -> list[bool]:
    return [_fill_one(client, key(entry.key), entry, request.seconds) for entry in request.entries]


def _fill_one(client: Client, key: bytes, entry: CacheEntry, seconds: int) -> bool:
    if entry.token is None:
        return bool(client.add(key, entry.value, expire=seconds))
    return bool(client.cas(key, entry.value, entry.token, expire=seconds))


def _replace(client: Client, key: _Key, request: CacheReplace) -> None:
    values: dict[bytes | str, Any] = {key(each): value for each, value in request.values.items()}
    if client.set_many(values, expire=request.seconds):
        raise MemcacheServerError(b"out of memory")


_OF_ONE_KEY: Final = (CacheRead, CacheIncrement, CacheAdd, CacheSwap)

_ANSWERS: Final[dict[type[Request[Any]], tuple[Callable[[Client, _Key, Any], Any], bool]]] = {
    CacheRead: (_read, False),
    CacheIncrement: (_increment, True),
    CacheAdd: (_add, True),
    CacheSwap: (_swap, True),
    CacheFetch: (_fetch, False),
    CacheFill: (_fill, True),
    CacheReplace: (_replace, True),
}
"""How each request is asked, and whether it changes anything."""

_OPEN: weakref.WeakSet[MemcachedCache] = weakref.WeakSet()


def _after_fork() -> None:
    for cache in list(_OPEN):
        cache.after_fork()


os.register_at_fork(after_in_child=_after_fork)
