"""Counters that entities show, on a store that changes one row at a time: marked or shown after every request.

`ONEREAD_SIM_SEEDS` says how many seeds, `ONEREAD_SIM_SEED` replays one. See rules C1 to C4 of the commit protocol.
"""

import pytest

from oneread.testing.schedules import Fate
from tests.simulation.row_counter_fields import PAIRS, shown_world, switched
from tests.simulation.row_counter_fields_mutations import BY_SEED, BY_SWITCHES
from tests.simulation.row_world import switches
from tests.simulation.test_every_request_crashes import AtPoint
from tests.simulation.test_row_totals import check_every_fate_is_met, finding


def test_every_fate_and_late_requests_are_met():
    check_every_fate_is_met(shown_world(seed) for seed in range(60))


@pytest.mark.parametrize("name", PAIRS)
def test_two_processes_with_at_most_one_switch(name):
    for first, lengths in switches(1, 12):
        switched(name, first, lengths).run()


@pytest.mark.parametrize("name", ["add and copy", "add and create", "restore and create"])
@pytest.mark.parametrize("fate", [Fate.CRASH_BEFORE, Fate.FAIL])
def test_a_fault_at_any_request_is_mended(name, fate):
    counting = AtPoint("a", -1, Fate.RUN)
    switched(name, "a", (), counting).run()
    assert counting.points
    for point in range(len(counting.points)):
        switched(name, "a", (), AtPoint("a", point, fate), seed=point).run()


# What the simulator finds.


def test_every_broken_rule_is_in_one_of_the_lists():
    assert len(BY_SEED | BY_SWITCHES) == len(BY_SEED) + len(BY_SWITCHES) >= 15


@pytest.mark.parametrize(("mutation", "likely"), BY_SWITCHES.items(), ids=[each.__name__ for each in BY_SWITCHES])
def test_a_broken_rule_is_found_by_few_switches(mutation, likely, monkeypatch):
    name, first, lengths = likely
    switched(name, first, lengths).run()
    schedules = [(first, lengths), *switches(1, 14)]
    found = finding(mutation, ((each, lambda each=each: switched(name, *each)) for each in schedules), monkeypatch)
    assert found == (first, lengths), "found by another schedule, or by none with one switch: write that one down"
