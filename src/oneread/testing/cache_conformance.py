"""The contract of caches in executable form: what every cache has to pass.

A cache's test file is a few lines: a class that extends `CacheConformance` and a fixture `open_cache`, which opens a
cache of a scope; caches of two scopes share what holds their numbers.

    class TestMine(CacheConformance):
        @pytest.fixture
        def open_cache(self, server):
            return lambda scope: MyCache(server, scope)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeAlias

import pytest

from oneread.errors import Closed
from oneread.store.cache import (
    LONGEST_KEY,
    LONGEST_VALUE,
    MOST,
    Cache,
    CacheAdd,
    CacheEntry,
    CacheFetch,
    CacheFill,
    CacheIncrement,
    CachePlace,
    CacheRead,
    CacheReplace,
    CacheSwap,
)

OpenCache: TypeAlias = Callable[[str], Cache]
"""Opens a cache of a scope."""

SMALL: Final = 5
GREAT: Final = 1 << 40
THREADS: Final = 6
ADDS: Final = 200
SECONDS: Final = 60
MANY: Final = 1_500
VALUES: Final = (b"", b"\0", b"\r\nEND\r\n", b"123", bytes(range(256)), b"x" * LONGEST_VALUE)
KEYS: Final = (
    "plain",
    "with spaces",
    "with\r\nline ends",
    "\0",
    "100%",
    "%31",
    "#",
    "ä",
    "雨" * (LONGEST_KEY // 4),
    "雨" * (LONGEST_KEY // 4) + "!",
    "a" * LONGEST_KEY,
    "a" * (LONGEST_KEY - 1),
)


class CacheConformance:
    """Extend it, with a fixture `open_cache`."""

    @pytest.fixture
    def cache(self, open_cache: OpenCache) -> Iterator[Cache]:
        opened = open_cache("first")
        yield opened
        opened.close()

    def test_each_key_has_a_place_of_its_own(self, cache: Cache, open_cache: OpenCache) -> None:
        other = open_cache("second")
        places = {each.answer(CachePlace(key)) for each in (cache, other) for key in KEYS}
        assert len(places) == 2 * len(KEYS)
        other.close()

    def test_an_absent_number_is_none_and_stays_absent(self, cache: Cache) -> None:
        assert cache.answer(CacheRead("a")) is None
        assert cache.answer(CacheIncrement("a", 1)) is None
        assert cache.answer(CacheSwap("a", b"1", SMALL)) is False
        assert cache.answer(CacheRead("a")) is None

    def test_a_number_is_added_only_where_there_is_none(self, cache: Cache) -> None:
        assert cache.answer(CacheAdd("a", SMALL)) is True
        assert cache.answer(CacheAdd("a", GREAT)) is False
        assert cache.answer(CacheRead("a")).value == SMALL
        assert cache.answer(CacheAdd("b", 0)) is True
        assert cache.answer(CacheRead("b")).value == 0

    def test_an_increment_answers_the_new_number(self, cache: Cache) -> None:
        cache.answer(CacheAdd("a", SMALL))
        assert cache.answer(CacheIncrement("a", 1)) == SMALL + 1
        assert cache.answer(CacheIncrement("a", GREAT)) == SMALL + 1 + GREAT
        assert cache.answer(CacheRead("a")).value == SMALL + 1 + GREAT

    def test_an_increment_beyond_the_greatest_number_begins_again(self, cache: Cache) -> None:
        cache.answer(CacheAdd("a", MOST))
        assert cache.answer(CacheRead("a")).value == MOST
        assert cache.answer(CacheIncrement("a", SMALL + 1)) == SMALL

    def test_a_swap_needs_the_number_as_it_was_read(self, cache: Cache) -> None:
        cache.answer(CacheAdd("a", SMALL))
        token = cache.answer(CacheRead("a")).token
        assert cache.answer(CacheSwap("a", token, GREAT)) is True
        assert cache.answer(CacheSwap("a", token, SMALL)) is False
        assert cache.answer(CacheRead("a")).value == GREAT
        token = cache.answer(CacheRead("a")).token
        cache.answer(CacheIncrement("a", 1))
        assert cache.answer(CacheSwap("a", token, SMALL)) is False
        assert cache.answer(CacheRead("a")).value == GREAT + 1

    def test_any_text_is_a_key_and_no_two_are_one(self, cache: Cache) -> None:
        for number, key in enumerate(KEYS):
            assert cache.answer(CacheAdd(key, number)) is True
        assert [cache.answer(CacheRead(key)).value for key in KEYS] == list(range(len(KEYS)))

    def test_scopes_are_apart(self, cache: Cache, open_cache: OpenCache) -> None:
        other = open_cache("second")
        same = open_cache("first")
        cache.answer(CacheAdd("a", SMALL))
        assert other.answer(CacheRead("a")) is None
        assert other.answer(CacheAdd("a", GREAT)) is True
        assert same.answer(CacheIncrement("a", 1)) == SMALL + 1
        other.close()
        same.close()

    def test_any_bytes_are_a_value(self, cache: Cache) -> None:
        keys = [f"v{number}" for number in range(len(VALUES))]
        entries = [CacheEntry(key, value) for key, value in zip(keys, VALUES, strict=True)]
        assert cache.answer(CacheFill(entries, SECONDS)) == [True] * len(keys)
        found = cache.answer(CacheFetch([*keys, "absent", keys[0]]))
        assert [None if each is None else each.value for each in found] == [*VALUES, None, VALUES[0]]

    def test_a_value_is_put_only_where_there_is_none_or_the_one_that_was_read(self, cache: Cache) -> None:
        def fill(value: bytes, token: bytes | None) -> bool:
            (was_put,) = cache.answer(CacheFill([CacheEntry("a", value, token)], SECONDS))
            return bool(was_put)

        def fetch() -> tuple[bytes, bytes]:
            (found,) = cache.answer(CacheFetch(["a"]))
            return found.value, found.token

        assert not fill(b"one", b"1"), "nothing was read"
        assert fill(b"one", None)
        assert not fill(b"two", None)
        value, token = fetch()
        assert value == b"one"
        assert fill(b"two", token)
        assert not fill(b"three", token)
        cache.answer(CacheReplace({"a": b"four", "b": b"five"}, SECONDS))
        value, token = fetch()
        assert value == b"four"
        cache.answer(CacheReplace({"a": b"six"}, SECONDS))
        assert not fill(b"seven", token)
        assert fetch()[0] == b"six"

    def test_of_several_values_each_is_put_by_itself(self, cache: Cache) -> None:
        cache.answer(CacheReplace({"b": b"here"}, SECONDS))
        entries = [CacheEntry("a", b"1"), CacheEntry("b", b"2"), CacheEntry("c", b"3")]
        assert cache.answer(CacheFill(entries, SECONDS)) == [True, False, True]
        assert [each.value for each in cache.answer(CacheFetch(["a", "b", "c"]))] == [b"1", b"here", b"3"]

    def test_values_of_two_scopes_are_apart(self, cache: Cache, open_cache: OpenCache) -> None:
        other = open_cache("second")
        cache.answer(CacheReplace({"a": b"1"}, SECONDS))
        assert other.answer(CacheFetch(["a"])) == [None]
        other.close()

    def test_many_values_are_fetched_and_put_at_once(self, cache: Cache) -> None:
        values = {f"{number}{'x' * 40}": str(number).encode() for number in range(MANY)}
        cache.answer(CacheReplace(values, SECONDS))
        assert [each.value for each in cache.answer(CacheFetch([*values]))] == [*values.values()]

    def test_of_many_threads_that_read_one_value_one_puts_the_next(self, cache: Cache) -> None:
        cache.answer(CacheReplace({"a": b"0"}, SECONDS))

        def put(thread: int) -> int:
            done = 0
            for number in range(ADDS):
                (found,) = cache.answer(CacheFetch(["a"]))
                value = f"{int(found.value.split()[0]) + 1} {thread} {number}".encode()
                done += cache.answer(CacheFill([CacheEntry("a", value, found.token)], SECONDS))[0]
            return done

        with ThreadPoolExecutor(THREADS) as threads:
            done = sum(threads.map(put, range(THREADS)))
        (found,) = cache.answer(CacheFetch(["a"]))
        assert int(found.value.split()[0]) == done > 0

    def test_increments_of_many_threads_are_all_counted(self, cache: Cache) -> None:
        cache.answer(CacheAdd("a", 0))

        def add(_thread: int) -> list[int]:
            return [cache.answer(CacheIncrement("a", 1)) for _ in range(ADDS)]

        with ThreadPoolExecutor(THREADS) as threads:
            seen = [value for values in threads.map(add, range(THREADS)) for value in values]
        assert sorted(seen) == list(range(1, THREADS * ADDS + 1))

    def test_a_closed_cache_answers_nothing(self, cache: Cache) -> None:
        cache.close()
        cache.close()
        with pytest.raises(Closed):
            cache.answer(CacheRead("a"))
