"""A TCP proxy in front of a gRPC server, which changes, holds back or drops what the server answers.

The proxy asks a filter about the bytes of each connection. `Faults` makes filters that know the frames of HTTP/2: a
server sends frames of its own accord, too; an answer begins with HEADERS, and its messages are DATA. See RFC 9113.
"""

import contextlib
import socket
import threading

ADDRESS = "127.0.0.1"
PIECE = 1 << 16
DATA, HEADERS = 0, 1
HEAD = 9
END_STREAM = 1


class Cut(Exception):
    """Raised by a filter: `last` still goes to the client, then the connection is closed both ways."""

    def __init__(self, last=b""):
        super().__init__()
        self.last = last


class Proxy:
    """Forwards connections to a port of this machine while a `with` block runs.

    `make_filter()` is called for each connection. What it returns is called with each piece that the server sent, and
    returns what the client gets of it, raises `Cut`, or waits.
    """

    def __init__(self, port, make_filter=lambda: bytes):
        self._server = (ADDRESS, port)
        self._make_filter = make_filter
        self._listening = socket.create_server((ADDRESS, 0))
        self._sockets = set()
        self._lock = threading.Lock()
        self._closed = False
        self.connections = 0

    @property
    def port(self):
        return self._listening.getsockname()[1]

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_failure):
        with self._lock:
            self._closed = True
        _close(self._listening)
        self.cut()

    def cut(self):
        """Closes all connections that there are."""
        with self._lock:
            sockets, self._sockets = self._sockets, set()
        for each in sockets:
            _close(each)

    def _accept(self):
        while True:
            try:
                client, _address = self._listening.accept()
            except OSError:  # closed
                return
            self.connections += 1
            try:
                server = socket.create_connection(self._server)
            except OSError:  # killed, or not started yet: the client sees a connection that ends
                _close(client)
                continue
            with self._lock:
                if self._closed:
                    _close(client)
                    _close(server)
                    return
                self._sockets |= {client, server}
            for source, target, change in ((client, server, bytes), (server, client, self._make_filter())):
                threading.Thread(target=_forward, args=(source, target, change), daemon=True).start()


def _forward(source, target, change):
    try:
        while piece := source.recv(PIECE):
            target.sendall(change(piece))
    except Cut as cut:
        with contextlib.suppress(OSError):
            target.sendall(cut.last)
    except OSError:
        pass
    finally:
        _close(source)
        _close(target)


def _close(connection):
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


class Faults:
    """What becomes of answers, on all connections: each fault happens so many times, and then no more."""

    def __init__(self):
        self._lock = threading.Lock()
        self._dropped = self._spared = 0
        self._data = None
        self._ends = 0
        self.held = threading.Event()
        self.held.set()
        self._held_after = None
        self.waits = threading.Event()
        """Set once an answer waits."""
        self.met = 0
        """Faults that happened."""

    def drop_answers(self, times, after=0):
        """Answers, `after` so many others, are dropped and their connections cut: the requests went through."""
        with self._lock:
            self._dropped, self._spared = times, after

    def drop_ends(self, times):
        """The next answers arrive but for their end, their status; then their connections are cut."""
        with self._lock:
            self._ends = times

    def cut_after(self, frames, *, inside=0):
        """The connection is cut once so many frames of data went on, and so many bytes of the next one."""
        with self._lock:
            self._data = (frames, inside)

    def hold(self, after=0):
        """Answers wait until `release`, `after` so many others."""
        with self._lock:
            self._held_after = after or None
            if not after:
                self.held.clear()

    def release(self):
        with self._lock:
            self._held_after = None
            self.held.set()

    def filter(self):
        """The filter of one connection."""
        rest = bytearray()

        def change(piece):
            rest.extend(piece)
            whole = bytearray()
            while len(rest) >= HEAD and len(rest) >= (size := HEAD + int.from_bytes(rest[:3], "big")):
                frame = bytes(rest[:size])
                del rest[:size]
                try:
                    whole += self._passed(frame)
                except Cut as cut:
                    raise Cut(bytes(whole) + cut.last) from None
            return bytes(whole)

        return change

    def _passed(self, frame):
        kind, is_end = frame[3], bool(frame[4] & END_STREAM)
        if kind == HEADERS and not is_end:
            self._count_down()
        if kind in (DATA, HEADERS):
            if not self.held.is_set():
                self.waits.set()
            self.held.wait()
        with self._lock:
            if kind == HEADERS and not is_end:
                self._begin()
            elif kind == HEADERS and self._ends:
                self._ends -= 1
                self._cut()
            elif kind == DATA and self._data is not None:
                left, inside = self._data
                self._data = (left - 1, inside) if left else None
                if not left:
                    self._cut(frame[:inside])
        return frame

    def _count_down(self):
        """An answer comes: it waits if it is the first that must."""
        with self._lock:
            if self._held_after == 0:
                self.held.clear()
            elif self._held_after is not None:
                self._held_after -= 1

    def _begin(self):
        """An answer begins."""
        if self._dropped and self._spared:
            self._spared -= 1
        elif self._dropped:
            self._dropped -= 1
            self._cut()

    def _cut(self, last=b""):
        self.met += 1
        raise Cut(last)
