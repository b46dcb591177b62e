"""What a program sees when memcached is dead, slow, full, restarted, or holds what is not a number."""

import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from oneread.caches.memcached import MemcachedCache
from oneread.errors import Corrupt, LimitExceeded, OutcomeUnknown, StoreError, Unavailable
from oneread.store.cache import CacheAdd, CacheIncrement, CachePlace, CacheRead, CacheSwap
from tools.servers.memcached import memcached_server
from tools.servers.processes import free_port

TIMEOUT = 0.3
CHANGES = (CacheIncrement("a", 1), CacheAdd("a", 1), CacheSwap("a", b"1", 1))


@pytest.fixture
def server():
    with memcached_server() as started:
        yield started


@pytest.fixture
def cache(server):
    opened = MemcachedCache("127.0.0.1", server.port, "scope", TIMEOUT)
    yield opened
    opened.close()


def send(server, command):
    with socket.create_connection(("127.0.0.1", server.port), 5) as connection:
        connection.sendall(command)
        return connection.recv(4096)


def put(server, value, key=b"oneread:scope:a"):
    assert send(server, b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value)) == b"STORED\r\n"


def test_nothing_is_asked_before_the_first_request():
    MemcachedCache("127.0.0.1", free_port(), "scope").close()


@pytest.mark.parametrize("request_", [CacheRead("a"), *CHANGES], ids=lambda each: type(each).__name__)
def test_a_dead_server_has_changed_nothing(server, cache, request_):
    cache.answer(CacheAdd("a", 1))
    server.kill()
    with pytest.raises(Unavailable, match=f"nothing was changed.*{server.port}"):
        cache.answer(request_)


def test_an_unknown_host_is_named():
    with pytest.raises(Unavailable, match=r"no-such-host\.invalid"):
        MemcachedCache("no-such-host.invalid", 11211, "scope").answer(CacheRead("a"))


def test_a_restarted_server_is_met_without_an_error(server, cache):
    for _ in range(5):
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


def test_a_read_without_an_answer_is_not(server, cache):
    cache.answer(CacheAdd("a", 1))
    server.pause()
    with pytest.raises(Unavailable, match="in time"):
        cache.answer(CacheRead("a"))
    with pytest.raises(Unavailable, match="nothing was changed"):  # on a new connection, which gets no greeting
        cache.answer(CacheIncrement("a", 1))
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
    cache.answer(CacheAdd("a", 1))
    (client,) = cache._idle

    class Interrupted(BaseException):
        pass

    def interrupt(_key, _value):
        client.sock.sendall(b"incr oneread:scope:a 1\r\n")
        raise Interrupted

    monkeypatch.setattr(client, "incr", interrupt)
    with pytest.raises(Interrupted):
        cache.answer(CacheIncrement("a", 1))
    assert cache.answer(CacheAdd("b", 7)) is True
    assert cache.answer(CacheRead("b")).value == 7


@pytest.mark.parametrize(
    "value", [b"seven", b"", b"-5", b"1.5", b"1 2", b"18446744073709551616", b"\xff\0", b"7" * 999]
)
def test_a_value_that_is_not_a_number_is_named(server, cache, value):
    put(server, value)
    for request in (CacheRead("a"), CacheIncrement("a", 1)):
        if (type(request), value) != (CacheIncrement, b"1 2"):  # memcached takes the digits in front of a space
            with pytest.raises(Corrupt, match="oneread:scope:a") as caught:
                cache.answer(request)
            assert len(str(caught.value)) < 600
    assert cache.answer(CacheAdd("b", 1)) is True


def test_a_number_with_spaces_behind_it_is_read(server, cache):
    put(server, b"7   ")
    assert cache.answer(CacheRead("a")).value == 7


SMALL = ("--memory-limit=2",)


def fill(cache):
    for number in range(15_000):
        assert cache.answer(CacheAdd(f"{number}{'x' * 200}", 1)) is True


def test_a_server_without_memory_that_may_not_evict_says_so():
    with memcached_server(*SMALL, "--disable-evictions") as server:
        cache = MemcachedCache("127.0.0.1", server.port, "scope")
        with pytest.raises(LimitExceeded, match="no memory left"):
            fill(cache)
        cache.close()


def test_a_full_server_keeps_counting_what_it_holds():
    held, other = "x" * 205, "y" * 205
    with memcached_server(*SMALL, "--disable-evictions") as server:
        cache = MemcachedCache("127.0.0.1", server.port, "scope")
        cache.answer(CacheAdd(held, 1))
        with pytest.raises(LimitExceeded):
            fill(cache)
        assert cache.answer(CacheIncrement(held, 1)) == 2
        assert cache.answer(CacheRead(other)) is None
        for _ in range(3):
            with pytest.raises(LimitExceeded, match="nothing was changed"):
                cache.answer(CacheAdd(other, 1))
        assert cache.answer(CacheIncrement(held, 1)) == 3
        cache.close()


def test_a_full_server_evicts():
    with memcached_server(*SMALL) as server:
        cache = MemcachedCache("127.0.0.1", server.port, "scope")
        fill(cache)
        assert cache.answer(CacheRead(f"0{'x' * 200}")) is None
        cache.close()


def answering(*answers):
    """A server that answers with these bytes whatever it is sent, then hangs up; its port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        with listener:
            connection, _address = listener.accept()
            with connection:
                for answer in answers:
                    connection.recv(4096)
                    connection.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()[1]


@pytest.mark.parametrize(
    "greeting", [b"-ERR unknown command 'version'\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\r\n"]
)
def test_another_kind_of_server_is_noticed(greeting):
    with pytest.raises(Unavailable, match="protocol"):
        MemcachedCache("127.0.0.1", answering(greeting), "scope").answer(CacheIncrement("a", 1))


def test_a_server_that_hangs_up_is_not_called_dead():
    """As `python -m http.server` does: its answer to one word has no end of a line that memcached has."""
    for answer in (b"<!DOCTYPE HTML>\n<html>\n</html>\n", b""):
        with pytest.raises(Unavailable, match="hung up without an answer of memcached's protocol"):
            MemcachedCache("127.0.0.1", answering(answer), "scope").answer(CacheRead("a"))


def test_a_number_is_named_as_memcached_calls_it_without_asking(server, cache):
    long = "x" * 300
    for key in ("a", "a b", long):
        cache.answer(CacheAdd(key, 7))
    server.kill()
    places = [cache.answer(CachePlace(key)) for key in ("a", "a b", long)]
    server.restart()
    assert places[0] == "oneread:scope:a"
    for number, place in enumerate(places):
        put(server, b"%d" % number, place.encode())
    assert [cache.answer(CacheRead(key)).value for key in ("a", "a b", long)] == [0, 1, 2]


@pytest.mark.parametrize("answer", [b"what\r\n", b"", b"SERVER_ERROR busy\r\n", b"7"])
def test_an_answer_that_makes_no_sense_leaves_the_outcome_unknown(answer):
    cache = MemcachedCache("127.0.0.1", answering(b"VERSION 1.6.18\r\n", answer), "scope", TIMEOUT)
    with pytest.raises(OutcomeUnknown):
        cache.answer(CacheIncrement("a", 1))


def test_a_child_of_a_fork_has_connections_of_its_own(cache):
    cache.answer(CacheAdd("a", 0))
    cache.answer(CacheAdd("b", 10**6))
    child = os.fork()
    if not child:
        seen = []
        try:
            seen = [cache.answer(CacheIncrement("b", 1)) for _ in range(500)]
        finally:
            os._exit(0 if seen == list(range(10**6 + 1, 10**6 + 501)) else 1)
    assert [cache.answer(CacheIncrement("a", 1)) for _ in range(500)] == list(range(1, 501))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_no_more_connections_are_kept_than_needed(cache):
    cache.answer(CacheAdd("a", 0))
    for _ in range(50):
        cache.answer(CacheIncrement("a", 1))
    assert len(cache._idle) == 1
    with ThreadPoolExecutor(100) as threads:
        list(threads.map(lambda _: cache.answer(CacheIncrement("a", 1)), range(1000)))
    assert len(cache._idle) <= 64
    cache.close()
    assert not cache._idle


def test_restarts_under_many_threads_raise_only_errors_of_the_store(server, cache):
    stop = threading.Event()

    def ask(number):
        while not stop.is_set():
            try:
                cache.answer(CacheAdd(f"{number}", 0))
                cache.answer(CacheIncrement(f"{number}", 1))
                cache.answer(CacheRead(f"{number}"))
            except StoreError:
                pass
        return True

    with ThreadPoolExecutor(4) as threads:
        asking = threads.map(ask, range(4))
        for _ in range(10):
            server.restart()
        stop.set()
        assert all(asking)
