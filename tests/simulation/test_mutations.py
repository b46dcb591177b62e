"""A simulator that finds nothing proves nothing: every rule broken on purpose is found, and found again by its seed."""

import pytest

from tests.simulation.mutations import MUTATIONS
from tests.simulation.stored_seeds import check_stored_seed
from tests.simulation.world import world

SEEDS = 300


def test_the_list_is_long_enough_to_mean_something():
    assert len(MUTATIONS) >= 10


@pytest.mark.parametrize(("mutation", "likely"), MUTATIONS.items(), ids=[each.__name__ for each in MUTATIONS])
def test_a_broken_rule_is_found(mutation, likely, monkeypatch):
    check_stored_seed(mutation, likely, lambda seed: world(seed).run(), monkeypatch, searched=SEEDS)
