"""The contract of caches: numbers that may be lost at any moment, and the requests a plan may make of them.

A cache is beside the store: fast, and allowed to forget. A plan yields these requests as it yields those of the store,
and no cost of a store counts them. `oneread.testing.conformance` tests the contract.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Protocol

from oneread.store.requests import Request

MOST: Final = (1 << 64) - 1
"""The greatest number that a cache holds; an increment beyond it begins again at 0."""
LONGEST_KEY: Final = 400
"""Characters of a key: any text, which a cache makes a key of its own from."""


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


class CachePlace(Request[str], frozen=True, gc=False):
    """What the cache itself calls the number under a key, for those who look for it there. It asks no server."""

    key: str


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
            Corrupt: the cache holds something else than a number under this key.
        """
        ...

    def close(self) -> None:
        """Releases what the cache holds open; closing twice does nothing."""
        ...


CACHE_REQUESTS: Final[tuple[type[Request[Any]], ...]] = (CacheRead, CacheIncrement, CacheAdd, CacheSwap, CachePlace)
