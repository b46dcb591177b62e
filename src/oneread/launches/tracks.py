"""What a process has of one launch: its state as it was read last, and what it counts."""

from __future__ import annotations

from time import perf_counter
from typing import Final

from oneread.launches.differences import KINDS
from oneread.launches.guards import GuardWindow
from oneread.launches.sides import bucket_of, buckets_below, seed_of
from oneread.launches.state import LaunchState
from oneread.launches.tallies import LaunchTally

RENEWED_SECONDS: Final = 2.0
"""A state that is older is read again, beside the call."""
WAITED_SECONDS: Final = 5.0
"""A state that is older is waited for, a second at most."""
TRUSTED_SECONDS: Final = 60.0
"""A state that is older, since the store does not answer, does not count: the old side answers."""
_AGAIN_SECONDS: Final = 0.25
_NEVER: Final = float("-inf")


class LaunchTrack:
    """One launch of one open database.

    `buckets` is how many of 10,000 the new side answers, `shadow` and `check` the shares of answers that are compared.
    `is_plain` says that the old side answers all, and nothing is compared. `due` is when the state is to be read again,
    `read_at` when it was, `gave_up_at` when a call waited for it in vain. `refused` is why the new side cannot answer
    in this process. `looked_at` is when the guard looked at what all processes count. `written` is what was counted up
    to the `minute` that counts now.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.seed = seed_of(name)
        self.state: LaunchState | None = None
        self.buckets = 0
        self.shadow = 0.0
        self.check = 0.0
        self.is_plain = True
        self.is_finished = False
        self.is_trusted = True
        self.is_wanted = False
        self.due = _NEVER
        self.read_at = _NEVER
        self.gave_up_at = _NEVER
        self.refused = ""
        self.tally = LaunchTally(differ=dict.fromkeys(KINDS, 0))  # all, so that none is added while it is copied
        self.written = self.tally.copy()
        self.minute = 0
        self.window = GuardWindow()
        self.looked_at = _NEVER

    def adopt(self, state: LaunchState, now: float) -> None:
        """Takes a state that was read, unless a newer one was: versions decide, not clocks."""
        self.read_at, self.due = now, now + RENEWED_SECONDS
        before = self.state
        if before is not None and state.version <= before.version and self.is_trusted:
            return
        if before is None or state.version > before.version:
            self.state, self.refused = state, ""
            self.window.begin(now, self.tally.copy())
            self.looked_at = now
        self._follow(self.state or state)

    def _follow(self, state: LaunchState) -> None:
        self.is_trusted = True
        self.buckets = 0 if self.refused else buckets_below(state.reads)
        self.shadow, self.check = state.shadow / 100, state.check / 100
        self.is_finished = state.phase == "finished"
        self.is_plain = not (self.buckets or self.shadow or self.is_finished)

    def refuse(self, why: str) -> None:
        """The new side cannot answer in this process: the old one does until the state is changed."""
        self.refused, self.buckets = why, 0
        self.is_plain = not (self.shadow or self.is_finished)

    def distrust(self, now: float) -> None:
        """The store has not answered for too long: the old side answers all."""
        if now - self.read_at > TRUSTED_SECONDS and self.is_trusted and not self.is_finished:
            self.is_trusted = False
            self.buckets, self.shadow, self.is_plain = 0, 0.0, True

    def want(self, now: float) -> bool:
        """Asks for the state to be read again; whether it is so old that the caller waits for it."""
        self.is_wanted, self.due = True, now + _AGAIN_SECONDS
        self.distrust(now)
        return now - self.read_at > WAITED_SECONDS and now - self.gave_up_at > WAITED_SECONDS

    def is_new(self, key: object) -> bool:
        """Whether the new side answers for a key. Raises TypeError for a key without a stored form."""
        if self.is_finished or not self.buckets:
            return self.is_finished
        return bucket_of(key, self.seed) < self.buckets

    @property
    def age(self) -> float:
        """Seconds since the state was read."""
        return perf_counter() - self.read_at
