"""How long a write may take on stores that change one row at a time, and how long what was removed stays: the grace.

An operation - a commit, a page of holders, a recovery - sends its last write within `OPERATION` of its first read, by
its own clock that is never set, and gives up after that: recovery does the rest. What may come later still is a request
under way. So a removed row may be purged once nothing that began before its removal can write any more. See rules P1
and P2 of the commit protocol.
"""

from __future__ import annotations

from typing import Final

OPERATION: Final = 300
"""Seconds from an operation's first read to its last write, at most."""

LATE: Final = 60
"""Seconds that a request may be under way: a server's own bound, which the engine sets."""

CLOCK_ERROR: Final = 60
"""Seconds that a clock may be wrong."""

LEAST_GRACE: Final = 2 * (OPERATION + LATE) + 2 * CLOCK_ERROR
"""Seconds that a removed row stays, at least.

Once for an attempt that commits as late as it may after its version was chosen, once for the write of one who read the
state just before that.
"""
