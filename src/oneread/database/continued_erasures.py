"""Continues erasures that were interrupted: a chore of workers. See docs/decisions/0162-interrupted-erasures.md."""

from __future__ import annotations

from oneread.database.erasure_steps import PAGE, ErasureSteps, read_under_way
from oneread.database.expiry_sweep import BackgroundSweeper
from oneread.database.operations import Operations
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.store.keys import kind_part
from oneread.store.requests import Scan
from oneread.store.rows import Row
from oneread.transactions.chores import Chore
from oneread.transactions.leases import LeaseHolder
from oneread.transactions.system_rows import ERASING
from oneread.transactions.tasks import Draining


class ContinuedErasures:
    """One look at the erasures that are under way; `leases` are those of the worker."""

    def __init__(self, operations: Operations, leases: LeaseHolder) -> None:
        self._operations = operations
        self._leases = leases
        self._rest = ERASING
        self._draining: dict[bytes, Draining] = {}

    def step(self) -> Plan[bool]:
        """Does a step of the next erasure that no other one does; False when there is none. One request at rest."""
        found = yield from Scan("system", self._rest, PAGE)
        for key, row in found:
            if (yield from self._continue(key, row)):
                return True
            self._rest = ERASING.behind(key)
        return len(found) == PAGE

    def _continue(self, key: bytes, row: Row) -> Plan[bool]:
        under_way = read_under_way(row)
        root = key[len(ERASING.start) :]
        kind = self._operations.catalog.kinds_by_prefix.get(kind_part(root))
        now = yield from Now()
        if kind is None or under_way is None or not self._leases.may_take(key, under_way, now):
            return False
        steps = ErasureSteps(self._operations, kind.cls, root, self._leases)
        if not (yield from steps.take(row, now)):
            return False
        return (yield from steps.proceed(self._draining.setdefault(key, Draining())))


def erasure_chore(operations: Operations) -> Chore:
    """What continues, now and then, the erasures of an open database that were interrupted."""
    leases = LeaseHolder()
    return BackgroundSweeper(lambda: ContinuedErasures(operations, leases), name="erasures")
