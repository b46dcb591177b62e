"""Batches of changes in pages, while others change the same entities: nothing derived is wrong.

`ONEREAD_SIM_SEEDS` says how many seeds, `ONEREAD_SIM_SEED` replays one. See "The simulator" of the commit protocol.
"""

import os

import pytest

from tests.simulation.row_pages import BY_SEED, BY_SEED_OF_CHILDREN, batches, batches_of_children
from tests.simulation.test_one_row import finding

SEEDS = int(os.environ.get("ONEREAD_SIM_SEEDS", "120"))
AT_A_TIME = 30
ONLY = os.environ.get("ONEREAD_SIM_SEED")
FIRSTS = [int(ONLY)] if ONLY else range(0, SEEDS, AT_A_TIME)
SEARCHED = 100
WORLDS = [batches, batches_of_children]
BROKEN = [(batches, *each) for each in BY_SEED.items()]
BROKEN += [(batches_of_children, *each) for each in BY_SEED_OF_CHILDREN.items()]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("first", FIRSTS)
def test_what_follows_from_batches_is_right_after_recovery(world, first):
    for seed in [first] if ONLY else range(first, min(first + AT_A_TIME, SEEDS)):
        world(seed).run()


@pytest.mark.parametrize(("world", "mutation", "likely"), BROKEN, ids=[each[1].__name__ for each in BROKEN])
def test_a_broken_rule_is_found_by_a_seed(world, mutation, likely, monkeypatch):
    histories = ((seed, world(seed)) for seed in [likely, *range(SEARCHED)])
    assert finding(mutation, histories, monkeypatch) is not None
