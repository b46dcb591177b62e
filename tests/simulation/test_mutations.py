"""A simulator that finds nothing proves nothing: every rule broken on purpose is found, and found again by its seed."""

import pytest

from oneread.testing.simulator import Violation
from tests.simulation.mutations import MUTATIONS
from tests.simulation.world import world

SEEDS = 300


def first_finding(likely):
    """The first seed that finds something, and what it says; a likely one is asked first."""
    for seed in (likely, *range(SEEDS)):
        try:
            world(seed).run()
        except Violation as violation:
            return seed, str(violation)
    return None, f"not found by seeds 0 to {SEEDS - 1}"


def test_the_list_is_long_enough_to_mean_something():
    assert len(MUTATIONS) >= 10


@pytest.mark.parametrize(("mutation", "likely"), MUTATIONS.items(), ids=[each.__name__ for each in MUTATIONS])
def test_a_broken_rule_is_found(mutation, likely, monkeypatch):
    with monkeypatch.context() as patch:
        mutation(patch)
        seed, found = first_finding(likely)
        assert seed is not None, f"{mutation.__name__}: {found}"
        again = first_finding(seed)
        assert again == (seed, found), f"{mutation.__name__}: seed {seed} found {found}\nand then {again}"
