"""The histories of all worlds: nothing derived is wrong, and each broken rule is found by its stored seed.

`ONEREAD_SIM_SEEDS` says how many seeds; `ONEREAD_SIM_SEED` replays one (with `-k` and a word of the name of a world).
See "The simulator" of the commit protocol.
"""

import os

import pytest

from tests.simulation.stored_seeds import check_stored_seed
from tests.simulation.worlds import WORLDS

ONLY = os.environ.get("ONEREAD_SIM_SEED")
AT_A_TIME = 15
FIRSTS = [
    (name, [int(ONLY)] if ONLY else world.run[first : first + AT_A_TIME])
    for name, world in WORLDS.items()
    for first in range(0, 1 if ONLY else len(world.run), AT_A_TIME)
]
DELETES = [(name, deletes) for name, world in WORLDS.items() if world.deletes[1] for deletes in ("hide", "remove")]
RULES = [(name, rule) for name, world in WORLDS.items() for rule in world.rules]


@pytest.mark.parametrize(("name", "seeds"), FIRSTS, ids=[f"{name}-{seeds[0]}" for name, seeds in FIRSTS])
def test_nothing_is_wrong(name, seeds):
    world = WORLDS[name]
    with world.prepared():
        for seed in seeds:
            world.make(seed).run()


@pytest.mark.parametrize(("name", "deletes"), DELETES)
def test_both_kinds_of_deletes(name, deletes):
    first, count = WORLDS[name].deletes
    for seed in range(first, first + count):
        WORLDS[name].make(seed, deletes=deletes).run()


@pytest.mark.parametrize(("name", "rule"), RULES, ids=[f"{name}-{rule.__name__}" for name, rule in RULES])
def test_a_broken_rule_is_found_by_a_seed(name, rule):
    """And nothing is wrong in that history while the rule is not broken."""
    world = WORLDS[name]
    with world.prepared() as patch:
        world.make(world.rules[rule]).run()
        check_stored_seed(
            rule,
            world.rules[rule],
            lambda seed: world.make(seed).run(),
            patch,
            searched=world.searched,
            wrong=world.wrong,
        )


def test_the_lists_are_long_enough_to_mean_something():
    assert len(RULES) >= 200
