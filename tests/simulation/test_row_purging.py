"""What was removed is purged while requests take long, clocks are wrong and programs wake up: nothing comes back.

`ONEREAD_SIM_SEEDS` says how many seeds, `ONEREAD_SIM_SEED` replays one. See rules P1 to P4 of the commit protocol.
"""

import os

import pytest

from oneread.testing.processes import Violation
from oneread.transactions.row_time import CLOCK_ERROR, LATE, LEAST_GRACE, OPERATION
from tests.simulation.row_purging import (
    BY_SEED,
    EQUAL,
    a_row_comes_again_while_it_is_purged,
    no_operation_gives_up,
    purging,
    rows_are_deleted_up_to_now,
    the_server_refuses_nothing,
    worst_case,
)
from tests.simulation.stored_seeds import check_stored_seed
from tests.simulation.test_one_row import finding

SEEDS = int(os.environ.get("ONEREAD_SIM_SEEDS", "90"))
AT_A_TIME = 15
ONLY = os.environ.get("ONEREAD_SIM_SEED")
FIRSTS = [int(ONLY)] if ONLY else range(0, SEEDS, AT_A_TIME)
SEARCHED = 100
ONE_READER = OPERATION + LATE + 2 * CLOCK_ERROR
"""Seconds of the worst case: one who read the state before a commit, and two clocks."""


@pytest.mark.parametrize("first", FIRSTS)
def test_nothing_comes_back_and_nothing_old_is_left(first):
    for seed in [first] if ONLY else range(first, min(first + AT_A_TIME, SEEDS)):
        purging(seed).run()


def worlds(seeds):
    return ((seed, purging(seed)) for seed in seeds)


@pytest.mark.parametrize(("mutation", "likely"), BY_SEED.items(), ids=[each.__name__ for each in BY_SEED])
def test_a_broken_rule_is_found_by_a_seed(mutation, likely, monkeypatch):
    check_stored_seed(mutation, likely, lambda seed: purging(seed).run(), monkeypatch, searched=SEARCHED)


@pytest.mark.parametrize("mutation", EQUAL, ids=[each.__name__ for each in EQUAL])
def test_a_free_choice_changes_nothing(mutation, monkeypatch):
    assert finding(mutation, worlds(range(10)), monkeypatch) is None


def test_the_worst_case_of_the_grace():
    """The bound is exact for what is built; the grace is longer by what readers of feeds may be late."""
    worst_case(ONE_READER)
    worst_case(LEAST_GRACE)
    with pytest.raises(Violation, match="a row of a view"):
        worst_case(ONE_READER - 1)


def test_who_took_too_long_sends_nothing(monkeypatch):
    worst_case(LEAST_GRACE, wait=2 * LEAST_GRACE)
    no_operation_gives_up(monkeypatch)
    with pytest.raises(Violation, match="a row of a view"):
        worst_case(LEAST_GRACE, wait=2 * LEAST_GRACE)


def test_what_comes_too_late_is_refused(monkeypatch):
    worst_case(LEAST_GRACE, late=2 * LEAST_GRACE)
    the_server_refuses_nothing(monkeypatch)
    with pytest.raises(Violation, match="a row of a view"):
        worst_case(LEAST_GRACE, late=2 * LEAST_GRACE)


def test_what_comes_again_while_it_is_purged_stays(monkeypatch):
    a_row_comes_again_while_it_is_purged()
    rows_are_deleted_up_to_now(monkeypatch)
    with pytest.raises(Violation, match="a row of a view"):
        a_row_comes_again_while_it_is_purged()
