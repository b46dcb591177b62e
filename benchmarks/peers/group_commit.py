"""Group commit over a peer in this process, LMDB or SQLite: writers that wait for the disk share a commit and its sync.

The first who comes leads: commits all that have queued up, wakes them, and hands over to the first of those that came
meanwhile (as LevelDB's queue of writers does).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from examples.shop.source import Line


@dataclass(eq=False, slots=True)
class _Ticket:
    line: Line
    wake: threading.Lock = field(default_factory=threading.Lock)
    done: bool = False


class GroupCommit:
    """Saves from many threads, each of which returns when its purchase is on disk.

    Arguments:
        save_all: writes several purchases in one transaction.
    """

    def __init__(self, save_all: Callable[[Sequence[Line]], object]) -> None:
        self._save_all = save_all
        self._mutex = threading.Lock()
        self._queue: list[_Ticket] = []
        self._led = False

    def save(self, line: Line) -> None:
        ticket = _Ticket(line)
        with self._mutex:
            self._queue.append(ticket)
            leads, self._led = not self._led, True
            if not leads:
                ticket.wake.acquire()
        if not leads:
            with ticket.wake:  # released by a leader: the purchase is written, or it is this thread's turn to lead
                if ticket.done:
                    return
        self._lead(ticket)

    def _lead(self, own: _Ticket) -> None:
        with self._mutex:
            batch, self._queue = self._queue, []
        self._save_all([ticket.line for ticket in batch])
        for ticket in batch:
            ticket.done = True
            if ticket is not own:
                ticket.wake.release()
        with self._mutex:
            if self._queue:
                self._queue[0].wake.release()
            else:
                self._led = False
