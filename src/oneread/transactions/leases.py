"""Leases: which worker does a piece of background work, so that several share it and none waits for a dead one.

A lease is a cell: the worker, until when it has the work, and a count that grows with each change. It is taken and
renewed by compare-and-set, here in the transaction of the batch. It only shares work out: a worker that lost its lease
finds that in its next transaction, and a lease that was taken too early does no harm, since each batch reads where the
work is. See rule 16 of the commit protocol and docs/decisions/0056-leases.md.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from typing import Final

import msgspec

from oneread.plans.performer import elapsed
from oneread.store.rows import UNDECODABLE, Row

LEASE: Final = b"m:l"
"""The column of a lease in the row of a task; the lease of a chore is a row of its own."""

SECONDS: Final = 10.0
"""How long a worker has its work after each batch: a dead worker's is taken over then."""

_SEEN: Final = 10_000
"""Leases of other workers that one worker remembers; with more, those of dead ones are taken over later."""


class Lease(msgspec.Struct, frozen=True, array_like=True):
    """Who has a piece of work. `until` is the owner's clock, in milliseconds since 1970; a freed one has no owner."""

    owner: str
    until: int
    count: int


class TaskLease(Lease, frozen=True, array_like=True):
    """The lease of a task on a store that changes one row at a time: with the last row done, and how many are."""

    cursor: bytes = b""
    done: int = 0


ANY_LEASE: Final = Lease("", -1, -1)
"""Stands for whatever lease there is, in a batch that is done without asking for it."""

encode_lease = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Lease).decode
_decode_of_task = msgspec.msgpack.Decoder(TaskLease).decode


def decode_lease(stored: bytes | None) -> Lease | None:
    """A lease from its bytes; None for none, and for one that cannot be read, which the next worker replaces."""
    try:
        return None if stored is None else _decode(stored)
    except UNDECODABLE:
        return None


def lease_in(row: Row | None) -> Lease | None:
    """The lease of a task, from its row."""
    cell = None if row is None else row.get(LEASE)
    return None if cell is None else decode_lease(cell.value)


def task_lease_in(row: Row) -> TaskLease | None:
    """The lease of a task with how far it is; None for none, and for one that cannot be read."""
    cell = row.get(LEASE)
    try:
        return None if cell is None else _decode_of_task(cell.value)
    except UNDECODABLE:
        return None


def _new_owner() -> str:
    """A name for a worker that no other has: the process, for people who look for it, and 32 random bits."""
    return f"{os.getpid()}-{secrets.token_hex(4)}"


class LeaseHolder:
    """The leases of one worker, and when it first saw those of others.

    A lease of another is over at its end by this process's clock, and at the latest when it was seen unchanged for
    `seconds` by a clock that is never set: so a clock that was set back delays no work for long.
    """

    def __init__(
        self,
        seconds: float = SECONDS,
        clock: Callable[[], float] = elapsed,
        new_owner: Callable[[], str] = _new_owner,
    ) -> None:
        self.seconds = seconds
        self._clock = clock
        self._new_owner = new_owner
        self._owner = ""
        self._process = 0
        self._seen: dict[bytes, tuple[Lease, float]] = {}
        self._held: dict[bytes, None] = {}

    @property
    def owner(self) -> str:
        """The worker's name; another one in the child of a fork, which has none of the parent's leases."""
        process = os.getpid()
        if self._process != process:
            made = self._new_owner()
            if self._process != process:  # another thread may have come first; in the next line none can
                self._process, self._owner, self._held = process, made, {}
        return self._owner

    @property
    def held(self) -> list[bytes]:
        """The keys of the rows whose leases this worker may have."""
        return list(self._held) if self._process == os.getpid() else []

    def may_take(self, key: bytes, lease: Lease | None, now: int) -> bool:
        """Whether this worker may do the work of a row with this lease, by its clock."""
        if lease is None or lease.owner in ("", self.owner) or lease.until <= now:
            return True
        known = self._seen.get(key)
        if known is None or known[0] != lease:
            if len(self._seen) >= _SEEN:
                self._seen.clear()
            self._seen[key] = (lease, self._clock())
            return False
        return self._clock() - known[1] >= self.seconds

    def renew(self, key: bytes, lease: Lease | None, now: int) -> Lease:
        """The lease with which this worker continues, in place of the one that it may take."""
        owner = self.owner
        self._held[key] = None
        self._seen.pop(key, None)
        return Lease(owner, now + round(self.seconds * 1000), 1 if lease is None else lease.count + 1)

    def left(self, key: bytes, lease: Lease | None) -> Lease:
        """A lease without an owner, in place of the one that this worker may take: the rest is for any worker."""
        self.forget(key)
        return Lease("", 0, 1 if lease is None else lease.count + 1)

    def freed(self, key: bytes, lease: Lease | None) -> Lease | None:
        """What to write in place of this worker's lease, so that others need not wait; None when it is not its own."""
        left = self.left(key, lease)
        return None if lease is None or lease.owner != self._owner else left

    def forget(self, key: bytes) -> None:
        """The work of a row has ended, or is another's."""
        self._held.pop(key, None)
        self._seen.pop(key, None)
