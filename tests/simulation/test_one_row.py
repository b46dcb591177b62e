"""Many processes on a store that changes one row at a time, each request with its own fate: nothing derived is wrong.

`ONEREAD_SIM_SEEDS` says how many seeds, `ONEREAD_SIM_SEED` replays one. See "The simulator" of the commit protocol.
"""

import pytest

from oneread.testing.processes import Violation
from oneread.testing.schedules import Fate
from oneread.testing.simulator import Simulation
from oneread.testing.steps import SaveAllStep, TransactStep
from tests.simulation.row_mutations import BY_LOSS, BY_SEED, BY_SWITCHES, EQUAL
from tests.simulation.row_world import PAIRS, Harmless, is_calm, row_world, small_beginning, switched, switches
from tests.simulation.schema import WORLD
from tests.simulation.test_every_request_crashes import ACTS, AtPoint
from tests.simulation.world import beginning

DELETES = ("hide", "remove")


@pytest.mark.parametrize("seed", range(4))
def test_a_seed_is_one_history(seed):
    first, second = row_world(seed), row_world(seed)
    first.run()
    second.run()
    assert first.lines == second.lines
    assert first.digest == second.digest


def test_other_seeds_are_other_histories():
    digests = set()
    for seed in range(4):
        simulation = row_world(seed)
        simulation.run()
        digests.add(simulation.digest)
    assert len(digests) == 4


def test_every_fate_late_requests_and_every_kind_of_end_are_met():
    lines, outcomes, deletes = [], set(), set()
    for seed in range(24):
        simulation = row_world(seed)
        simulation.run()
        lines += simulation.lines
        outcomes |= {outcome for _name, outcome in simulation.outcomes}
        deletes.add(repr(simulation.engine))
    for fate in Fate:
        assert any(line.endswith(f": {fate.value}") for line in lines), fate
    for late in ("Mutate", "CheckAndMutate"):
        assert any(line.endswith(f" late: {late}") for line in lines), late
    refused = {"AlreadyExists", "MissingReference", "NotFound", "NotUnique", "StillReferenced"}
    assert outcomes >= {"done", "crashed", "Unavailable", "OutcomeUnknown"} | refused
    assert len(deletes) == 2


def test_most_writes_of_calm_histories_come_to_their_ends():
    outcomes = []
    for seed in filter(is_calm, range(12)):
        simulation = row_world(seed)
        simulation.run()
        outcomes += [outcome for name, outcome in simulation.outcomes if not name.startswith("work")]
    assert outcomes.count("done") > len(outcomes) / 2


@pytest.mark.parametrize("name", PAIRS)
def test_two_processes_with_at_most_one_switch(name):
    for first, lengths in switches(1):
        switched(name, first, lengths).run()


# A process that ends, or stops for long, at each of its requests.


def of_one_entity(steps):
    return len(steps) == 1 and not isinstance(steps[0], TransactStep | SaveAllStep)


REFUSED = ("delete what is referred to", "take a unique value")
WRITES = {name: steps for name, steps in ACTS.items() if of_one_entity(steps) and steps[0].writes}


def after(steps, fates, seed, deletes):
    simulation = Simulation(seed, WORLD, span="row", fates=fates, deletes=deletes)
    simulation.prepare(*beginning())
    simulation.process("subject", steps)
    simulation.run()
    return simulation


def entities(simulation):
    return simulation.audit.entities()


@pytest.mark.parametrize("name", WRITES)
def test_a_fault_at_any_request_leaves_all_or_nothing(name):
    """`settle` finds no marker, no task and no row too many; what the process began is done, or never was."""
    nothing = entities(after([], Harmless(), 0, "hide"))
    counting = AtPoint("subject", -1, Fate.RUN)
    everything = entities(after(WRITES[name], counting, 0, "hide"))
    assert (nothing == everything) == (name in REFUSED)
    met = []
    for point in range(len(counting.points)):
        for fate in (Fate.CRASH_BEFORE, Fate.LOSE):
            fates = AtPoint("subject", point, fate)
            found = entities(after(WRITES[name], fates, point, DELETES[point % 2]))
            assert found in (nothing, everything), f"{fate} at request {point}"
            met.append(found == everything)
    assert nothing == everything or (True in met and False in met)


class Stopping:
    """A process that stops at a request until all others are done, everything is recovered and no task is left."""

    def __init__(self, process, request):
        self._process, self._request = process, request
        self.stopped = False

    def choose(self, ready, _step):
        for place, (name, made) in enumerate(ready):
            if name != self._process or made != self._request or self.stopped:
                return place
        self.simulation._rest()
        self.stopped = True
        return 0


def stopped(name, sleeper, request, deletes):
    policy = Stopping("ab"[sleeper], request)
    simulation = policy.simulation = Simulation(0, WORLD, span="row", fates=Harmless(), policy=policy, deletes=deletes)
    simulation.prepare(*small_beginning())
    for process, steps in zip("ab", PAIRS[name], strict=True):
        simulation.process(process, steps)
    simulation.run()
    return policy.stopped


@pytest.mark.parametrize("sleeper", [0, 1])
@pytest.mark.parametrize("name", PAIRS)
def test_a_process_that_wakes_after_a_recovery_does_no_harm(name, sleeper):
    requests = 0
    while stopped(name, sleeper, requests, DELETES[requests % 2]):
        requests += 1
    assert requests > 3


# What the simulator finds.


def worlds(seeds):
    """Each is made when it is asked for: while the rule is broken."""
    return ((seed, row_world(seed)) for seed in seeds)


def finding(mutation, simulations, patch):
    """The first simulation that finds something, and what."""
    with patch.context() as inside:
        mutation(inside)
        for name, simulation in simulations:
            try:
                simulation.run()
            except Violation as violation:
                return name, str(violation)
    return None


def test_the_list_is_long_enough_to_mean_something():
    assert len(BY_SEED) + len(BY_SWITCHES) >= 25


@pytest.mark.parametrize(("mutation", "likely"), BY_SWITCHES.items(), ids=[each.__name__ for each in BY_SWITCHES])
def test_a_broken_rule_is_found_by_few_switches(mutation, likely, monkeypatch):
    name, first, lengths = likely
    schedules = [(first, lengths), *switches(2)]
    found = finding(mutation, (((name, *each), switched(name, *each)) for each in schedules), monkeypatch)
    assert found is not None, "no schedule with two switches finds it"
    assert found[0] == likely, "found by another schedule: write that one down"


@pytest.mark.parametrize(("mutation", "likely"), BY_LOSS.items(), ids=[each.__name__ for each in BY_LOSS])
def test_a_broken_rule_is_found_where_an_answer_is_lost(mutation, likely, monkeypatch):
    """The request is done later or never, and the other process goes first."""
    name, request = likely

    def schedules():
        for seed in range(20):
            fates = AtPoint("a", request, Fate.LOSE)
            yield seed, switched(name, "a", (request + 1,), fates, seed)

    for _seed, simulation in schedules():
        simulation.run()
    assert finding(mutation, schedules(), monkeypatch) is not None


@pytest.mark.parametrize("mutation", EQUAL, ids=[each.__name__ for each in EQUAL])
def test_a_free_choice_changes_nothing(mutation, monkeypatch):
    assert finding(mutation, worlds(range(10)), monkeypatch) is None
