"""Which worker looks for what other programs left, on a store that changes one row at a time: one of each schema.

A look is a scan of the journal and of the tasks, and whatever the chores read. Where hundreds of programs are
at rest only the one with a lease does it; the others read the schema row and the lease, one request. A program does its
own tasks whether it has the lease or not. See docs/decisions/0097-one-recoverer.md.
"""

from __future__ import annotations

from typing import Final

from oneread.evolution.leased_fence import LeasedFence
from oneread.plans.plan import Plan
from oneread.transactions.chores import ChoreLease
from oneread.transactions.commit import SystemCommitter
from oneread.transactions.leases import LeaseHolder

BACK_SECONDS: Final = 30.0
"""How long a worker leaves the lease to others after a look that failed."""


class Recoverer:
    """The lease by which one worker looks for what other programs left.

    Each version of the schema has its own: an older program does not know how to do all tasks of a newer one.
    """

    def __init__(self, system: SystemCommitter, fence: LeasedFence, leases: LeaseHolder) -> None:
        self._fence = fence
        self._lease = ChoreLease(system, leases, f"recover:{fence.version}")
        self._back_until = 0.0
        self.is_helper = False
        """Of a program that is there to do tasks: it looks also while another worker has the lease."""

    def look(self) -> Plan[bool]:
        """Reads what other programs changed in the schema; whether this worker is to look for what they left.

        One request, two rows; three requests more to take the lease or to renew it.
        """
        (row,) = yield from self._fence.refresh_with([self._lease.key])
        if self._fence.clock() < self._back_until:
            return self.is_helper
        return (yield from self._lease.take_from(row)) or self.is_helper

    def stand_back(self) -> None:
        """After a look that failed: a worker that fails each time must not keep the others from looking."""
        self._back_until = self._fence.clock() + BACK_SECONDS

    def free(self) -> Plan[None]:
        """Lets another worker look at once. Four requests, if this one has the lease."""
        yield from self._lease.free()
