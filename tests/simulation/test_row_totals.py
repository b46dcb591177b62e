"""Totals and indexes over groups on a store that changes one row at a time: right once everything is recovered.

`ONEREAD_SIM_SEEDS` says how many seeds, `ONEREAD_SIM_SEED` replays one. See rules R1 to R5 of the commit protocol.
"""

import os

import pytest

from oneread.errors import Corrupt
from oneread.testing.processes import Violation
from oneread.testing.schedules import Fate
from tests.simulation.row_totals import PAIRS, switched, totals_world
from tests.simulation.row_totals_mutations import BY_SEED, BY_SPREAD, BY_SWITCHES
from tests.simulation.row_world import switches
from tests.simulation.stored_seeds import check_stored_seed
from tests.simulation.test_every_request_crashes import AtPoint

SEEDS = int(os.environ.get("ONEREAD_SIM_SEEDS", "20"))
AT_A_TIME = 10
ONLY = os.environ.get("ONEREAD_SIM_SEED")
FIRSTS = [int(ONLY)] if ONLY else range(0, SEEDS, AT_A_TIME)
SEARCHED = 150
DELETES = ("hide", "remove")


@pytest.mark.parametrize("first", FIRSTS)
def test_totals_are_right_after_recovery_and_after_late_requests(first):
    for seed in [first] if ONLY else range(first, min(first + AT_A_TIME, SEEDS)):
        totals_world(seed).run()


@pytest.mark.parametrize("deletes", DELETES)
@pytest.mark.parametrize("seed", range(1000, 1004))
def test_both_kinds_of_deletes(seed, deletes):
    totals_world(seed, deletes=deletes).run()


@pytest.mark.parametrize("first", [2000, 2005])
def test_commits_that_are_applied_later(first):
    for seed in range(first, first + 5):
        totals_world(seed, later=True).run()


@pytest.mark.parametrize("first", [3000, 3010])
def test_groups_of_several_rows(first):
    for seed in range(first, first + 10):
        totals_world(seed, spread=True).run()


@pytest.mark.parametrize(("mutation", "likely"), BY_SPREAD.items(), ids=[each.__name__ for each in BY_SPREAD])
def test_a_broken_rule_of_several_rows_is_found_by_a_seed(mutation, likely, monkeypatch):
    check_stored_seed(
        mutation, likely, lambda seed: totals_world(seed, spread=True).run(), monkeypatch, searched=SEARCHED
    )


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


@pytest.mark.parametrize(("mutation", "likely"), BY_SEED.items(), ids=[each.__name__ for each in BY_SEED])
def test_a_broken_rule_is_found_by_a_seed(mutation, likely, monkeypatch):
    totals_world(likely).run()
    check_stored_seed(mutation, likely, lambda seed: totals_world(seed).run(), monkeypatch, searched=SEARCHED)


@pytest.mark.parametrize(("mutation", "likely"), BY_SWITCHES.items(), ids=[each.__name__ for each in BY_SWITCHES])
def test_a_broken_rule_is_found_by_few_switches(mutation, likely, monkeypatch):
    name, first, lengths = likely
    switched(name, first, lengths).run()
    schedules = [(first, lengths), *switches(1, 40)]
    found = finding(mutation, ((each, lambda each=each: switched(name, *each)) for each in schedules), monkeypatch)
    assert found == (first, lengths), "found by another schedule, or by none with one switch: write that one down"
