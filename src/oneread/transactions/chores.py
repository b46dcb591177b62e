"""Chores: what workers do again and again besides tasks, a small batch at a time, as removing what has expired.

Every worker tries each chore; the one that finds more than one batch of work takes a lease and continues, and the
others leave it to that worker. So a store at rest is not written, and a dead worker's chore is taken over. See
docs/decisions/0056-leases.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from oneread.errors import Conflict
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.store.requests import Read, Scan
from oneread.store.rows import VALUE, Row
from oneread.transactions.commit import SystemCommitter, swap_alone
from oneread.transactions.leases import Lease, LeaseHolder, decode_lease, encode_lease
from oneread.transactions.system_rows import LEASES, Swap


class Chore(Protocol):
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


def chore_leases(limit: int) -> Plan[list[tuple[str, Lease]]]:
    """The chores that workers have leases on, or had, by name. One request, at most `limit` rows."""
    rows = yield from Scan("system", LEASES, limit)
    found = [(key[len(LEASES.start) :].decode(errors="replace"), decode_lease(row[VALUE].value)) for key, row in rows]
    return [(name, lease) for name, lease in found if lease is not None]


class ChoreLease:
    """The lease of one chore, a row of `system`; `key` is the row's."""

    def __init__(self, system: SystemCommitter, leases: LeaseHolder, chore: str) -> None:
        self.key = LEASES.start + chore.encode()
        self._system = system
        self._leases = leases

    def take(self) -> Plan[bool]:
        """Takes or renews it; False when another worker has it. A read and a swap."""
        return (yield from self.take_from((yield from self._read())))

    def take_from(self, row: Row | None) -> Plan[bool]:
        """Takes or renews it as it is in its row, which was read; False when another worker has it. A swap."""
        lease, stored = _decoded(row)
        now = yield from Now()
        if not self._leases.may_take(self.key, lease, now):
            return False
        return (yield from self._swap(stored, self._leases.renew(self.key, lease, now)))

    def free(self) -> Plan[None]:
        """Lets others take it at once, if this worker has it. A read and a swap; nothing if it cannot have it."""
        if self.key not in self._leases.held:
            return
        lease, stored = _decoded((yield from self._read()))
        freed = self._leases.freed(self.key, lease)
        if freed is not None:
            yield from self._swap(stored, freed)

    def _read(self) -> Plan[Row | None]:
        return (yield from Read("system", [self.key]))[0]

    def _swap(self, stored: bytes | None, lease: Lease) -> Plan[bool]:
        lost = Conflict("another worker has taken this chore", chore=self.key)
        try:
            yield from swap_alone(self._system, Swap(self.key, stored, encode_lease(lease), lambda: lost))
        except Conflict:
            self._leases.forget(self.key)
            return False
        return True


class ChoreRunner:
    """Does the chores of one open database, each in its turn; one that fails lets the others go first."""

    def __init__(self, system: SystemCommitter, chores: Sequence[Chore], leases: LeaseHolder) -> None:
        self._system = system
        self._leases = leases
        self._chores: list[tuple[Chore, ChoreLease]] = []
        self._turn = 0
        for each in chores:
            self.add(each)

    def add(self, chore: Chore) -> None:
        """Does this one, too."""
        self._chores.append((chore, ChoreLease(self._system, self._leases, chore.name)))

    def step(self) -> Plan[bool]:
        """One step of each chore; whether there is more to do at once. A read and a swap for each that has more."""
        more = False
        for _ in self._chores:
            chore, lease = self._chores[self._turn]
            self._turn = (self._turn + 1) % len(self._chores)
            if (yield from chore.step()):
                more = (yield from lease.take()) or more
            else:
                yield from lease.free()
        return more

    def free(self) -> Plan[None]:
        """Frees the leases of this worker: a read and a swap for each."""
        for _chore, lease in self._chores:
            yield from lease.free()


def _decoded(row: Row | None) -> tuple[Lease | None, bytes | None]:
    """The lease in the row of a chore, and its bytes."""
    cell = None if row is None else row.get(VALUE)
    stored = None if cell is None else cell.value
    return decode_lease(stored), stored
