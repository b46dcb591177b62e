"""Stores of one row at a time are moved while writers are paused or killed, and requests are late: nothing is lost.

Each rule that this rests on is broken once, and is found by that.
"""

import pytest

from oneread.copying import move_logs
from oneread.copying.move_flow import MoveFlow
from oneread.copying.move_follower import Follower
from oneread.copying.move_logs import MarkLog
from oneread.copying.move_states import MoveStates
from oneread.errors import OnereadError
from oneread.transactions import move_gate
from oneread.transactions.intents import MARKER
from oneread.transactions.journal_recovery import Recovery
from oneread.transactions.move_gate import MoveGate
from oneread.transactions.moves import asked_by
from tests.unit.copying.interleaved import WRITERS, Interleaved

FAULTS = ("ended", "paused", "late", "unknown")
KINDS = [("row", "memory"), ("row", "row"), ("memory", "row")]
HISTORIES = 12
MOST = 200
"""Histories until a broken rule is found."""


def run(seed, patch, kinds, controllers, writers=FAULTS, faults=0.01):
    world = Interleaved(seed, patch, kinds, faults=faults)
    with world.opened():
        world.run(
            *[(f"writer {each}", writers, world.writer(each)) for each in range(WRITERS)],
            *[(f"controller {number}", each, world.controller) for number, each in enumerate(controllers)],
        )
        world.check()


@pytest.mark.parametrize("seed", range(HISTORIES))
@pytest.mark.parametrize("kinds", KINDS)
def test_writers_are_paused_and_killed(kinds, seed, monkeypatch):
    run(seed, monkeypatch, kinds, [()])


@pytest.mark.parametrize("seed", range(HISTORIES))
@pytest.mark.parametrize("kinds", KINDS)
def test_writers_and_controllers_are_paused_and_killed(kinds, seed, monkeypatch):
    run(seed, monkeypatch, kinds, [FAULTS, FAULTS])


def removed_before_done(patch):
    """A mark is removed when its state was read, whether or not the change can still come."""

    def over(_log, marks, *, ends):  # noqa: ARG001 - whether it ends is of no matter
        yield from ()
        return {key: row[MARKER].stamp for key, row in marks}

    patch.setattr(MarkLog, "_over", over)


def log_begun_after_the_copy(patch):
    """Changes are not marked before all is copied."""
    asked = move_gate.asked_by

    def late(move, follower):
        return "nothing" if move is not None and move.state in ("planned", "copying") else asked(move, follower)

    patch.setattr(move_gate, "asked_by", late)


def switched_before_the_log_has_ended(patch):
    patch.setattr(MoveFlow, "drain", lambda *_given, **_named: None)


def epoch_not_compared(patch):
    """Whoever has closed the source decides, whatever was decided since."""
    decide = MoveStates.decide

    def newest(states, epoch, state, **named):
        row = states.of_target().row
        return decide(states, epoch if row is None else row.epoch, state, **named)

    patch.setattr(MoveStates, "decide", newest)


def tokens_left_behind(patch):
    apply = Follower._apply
    patch.setattr(Follower, "_apply", lambda follower, state: apply(follower, state._replace(tokens=[])))


def rows_of_counters_not_changed(patch):
    """An add that was announced is not ended."""

    def end(_key, stamp):
        yield from ()
        return stamp

    patch.setattr(move_logs, "_end_counter", end)


def root_rows_not_fenced(patch):
    """A commit that was announced is not ended."""

    def end(_log, _group, stamp):
        yield from ()
        return stamp

    patch.setattr(MarkLog, "_end_root", end)


def nothing_ended_by_the_copy(patch):
    """What was sent before the start may come after its row was copied."""

    def settle(_log, rows):
        yield from ()
        return rows

    patch.setattr(MarkLog, "settle", settle)
    patch.setattr(MarkLog, "settle_counters", lambda _log: iter(()))


def leases_not_waited_for(patch):
    """The log is followed to its end while programs do not know yet that the store is closed."""
    patch.setattr(Recovery, "end_unaware", lambda recovery, _changed: recovery.recover(patience=0.0))


def lease_not_looked_at_behind_the_mark(patch):
    """A program that was paused before its mark sends its change by what it knew before."""

    def enter(gate, logged, stamp):
        if gate.lease is not None:
            yield from gate.lease.hold()
            if asked_by(gate.lease.move, gate.follower) == "log":
                yield from move_gate.put_marks(logged, stamp)

    patch.setattr(MoveGate, "enter", enter)


def mark_behind_the_change(patch):
    """A mark is put by the next change of a program: one that ends in between leaves none."""
    waiting = []

    def enter(gate, logged, stamp):
        if gate.lease is not None:
            yield from gate.lease.hold()
            if asked_by(gate.lease.move, gate.follower) == "log":
                if waiting:
                    yield from move_gate.put_marks(*waiting.pop())
                waiting.append((logged, stamp))

    patch.setattr(MoveGate, "enter", enter)


PAUSED = [()], ("paused",), 0.03
ENDED = [()], ("ended",), 0.01
ALL = [FAULTS, FAULTS], FAULTS[1:], 0.01
BROKEN = {
    removed_before_done: PAUSED,
    log_begun_after_the_copy: ALL,
    switched_before_the_log_has_ended: ALL,
    epoch_not_compared: ALL,
    tokens_left_behind: ALL,
    rows_of_counters_not_changed: PAUSED,
    root_rows_not_fenced: ALL,
    nothing_ended_by_the_copy: PAUSED,
    leases_not_waited_for: PAUSED,
    lease_not_looked_at_behind_the_mark: PAUSED,
    mark_behind_the_change: ENDED,
}
"""With what controllers and writers meet."""


@pytest.mark.parametrize("rule", BROKEN)
def test_a_rule_that_is_broken_is_found(rule):
    assert any(is_found(rule, seed) for seed in range(MOST)), rule


def is_found(rule, seed):
    with pytest.MonkeyPatch.context() as patch:
        rule(patch)
        try:
            run(seed, patch, KINDS[0], *BROKEN[rule])
        except (AssertionError, OnereadError):
            return True
    return False
