"""What a move asks of each change on a store that changes one row at a time: a mark before it, to wait, or none.

A program knows the row of the move for as long as a short lease, as it knows the fence. While the store is moved each
change of an entity or a counter is preceded by a mark, at the number that the row will have; then the lease is looked
at, then the change is sent. The follower removes a mark when the row has this number or a later one, so that the change
was made, or cannot be made any more. See docs/decisions/0148-one-row-stores-are-moved.md.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

from oneread.errors import Unavailable
from oneread.plans.effects import Sleep
from oneread.plans.plan import Plan
from oneread.store.requests import CheckAndMutate, Mutate
from oneread.store.rows import Cell, RowMutation, RowRange
from oneread.transactions.commit import WriteLease
from oneread.transactions.intents import MARKER, MARKER_BUCKETS, encode_version
from oneread.transactions.lost_answers import surely
from oneread.transactions.moves import HELD, HOLD_SECONDS, MOVE_LOG, asked_by, logged_counter

PAUSE: Final = 0.1
"""Seconds between two looks at the row of a move that is being switched."""

MARKS: Final = RowRange.under(MOVE_LOG)
"""The range of marks in `system`."""


class MoveGate:
    """Lets the changes of one database through; without a lease, as of what opens stores, each at once."""

    def __init__(self) -> None:
        self.lease: WriteLease | None = None
        self.follower = ""
        """Names the follower of a move whose database this is: several of its requests may be made in threads."""

    @property
    def is_moving(self) -> bool:
        """Whether the store is moved or moved into, as far as this program knows."""
        return self.lease is not None and self.lease.move is not None

    def hold(self) -> Plan[None]:
        """Reads again what the move asks if that is not known any more."""
        if self.lease is not None:
            yield from self.lease.hold()

    def enter(self, logged: Sequence[bytes], stamp: int) -> Plan[None]:
        """Directly before a row is changed at a stamp: marks what changes, and waits while the store is switched.

        `logged` are rows as the log has them; none for jobs, which a move does not follow. No request where the lease
        is not over and the store is not moved; else a request for the marks, and one for the lease.

        Raises:
            StoreMoved: the store has moved, or is a target and this is not its follower. Nothing was changed.
            Unavailable: it has not been switched in time. Nothing was changed.
        """
        lease, is_marked = self.lease, False
        waits = round(HOLD_SECONDS / PAUSE)
        while lease is not None:
            yield from lease.hold()
            asked = asked_by(lease.move, self.follower)
            if asked == "nothing" or (asked == "log" and is_marked):
                return
            if asked == "log":
                if logged:
                    yield from surely(put_marks(logged, stamp))
                is_marked = True
            elif waits:
                waits -= 1
                yield from Sleep(PAUSE)
                yield from lease.learn()
            else:
                raise Unavailable(HELD, waited=HOLD_SECONDS)

    def enter_counter(self, change: CheckAndMutate) -> Plan[None]:
        """`enter` before a row of a counter is changed."""
        mutation = change.mutation
        stamp = max(each.stamp for each in mutation.puts.values())
        yield from self.enter([logged_counter(mutation.key)], stamp)


NO_GATE: Final = MoveGate()
"""That of stores which are not moved."""


def put_marks(logged: Sequence[bytes], stamp: int) -> Mutate:
    """Puts the marks of rows, as the log has them, that will have a number."""
    cell = Cell(encode_version(stamp), stamp)
    return Mutate("system", [RowMutation(_key(each), {MARKER: cell}) for each in logged])


def _key(logged: bytes) -> bytes:
    return MARKS.start + bytes([zlib.crc32(logged) % MARKER_BUCKETS]) + logged


def logged_in(mark: bytes) -> bytes:
    """What the mark with a key is about, as the log has it."""
    return mark[len(MARKS.start) + 1 :]
