"""A TCP proxy before a server, which loses answers, cuts them, changes them or delays them at given moments."""

import socket
import threading
from contextlib import contextmanager, suppress

PIECE = 1 << 16
ADDRESS = "127.0.0.1"


class Cut(Exception):
    """Raised instead of returning bytes: `last` still goes on, then the connection is closed both ways."""

    def __init__(self, last=b""):
        super().__init__()
        self.last = last


class Proxy:
    """Forwards connections to a server. `on_request` and `on_answer` are asked about each piece of bytes.

    Each returns the bytes that go on instead: none to drop them, None to drop them and cut the connection. It may wait,
    or raise `Cut`. Instead of `on_answer`, `make_filter()` makes a function for each connection.
    """

    def __init__(self, server, make_filter=None):
        self._server = server
        self._make_filter = make_filter or (lambda: self._answered)
        self._listening = socket.create_server((ADDRESS, 0))
        self._lock = threading.Lock()
        self._connections = set()
        self._closed = False
        self.requests = 0
        self.accepted = 0
        self.refuses = False
        self.on_request = self.on_answer = lambda data: data
        self._threads = set()
        self._start(self._accept)

    @property
    def port(self):
        return self._listening.getsockname()[1]

    @property
    def place(self):
        return f"{ADDRESS}:{self.port}"

    def __enter__(self):
        return self

    def __exit__(self, *_failure):
        self.close()

    def cut(self):
        """Ends all connections, as a server does that is killed."""
        with self._lock:
            for each in self._connections:
                _shut(each)

    def close(self):
        with self._lock:
            self._closed = True
        _shut(self._listening)
        self._listening.close()
        self.cut()
        for thread in list(self._threads):
            thread.join(30)

    def _start(self, function, *arguments):
        def run():
            try:
                function(*arguments)
            finally:
                self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=run, daemon=True)
        self._threads.add(thread)
        thread.start()

    def _accept(self):
        while True:
            try:
                client, _address = self._listening.accept()
            except OSError:  # closed
                return
            self.accepted += 1
            try:
                if self.refuses:
                    raise ConnectionRefusedError
                server = socket.create_connection(self._server)
            except OSError:  # killed, or not started yet: the client sees a connection that ends
                _shut(client)
                client.close()
                continue
            with self._lock:
                if self._closed:
                    client.close()
                    server.close()
                    return
                self._connections |= {client, server}
            left = [client, server]
            self._start(self._forward, client, server, self._asked, True, left)
            self._start(self._forward, server, client, self._make_filter(), False, left)

    def _asked(self, data):
        return self.on_request(data)

    def _answered(self, data):
        return self.on_answer(data)

    def _forward(self, source, target, change, is_request, left):
        """One direction of a connection; the last of the two closes both sockets, which are in `left` until then."""
        with suppress(OSError):
            while data := source.recv(PIECE):
                self.requests += is_request
                try:
                    passed = change(data)
                except Cut as cut:
                    target.sendall(cut.last)
                    break
                if passed is None:
                    break
                target.sendall(passed)
        for each in (source, target):
            _shut(each)
        with self._lock:
            left.remove(source)
            if not left:
                self._connections -= {source, target}
                source.close()
                target.close()


def _shut(connection):
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class Once:
    """Does to one piece of bytes what it is given, after `skip` others, and lets all others pass."""

    def __init__(self, change, skip=0):
        self._change = change
        self._skip = skip
        self.done = False

    def __call__(self, data):
        if self.done:
            return data
        if self._skip:
            self._skip -= 1
            return data
        self.done = True
        return self._change(data)


def cut(_data):
    """The bytes are lost, and the connection."""


def silence(_data):
    """The bytes are lost; the connection stays."""
    return b""


def half(data):
    """Only the first half arrives; the rest is never sent."""
    return data[: len(data) // 2]


@contextmanager
def proxy(place):
    """A proxy before the server at `host:port`."""
    host, _colon, port = place.rpartition(":")
    with Proxy((host, int(port))) as made:
        yield made


__all__ = ["Cut", "Once", "Proxy", "cut", "half", "proxy", "silence"]
