"""What happens to the answers of a gRPC server behind a proxy: they are held back, dropped or cut.

`Faults` makes filters for the proxy that know the frames of HTTP/2: a server sends frames of its own accord, too; an
answer begins with HEADERS, and its messages are DATA. See RFC 9113.
"""

import threading

from tests.failures.proxy import Cut

DATA, HEADERS = 0, 1
HEAD = 9
END_STREAM = 1


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
