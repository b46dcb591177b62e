"""Lost answers, cut frames, silent and lost servers: what is repeated, on which server, and what is not known then."""

import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from oneread.engines.hbase import HbaseEngine, options_from_url
from oneread.engines.hbase import pool as pools
from oneread.errors import Closed, InvalidUrl, OutcomeUnknown, Unavailable
from oneread.store.requests import ABSENT, CheckAndMutate, Increment, Mutate, Read, Scan
from oneread.store.rows import Cell, RowMutation, RowRange
from tests.failures.proxy import Once, cut, half, proxy, silence
from tests.failures.stores import until

ALL = RowRange(b"", b"")
ROW = {b"d:b": Cell(b"1", 5)}
PUT = Mutate("roots", [RowMutation(b"a", ROW)])
DELETE = Mutate("roots", [RowMutation(b"a", deletes={b"d:b": 5})])
CLAIM = CheckAndMutate("roots", b"d:b", ABSENT, RowMutation(b"a", ROW))
READ = Read("roots", [b"a"])


def ends(connection):
    """Waits until a connection was closed by the server."""
    until(connection.has_something)
    return True


def time_for(lose):
    """Seconds of a request whose first answer is lost so: a third is waited for where the rest does not come."""
    return 30.0 if lose is cut else 12.0


@pytest.mark.parametrize("lose", [cut, half, silence])
@pytest.mark.parametrize("asked", [READ, Scan("roots", ALL, 5), PUT, DELETE, Read("roots", [b"a", b"b"])])
def test_a_request_whose_answer_is_lost_is_made_again(through, proxies, lose, asked):
    room = through(timeout=time_for(lose))
    room.answer(PUT)
    expected = room.answer(asked)
    proxies[0].on_answer = Once(lose)
    assert room.answer(asked) == expected
    assert proxies[0].on_answer.done
    assert room.answer(READ) == ([None] if asked is DELETE else [ROW])


@pytest.mark.parametrize("lose", [cut, half, silence])
def test_a_check_whose_answer_is_lost_is_made_once_and_its_outcome_unknown(through, proxies, lose):
    room = through()
    room.answer(READ)
    room.engine._pool.timeout = time_for(lose)
    before = proxies[0].requests
    proxies[0].on_answer = Once(lose)
    with pytest.raises(OutcomeUnknown):
        room.answer(CLAIM)
    assert proxies[0].requests == before + 1
    room.engine._pool.timeout = 30.0
    assert room.answer(READ) == [ROW]


def test_an_increment_whose_answer_is_lost_is_made_once(through, proxies):
    room = through()
    add = Increment("counts", b"a", b"d:n", 1)
    room.answer(add)
    proxies[0].on_answer = Once(cut)
    with pytest.raises(OutcomeUnknown):
        room.answer(add)
    assert room.answer(add) == 3


@pytest.mark.parametrize("asked", [PUT, CLAIM])
def test_a_request_that_is_lost_on_its_way_is_not_said_to_be_undone(through, proxies, asked):
    """A lost request looks like a lost answer."""
    room = through(timeout=1.0)
    proxies[0].on_request = lambda _data: None
    with pytest.raises(OutcomeUnknown):
        room.answer(asked)
    proxies[0].on_request = lambda data: data
    room.engine._pool.timeout = 30.0
    assert room.answer(READ) == [None]


def test_a_check_goes_to_another_server_where_one_cannot_be_reached(through, proxies):
    first, second = proxies
    room = through(first, second)
    first.close()
    for server in room.engine._pool._servers:
        for connection in server.idle:
            assert server.name == second.place or ends(connection)
    assert [room.answer(CLAIM), room.answer(CLAIM)] == [True, False]


def test_an_answer_that_comes_too_late_is_not_taken_for_that_of_the_next_request(through, proxies):
    room = through(timeout=12.0)
    held, release = [], threading.Event()
    room.answer(Mutate("roots", [RowMutation(b"a", ROW), RowMutation(b"b", {b"d:b": Cell(b"2", 5)})]))

    def delay(data):
        held.append(data)
        assert release.wait(30)
        return data

    proxies[0].on_answer = Once(delay)
    assert room.answer(READ) == [ROW]
    release.set()
    assert [room.answer(Read("roots", [key])) for key in (b"b", b"a")] == [[{b"d:b": Cell(b"2", 5)}], [ROW]]
    assert len(held) == 1


def test_a_connection_that_the_server_closed_is_noticed_before_it_is_used(through, proxies):
    room = through()
    assert room.answer(CLAIM)
    proxies[0].cut()
    assert ends(room.engine._pool._servers[0].idle[0])
    before = proxies[0].accepted
    assert room.answer(CLAIM) is False
    assert proxies[0].accepted == before + 1


def test_a_connection_that_was_not_used_for_long_is_opened_again(through, proxies, monkeypatch):
    monkeypatch.setattr(pools, "IDLE_SECONDS", float("inf"))
    room = through()
    room.answer(READ)
    before = proxies[0].accepted
    room.answer(READ)
    assert proxies[0].accepted == before
    monkeypatch.setattr(pools, "IDLE_SECONDS", 0.0)
    room.answer(READ)
    assert proxies[0].accepted == before + 1


def test_a_silent_server_is_left_alone_until_it_has_rested(through, proxies):
    first, second = proxies
    room = through(first, second, timeout=12.0)
    resting = next(each for each in room.engine._pool._servers if each.name == first.place)
    first.on_answer = silence
    while not resting.failures:
        assert room.answer(READ) == [None]
    resting.rests_until = float("inf")
    before = first.requests
    assert [room.answer(READ) for _ in range(6)] == [[None]] * 6
    assert first.requests == before
    first.on_answer = lambda data: data
    resting.rests_until = 0.0
    while resting.failures:
        assert room.answer(READ) == [None]
    assert first.requests > before


def test_a_pool_opens_no_more_connections_than_it_may(through, proxies):
    room = through(pool=2)
    inside, most, lock = 0, 0, threading.Lock()

    def count(data):
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        return data

    def uncount(data):
        nonlocal inside
        with lock:
            inside -= 1
        return data

    proxies[0].on_request, proxies[0].on_answer = count, uncount
    with ThreadPoolExecutor(8) as pool:
        answers = [*pool.map(lambda _number: room.answer(READ), range(40))]
    assert answers == [[None]] * 40
    assert most <= 2
    assert proxies[0].accepted <= 2


def test_a_busy_pool_is_waited_for_only_so_long(through):
    room = through(pool=1, timeout=0.1)
    slots = room.engine._pool._slots
    slot = slots.get()
    with pytest.raises(Unavailable, match="all connections are busy"):
        room.answer(READ)
    slot.give_back()
    room.engine._pool.timeout = 30.0
    assert room.answer(READ) == [None]


def test_no_server_at_all_is_unavailable_in_the_time_given(through, proxies):
    room = through(timeout=0.5)
    proxies[0].refuses = True
    proxies[0].cut()
    with pytest.raises(Unavailable) as refusal:
        room.answer(READ)
    assert refusal.value.retryable
    with pytest.raises((Unavailable, OutcomeUnknown)):
        room.answer(PUT)


def test_opening_does_not_wait_where_nothing_listens():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(Unavailable, match="cannot be reached"):
        HbaseEngine(options_from_url(f"127.0.0.1:{port},127.0.0.1:{port}", {}))


def test_opening_takes_another_server_where_the_first_is_lost(hbase, hbase_options):
    with proxy(hbase.place) as lost:
        lost.refuses = True
        servers = options_from_url(f"{lost.place},{hbase.place}", {}).servers
        for _ in range(4):  # the order is by chance
            HbaseEngine(type(hbase_options)(servers=servers, prefix=hbase_options.prefix)).close()


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2p1\r\n",
        b"\x15\x03\x03\x00\x02\x02\x46",
        b"\x00\x00\x00\x10" + bytes(16),
        b"\x80\x01\x00\x02\x00\x00\x00\x04ping\x00\x00\x00\x01\x00",
        b"\x80\x01\x00\x02\xff\xff\xff\xff" + bytes(8),
        b"\x80\x01\x00\x02\x00\x00\x00\x12getTableDescriptor\x00\x00\x00\x01\x0c\x00\x00\x0f\x00\x02\x0c\xff\xff\xff\xff\x00\x00",
        bytes(64),
    ],
)
@pytest.mark.parametrize("transport", ["buffered", "framed"])
def test_a_server_of_another_kind_is_a_wrong_url(hbase, said, transport):
    with proxy(hbase.place) as other:
        other.on_request = lambda data: data
        other.on_answer = lambda _data: said
        with pytest.raises((InvalidUrl, Unavailable)):
            HbaseEngine(options_from_url(other.place, {"transport": transport, "timeout": "0.5"}))


def test_garbage_in_the_middle_does_not_make_the_url_wrong(through, proxies):
    room = through()
    proxies[0].on_answer = Once(lambda data: b"garbage" + data)
    assert room.answer(READ) == [None]
    proxies[0].on_answer = Once(lambda data: b"garbage" + data)
    with pytest.raises(OutcomeUnknown):
        room.answer(CLAIM)


def test_a_framed_server_is_not_taken_for_a_buffered_one(hbase):
    with pytest.raises((InvalidUrl, Unavailable)):
        HbaseEngine(options_from_url(hbase.place, {"transport": "framed", "timeout": "1"}))


@pytest.mark.parametrize("step", ["send", "receive"])
def test_an_interrupted_call_leaves_no_connection_behind(through, monkeypatch, step):
    room = through()
    room.answer(READ)
    (server,) = room.engine._pool._servers
    (connection,) = server.idle

    def interrupt(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(connection, step, interrupt)
    with pytest.raises(KeyboardInterrupt):
        room.answer(READ)
    assert not server.idle
    assert room.answer(READ) == [None]


def test_a_closed_engine_answers_nothing(through):
    room = through()
    room.engine.close()
    room.engine.close()
    with pytest.raises(Closed):
        room.answer(READ)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # this process has threads, of the proxies
def test_a_child_of_a_fork_uses_no_connection_of_its_parent(through, proxies):
    room = through()
    room.answer(PUT)
    before = proxies[0].accepted
    child = os.fork()
    if not child:
        code = 1
        try:
            code = 0 if room.answer(READ) == [ROW] and room.answer(READ) == [ROW] else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert proxies[0].accepted == before + 1
    assert room.answer(READ) == [ROW]
    assert proxies[0].accepted == before + 1


def test_a_slot_that_an_interrupt_loses_goes_back():
    slots = pools._slots(2)
    for _ in range(5):
        slots.get_nowait()  # what it returns is lost
    assert slots.qsize() == 2
    slot = slots.get()
    slot.give_back()
    slot.give_back()
    del slot
    assert slots.qsize() == 2
