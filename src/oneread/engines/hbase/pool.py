"""Connections to several Thrift2 servers, and calls that survive the loss of some.

A connection has one call at a time. A call that fails is made again on another server, as long as there is time, if it
was not sent or does no harm when it is made twice. A server that does not answer is left alone for a while; one call
tries it after that. See docs/decisions/0094-hbase-over-thrift2.md.
"""

from __future__ import annotations

import os
import random
import ssl
import time
import weakref
from collections import deque
from collections.abc import Generator, Sequence
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from thriftpy2.thrift import TApplicationException

from oneread.engines.hbase.connection import Connection
from oneread.engines.hbase.options import HbaseOptions, ThriftPlace
from oneread.engines.hbase.thrift2 import service
from oneread.engines.hbase.translate import Failure, translate
from oneread.errors import Closed, InvalidUrl, OutcomeUnknown, Unavailable
from oneread.store.engine import finish

SHARES: Final = 3
"""An attempt may take this part of a call's time, so that there is time for others."""

IDLE_SECONDS: Final = 30.0
"""A connection that was not used for so long is closed: a Thrift server closes it after 60."""

_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 1.0
_FIRST_REST: Final = 0.25
_LONGEST_REST: Final = 10.0
_ANSWERED_PAUSE: Final = 0.05
_SHOWN: Final = 200
"""Characters of a message of HBase that tracebacks show."""

_MOST_DOUBLED: Final = 10
"""Failures after which a server does not rest longer: the rest is the longest by then."""


T = TypeVar("T")


class ThriftCall(NamedTuple):
    """A call of a method; with `repeats` it does no harm to make it twice."""

    method: str
    arguments: dict[str, Any]
    repeats: bool = True


ThriftCalls: TypeAlias = "Generator[ThriftCall, Any, T]"
"""A request: yields its calls one after the other, is sent the answer of each, and returns its own."""


class _Server:
    """One server, its idle connections, and until when it is left alone."""

    def __init__(self, place: ThriftPlace) -> None:
        self.place = place
        self.name = f"{place[0]}:{place[1]}"
        self.idle: deque[Connection] = deque()
        self.failures = 0
        self.rests_until = 0.0

    def note_failure(self) -> None:
        """Lets the server rest, longer each time, and closes its connections: they lead to the same process."""
        self.rests_until = monotonic() + min(_LONGEST_REST, _FIRST_REST * 2.0 ** min(self.failures, _MOST_DOUBLED))
        self.failures += 1
        self.drop_idle()

    def note_success(self) -> None:
        self.failures, self.rests_until = 0, 0.0

    def drop_idle(self) -> None:
        while self.idle:
            try:
                self.idle.pop().close()
            except IndexError:  # another thread took the last one
                break


class ThriftPool:
    """ThriftCalls of one process to the servers of a store; may be used by many threads at once.

    While the store `is_opening`, a server that cannot be reached is not waited for, and one of another kind is said to
    be a wrong URL.
    """

    def __init__(self, options: HbaseOptions) -> None:
        self.timeout = options.timeout
        self.is_opening = True
        self._options = options
        self._tls = _context(options.tls)
        self._servers = [_Server(place) for place in options.servers]
        random.shuffle(self._servers)  # so that the processes of a site do not all take the first one
        self._next = 0
        self._closed = False
        self._slots = _slots(options.pool)
        _OPEN.add(self)

    def call(self, method: str, *, repeats: bool, **arguments: Any) -> Any:
        """The answer of a method. With `repeats` it does no harm to make the call twice.

        Raises:
            Unavailable: the call was not made, or only reads.
            OutcomeUnknown: it was sent, and its answer was lost.
        """
        return self.run(_alone(ThriftCall(method, arguments, repeats)))

    def run(self, calls: ThriftCalls[T]) -> T:
        """Makes the calls of a request, within the time of one; raises what `call` does."""
        return finish(self._make(calls, ahead=False))

    def begin(self, calls: ThriftCalls[T]) -> Generator[bool, None, T]:
        """`run`, in two steps: the first sends the first call and yields True, or yields False where it cannot.

        It sends nothing where it would have to wait for other calls, or for a server that failed lately.
        """
        return self._make(calls, ahead=True)

    def _make(self, calls: ThriftCalls[T], *, ahead: bool) -> Generator[bool, None, T]:
        end, slots = monotonic() + self.timeout, self._slots
        try:
            slot = slots.get_nowait()
        except Empty:
            if ahead:
                ahead = False
                yield False
            slot = self._wait_for_slot(slots, end)
        try:
            call = next(calls)
            while True:
                try:
                    self._check_time(end)
                    answer = yield from _RepeatedCall(self, call, end, ahead=ahead).make()
                except Exception as failure:  # noqa: BLE001 - the request may handle it; if not, `throw` raises it again
                    call = calls.throw(failure)
                else:
                    call = calls.send(answer)
                ahead = False
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            slot.give_back()

    def _check_time(self, end: float) -> None:
        if monotonic() >= end:
            late = "HBase did not answer all calls of a request in time; try again"
            raise Unavailable(late, seconds=self.timeout)

    def _wait_for_slot(self, slots: SimpleQueue[_Slot], end: float) -> _Slot:
        try:
            slot = slots.get(timeout=max(0.0, end - monotonic()))
        except Empty:
            raise self._busy() from None
        if monotonic() >= end:
            slot.give_back()
            raise self._busy()
        return slot

    def _busy(self) -> Unavailable:
        return Unavailable("all connections are busy; try again, or give the URL a larger pool", seconds=self.timeout)

    def close(self) -> None:
        self._closed = True
        for server in self._servers:
            server.drop_idle()

    def after_fork(self) -> None:
        """In the child of a fork: the connections are the parent's, and answers on them are for it."""
        self._slots = _slots(self._options.pool)
        for server in self._servers:
            server.drop_idle()

    def servers(self) -> Sequence[_Server]:
        """The servers in the order in which a call tries them: those that rest last, the others in turn."""
        if len(self._servers) == 1:
            return self._servers
        self._next = (self._next + 1) % len(self._servers)
        turned = [*self._servers[self._next :], *self._servers[: self._next]]
        now = monotonic()
        return sorted(turned, key=lambda server: server.rests_until if server.rests_until > now else 0.0)

    def borrow(self, server: _Server, deadline: float) -> Connection:
        """A connection that the server has not closed, and on which no late answer waits."""
        if self._closed:
            raise Closed("the database was closed before this call")
        while server.idle:
            try:
                connection = server.idle.pop()
            except IndexError:  # another thread took the last one
                break
            if monotonic() - connection.used < IDLE_SECONDS and not connection.has_something():
                return connection
            connection.close()
        if server.failures:  # one call tries it, the others leave it alone meanwhile
            server.rests_until = deadline
        return Connection(server.place, self._options.transport, self._tls, deadline)

    def give_back(self, server: _Server, connection: Connection) -> None:
        server.note_success()
        if self._closed:
            connection.close()
        else:
            server.idle.append(connection)


def _alone(call: ThriftCall) -> ThriftCalls[Any]:
    """A request of one call."""
    return (yield call)


class _Slot:
    """The right to use a connection, which goes back into its queue once, also when an exception loses it."""

    __slots__ = ("_queue",)

    def __init__(self, queue: weakref.ref[SimpleQueue[_Slot]]) -> None:
        self._queue: weakref.ref[SimpleQueue[_Slot]] | None = queue

    def give_back(self) -> None:
        """Puts another slot into the queue, unless that was done or the queue is gone."""
        queue, self._queue = self._queue, None
        slots = None if queue is None else queue()
        if queue is not None and slots is not None:
            slots.put(_Slot(queue))

    def __del__(self) -> None:
        self.give_back()


def _slots(count: int) -> SimpleQueue[_Slot]:
    """One item for each connection that may be in use: a queue costs a fraction of a semaphore."""
    slots: SimpleQueue[_Slot] = SimpleQueue()
    for _ in range(count):
        slots.put(_Slot(weakref.ref(slots)))
    return slots


class _RepeatedCall:
    """One call: attempts, until one has an answer or there is no time left."""

    def __init__(self, pool: ThriftPool, call: ThriftCall, deadline: float, *, ahead: bool = False) -> None:
        self._pool = pool
        self._call = call
        self._deadline = deadline
        self._ahead = ahead
        self._may_be_done = False
        self._failed: Failure | None = None
        self._tried: list[str] = []

    def make(self) -> Generator[bool, None, Any]:
        """Makes the call; where it is made `ahead`, it pauses once, and yields whether it is sent."""
        pause = _FIRST_PAUSE
        while True:
            servers = self._pool.servers()
            server = next((each for each in servers if each.name not in self._tried), servers[0])
            if self._ahead and server.failures:
                self._ahead = False
                yield False
            try:
                return (yield from self._attempt(server))
            except _FailedError as failed:
                failure, cause = failed.failure, failed.__cause__
            if not isinstance(cause, TimeoutError) or self._failed is None:
                self._failed = failure  # says more than that the time of the last attempt ended
            self._check(self._failed, cause, len(servers))
            if server.name in self._tried:
                self._tried.clear()
            self._tried.append(server.name)
            if len(self._tried) == len(servers):
                time.sleep(max(0.0, min(pause * (0.5 + random.random()), self._deadline - monotonic())))
                pause = min(_LONGEST_PAUSE, 2 * pause)

    def _attempt(self, server: _Server) -> Generator[bool, None, Any]:
        end = min(self._deadline, monotonic() + self._pool.timeout / SHARES)
        connection: Connection | None = None
        method = self._call.method
        try:
            connection = self._pool.borrow(server, end)
            number = connection.send(method, self._call.arguments, end)
            if self._ahead:
                self._ahead = False
                yield True
            answer = connection.receive(method, number)
        except (service.TIOError, service.TIllegalArgument, TApplicationException) as error:
            assert connection is not None, "a server answered"
            self._pool.give_back(server, connection)
            failure = self._translated(error, server)
            _shorten(error)
            is_refusal = isinstance(error, service.TIOError) and not failure.passes
            self._may_be_done = self._may_be_done or not is_refusal
            raise _FailedError(failure) from error
        except Closed as error:
            self._check_doubt({}, error)
            raise
        except Exception as error:
            if connection is not None:
                connection.close()
                self._may_be_done = self._may_be_done or connection.was_sent
            if connection is None or connection.was_sent:  # else the time ended here, which is not the server's fault
                server.note_failure()
            raise _FailedError(self._translated(error, server)) from error
        except BaseException:
            if connection is not None:
                connection.close()
            raise
        self._pool.give_back(server, connection)
        return answer

    def _translated(self, error: Exception, server: _Server) -> Failure:
        return translate(error, _table_of(self._call.arguments), server.name)

    def _check(self, failure: Failure, cause: BaseException | None, servers: int) -> None:
        """Raises unless the call may be tried again."""
        error, is_opening = failure.error, self._pool.is_opening
        if isinstance(error, InvalidUrl) and not is_opening:
            failure = Failure(Unavailable(error.message, **error.facts), passes=True)
        gives_up = is_opening and not self._may_be_done and len(self._tried) + 1 >= servers
        is_late = monotonic() >= self._deadline
        if failure.passes and not is_late and not gives_up and (self._call.repeats or not self._may_be_done):
            return
        self._check_doubt(failure.error.facts, cause)
        raise failure.error from cause

    def _check_doubt(self, facts: dict[str, Any], cause: BaseException | None) -> None:
        """Raises OutcomeUnknown where an attempt, this one or one before, may have written."""
        if self._may_be_done and self._call.method in _WRITES:
            if isinstance(cause, service.TIOError):
                time.sleep(_ANSWERED_PAUSE)  # who looks what came of it and tries again must not do so without a pause
            lost = "the answer of HBase was lost: this is written or not; read before writing again"
            raise OutcomeUnknown(lost, **facts) from cause


class _FailedError(Exception):
    """An attempt failed."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure = failure


def _shorten(error: Exception) -> None:
    """Leaves the first line of a message, for tracebacks: HBase adds a stack of kilobytes."""
    message = vars(error).get("message") or ""
    vars(error)["message"] = message.partition("\n")[0][:_SHOWN]


def _table_of(arguments: dict[str, Any]) -> bytes:
    """The name of the table that a call is about; empty where it is about none."""
    table: Any = arguments.get("table", b"")
    return table if isinstance(table, bytes) else table.ns + b":" + table.qualifier


_WRITES: Final = frozenset({"putMultiple", "deleteMultiple", "mutateRow", "checkAndMutate", "increment"})


def _context(tls: str) -> ssl.SSLContext | None:
    if not tls:
        return None
    try:
        return ssl.create_default_context(cafile=None if tls == "true" else tls)
    except OSError as error:
        raise InvalidUrl("the file of tls= cannot be read as certificates", tls=tls, error=str(error)) from error


_OPEN: Final[weakref.WeakSet[ThriftPool]] = weakref.WeakSet()


def _after_fork() -> None:
    for pool in list(_OPEN):
        pool.after_fork()


os.register_at_fork(after_in_child=_after_fork)
