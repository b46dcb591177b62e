"""Groups on a store that changes one row at a time: numbers without holes, children as of their root, nothing lost.

`ONEREAD_SIM_SEEDS` says how many seeds. See rules G1 to G3 of the commit protocol.
"""

from collections import Counter

import pytest

from oneread.testing.schedules import Fate
from tests.simulation.row_group_mutations import BY_SWITCHES
from tests.simulation.row_groups import GROUPS, PAIRS, GroupSimulation, beginning, group_world, switched
from tests.simulation.row_world import Harmless
from tests.simulation.test_every_request_crashes import AtPoint
from tests.simulation.test_one_row import Stopping, finding

DELETES = ("hide", "remove")


def test_what_these_histories_do():
    done = Counter()
    for seed in range(24):
        simulation = group_world(seed)
        simulation.run()
        done.update((what.split(" ")[0], outcome) for what, outcome in simulation.outcomes)
    for verb in ("create", "delete", "patch", "save", "transact", "upsert", "work"):
        assert done[verb, "done"] > 2, verb
    assert {outcome for _verb, outcome in done} >= {"crashed", "OutcomeUnknown", "StillReferenced", "NotUnique"}


@pytest.mark.parametrize("name", PAIRS)
def test_two_processes_with_one_switch(name):
    for length in range(12):
        switched(name, "ab"[length % 2], (length,)).run()


WRITES = {name: steps for name, (steps, _others) in PAIRS.items() if len(steps) == 1} | {
    "delete of a group": PAIRS["number and delete of the group"][1],
}


def after(steps, fates, seed, deletes):
    simulation = GroupSimulation(seed, GROUPS, span="row", fates=fates, deletes=deletes)
    simulation.prepare(*beginning())
    simulation.process("subject", steps)
    simulation.run()
    return simulation.audit.entities()


@pytest.mark.parametrize("name", WRITES)
def test_a_fault_at_any_request_leaves_all_or_nothing(name):
    nothing = after([], Harmless(), 0, "hide")
    counting = AtPoint("subject", -1, Fate.RUN)
    everything = after(WRITES[name], counting, 0, "hide")
    for point in range(len(counting.points)):
        fate = (Fate.CRASH_BEFORE, Fate.LOSE)[(point + len(name)) % 2]
        found = after(WRITES[name], AtPoint("subject", point, fate), point, DELETES[point % 2])
        assert found in (nothing, everything), f"{fate} at request {point}"


def stopped(name, sleeper, request, deletes):
    policy = Stopping("ab"[sleeper], request)
    simulation = policy.simulation = GroupSimulation(
        0, GROUPS, span="row", fates=Harmless(), policy=policy, deletes=deletes
    )
    simulation.prepare(*beginning())
    for process, steps in zip("ab", PAIRS[name], strict=True):
        simulation.process(process, steps)
    simulation.run()
    return policy.stopped


@pytest.mark.parametrize("sleeper", [0, 1])
def test_a_process_that_wakes_after_a_recovery_does_no_harm(sleeper):
    requests = 0
    while stopped("number and delete of the group", sleeper, requests, DELETES[requests % 2]):
        requests += 1
    assert requests > 3


@pytest.mark.parametrize(("mutation", "likely"), BY_SWITCHES.items(), ids=[each.__name__ for each in BY_SWITCHES])
def test_a_broken_rule_is_found_by_one_switch(mutation, likely, monkeypatch):
    name, *schedule = likely
    switched(name, *schedule).run()
    assert finding(mutation, [(name, switched(name, *schedule))], monkeypatch) is not None
