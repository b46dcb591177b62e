"""What flows between the two stores of a move: the log of the one that takes the writes, into the other one.

That is the source, until it was switched; then the target, so that the move can be taken back. One process follows at a
time: it has a lease, and the row of the store that follows names it.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Final

from oneread.copying.job_copies import copy_jobs
from oneread.copying.move_follower import Follower
from oneread.copying.move_logs import log_of
from oneread.copying.move_states import MoveStates
from oneread.database._sync.database import Database
from oneread.errors import Unavailable
from oneread.plans.effects import Now
from oneread.plans.performer import elapsed
from oneread.transactions.chores import ChoreLease
from oneread.transactions.leases import LeaseHolder
from oneread.transactions.moves import FOLLOWER
from oneread.transactions.outbox import BATCH as TASK_BATCH
from oneread.transactions.tasks import TaskStepResult

PAUSE: Final = 0.05
"""Seconds between two looks at a log that has ended."""
_JOB: Final = "move"
_RENEWALS: Final = 3
"""How often a lease is renewed in its time."""
_PREPARED: Final = 11.0
"""Seconds for which the log is followed at most before writers are held: longer than a follower that died is known."""
_SHORT: Final = 0.5
"""Seconds that the other store is behind at most then."""


class MoveFlow:
    """The stores of one move, and how one follows the other; `back` stands for the target that takes the writes."""

    def __init__(self, states: MoveStates, holder: LeaseHolder) -> None:
        self.states = states
        self._holder = holder
        self._followers = {False: Follower(states.source, states.target)}
        self._lease = ChoreLease(states.target.operations.committer, holder, _JOB)
        self._renewed = {False: float("-inf"), True: float("-inf")}
        self._has_tasks = False
        """Whether the store that follows may have tasks, as far as this process knows."""
        for each in (states.source, states.target):
            log_of(each).admit(holder.owner)

    @property
    def copier(self) -> Follower:
        """Copies all of the source."""
        return self._followers[False]

    def free(self) -> None:
        """Lets another process follow at once."""
        self.states.target.run(self._lease.free())

    # The right to follow.

    @contextmanager
    def turn(self) -> Generator[None]:
        """What is done with the right to write to the target. Raises Unavailable where another process has it."""
        if not self._may_follow(back=False):
            raise Unavailable("another process copies or follows; it may have died seconds ago: try again")
        with self.following():
            yield

    def keep_turn(self) -> None:
        """Renews the right in time. Raises Unavailable where another process has it."""
        if not self._may_follow(back=False):
            raise Unavailable("another process has taken over the copy, as this one was paused for too long")

    @contextmanager
    def following(self) -> Generator[None]:
        """Lets this thread write to the store that follows, while that names this follower."""
        token = FOLLOWER.set(self._holder.owner)
        try:
            yield
        finally:
            FOLLOWER.reset(token)

    def _may_follow(self, *, back: bool) -> bool:
        """Takes or renews the lease, and names this follower in the row of the store that follows."""
        began = elapsed()
        if began - self._renewed[back] < self._holder.seconds / _RENEWALS:
            return True
        if not self.states.target.run(self._lease.take()):
            return False
        if not self.states.name_follower(self._holder.owner, back=back):
            return False
        took = elapsed() - began  # seconds, where a follower of a store that changes one row at a time is replaced
        if took > self._holder.seconds / _RENEWALS and not self.states.target.run(self._lease.take()):
            return False
        self._renewed[back] = elapsed()
        return True

    def prepare(self, *, back: bool) -> None:
        """Before writers are held: takes the right to follow if it is free, and returns when little is left to follow.

        Replacing another follower takes seconds where one row is changed at a time.
        """
        until = monotonic() + _PREPARED
        self._may_follow(back=back)
        self._writer(back=back).run(self._follower(back=back).log.add_increments())
        while monotonic() < until and not self.is_near(_SHORT, back=back):
            if not self.follow_some(back=back):
                if self._may_follow(back=back) and not self._has_tasks:
                    return  # what waits is under way, or is refused
                sleep(PAUSE)

    # The log.

    def follow_some(self, *, back: bool, held: bool = False, ends: bool = False) -> int:
        """One batch of the log, if this process may follow; how many rows were copied.

        Then tasks that this has left, in time to renew the right to follow; others are done after the next batch. Not
        while writers are `held`: those tasks are for workers of the programs. With `ends` no program changes the store
        any more.
        """
        if not self._may_follow(back=back):
            self._has_tasks = False
            return 0
        with self.following():
            done, refused = self._follower(back=back).step(ends=ends)
            self._has_tasks = self._has_tasks or done > 0
            if self._has_tasks and not held:
                self._has_tasks = self._do_tasks(self.states.source if back else self.states.target)
        return done - refused

    def _do_tasks(self, store: Database) -> bool:
        """Does tasks while there are some and it is time; whether there may be others."""
        until = elapsed() + self._holder.seconds / _RENEWALS
        while True:
            result = store.run(store.operations.drain_or_wait(TASK_BATCH))
            if result is not TaskStepResult.DONE or elapsed() >= until:
                return result is not TaskStepResult.IDLE

    def lag(self, *, back: bool) -> tuple[int, float]:
        """How many entries of the log wait, and for how many seconds the oldest does."""
        store = self._writer(back=back)
        many, oldest = store.run(self._follower(back=back).log.waiting())
        if not many:
            return 0, 0.0
        now: int = store.run(Now().__iter__())
        return many, max(0.0, (now - oldest) / 1000)

    def is_near(self, until_lag: float, *, back: bool) -> bool:
        """Whether the oldest change that waits is so old at most, with 0.0 whether none waits; and no tasks do."""
        if self._has_tasks:
            return False
        waiting, lag = self.lag(back=back)
        return not waiting or 0 < until_lag >= lag

    def catch_up(self) -> None:
        """Returns when all that was logged before is followed, with its tasks. Raises Unavailable where it is not."""
        back = self.states.writes_back() is not None
        store, until = self._writer(back=back), monotonic() + 2 * self._holder.seconds
        positions = store.operations.parts.log_positions
        wanted = store.run(positions.now())
        while self._has_tasks or not store.run(positions.has_passed(wanted)):
            if self.follow_some(back=back):
                until = monotonic() + 2 * self._holder.seconds
            elif monotonic() > until:
                raise Unavailable("the other store does not follow") from self._follower(back=back).refusal
            else:
                sleep(PAUSE)

    def drain(self, epoch: int, until: float, *, back: bool) -> None:
        """Follows the log to its end while writers are held. Raises Unavailable where it does not end in time."""
        closed = elapsed()
        while self.follow_some(back=back, held=True) and monotonic() < until:  # meanwhile leases end
            pass
        self.states.end_unaware(closed, back=back)
        while self._is_closed(epoch, back=back):
            done = self.follow_some(back=back, held=True, ends=True)
            if not self.lag(back=back)[0]:
                return
            if monotonic() >= until:
                refusal = self._follower(back=back).refusal
                raise Unavailable("the log did not end in time; writers go on, switch again") from refusal
            if not done:
                sleep(PAUSE)

    def copy_jobs(self, epoch: int, until: float, *, back: bool) -> None:
        """Gives the other store all jobs while writers are held. Raises Unavailable where that takes too long."""
        one, other = self._writer(back=back), self._writer(back=not back)
        if not copy_jobs(one, other, lambda: monotonic() < until and self._is_closed(epoch, back=back)):
            raise Unavailable("the jobs did not go along in time; writers go on, switch again")

    def _is_closed(self, epoch: int, *, back: bool) -> bool:
        source = self.states.carry_out()
        row = self.states.of_target().row if back else source
        return row is not None and row.epoch == epoch and row.state == "closing"

    def _writer(self, *, back: bool) -> Database:
        return self.states.target if back else self.states.source

    def _follower(self, *, back: bool) -> Follower:
        if back not in self._followers:
            self._followers[back] = Follower(self.states.target, self.states.source)
        return self._followers[back]
