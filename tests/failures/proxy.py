"""A TCP proxy before a server, which loses answers, cuts them, changes them or delays them at given moments."""

import socket
import threading
from contextlib import contextmanager, suppress

CHUNK = 1 << 16


class Proxy:
    """Forwards connections to a server. `on_request` and `on_answer` are asked about each piece of bytes.

    Each returns the bytes that go on instead: none to drop them, None to drop them and cut the connection.
    """

    def __init__(self, server):
        self._server = server
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._connections = []
        self._closed = False
        self.requests = 0
        self.accepted = 0
        self.refuses = False
        self.on_request = self.on_answer = lambda data: data
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def place(self):
        return f"127.0.0.1:{self._listening.getsockname()[1]}"

    def cut(self):
        """Ends all connections, as a server does that is killed."""
        for each in list(self._connections):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self):
        self._closed = True
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut()
        for thread in self._threads:
            thread.join(30)
        for each in self._connections:
            each.close()

    def _accept(self):
        while not self._closed:
            try:
                client, _address = self._listening.accept()
            except OSError:
                return
            self._connections.append(client)
            self.accepted += 1
            if self.refuses:
                with suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)
                continue
            try:
                server = socket.create_connection(self._server)
            except OSError:
                with suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)
                continue
            self._connections.append(server)
            for source, target, is_request in ((client, server, True), (server, client, False)):
                thread = threading.Thread(target=self._forward, args=(source, target, is_request), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _forward(self, source, target, is_request):
        with suppress(OSError):
            while data := source.recv(CHUNK):
                self.requests += is_request
                passed = (self.on_request if is_request else self.on_answer)(data)
                if passed is None:
                    break
                target.sendall(passed)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


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
    made = Proxy((host, int(port)))
    try:
        yield made
    finally:
        made.close()


__all__ = ["Once", "Proxy", "cut", "half", "proxy", "silence"]
