"""A cache in the memory of the process: for tests and simulations, and for a program that is one process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from oneread.errors import Closed
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

MOST_VALUES: Final = 10_000
"""Values that a cache holds; the one put longest ago is forgotten first. Numbers are kept."""


class MemoryNumbers:
    """What caches of one name share: numbers and values, and how often they were changed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.held: dict[tuple[str, str], CachedNumber] = {}
        self.values: dict[tuple[str, str], CachedValue] = {}
        self.changes = 0

    def put_value(self, place: tuple[str, str], value: bytes) -> None:
        self.changes += 1
        self.values.pop(place, None)
        self.values[place] = CachedValue(value, str(self.changes).encode())
        if len(self.values) > MOST_VALUES:
            del self.values[next(iter(self.values))]

    def put(self, place: tuple[str, str], value: int) -> int:
        self.changes += 1
        self.held[place] = CachedNumber(value, str(self.changes).encode())
        return value


_NAMED: Final[dict[str, MemoryNumbers]] = {}


def named(name: str) -> MemoryNumbers:
    """The numbers that all caches of this name in the process share."""
    return _NAMED.setdefault(name, MemoryNumbers())


class MemoryCache:
    """A cache that lives as long as the process; `scope` keeps stores apart that share its numbers."""

    def __init__(self, numbers: MemoryNumbers | None = None, scope: str = "") -> None:
        self._numbers = MemoryNumbers() if numbers is None else numbers
        self._scope = scope
        self._closed = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self._numbers.held)} numbers>"

    @property
    def local(self) -> bool:
        return True

    def answer(self, request: Request[Any]) -> Any:
        if self._closed:
            raise Closed("the cache was closed before this call")
        with self._numbers.lock:
            return _ANSWERS[type(request)](self, request)

    def close(self) -> None:
        self._closed = True

    def lose(self) -> None:
        """Forgets everything, as a cache does that is restarted."""
        with self._numbers.lock:
            self._numbers.held.clear()
            self._numbers.values.clear()

    def _read(self, request: CacheRead) -> CachedNumber | None:
        return self._numbers.held.get((self._scope, request.key))

    def _increment(self, request: CacheIncrement) -> int | None:
        place = (self._scope, request.key)
        found = self._numbers.held.get(place)
        return None if found is None else self._numbers.put(place, (found.value + request.amount) & MOST)

    def _add(self, request: CacheAdd) -> bool:
        place = (self._scope, request.key)
        if place in self._numbers.held:
            return False
        self._numbers.put(place, request.value)
        return True

    def _swap(self, request: CacheSwap) -> bool:
        place = (self._scope, request.key)
        found = self._numbers.held.get(place)
        if found is None or found.token != request.token:
            return False
        self._numbers.put(place, request.value)
        return True

    def _fetch(self, request: CacheFetch) -> list[CachedValue | None]:
        return [self._numbers.values.get((self._scope, key)) for key in request.keys]

    def _fill(self, request: CacheFill) -> list[bool]:
        return [self._fill_one(entry) for entry in request.entries]

    def _fill_one(self, entry: CacheEntry) -> bool:
        place = (self._scope, entry.key)
        found = self._numbers.values.get(place)
        if (None if found is None else found.token) != entry.token:
            return False
        self._numbers.put_value(place, entry.value)
        return True

    def _replace(self, request: CacheReplace) -> None:
        for key, value in request.values.items():
            self._numbers.put_value((self._scope, key), value)

    def _place(self, request: CachePlace) -> str:
        return f"{self._scope}:{request.key}" if self._scope else request.key


_ANSWERS: Final[dict[type[Request[Any]], Callable[[MemoryCache, Any], Any]]] = {
    CacheRead: MemoryCache._read,  # noqa: SLF001 - the class's own table
    CacheIncrement: MemoryCache._increment,  # noqa: SLF001 - the class's own table
    CacheAdd: MemoryCache._add,  # noqa: SLF001 - the class's own table
    CacheSwap: MemoryCache._swap,  # noqa: SLF001 - the class's own table
    CachePlace: MemoryCache._place,  # noqa: SLF001 - the class's own table
    CacheFetch: MemoryCache._fetch,  # noqa: SLF001 - the class's own table
    CacheFill: MemoryCache._fill,  # noqa: SLF001 - the class's own table
    CacheReplace: MemoryCache._replace,
}
