"""One connection to a Thrift2 server: one call at a time, each with a deadline.

A connection is of no use any more once an answer did not come whole: the next bytes on it belong to the earlier call.
Calls are numbered, so that such an answer would not be taken for another one. Messages are TBinaryProtocol, which
thriftpy2 has in C.
"""

from __future__ import annotations

import select
import socket
import ssl
from itertools import count
from time import monotonic
from typing import Any, Final

from thriftpy2.protocol import TCyBinaryProtocol
from thriftpy2.thrift import TApplicationException, TMessageType
from thriftpy2.transport import TCyBufferedTransport

from oneread.engines.hbase.options import ThriftPlace, Transport
from oneread.engines.hbase.thrift2 import service

LARGEST_FRAME: Final = 256 << 20
"""Bytes of an answer at most, where the server says its size."""

EXACT_SECONDS: Final = 0.05
"""A wait may end so much later than its deadline: each other time-out of a socket is a call of the kernel."""

_CHUNK: Final = 64 << 10
_PROTOCOL: Final[Any] = TCyBinaryProtocol


class BrokenAnswerError(Exception):
    """What came is not the answer to the call."""


class Connection:
    """A connection of its own to one server. `was_sent` says of the last call whether the server may have got it."""

    def __init__(self, place: ThriftPlace, transport: Transport, tls: ssl.SSLContext | None, deadline: float) -> None:
        self.place = place
        self._wire = _Wire(_connect(place, tls, deadline), framed=transport == "framed")
        self._protocol = _PROTOCOL(TCyBufferedTransport(self._wire))
        self._numbers = count(1)
        self._poll = select.poll()
        self._poll.register(self._wire.socket, select.POLLIN)
        self.used = monotonic()

    @property
    def was_sent(self) -> bool:
        return self._wire.was_sent

    def send(self, method: str, arguments: dict[str, Any], deadline: float) -> int:
        """Asks a method; returns the number of the call. After an exception the connection must be closed."""
        self._wire.begin(deadline)
        number, protocol = next(self._numbers), self._protocol
        protocol.write_message_begin(method, TMessageType.CALL, number)
        given, _result_of = _STRUCTURES[method]
        given(**arguments).write(protocol)
        protocol.trans.flush()
        self._wire.send()
        return number

    def receive(self, method: str, number: int) -> Any:
        """The answer of the method that was asked last.

        Raises an exception of the interface or TApplicationException for a whole answer that is an error; after any
        other exception the connection must be closed.
        """
        protocol = self._protocol
        name, kind, answered = protocol.read_message_begin()
        if kind == TMessageType.EXCEPTION:
            refusal = TApplicationException()
            refusal.read(protocol)
            raise refusal
        if name != method or answered != number or kind != TMessageType.REPLY:
            raise BrokenAnswerError
        _given, result_of = _STRUCTURES[method]
        result = result_of()
        result.read(protocol)
        self.used = monotonic()
        return _answer_of(result)

    def has_something(self) -> bool:
        """Whether it was closed by the server, or an answer to nothing arrived on it."""
        return bool(self._poll.poll(0))

    def close(self) -> None:
        self._wire.socket.close()


_STRUCTURES: Final[dict[str, tuple[Any, Any]]] = {
    method: (getattr(service.THBaseService, f"{method}_args"), getattr(service.THBaseService, f"{method}_result"))
    for method in service.THBaseService.thrift_services
}
"""What each method is asked and answered with."""


def _answer_of(result: Any) -> Any:
    """The value in the structure of a result; raises the exception that is in it."""
    for name, value in vars(result).items():
        if name != "success" and value is not None:
            raise value
    if "success" not in vars(result):
        return None
    if result.success is None:
        raise BrokenAnswerError
    return result.success


def _connect(place: ThriftPlace, tls: ssl.SSLContext | None, deadline: float) -> socket.socket:
    made = _reach(place, deadline)
    try:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if tls is not None:
            made.settimeout(_left(deadline))
            made = tls.wrap_socket(made, server_hostname=place[0])
    except BaseException:
        made.close()
        raise
    return made


def _reach(place: ThriftPlace, deadline: float) -> socket.socket:
    """A connection to the first address of a name that takes it; each has its share of the time that is left."""
    addresses = socket.getaddrinfo(*place, type=socket.SOCK_STREAM)
    for rest, (family, kind, protocol, _name, address) in zip(range(len(addresses), 0, -1), addresses, strict=True):
        made = socket.socket(family, kind, protocol)
        try:
            made.settimeout(_left(deadline) / rest)
            made.connect(address)
        except BaseException as error:
            made.close()
            if rest == 1 or not isinstance(error, OSError):
                raise
        else:
            return made
    raise OSError("the name has no address")


def _left(deadline: float) -> float:
    """The seconds until a deadline; raises TimeoutError when there are none."""
    left = deadline - monotonic()
    if left <= 0:
        raise TimeoutError
    return left


class _Wire:
    """What thriftpy2 reads from and writes to: a message is collected and sent as one, each wait has its deadline."""

    def __init__(self, connected: socket.socket, *, framed: bool) -> None:
        self.socket = connected
        self.was_sent = False
        self._framed = framed
        self._deadline = 0.0
        self._timeout = 0.0
        self._message: list[bytes] = []
        self._rest = 0

    def begin(self, deadline: float) -> None:
        self._deadline, self.was_sent = deadline, False

    def write(self, data: bytes) -> None:
        self._message.append(data)

    def flush(self) -> None:
        """Nothing: `send` sends the whole message."""

    def send(self) -> None:
        message = b"".join(self._message)
        self._message.clear()
        self._limit()
        self.was_sent = True
        self.socket.sendall(len(message).to_bytes(4, "big") + message if self._framed else message)

    def read(self, size: int) -> bytes:
        if not self._framed:
            return self._receive(size)
        if not self._rest:
            self._rest = self._frame_size()
        received = self._receive(min(size, self._rest))
        self._rest -= len(received)
        return received

    def _frame_size(self) -> int:
        head = b""
        while len(head) < 4:  # noqa: PLR2004 - bytes of a size
            head += self._receive(4 - len(head))
        size = int.from_bytes(head, "big")
        if not 0 < size <= LARGEST_FRAME:
            raise BrokenAnswerError
        return size

    def _limit(self) -> None:
        """Lets the next wait end at the deadline, or a little later. Raises TimeoutError when that has passed."""
        left = _left(self._deadline)
        if not left <= self._timeout <= left + EXACT_SECONDS:
            self._timeout = left + EXACT_SECONDS / 2
            self.socket.settimeout(self._timeout)

    def _receive(self, size: int) -> bytes:
        self._limit()
        received = self.socket.recv(min(size, _CHUNK))
        if not received:
            raise EOFError
        return received
