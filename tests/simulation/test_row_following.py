"""Pages of holders that follow one source, while others change them: nothing derived is wrong.

`ONEREAD_SIM_SEEDS` says how many seeds, `ONEREAD_SIM_SEED` replays one. See "The simulator" of the commit protocol.
"""

import os

import pytest

from tests.simulation.row_following import BY_SEED, BY_SWITCHES, EQUAL, PAIRS, following, switched
from tests.simulation.row_world import switches
from tests.simulation.stored_seeds import check_stored_seed
from tests.simulation.test_one_row import finding

SEEDS = int(os.environ.get("ONEREAD_SIM_SEEDS", "120"))
AT_A_TIME = 15
ONLY = os.environ.get("ONEREAD_SIM_SEED")
FIRSTS = [int(ONLY)] if ONLY else range(0, SEEDS, AT_A_TIME)
SEARCHED = 150


@pytest.mark.parametrize("first", FIRSTS)
def test_all_holders_have_what_their_source_has(first):
    for seed in [first] if ONLY else range(first, min(first + AT_A_TIME, SEEDS)):
        following(seed).run()


@pytest.mark.parametrize("name", PAIRS)
def test_two_writers_with_at_most_one_switch(name):
    for first, lengths in switches(1):
        switched(name, first, lengths).run()


def worlds(seeds):
    return ((seed, following(seed)) for seed in seeds)


@pytest.mark.parametrize(("mutation", "likely"), BY_SEED.items(), ids=[each.__name__ for each in BY_SEED])
def test_a_broken_rule_is_found_by_a_seed(mutation, likely, monkeypatch):
    check_stored_seed(mutation, likely, lambda seed: following(seed).run(), monkeypatch, searched=SEARCHED)


@pytest.mark.parametrize(("mutation", "likely"), BY_SWITCHES.items(), ids=[each.__name__ for each in BY_SWITCHES])
def test_a_broken_rule_is_found_by_few_switches(mutation, likely, monkeypatch):
    name, first, lengths = likely
    found = finding(mutation, ((each, switched(name, first, lengths)) for each in [likely]), monkeypatch)
    assert found is not None, "search the schedule that finds it again"


@pytest.mark.parametrize("mutation", EQUAL, ids=[each.__name__ for each in EQUAL])
def test_a_free_choice_changes_nothing(mutation, monkeypatch):
    assert finding(mutation, worlds(range(10)), monkeypatch) is None
