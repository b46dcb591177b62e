"""What is said of a call whose attempts fail, with connections that answer as they are told."""

import traceback

import pytest
from thriftpy2.thrift import TApplicationException

from oneread.engines.hbase import options_from_url
from oneread.engines.hbase import pool as pools
from oneread.engines.hbase.pool import ThriftCall, ThriftPool
from oneread.engines.hbase.thrift2 import service
from oneread.errors import Closed, LimitExceeded, OutcomeUnknown, StoreReplaced, Unavailable
from oneread.store.engine import finish

GONE = service.TIOError(message="org.apache.hadoop.hbase.TableNotFoundException: roots")
BUSY = service.TIOError(message="org.apache.hadoop.hbase.CallQueueTooBigException: x")
INTERNAL = TApplicationException(TApplicationException.INTERNAL_ERROR, "Internal error processing putMultiple")


class Told:
    """A connection whose calls end as `ends` says: an exception is raised, after a function was called."""

    used = float("inf")

    def __init__(self, ends):
        self._ends = ends
        self.was_sent = False

    def send(self, *_given):
        self.was_sent = True
        return 1

    def receive(self, *_given):
        end = self._ends.pop(0)
        if isinstance(end, BaseException):
            raise end
        return end() if callable(end) else end

    def has_something(self):
        return False

    def close(self):
        """Nothing is open."""


@pytest.fixture
def told(monkeypatch):
    """A pool of one server, whose calls end as is told."""

    def make(*ends, place="a:1", **query):
        left = [*ends]
        monkeypatch.setattr(pools, "Connection", lambda *_given: Told(left))
        pool = ThriftPool(options_from_url(place, query))
        pool.is_opening = False
        return pool

    return make


def test_a_server_that_failed_very_often_rests_the_longest_time(told):
    (server,) = told().servers()
    server.failures = 5_000
    server.note_failure()
    assert server.failures == 5_001


@pytest.mark.parametrize("method", ["putMultiple", "deleteMultiple", "mutateRow"])
def test_a_write_that_is_refused_after_a_lost_answer_may_be_written(told, method):
    with pytest.raises(OutcomeUnknown):
        told(EOFError(), GONE).call(method, repeats=True)
    with pytest.raises(OutcomeUnknown):
        told(BUSY, GONE).call(method, repeats=True)


def test_a_write_that_is_refused_at_once_is_not_written(told):
    with pytest.raises(StoreReplaced):
        told(GONE).call("putMultiple", repeats=True)


def test_a_read_that_is_refused_after_a_lost_answer_is_refused(told):
    with pytest.raises(StoreReplaced):
        told(EOFError(), GONE).call("get", repeats=True)


def test_an_internal_error_of_a_server_leaves_a_write_in_doubt(told):
    with pytest.raises(OutcomeUnknown):
        told(INTERNAL).call("putMultiple", repeats=True)
    with pytest.raises(LimitExceeded):
        told(INTERNAL).call("get", repeats=True)


def test_a_write_whose_answer_is_lost_before_the_close_may_be_written(told):
    def close():
        pool.close()
        raise EOFError

    pool = told(close)
    with pytest.raises(OutcomeUnknown):
        pool.call("putMultiple", repeats=True)
    pool = told(close)
    with pytest.raises(Closed):
        pool.call("get", repeats=True)


def test_a_server_that_is_named_twice_is_one(told):
    pool = told(*[BUSY] * 1_000, place="a:1,b:1,a:1", timeout="0.3")
    assert len(pool.servers()) == 2
    with pytest.raises(Unavailable):
        pool.call("get", repeats=True)


def test_a_call_without_time_left_is_not_made(told):
    pool = told()
    pool.timeout = 0.0
    with pytest.raises(Unavailable, match="all calls of a request"):
        pool.call("get", repeats=True)


def test_a_server_is_not_blamed_for_what_was_not_sent(told, monkeypatch):
    def late(_self, _method, _arguments, _end):
        raise TimeoutError

    pool = told(b"1")
    monkeypatch.setattr(Told, "send", late)
    pool.timeout = 0.1
    (server,) = pool.servers()
    with pytest.raises(Unavailable):
        pool.call("get", repeats=True)
    assert not server.failures


def test_the_stack_of_java_is_not_in_a_traceback(told):
    refused = service.TIOError(message="org.apache.hadoop.hbase.DoNotRetryIOException: x" + "\n\tat some.Class" * 400)
    with pytest.raises(Unavailable) as refusal:
        told(refused).call("get", repeats=True)
    shown = "".join(traceback.format_exception(refusal.value))
    assert "DoNotRetryIOException: x" in shown
    assert "some.Class" not in shown


def test_a_check_that_hbase_could_not_answer_is_not_looked_after_at_once(told, monkeypatch):
    pauses = []
    monkeypatch.setattr(pools.time, "sleep", pauses.append)
    with pytest.raises(OutcomeUnknown):
        told(BUSY).call("checkAndMutate", repeats=False)
    assert pauses == [0.05]


# Calls that are sent ahead.


def alone(method="get"):
    return (yield ThriftCall(method, {}))


def test_a_call_is_sent_before_its_answer_is_waited_for(told):
    pool = told(b"1", b"2")
    begun = [pool.begin(alone()) for _ in range(2)]
    assert [next(each) for each in begun] == [True, True]
    assert [finish(each) for each in begun] == [b"1", b"2"]


def test_what_would_wait_for_a_connection_is_not_sent(told):
    pool = told(b"1", b"2", pool="1")
    first, second = pool.begin(alone()), pool.begin(alone())
    assert [next(first), next(second)] == [True, False]
    assert [finish(first), finish(second)] == [b"1", b"2"]


def test_nothing_is_sent_ahead_to_a_server_that_failed_lately(told):
    pool = told(b"1", b"2")
    (server,) = pool.servers()
    server.failures = 1
    first = pool.begin(alone())
    assert next(first) is False
    assert finish(first) == b"1"
    assert next(pool.begin(alone())) is True


def test_a_call_that_cannot_be_sent_is_tried_again_when_it_is_waited_for(told, monkeypatch):
    pool = told(b"1")
    sent = iter([OSError("refused"), 1])

    def send(connection, *_given):
        connection.was_sent = True
        if isinstance(failure := next(sent), OSError):
            raise failure
        return failure

    monkeypatch.setattr(Told, "send", send)
    begun = pool.begin(alone())
    assert next(begun) is False
    assert finish(begun) == b"1"


def test_the_connection_of_an_answer_that_is_given_up_is_closed(told, monkeypatch):
    closed = []
    monkeypatch.setattr(Told, "close", lambda _self: closed.append(1))
    pool = told(b"late", b"2", pool="1")
    begun = pool.begin(alone())
    next(begun)
    begun.close()
    assert closed == [1]
    assert not pool.servers()[0].idle
    assert finish(pool.begin(alone())) == b"late"
