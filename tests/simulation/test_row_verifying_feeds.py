"""Verifications of feeds beside writers, workers and crashes on a store that changes one row at a time find nothing.

`ONEREAD_SIM_SEEDS` says how many seeds, `ONEREAD_SIM_SEED` replays one. See "The simulator" of the commit protocol.
"""

import os

import pytest

from tests.simulation.row_verifying_feeds import (
    BY_SEED,
    REPAIRS_BY_SEED,
    WORLDS,
    RepairedFeeds,
    VerifiedFeeds,
    one_look,
    small_requests,
)
from tests.simulation.stored_seeds import check_stored_seed

SEEDS = max(len(WORLDS), int(os.environ.get("ONEREAD_SIM_SEEDS", "24")) // 2)
AT_A_TIME = len(WORLDS)
ONLY = os.environ.get("ONEREAD_SIM_SEED")
FIRSTS = [int(ONLY)] if ONLY else range(0, SEEDS, AT_A_TIME)
SEARCHED = 60


@pytest.fixture(autouse=True)
def _small_requests(monkeypatch):
    small_requests(monkeypatch)


@pytest.mark.parametrize("first", FIRSTS[:1])
def test_a_verification_finds_nothing(first):
    for seed in [first] if ONLY else range(first, min(first + AT_A_TIME, SEEDS)):
        VerifiedFeeds(seed).run()


@pytest.mark.parametrize("first", FIRSTS)
def test_one_look_finds_nothing(first, monkeypatch):
    one_look(monkeypatch)
    for seed in [first] if ONLY else range(first, min(first + AT_A_TIME, SEEDS)):
        VerifiedFeeds(seed).run()


@pytest.mark.parametrize(("mutation", "likely"), BY_SEED.items(), ids=[each.__name__ for each in BY_SEED])
def test_a_broken_rule_is_found_by_a_seed(mutation, likely, monkeypatch):
    one_look(monkeypatch)
    check_stored_seed(mutation, likely, lambda seed: VerifiedFeeds(seed).run(), monkeypatch, searched=SEARCHED)


@pytest.mark.parametrize("first", FIRSTS)
def test_repairs_that_are_killed_leave_what_the_next_one_mends(first):
    for seed in [first] if ONLY else range(first, min(first + AT_A_TIME, SEEDS)):
        RepairedFeeds(seed).run()


@pytest.mark.parametrize(
    ("mutation", "likely"), REPAIRS_BY_SEED.items(), ids=[each.__name__ for each in REPAIRS_BY_SEED]
)
def test_a_broken_rule_of_repairs_is_found_by_a_seed(mutation, likely, monkeypatch):
    check_stored_seed(mutation, likely, lambda seed: RepairedFeeds(seed).run(), monkeypatch, searched=SEARCHED)
