"""Many processes, any interleaving, any fault: everything derived is right after every commit and at the end.

`ONEREAD_SIM_SEEDS` says how many seeds, `ONEREAD_SIM_SEED` replays one.
"""

from collections.abc import Callable
from itertools import pairwise

import pytest

from oneread.engines.lmdb import LmdbEngine
from oneread.errors import Unavailable
from oneread.plans.effects import Now, Sleep, Together
from oneread.store.requests import Read
from oneread.testing import processes
from oneread.testing.processes import APART, Violation
from oneread.testing.schedules import ByChance, Fate, Parking, Priorities, Uniform
from oneread.testing.simulator import Simulation
from oneread.testing.steps import DrainStep, PatchStep, Step
from tests.simulation.schema import WORLD, City, Customer, Purchase
from tests.simulation.world import beginning, world


@pytest.mark.parametrize("seed", range(3))
def test_the_same_holds_on_disk(seed, tmp_path):
    engine = LmdbEngine(str(tmp_path / "store"), durability="none", map_size=1 << 26)
    on_disk = world(seed, engine=engine)
    on_disk.run()
    engine.close()
    in_memory = world(seed)
    in_memory.run()
    assert on_disk.digest == in_memory.digest


@pytest.mark.parametrize("seed", range(4))
def test_a_seed_is_one_history(seed):
    first, second = world(seed), world(seed)
    first.run()
    second.run()
    assert first.lines == second.lines
    assert first.digest == second.digest


def test_who_takes_a_deleted_source_may_have_its_last_values():
    """In this history a customer takes a city that was deleted, whose task still gives its holders the last values."""
    simulation = world(12099)
    simulation.run()
    assert simulation.blurred


def test_other_seeds_are_other_histories():
    digests = set()
    for seed in range(4):
        simulation = world(seed)
        simulation.run()
        digests.add(simulation.digest)
    assert len(digests) == 4


def test_every_fate_and_every_kind_of_end_is_met():
    """A simulation in which nothing goes wrong tests nothing."""
    lines, outcomes = [], set()
    for seed in range(20):
        simulation = world(seed)
        simulation.run()
        lines += simulation.lines
        outcomes |= {outcome for _name, outcome in simulation.outcomes}
    for fate in Fate:
        assert any(line.endswith(f": {fate.value}") for line in lines), fate
    for inside in (Fate.FAIL, Fate.CRASH_BEFORE):
        assert any(line.endswith(f"inside: {inside.value}") for line in lines), inside
    refused = {"AlreadyExists", "MissingReference", "NotFound", "StillReferenced"}
    assert outcomes >= {"done", "crashed", "Unavailable", "OutcomeUnknown"} | refused


class PlanStep(Step, frozen=True):
    """Any plan; the oracle has nothing to do."""

    name: str
    make: Callable

    def __str__(self):
        return self.name

    def plan(self, operations):
        return self.make(operations)


class UnexpectedPatch(PatchStep, frozen=True):
    """A patch that the oracle does not do."""

    def expect(self, _oracle, _versions=()):
        return []


def small(seed=0, fates=None, policy=None):
    simulation = Simulation(seed, WORLD, fates=fates, policy=policy)
    simulation.prepare(*beginning())
    return simulation


def harmless(simulation):
    return ByChance(simulation.chance, {Fate.RUN: 1}, inside=0)


class Always:
    """One fate for all requests, and none inside transactions."""

    def __init__(self, fate):
        self.fate = fate

    def outside(self, _process):
        return self.fate

    def inside(self, _process):
        return Fate.RUN


def outcomes_of(fate, step):
    simulation = small(fates=Always(fate))
    simulation.process("only", [step])
    simulation.run()
    return simulation


def test_a_lost_answer_to_a_write_is_unknown_and_the_write_is_there():
    simulation = outcomes_of(Fate.LOSE, PatchStep(City, (1,), {"name": "new"}))
    assert [outcome for _name, outcome in simulation.outcomes] == ["OutcomeUnknown"]
    assert simulation.oracle.get(City, 1).name == "new"


def test_a_failed_write_is_not_there():
    simulation = outcomes_of(Fate.FAIL, PatchStep(City, (1,), {"name": "new"}))
    assert [outcome for _name, outcome in simulation.outcomes] == ["Unavailable"]
    assert simulation.oracle.get(City, 1).name == "city 1"


@pytest.mark.parametrize(("fate", "name"), [(Fate.CRASH_BEFORE, "city 1"), (Fate.CRASH_AFTER, "new")])
def test_a_crash_comes_before_or_after(fate, name):
    simulation = outcomes_of(fate, PatchStep(City, (1,), {"name": "new"}))
    assert [outcome for _name, outcome in simulation.outcomes] == ["crashed"]
    assert simulation.oracle.get(City, 1).name == name


def test_an_undone_transaction_is_run_again_and_counts_once():
    simulation = outcomes_of(Fate.AGAIN, PatchStep(Customer, (1,), {"name": "new"}))
    assert simulation.outcomes == [("patch Customer(1,) name", "done")]


def test_a_lost_answer_to_a_read_is_unavailable():
    def plan(_verbs):
        with pytest.raises(Unavailable):
            yield from Read("roots", [b"x"])

    outcomes_of(Fate.LOSE, PlanStep("read", plan))


def test_what_runs_together_is_answered_in_order_and_a_failure_ends_all():
    def slow(answer, seconds):
        yield from Sleep(seconds)
        return answer

    def failing():
        yield from Sleep(0.001)
        raise Unavailable("on purpose")

    def nothing():
        return 3
        yield

    def plan(_verbs):
        assert (yield from Together([slow(1, 0.3), slow(2, 0.1), nothing()])) == [1, 2, 3]
        assert (yield from Together([])) == []
        with pytest.raises(Unavailable):
            yield from Together([slow(1, 0.3), failing()])
        before = yield from Now()
        yield from Sleep(0.5)
        assert (yield from Now()) >= before + 500

    simulation = outcomes_of(Fate.RUN, PlanStep("together", plan))
    assert simulation.outcomes == [("together", "done")]


def test_clocks_are_at_most_five_seconds_apart_and_jump_both_ways():
    seen = []

    def plan(_verbs):
        for _ in range(40):
            seen.append((yield from Now()))
            yield from Read("roots", [b"x"])

    simulation = small(fates=ByChance(small().chance, {Fate.RUN: 1, Fate.SKEW: 1}, inside=0), seed=1)
    simulation.process("only", [PlanStep("clock", plan)])
    start = simulation.now
    simulation.run()
    jumps = [after - before for before, after in pairwise(seen)]
    assert min(jumps) < -100
    assert max(jumps) > 100
    assert max(abs(each - start) for each in seen) <= APART + simulation.now - start


def order_of(policy):
    simulation = small(policy=policy)
    simulation._fates = harmless(simulation)
    for name in ("a", "b", "c"):
        simulation.process(name, [DrainStep(2)] * 3)
    simulation.run()
    return "".join(line.split()[2][0] for line in simulation.lines if line.endswith("drain: done"))


def test_a_parked_process_runs_when_the_others_are_done():
    assert order_of(Parking(small().chance, "a", 0))[-3:] == "aaa"


def test_priorities_let_one_process_run_until_they_change():
    assert order_of(Priorities(small().chance, changes=0)) in {"aaabbbccc", "aaacccbbb", "bbbaaaccc"} | {
        "bbbcccaaa",
        "cccaaabbb",
        "cccbbbaaa",
    }
    assert len(set(order_of(Uniform(small().chance)))) == 3


def test_a_violation_names_its_seed_and_the_last_requests():
    simulation = small(seed=77)
    simulation.process("only", [UnexpectedPatch(Purchase, (1,), {"quantity": 5})])
    simulation._fates = harmless(simulation)
    with pytest.raises(Violation, match=r"seed 77, step 1: Purchase, row 0: should be .*\n.*only: Atomically: run"):
        simulation.run()


def read_for_ever(_operations):
    while True:
        yield from Read("roots", [b"x"])


def do_with_faults(simulation, step):
    simulation.process("only", [step])
    simulation.run()


@pytest.mark.parametrize("do", [do_with_faults, Simulation.prepare])
def test_what_never_ends_is_a_violation(do, monkeypatch):
    monkeypatch.setattr(processes, "_MOST_REQUESTS", 1000)
    simulation = small(fates=harmless(small()))
    with pytest.raises(Violation, match="no end after 1000 requests"):
        do(simulation, PlanStep("read", read_for_ever))
