"""What a program sees when Redis is dead, slow, full, restarted, locked, or holds what is not a number."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from oneread.caches.redis import RedisCache, RedisPlace
from oneread.errors import Corrupt, LimitExceeded, OutcomeUnknown, Unavailable
from oneread.store.cache import (
    MOST,
    CacheAdd,
    CacheEntry,
    CacheFetch,
    CacheFill,
    CacheIncrement,
    CacheRead,
    CacheReplace,
    CacheSwap,
)
from tools.servers.processes import free_port
from tools.servers.redis import redis_on_a_port

TIMEOUT = 0.3
CHANGES = (
    CacheIncrement("a", 1),
    CacheAdd("a", 1),
    CacheSwap("a", b"1", 1),
    CacheFill([CacheEntry("a", b"1")], 9),
    CacheReplace({"a": b"1"}, 9),
)
READS = (CacheRead("a"), CacheFetch(["a"]))


@pytest.fixture
def server():
    with redis_on_a_port() as started:
        yield started


@pytest.fixture
def cache(server):
    opened = RedisCache(RedisPlace("127.0.0.1", server.port, timeout=TIMEOUT), "scope")
    yield opened
    opened.close()


@pytest.fixture
def client(server):
    with redis.Redis(port=server.port) as opened:
        yield opened


def test_nothing_is_asked_before_the_first_request():
    opened = RedisCache(RedisPlace("127.0.0.1", free_port()), "scope")
    assert repr(opened).endswith("/0>")
    opened.close()


@pytest.mark.parametrize("request_", [*READS, *CHANGES], ids=lambda each: type(each).__name__)
def test_a_dead_server_has_changed_nothing(server, cache, request_):
    cache.answer(CacheAdd("a", 1))
    server.kill()
    with pytest.raises(Unavailable, match=f"nothing was changed.*{server.port}"):
        cache.answer(request_)


def test_a_restarted_server_is_met_without_an_error(server, cache):
    for _ in range(3):
        assert cache.answer(CacheAdd("a", 1)) is True
        server.restart()
    assert cache.answer(CacheIncrement("a", 1)) is None


@pytest.mark.parametrize("request_", CHANGES, ids=lambda each: type(each).__name__)
def test_a_change_without_an_answer_is_of_unknown_outcome_in_time(server, cache, request_):
    cache.answer(CacheAdd("b", 1))
    server.pause()
    began = time.monotonic()
    with pytest.raises(OutcomeUnknown, match=r"timeout=0\.3"):
        cache.answer(request_)
    assert time.monotonic() - began < TIMEOUT + 1


@pytest.mark.parametrize("request_", READS, ids=lambda each: type(each).__name__)
def test_a_read_without_an_answer_is_not(server, cache, request_):
    cache.answer(CacheAdd("a", 1))
    server.pause()
    with pytest.raises(Unavailable, match="in time"):
        cache.answer(request_)
    server.resume()
    assert cache.answer(CacheRead("a")).value == 1


def test_a_late_answer_is_not_taken_for_that_of_the_next_request(server, cache):
    cache.answer(CacheAdd("a", 1))
    cache.answer(CacheAdd("b", 50))
    server.pause()
    with pytest.raises(OutcomeUnknown):
        cache.answer(CacheIncrement("a", 1))
    server.resume()
    assert [cache.answer(CacheIncrement("b", 1)) for _ in range(3)] == [51, 52, 53]


def test_a_late_answer_to_an_interrupted_thread_is_not_either(cache, monkeypatch):
    class Interrupted(BaseException):
        pass

    def interrupt(*_given, **_named):
        raise Interrupted

    cache.answer(CacheAdd("a", 1))
    with monkeypatch.context() as patched:  # the command was sent, and its answer is not read
        patched.setattr(redis.Redis, "parse_response", interrupt)
        with pytest.raises(Interrupted):
            cache.answer(CacheIncrement("a", 1))
    assert cache.answer(CacheAdd("b", 50)) is True
    assert [cache.answer(CacheIncrement("b", 1)) for _ in range(3)] == [51, 52, 53]


def test_each_thread_has_a_connection_however_many_there_are(cache):
    cache.answer(CacheAdd("a", 0))
    begin = threading.Barrier(100)

    def add():
        begin.wait()
        return cache.answer(CacheIncrement("a", 1))

    with ThreadPoolExecutor(100) as pool:
        answers = [each.result() for each in [pool.submit(add) for _ in range(100)]]
    assert sorted(answers) == list(range(1, 101))


@pytest.mark.parametrize("value", [b"seven", b"", b"-5", b"1.5", b"18446744073709551616", b"\xff\0"])
def test_a_value_that_is_not_a_number_is_named(client, cache, value):
    client.set("oneread:scope:a", value)
    for request in (CacheRead("a"), CacheIncrement("a", 1)):
        with pytest.raises(Corrupt, match="oneread:scope:a"):
            cache.answer(request)
        client.set("oneread:scope:a", value)


def test_another_kind_of_value_is_named_and_read_as_none(client, cache):
    client.rpush("oneread:scope:a", "x")
    with pytest.raises(Corrupt, match="oneread:scope:a"):
        cache.answer(CacheRead("a"))
    assert cache.answer(CacheFetch(["a"])) == [None]


def test_numbers_beyond_those_of_redis_are_counted(cache):
    cache.answer(CacheAdd("a", MOST - 3))
    assert [cache.answer(CacheIncrement("a", 2)) for _ in range(3)] == [MOST - 1, 0, 2]
    cache.answer(CacheAdd("b", (1 << 63) - 2))
    assert [cache.answer(CacheIncrement("b", 1)) for _ in range(3)] == [(1 << 63) - 1, 1 << 63, (1 << 63) + 1]


def test_a_full_server_that_may_not_evict_says_so():
    with redis_on_a_port("--maxmemory", "2mb", "--maxmemory-policy", "noeviction") as server:
        cache = RedisCache(RedisPlace("127.0.0.1", server.port), "scope")
        many = {f"{number}": b"x" * 100_000 for number in range(100)}
        with pytest.raises(LimitExceeded, match="no memory left"):
            cache.answer(CacheReplace(many, 60))
        cache.close()


def test_a_password_is_given_and_a_wrong_one_is_not_shown():
    with redis_on_a_port("--requirepass", "secret") as server:
        right = RedisCache(RedisPlace("127.0.0.1", server.port, password="secret"), "scope")
        assert right.answer(CacheAdd("a", 1)) is True
        right.close()
        wrong = RedisCache(RedisPlace("127.0.0.1", server.port, password="other"), "scope")
        with pytest.raises(Unavailable, match="refuses this name and password") as caught:
            wrong.answer(CacheRead("a"))
        assert "other" not in str(caught.value) + repr(wrong)
        wrong.close()


def test_values_are_forgotten_in_time(client, cache):
    cache.answer(CacheFill([CacheEntry("a", b"1")], 60))
    (found,) = cache.answer(CacheFetch(["a"]))
    cache.answer(CacheFill([CacheEntry("a", b"2", found.token)], 60))
    cache.answer(CacheReplace({"b": b"1"}, 60))
    assert all(0 < client.ttl(f"oneread:scope:{key}") <= 60 for key in "ab")
