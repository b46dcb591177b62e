"""Groups of several rows on a store that changes one row at a time, while the number of rows is changed."""

import os

import pytest

from tests.simulation.row_shards import BY_SEED, spread_world
from tests.simulation.stored_seeds import check_stored_seed

SEEDS = int(os.environ.get("ONEREAD_SIM_SEEDS", "120")) // 2
AT_A_TIME = 15
SEARCHED = 400


@pytest.mark.parametrize("first", range(0, SEEDS, AT_A_TIME))
def test_groups_are_right_however_many_shards_programs_declare(first):
    for seed in range(first, min(first + AT_A_TIME, SEEDS)):
        spread_world(seed).run()


def worlds(seeds):
    return ((seed, spread_world(seed)) for seed in seeds)


@pytest.mark.parametrize(("mutation", "likely"), BY_SEED.items(), ids=[each.__name__ for each in BY_SEED])
def test_a_broken_rule_is_found_by_a_seed(mutation, likely, monkeypatch):
    check_stored_seed(mutation, likely, lambda seed: spread_world(seed).run(), monkeypatch, searched=SEARCHED)
