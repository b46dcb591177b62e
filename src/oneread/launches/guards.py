"""The guard: whether the new side fails, takes too long or differs too often to answer on.

It looks at what its process counted within the guard's time, and now and then at what all processes did, whose rows are
of whole minutes: each may have too few calls to say anything. Only answers are timed: what is read to be compared runs
beside the application's own threads, and waits for them.
"""

from __future__ import annotations

from collections import deque

from oneread.launches.options import LaunchGuard
from oneread.launches.tallies import LaunchTally, latency_of

_PERCENTILE = 0.95


class GuardWindow:
    """The counts of the last while, each a moment in seconds of a clock that is never set."""

    def __init__(self) -> None:
        self._moments: deque[tuple[float, LaunchTally]] = deque()

    def begin(self, now: float, tally: LaunchTally) -> None:
        """Counts from this moment on: the launch was changed."""
        self._moments.clear()
        self._moments.append((now, tally))

    def look(self, guard: LaunchGuard, now: float, tally: LaunchTally) -> str:
        """Why reads must go back, by what was counted up to now; empty where they need not."""
        self._moments.append((now, tally))
        first = now - guard.within.total_seconds()
        while len(self._moments) > 1 and self._moments[1][0] <= first:
            self._moments.popleft()
        return reason_to_go_back(guard, tally.less(self._moments[0][1]))


def reason_to_go_back(guard: LaunchGuard, tally: LaunchTally) -> str:
    """Why reads must go back; empty where they need not."""
    new, calls = tally.new, tally.new.answered + tally.new.failed
    if guard.failed is not None and calls >= guard.fewest and new.failed > guard.failed * calls:
        return f"failed: {new.failed:,} of {calls:,}"
    looked = tally.compared + tally.late
    if guard.slower is not None and looked >= guard.fewest and tally.late > (1 - _PERCENTILE) * looked:
        return f"slower: {tally.late:,} of {looked:,} took too long"
    if guard.slower is not None and min(new.answered, tally.old.answered) >= guard.fewest:
        old, ours = latency_of(tally.old.answers, _PERCENTILE), latency_of(new.answers, _PERCENTILE)
        if ours > guard.slower * old:
            return f"slower: {ours:.2g} s in place of {old:.2g} s"
    if guard.differ is not None and tally.compared >= guard.fewest and tally.differing > guard.differ * tally.compared:
        return f"differ: {tally.differing:,} of {tally.compared:,}"
    return ""
