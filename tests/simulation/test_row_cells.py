"""Copies in cells, while makers are renamed and deleted and things change: readers show what the makers say.

`ONEREAD_SIM_SEEDS` says how many seeds, `ONEREAD_SIM_SEED` replays one. See "The simulator" of the commit protocol.
"""

import os

import pytest

from tests.simulation.row_cells import BY_SEED, BY_SWITCHES, EQUAL, PAIRS, cells, switched
from tests.simulation.row_world import switches
from tests.simulation.stored_seeds import check_stored_seed
from tests.simulation.test_one_row import finding

SEEDS = int(os.environ.get("ONEREAD_SIM_SEEDS", "90"))
AT_A_TIME = 15
ONLY = os.environ.get("ONEREAD_SIM_SEED")
FIRSTS = [int(ONLY)] if ONLY else range(0, SEEDS, AT_A_TIME)
SEARCHED = 60


@pytest.mark.parametrize("first", FIRSTS)
def test_readers_show_what_sources_say(first):
    for seed in [first] if ONLY else range(first, min(first + AT_A_TIME, SEEDS)):
        cells(seed).run()


@pytest.mark.parametrize("deletes", ["hide", "remove"])
def test_both_kinds_of_deletes(deletes):
    for seed in range(1000, 1010):
        cells(seed, deletes=deletes).run()


@pytest.mark.parametrize("name", PAIRS)
def test_two_writers_with_at_most_one_switch(name):
    for first, lengths in switches(1):
        switched(name, first, lengths).run()


def worlds(seeds):
    return ((seed, cells(seed)) for seed in seeds)


@pytest.mark.parametrize(("mutation", "likely"), BY_SEED.items(), ids=[each.__name__ for each in BY_SEED])
def test_a_broken_rule_is_found_by_a_seed(mutation, likely, monkeypatch):
    check_stored_seed(mutation, likely, lambda seed: cells(seed).run(), monkeypatch, searched=SEARCHED)


@pytest.mark.parametrize(("mutation", "likely"), BY_SWITCHES.items(), ids=[each.__name__ for each in BY_SWITCHES])
def test_a_broken_rule_is_found_by_few_switches(mutation, likely, monkeypatch):
    name, first, lengths = likely
    found = finding(mutation, ((each, switched(name, first, lengths)) for each in [likely]), monkeypatch)
    assert found is not None, "search the schedule that finds it again"


@pytest.mark.parametrize("mutation", EQUAL, ids=[each.__name__ for each in EQUAL])
def test_a_free_choice_changes_nothing(mutation, monkeypatch):
    assert finding(mutation, worlds(range(10)), monkeypatch) is None
