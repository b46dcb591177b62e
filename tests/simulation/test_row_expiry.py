"""What expires on a store that changes one row at a time, while processes write, sweep, die and have wrong clocks.

The audit compares everything after recovery and after late requests; then sweeps under one clock delete the rest.
"""

import os
from datetime import UTC, datetime

import pytest

from oneread.derivations.following_changes import Expire
from oneread.plans.trace import Trace
from oneread.testing.processes import JUMPS, START, Violation
from oneread.testing.simulator import Simulation
from oneread.testing.steps import PatchStep, SaveAllStep, SaveStep, SweepStep
from oneread.transactions.copy_follower import CopyFollower
from oneread.transactions.holds import Holds
from tests.simulation.row_world import RecoverStep, pair, switches, turns, work_of
from tests.simulation.test_expiry import SCHEMA, Lock, Session, User, Who, programs

SEEDS = max(1, int(os.environ.get("ONEREAD_SIM_SEEDS", "60")) // 4)


class Expiring(Simulation):
    """Sweeps at the end, when the clocks are right again."""

    def settle(self):
        super().settle()
        self.now += 2 * max(JUMPS)
        while self.sweep().deleted:
            self._rest()
        if self.sweep().removed:
            self._raise_violation("a sweep has left something in groups that has ended")
        entities = self.audit.entities().values()
        held = {each.session.key for each in entities if isinstance(each, Lock)}
        for each in entities:
            if isinstance(each, Session) and each.until is not None and (each.token,) not in held:
                self._raise_violation(f"{each} has expired, and no sweep deletes it")

    def sweep(self):
        sweep = self.operations.begin_sweep(2)
        while self._driver.run(sweep.step(), Trace()):
            pass
        return sweep.swept


def prepared(seed, *steps, **options):
    simulation = Expiring(seed, SCHEMA, **{"span": "row", **options})
    simulation.prepare(*[SaveAllStep([User(number=number)]) for number in range(2)], *steps)
    return simulation


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_expires_is_right_after_recovery_and_goes_with_a_sweep(seed):
    simulation = prepared(seed)
    for name, steps in programs(seed).items():
        works = name == "worker"
        simulation.process(name, [work_of(simulation, name)] * len(steps) if works else steps)
    simulation.process("recoverer", [RecoverStep()] * 4)
    simulation.run()


# Two processes, and one that has expired.

OLD = Session(token="a", who=Who.of(1), nick="x", hits=2, until=datetime.fromtimestamp(START / 1000 + 0.5, UTC))
PROLONG = SaveStep(Session(token="a", who=Who.of(1), nick="x"))
PAIRS = {
    "taken over and saved again": ([SaveStep(Session(token="b", who=Who.of(1), nick="x"))], [PROLONG]),
    "two take over": (
        [SaveStep(Session(token="b", who=Who.of(1), nick="x"))],
        [SaveStep(Session(token="c", who=Who.of(0), nick="x"))],
    ),
    "swept and saved again": ([SweepStep(2)], [PROLONG]),
    "swept and patched": ([SweepStep(2)], [PatchStep(Session, ("a",), {"hits": 7})]),
    "swept twice": ([SweepStep(2)], [SweepStep(2)]),
}


def switched(name, first, lengths):
    simulation = prepared(1, SaveStep(OLD), **turns(first, lengths))
    simulation.now += 1000
    pair(simulation, [], PAIRS[name]).run()
    return simulation


def living(simulation):
    return {each.token for each in simulation.audit.entities().values() if isinstance(each, Session)}


EXPECTED = {
    "taken over and saved again": [{"a"}, {"b"}],
    "two take over": [{"b"}, {"c"}],
    "swept and saved again": [{"a"}],
    "swept and patched": [set()],
    "swept twice": [set()],
}
"""Who may be there when everything that has expired is swept."""


@pytest.mark.parametrize("name", PAIRS)
def test_two_processes_with_at_most_one_switch(name):
    found = [living(switched(name, first, lengths)) for first, lengths in switches(1)]
    assert all(each in EXPECTED[name] for each in found)
    assert all(each in found for each in EXPECTED[name])


def test_a_sweep_that_does_not_look_again_is_found(monkeypatch):
    monkeypatch.setattr(Expire, "is_due", lambda *_given: True)
    found = [living(switched("swept and saved again", first, lengths)) for first, lengths in switches(1)]
    assert set() in found


def test_an_owner_that_keeps_what_has_expired_is_found(monkeypatch):
    def keep(*_given):
        yield from ()
        return False

    monkeypatch.setattr(CopyFollower, "expire", keep)
    assert living(switched("two take over", "a", ())) == set()


def test_a_value_that_is_taken_while_its_owner_keeps_it_is_found(monkeypatch):
    """Its owner is committed again before another entity has the value."""

    def forget(*_given):
        yield from ()

    monkeypatch.setattr(Holds, "_refuse_held", forget)
    with pytest.raises(Violation):
        switched("two take over", "a", ())
