"""Verifications beside writers, workers and crashes on a store that changes one row at a time find nothing.

`ONEREAD_SIM_SEEDS` says how many seeds, `ONEREAD_SIM_SEED` replays one. See "The simulator" of the commit protocol.
"""

import os

import pytest

from tests.simulation.row_verifying import (
    BY_SEED,
    BY_SWITCHES,
    Repaired,
    Verified,
    follow_all,
    one_look,
    small_requests,
    switched,
)
from tests.simulation.test_one_row import finding

SEEDS = int(os.environ.get("ONEREAD_SIM_SEEDS", "16"))
AT_A_TIME = 8
ONLY = os.environ.get("ONEREAD_SIM_SEED")
FIRSTS = [int(ONLY)] if ONLY else range(0, SEEDS, AT_A_TIME)
SEARCHED = 100


@pytest.fixture(autouse=True)
def _small_requests(monkeypatch):
    small_requests(monkeypatch)


@pytest.mark.parametrize("first", FIRSTS[:1])
def test_a_verification_finds_nothing(first):
    for seed in [first] if ONLY else range(first, min(first + AT_A_TIME, SEEDS)):
        Verified(seed).run()


@pytest.mark.parametrize("first", FIRSTS)
def test_one_look_finds_nothing(first, monkeypatch):
    one_look(monkeypatch)
    for seed in [first] if ONLY else range(first, min(first + AT_A_TIME, SEEDS)):
        Verified(seed).run()


@pytest.mark.parametrize(("mutation", "likely"), BY_SEED.items(), ids=[each.__name__ for each in BY_SEED])
def test_a_broken_rule_is_found_by_a_seed(mutation, likely, monkeypatch):
    one_look(monkeypatch)
    worlds = ((seed, Verified(seed)) for seed in [likely, *range(SEARCHED)])
    assert finding(mutation, worlds, monkeypatch) is not None


@pytest.mark.parametrize(("mutation", "likely"), BY_SWITCHES.items(), ids=[each.__name__ for each in BY_SWITCHES])
def test_a_broken_rule_is_found_by_few_switches(mutation, likely, monkeypatch):
    one_look(monkeypatch)
    follow_all(monkeypatch)
    switched(*likely).run()
    assert finding(mutation, [(likely, switched(*likely))], monkeypatch), "search the schedule that finds it again"


@pytest.mark.parametrize("first", FIRSTS)
def test_repairs_that_are_killed_leave_what_the_next_one_mends(first):
    for seed in [first] if ONLY else range(first, min(first + AT_A_TIME, SEEDS)):
        Repaired(seed).run()
