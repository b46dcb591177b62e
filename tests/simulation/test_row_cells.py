"""Copies in cells, while makers are renamed and deleted and things change: readers show what the makers say.

`ONEREAD_SIM_SEEDS` says how many seeds, `ONEREAD_SIM_SEED` replays one. See "The simulator" of the commit protocol.
"""

import pytest

from tests.simulation.row_cells import BY_SWITCHES, EQUAL, PAIRS, cells, switched
from tests.simulation.row_world import switches
from tests.simulation.test_one_row import finding


@pytest.mark.parametrize("name", PAIRS)
def test_two_writers_with_at_most_one_switch(name):
    for first, lengths in switches(1):
        switched(name, first, lengths).run()


def worlds(seeds):
    return ((seed, cells(seed)) for seed in seeds)


@pytest.mark.parametrize(("mutation", "likely"), BY_SWITCHES.items(), ids=[each.__name__ for each in BY_SWITCHES])
def test_a_broken_rule_is_found_by_few_switches(mutation, likely, monkeypatch):
    name, first, lengths = likely
    found = finding(mutation, ((each, switched(name, first, lengths)) for each in [likely]), monkeypatch)
    assert found is not None, "search the schedule that finds it again"


@pytest.mark.parametrize("mutation", EQUAL, ids=[each.__name__ for each in EQUAL])
def test_a_free_choice_changes_nothing(mutation, monkeypatch):
    assert finding(mutation, worlds(range(10)), monkeypatch) is None
