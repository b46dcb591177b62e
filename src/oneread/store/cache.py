"""The contract of caches: numbers and values that may be lost at any moment, and the requests a plan may make of them.

A cache is beside the store: fast, and allowed to forget. A plan yields these requests as it yields those of the store,
and no cost of a store counts them. `oneread.testing.conformance` tests the contract.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from oneread.store.requests import Request

MOST: Final = (1 << 64) - 1
"""The greatest number that a cache holds; an increment beyond it begins again at 0."""
LONGEST_KEY: Final = 400
"""Characters of a key: any text, which a cache makes a key of its own from."""
LONGEST_VALUE: Final = 1_000_000
"""Bytes of a value."""
LONGEST_KEPT: Final = 30 * 86_400
"""Seconds for which a value is kept at most; memcached takes a greater number for a date."""


class CachedNumber(NamedTuple):
    """A number that a cache holds, and a token of its state for `CacheSwap`."""

    value: int
    token: bytes


class CacheRead(Request["CachedNumber | None"], frozen=True, gc=False):
    """The number under a key; None when there is none."""

    key: str


class CacheIncrement(Request["int | None"], frozen=True, gc=False):
    """Adds to the number under a key and answers the new one; None, with nothing done, when there is none.

    Atomic, **not** idempotent.
    """

    key: str
    amount: int


class CacheAdd(Request[bool], frozen=True, gc=False):
    """Puts a number under a key that has none; whether it had none."""

    key: str
    value: int


class CacheSwap(Request[bool], frozen=True, gc=False):
    """Puts a number under a key if nothing changed it since it was read; whether nothing had."""

    key: str
    token: bytes
    value: int


class CachedValue(NamedTuple):
    """A value that a cache holds, and a token of it for `CacheFill`."""

    value: bytes
    token: bytes


class CacheEntry(NamedTuple):
    """A value for a key: put if the key has none, or with a token if what was read with it is there unchanged."""

    key: str
    value: bytes
    token: bytes | None = None


class CacheFetch(Request["list[CachedValue | None]"], frozen=True, gc=False):
    """The values under several keys, in one round trip; None for a key that has none."""

    keys: Sequence[str]


class CacheFill(Request["list[bool]"], frozen=True, gc=False):
    """Puts several values, each by itself and only as its entry says; which of them were put.

    A cache may forget any of them at once, and does after so many seconds.
    """

    entries: Sequence[CacheEntry]
    seconds: int


class CacheReplace(Request[None], frozen=True, gc=False):
    """Puts several values, in one round trip, whatever is there. On failure any of them may be put."""

    values: Mapping[str, bytes]
    seconds: int


class CachePlace(Request[str], frozen=True, gc=False):
    """What the cache itself calls the number under a key, for those who look for it there. It asks no server."""

    key: str


class CacheUse(msgspec.Struct, frozen=True):
    """What a program's reads had of its cache since it was opened.

    Arguments:
        hits: rows and ranges that the cache answered.
        misses: those that were read from the store, and then put into the cache.
        failures: requests that the cache did not answer; reads then went to the store.
    """

    hits: int = 0
    misses: int = 0
    failures: int = 0


class Cache(Protocol):
    """One open cache. Every method may be called from any thread; every wait is bounded by a deadline."""

    @property
    def local(self) -> bool:
        """Whether an answer takes microseconds and never waits for a network."""
        ...

    def answer(self, request: Request[Any]) -> Any:
        """Answers one request.

        Raises:
            Unavailable: the cache did not answer; nothing was changed.
            OutcomeUnknown: the request was sent and its answer did not come: changed or not.
            LimitExceeded: the cache has no memory left; nothing was changed.
            Corrupt: the cache holds something else than a number under this key; a value may be any bytes.
        """
        ...

    def close(self) -> None:
        """Releases what the cache holds open; closing twice does nothing."""
        ...


CACHE_REQUESTS: Final[tuple[type[Request[Any]], ...]] = (
    CacheRead, CacheIncrement, CacheAdd, CacheSwap, CachePlace, CacheFetch, CacheFill, CacheReplace,
)  # fmt: skip
