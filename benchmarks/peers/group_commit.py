"""Group commit over the floor: writers that wait for the disk at the same time share one transaction and one sync.

The first who comes leads: commits all that have queued up, wakes them, and hands over to the first of those that came
meanwhile (as LevelDB's queue of writers does).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from benchmarks.peers.floor import Floor
from examples.shop.source import Line


@dataclass(eq=False, slots=True)
class _Ticket:
    line: Line
    wake: threading.Lock = field(default_factory=threading.Lock)
    done: bool = False


class GroupCommit:
    """Saves from many threads, each of which returns when its purchase is on disk."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
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
        with self._floor.env.begin(write=True) as transaction:
            for ticket in batch:
                self._floor.write(transaction, ticket.line)
        for ticket in batch:
            ticket.done = True
            if ticket is not own:
                ticket.wake.release()
        with self._mutex:
            if self._queue:
                self._queue[0].wake.release()
            else:
                self._led = False
