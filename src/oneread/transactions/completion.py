"""What is done behind commit points on a store that changes one row at a time: at once, or later, by the worker."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import Final

from oneread.plans.in_time import in_time
from oneread.plans.plan import Plan
from oneread.store.requests import Mutate, Read
from oneread.transactions import outbox
from oneread.transactions.commit import Change
from oneread.transactions.grace import OPERATION
from oneread.transactions.intents import read_pending, read_root
from oneread.transactions.journal import Committed, Journal, left_tasks, without_markers
from oneread.transactions.journal_recovery import PATIENCE
from oneread.transactions.lost_answers import surely
from oneread.transactions.total_follower import TotalFollower

LATER: Final = 1_000
"""Commits that wait to be applied, at most; with more, each is applied before it returns."""


class CommitCompletion:
    """Applies commits, and what follows from them."""

    def __init__(self, journal: Journal, totals: TotalFollower) -> None:
        self._journal = journal
        self._totals = totals
        self._applies_later = False
        self._later: deque[Committed] = deque()
        self._appliers: dict[object, float] = {}  # calls that take from these, and when they took last

    def apply_later(self) -> None:
        """Lets commits return at their commit point: the worker applies them."""
        self._applies_later = True

    def complete(self, done: Sequence[Committed], changes: Sequence[Change]) -> Plan[list[bytes]]:
        """Applies commits of these changes together, at once or later; returns what is left to do, as tasks."""
        if not done:
            return []
        if self._applies_later and len(self._later) + len(done) <= LATER:
            self._later.extend(done)
            return [task for each in done for task in left_tasks(each)]
        return (yield from self._totals.apply_and_show(done, changes))

    def apply_waiting(self) -> Plan[int]:
        """Applies the commits that are acknowledged and that no other call is applying; returns how many."""
        applied, this_call = 0, object()
        try:
            for _ in range(len(self._later)):  # those that follow meanwhile are for the next call
                self._appliers[this_call] = self._journal.clock()
                try:
                    done = self._later.popleft()
                except IndexError:  # another thread took the last one
                    break
                yield from in_time(self._apply_held(done), self._journal.clock, OPERATION)
                applied += 1
        finally:
            self._appliers.pop(this_call, None)
        return applied

    @property
    def appliers(self) -> frozenset[object]:
        """The calls that are applying commits which were acknowledged before.

        One that takes longer is found in the journal, and so is one that was interrupted and did not end.
        """
        now = self._journal.clock()
        return frozenset(call for call, since in list(self._appliers.items()) if now - since < PATIENCE)

    def _apply_held(self, done: Committed) -> Plan[None]:
        """Applies a commit whose row still has its intents: it may be applied for long, and its rows purged.

        Who applied it has left its marker; a drain would wait for that, until it is recovered.
        """
        (row,) = yield from surely(Read("roots", [done.key], "dm"))
        seen = read_root(done.key, row)
        if not done.intents or seen.intends(done.intents.version):
            yield from self._totals.apply_and_show([done], ())
        elif markers := without_markers(done):
            yield from surely(Mutate("system", markers))

    def has_applied(self, pending: Collection[bytes]) -> Plan[bool]:
        """Whether the commits among these tasks are applied. One request for each."""
        for key, version in filter(None, map(read_pending, pending)):
            (row,) = yield from Read("roots", [key], "dm")
            seen = read_root(key, row)
            if seen.version == version and seen.intents is not None:
                return False
        return True

    def include(self, pending: Collection[bytes]) -> Plan[None]:
        """Applies the commits among these tasks that wait, of this process or of another one, and does those of groups.

        One request for each commit, and what applying it needs.
        """
        for key, _version in filter(None, map(read_pending, pending)):
            yield from in_time(self._journal.finished(key), self._journal.clock, OPERATION)
        groups = list(filter(outbox.is_group_task, pending))
        if groups:
            yield from self._totals.do(groups)
