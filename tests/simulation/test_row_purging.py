"""What was removed is purged while requests take long, clocks are wrong and programs wake up: nothing comes back.

`ONEREAD_SIM_SEEDS` says how many seeds, `ONEREAD_SIM_SEED` replays one. See rules P1 to P4 of the commit protocol.
"""

import pytest

from oneread.testing.processes import Violation
from oneread.transactions.grace import CLOCK_ERROR, LATE, LEAST_GRACE, OPERATION
from tests.simulation.row_purging import (
    EQUAL,
    a_row_comes_again_while_it_is_purged,
    no_operation_gives_up,
    purging,
    rows_are_deleted_up_to_now,
    the_server_refuses_nothing,
    worst_case,
)
from tests.simulation.test_one_row import finding

ONE_READER = OPERATION + LATE + 2 * CLOCK_ERROR
"""Seconds of the worst case: one who read the state before a commit, and two clocks."""


def worlds(seeds):
    return ((seed, purging(seed)) for seed in seeds)


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
