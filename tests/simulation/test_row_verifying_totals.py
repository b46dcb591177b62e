"""Verifications of totals and of indexes over groups on a store that changes one row at a time.

`ONEREAD_SIM_SEEDS` says how many seeds, `ONEREAD_SIM_SEED` replays one. See "The simulator" of the commit protocol.
"""

import os

import pytest

from tests.simulation.row_verifying import Repaired, Verified, one_look, small_requests
from tests.simulation.row_verifying_totals import BY_PLANTED, BY_REPAIR, BY_SEED, Planted, world_of
from tests.simulation.stored_seeds import check_stored_seed

SEEDS = int(os.environ.get("ONEREAD_SIM_SEEDS", "14"))
AT_A_TIME = 7
ONLY = os.environ.get("ONEREAD_SIM_SEED")
FIRSTS = [int(ONLY)] if ONLY else range(0, SEEDS, AT_A_TIME)
SEARCHED = 100


@pytest.fixture(autouse=True)
def _small_requests(monkeypatch):
    small_requests(monkeypatch)


def seeds_from(first):
    return [first] if ONLY else range(first, min(first + AT_A_TIME, SEEDS))


@pytest.mark.parametrize("first", FIRSTS[:1])
def test_a_verification_finds_nothing(first):
    for seed in seeds_from(first):
        Verified(seed, world_of(seed)).run()


@pytest.mark.parametrize("first", FIRSTS)
def test_one_look_finds_nothing(first, monkeypatch):
    one_look(monkeypatch)
    for seed in seeds_from(first):
        Verified(seed, world_of(seed)).run()


@pytest.mark.parametrize("first", FIRSTS)
def test_exactly_what_is_planted_beside_writers_is_found_and_mended(first):
    for seed in seeds_from(first):
        Planted(seed).run()


@pytest.mark.parametrize("first", FIRSTS)
def test_repairs_that_are_killed_leave_what_the_next_one_mends(first):
    for seed in seeds_from(first):
        Repaired(seed, world_of(seed)).run()


@pytest.mark.parametrize(("mutation", "likely"), BY_SEED.items(), ids=[each.__name__ for each in BY_SEED])
def test_a_broken_rule_is_found_by_a_seed(mutation, likely, monkeypatch):
    one_look(monkeypatch)
    check_stored_seed(
        mutation, likely, lambda seed: Verified(seed, world_of(seed)).run(), monkeypatch, searched=SEARCHED
    )


@pytest.mark.parametrize(("mutation", "likely"), BY_PLANTED.items(), ids=[each.__name__ for each in BY_PLANTED])
def test_a_broken_rule_is_found_by_what_is_planted(mutation, likely, monkeypatch):
    check_stored_seed(mutation, likely, lambda seed: Planted(seed).run(), monkeypatch, searched=SEARCHED)


@pytest.mark.parametrize(("mutation", "likely"), BY_REPAIR.items(), ids=[each.__name__ for each in BY_REPAIR])
def test_a_broken_rule_is_found_by_a_repair(mutation, likely, monkeypatch):
    Repaired(likely, world_of(likely)).run()
    check_stored_seed(
        mutation, likely, lambda seed: Repaired(seed, world_of(seed)).run(), monkeypatch, searched=SEARCHED
    )
