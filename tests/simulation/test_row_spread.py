"""The world on a store that changes one row at a time, with models and indexes that are spread over ranges."""

import os

import pytest

from tests.simulation.row_spread import BY_SEED, spread_world
from tests.simulation.test_one_row import finding

SEEDS = int(os.environ.get("ONEREAD_SIM_SEEDS", "120")) // 4
AT_A_TIME = 15
SEARCHED = 100


@pytest.mark.parametrize("first", range(0, SEEDS, AT_A_TIME))
def test_what_is_spread_is_right_after_any_crash(first):
    for seed in range(first, min(first + AT_A_TIME, SEEDS)):
        spread_world(seed).run()


def worlds(seeds):
    return ((seed, spread_world(seed)) for seed in seeds)


@pytest.mark.parametrize(("mutation", "likely"), BY_SEED.items(), ids=[each.__name__ for each in BY_SEED])
def test_a_broken_rule_is_found_by_a_seed(mutation, likely, monkeypatch):
    assert finding(mutation, worlds([likely, *range(SEARCHED)]), monkeypatch) is not None
