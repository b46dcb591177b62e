"""Periodic jobs: what workers do again and again besides tasks, a small batch at a time, as removing what has expired.

Every worker tries each job; the one that finds more than one batch of work takes a lease and continues, and the others
leave it to that worker. So a store at rest is not written, and a dead worker's job is taken over. See
docs/decisions/0056-leases.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from oneread.errors import Conflict
from oneread.plans.counted import CountedStore
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.store.requests import Read
from oneread.transactions.commit import SystemCommitter
from oneread.transactions.leases import Lease, LeaseHolder, decode_lease, encode_lease
from oneread.transactions.system_rows import LEASES, Swap
from oneread.transactions.unit_of_work import VALUE


class PeriodicJob(Protocol):
    """Work that comes again."""

    @property
    def name(self) -> str:
        """The name of its lease; stored."""
        ...

    def step(self) -> Plan[bool]:
        """Does one small batch, when it is time; whether there is more to do at once.

        Two workers may do a step at the same time, so each transaction decides again what is to be done.
        """
        ...


class JobRunner:
    """Does the jobs of one open database, each in its turn; one that fails lets the others go first."""

    def __init__(self, system: SystemCommitter, jobs: Sequence[PeriodicJob], leases: LeaseHolder) -> None:
        self._system = system
        self._jobs = list(jobs)
        self._leases = leases
        self._turn = 0

    def step(self) -> Plan[bool]:
        """One step of each job; whether there is more to do at once. A read and a swap more for a job that has more."""
        more = False
        for _ in self._jobs:
            job = self._jobs[self._turn]
            self._turn = (self._turn + 1) % len(self._jobs)
            key = LEASES.start + job.name.encode()
            if (yield from job.step()):
                more = (yield from self._take(key)) or more
            elif key in self._leases.held:
                yield from self._free(key)
        return more

    def free(self) -> Plan[None]:
        """Frees the leases of this worker: a read and a swap for each."""
        for key in self._leases.held:
            if key.startswith(LEASES.start):
                yield from self._free(key)

    def _take(self, key: bytes) -> Plan[bool]:
        """Takes or renews the lease of a job; False when another worker has it."""
        lease, stored = yield from _read(key)
        now = yield from Now()
        if not self._leases.may_take(key, lease, now):
            return False
        return (yield from self._swap(key, stored, self._leases.renew(key, lease, now)))

    def _free(self, key: bytes) -> Plan[None]:
        lease, stored = yield from _read(key)
        freed = self._leases.freed(key, lease)
        if freed is not None:
            yield from self._swap(key, stored, freed)

    def _swap(self, key: bytes, stored: bytes | None, lease: Lease) -> Plan[bool]:
        lost = Conflict("another worker has taken this job", job=key)
        try:
            yield from self._system.together(_nothing, [Swap(key, stored, encode_lease(lease), lambda: lost)])
        except Conflict:
            self._leases.forget(key)
            return False
        return True


def _read(key: bytes) -> Plan[tuple[Lease | None, bytes | None]]:
    """The lease of a job, and its bytes."""
    (row,) = yield from Read("system", [key])
    cell = None if row is None else row.get(VALUE)
    stored = None if cell is None else cell.value
    return decode_lease(stored), stored


def _nothing(_store: CountedStore) -> None:
    """Only the swap."""
