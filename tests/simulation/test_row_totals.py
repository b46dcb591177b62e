"""Totals and indexes over groups on a store that changes one row at a time: right once everything is recovered.

`ONEREAD_SIM_SEEDS` says how many seeds, `ONEREAD_SIM_SEED` replays one. See rules R1 to R5 of the commit protocol.
"""

import pytest

from oneread.errors import Corrupt
from oneread.testing.processes import Violation
from oneread.testing.schedules import Fate
from tests.simulation.row_totals import PAIRS, switched, totals_world
from tests.simulation.row_totals_mutations import BY_SEED, BY_SWITCHES
from tests.simulation.row_world import switches
from tests.simulation.test_every_request_crashes import AtPoint


def check_every_fate_is_met(simulations):
    """Late requests too."""
    lines = []
    for simulation in simulations:
        simulation.run()
        lines += simulation.lines
    for fate in Fate:
        assert any(line.endswith(f": {fate.value}") for line in lines), fate
    for late in ("Mutate", "CheckAndMutate"):
        assert any(line.endswith(f" late: {late}") for line in lines), late


def test_every_fate_late_requests_and_tasks_of_groups_are_met():
    check_every_fate_is_met(totals_world(seed) for seed in range(10))


@pytest.mark.parametrize("name", PAIRS)
def test_two_processes_with_at_most_one_switch(name):
    for first, lengths in switches(1, 7):
        switched(name, first, lengths).run()


@pytest.mark.parametrize("name", ["two marks", "vote and create"])
@pytest.mark.parametrize("fate", [Fate.CRASH_BEFORE, Fate.FAIL])
def test_a_fault_at_any_request_is_mended(name, fate):
    counting = AtPoint("a", -1, Fate.RUN)
    switched(name, "a", (), counting).run()
    assert len(counting.points) > 10
    for point in range(len(counting.points)):
        switched(name, "a", (), AtPoint("a", point, fate), seed=point).run()


# What the simulator finds.


def finding(mutation, simulations, patch):
    """The first simulation that finds something."""
    with patch.context() as inside:
        mutation(inside)
        for name, make in simulations:
            try:
                make().run()
            except (Violation, Corrupt):
                return name
    return None


def test_every_broken_rule_is_in_one_of_the_lists():
    assert len(BY_SEED | BY_SWITCHES) == len(BY_SEED) + len(BY_SWITCHES) >= 15


@pytest.mark.parametrize(("mutation", "likely"), BY_SWITCHES.items(), ids=[each.__name__ for each in BY_SWITCHES])
def test_a_broken_rule_is_found_by_few_switches(mutation, likely, monkeypatch):
    name, first, lengths = likely
    switched(name, first, lengths).run()
    schedules = [(first, lengths), *switches(1, 40)]
    found = finding(mutation, ((each, lambda each=each: switched(name, *each)) for each in schedules), monkeypatch)
    assert found == (first, lengths), "found by another schedule, or by none with one switch: write that one down"
