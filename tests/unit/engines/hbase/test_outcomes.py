"""What is said of a call whose attempts fail, with connections that answer as they are told."""

import pytest
from thriftpy2.thrift import TApplicationException

from oneread.engines.hbase import options_from_url
from oneread.engines.hbase import pool as pools
from oneread.engines.hbase.pool import ThriftPool
from oneread.engines.hbase.thrift2 import service
from oneread.errors import Closed, LimitExceeded, OutcomeUnknown, StoreReplaced, Unavailable

GONE = service.TIOError(message="org.apache.hadoop.hbase.TableNotFoundException: roots")
BUSY = service.TIOError(message="org.apache.hadoop.hbase.CallQueueTooBigException: x")
INTERNAL = TApplicationException(TApplicationException.INTERNAL_ERROR, "Internal error processing putMultiple")


class Told:
    """A connection whose calls end as `ends` says: an exception is raised, after a function was called."""

    used = float("inf")

    def __init__(self, ends):
        self._ends = ends
        self.was_sent = False

    def call(self, *_given):
        self.was_sent = True
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
