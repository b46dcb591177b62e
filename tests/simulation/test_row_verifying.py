"""Verifications beside writers, workers and crashes on a store that changes one row at a time tell nothing wrong.

`ONEREAD_SIM_SEEDS` says how many seeds, `ONEREAD_SIM_SEED` replays one. See "The simulator" of the commit protocol.
"""

import os

import pytest

from tests.simulation.row_verifying import BY_SEED, Verified, one_look, small_requests
from tests.simulation.test_one_row import finding

SEEDS = int(os.environ.get("ONEREAD_SIM_SEEDS", "24"))
AT_A_TIME = 8
ONLY = os.environ.get("ONEREAD_SIM_SEED")
FIRSTS = [int(ONLY)] if ONLY else range(0, SEEDS, AT_A_TIME)
SEARCHED = 100


@pytest.fixture(autouse=True)
def _small_requests(monkeypatch):
    small_requests(monkeypatch)


@pytest.mark.parametrize("first", FIRSTS)
def test_a_verification_tells_nothing_that_is_not_wrong(first):
    for seed in [first] if ONLY else range(first, min(first + AT_A_TIME, SEEDS)):
        Verified(seed).run()


@pytest.mark.parametrize("first", FIRSTS)
def test_one_look_tells_nothing_that_is_not_wrong(first, monkeypatch):
    one_look(monkeypatch)
    for seed in [first] if ONLY else range(first, min(first + AT_A_TIME, SEEDS)):
        Verified(seed).run()


@pytest.mark.parametrize(("mutation", "likely"), BY_SEED.items(), ids=[each.__name__ for each in BY_SEED])
def test_a_broken_rule_is_found_by_a_seed(mutation, likely, monkeypatch):
    one_look(monkeypatch)
    worlds = ((seed, Verified(seed)) for seed in [likely, *range(SEARCHED)])
    assert finding(mutation, worlds, monkeypatch) is not None
