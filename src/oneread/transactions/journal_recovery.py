"""Recovery of commits that were left, and the end of older programs, on stores that change one row at a time.

See rules 10 and F2 of the commit protocol.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import partial
from typing import Final

from oneread.plans.effects import Sleep
from oneread.plans.in_time import in_time
from oneread.plans.plan import Plan
from oneread.store.requests import Mutate, Read, Scan
from oneread.store.rows import RowMutation
from oneread.transactions.grace import OPERATION
from oneread.transactions.intents import JOURNAL, MARKER, has_intents, root_of_marker
from oneread.transactions.journal import Journal
from oneread.transactions.refusals import PartRefused, tell_apart

_log = logging.getLogger(__name__)

PAGE: Final = 100
"""Rows of one scan of markers or holds."""

PATIENCE: Final = 5.0
"""Seconds that a marker is left alone after it was first seen: its writer may be at work."""

LEASE_SECONDS: Final = 20.0
"""How long a program commits without reading the fence again, from the beginning of its last read of it."""

CLOCK_DRIFT: Final = 0.01
"""By how much the clocks of two machines that are never set may run faster or slower than time does."""

_SLOWER: Final = (1 + CLOCK_DRIFT) / (1 - CLOCK_DRIFT)

END_SECONDS: Final = LEASE_SECONDS * _SLOWER
"""By one clock, after the fence was raised: by all others every lease is over that was taken before."""

LAUNCHED_LEASE_SECONDS: Final = 5.0
"""The lease of a program whose schema launches a view by percent: it follows a share of its writes so soon."""

MOVING_LEASE_SECONDS: Final = 2.0
"""How long a program changes a store that is moved, from the beginning of its last read of what the move asks."""

MOVING_END_SECONDS: Final = MOVING_LEASE_SECONDS * _SLOWER
"""By one clock, after the row of a move was changed: by all others that is known."""


class Recovery:
    """Finishes commits that were left, of any program."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._markers: dict[tuple[bytes, int], float] = {}  # of others, and when they were first seen

    def end_older(self) -> Plan[None]:
        """Waits until all leases of older programs are over, then ends the attempts that are in the journal.

        A compare-and-set that was sent under a lease has its marker there, and a commit without a marker leaves a row
        as current as it was: so however late a request is done, the wait does not depend on it.
        """
        yield from self._wait(self._journal.clock() + END_SECONDS)
        yield from self.recover(patience=0.0)

    def end_unaware(self, changed: float) -> Plan[None]:
        """As `end_older`, of programs that do not know yet what the row of a move says, which was `changed` then."""
        yield from self._wait(changed + MOVING_END_SECONDS)
        yield from self.recover(patience=0.0)

    def _wait(self, until: float) -> Plan[None]:
        while (left := until - self._journal.clock()) > 0:
            yield from Sleep(left)

    @property
    def waiting_markers(self) -> frozenset[tuple[bytes, int]]:
        """What the last look at the journal found that is too young to be recovered."""
        return frozenset(self._markers)

    def of_commits(self, markers: Collection[tuple[bytes, int]]) -> Plan[frozenset[tuple[bytes, int]]]:
        """The markers of commits: their rows hold intents. The others are of attempts, which may have ended.

        A refused write leaves its marker, which another attempt may share: only recovery may end that (rule 9).
        """
        found: list[tuple[bytes, int]] = []
        rest = list(markers)
        while rest:
            several, rest = rest[:PAGE], rest[PAGE:]
            rows = yield from Read("roots", [root_of_marker(place) for place, _version in several], "dm")
            found += [each for each, row in zip(several, rows, strict=True) if row is not None and has_intents(row)]
        return frozenset(found)

    def recover(self, patience: float = PATIENCE) -> Plan[int]:
        """Finishes commits that were left, and ends attempts (rule 10); returns how many markers it removed.

        Only of markers that were first seen `patience` seconds ago, by this process's clock that is never set: it is
        right at any time, but ends what others are doing.
        """
        within, removed, now = JOURNAL, 0, self._journal.clock()
        seen: dict[tuple[bytes, int], float] = {}
        while True:
            markers = yield from Scan("system", within, PAGE)
            for place, row in markers:
                marker = place, row[MARKER].stamp
                since = self._markers.get(marker, now)
                if now - since >= patience:
                    removed += yield from self._try_to_recover(*marker)
                else:
                    seen[marker] = since
            if len(markers) < PAGE:
                self._markers = seen
                return removed
            within = within.behind(markers[-1][0])

    def _try_to_recover(self, place: bytes, version: int) -> Plan[bool]:
        """Recovers what a marker is about; False where a row of it refuses that, which keeps no others waiting."""
        try:
            yield from in_time(tell_apart(partial(self._recover, place, version)), self._journal.clock, OPERATION)
        except PartRefused as refused:
            _log.warning(
                "a commit cannot be recovered: %s: %s", self._journal.name_of(root_of_marker(place)), refused.error
            )
            return False
        return True

    def _recover(self, place: bytes, version: int) -> Plan[None]:
        key = root_of_marker(place)
        seen = yield from self._journal.finished(key)
        while seen.version < version:
            yield from self._journal.fence(seen, version)
            seen = yield from self._journal.finished(key)
        yield from Mutate("system", [RowMutation(place, deletes={MARKER: seen.version})])
