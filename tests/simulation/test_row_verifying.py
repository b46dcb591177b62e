"""Verifications beside writers, workers and crashes on a store that changes one row at a time find nothing.

`ONEREAD_SIM_SEEDS` says how many seeds, `ONEREAD_SIM_SEED` replays one. See "The simulator" of the commit protocol.
"""

import pytest

from tests.simulation.row_verifying import (
    BY_SWITCHES,
    follow_all,
    one_look,
    small_requests,
    switched,
)
from tests.simulation.test_one_row import finding


@pytest.fixture(autouse=True)
def _small_requests(monkeypatch):
    small_requests(monkeypatch)


@pytest.mark.parametrize(("mutation", "likely"), BY_SWITCHES.items(), ids=[each.__name__ for each in BY_SWITCHES])
def test_a_broken_rule_is_found_by_few_switches(mutation, likely, monkeypatch):
    one_look(monkeypatch)
    follow_all(monkeypatch)
    switched(*likely).run()
    assert finding(mutation, [(likely, switched(*likely))], monkeypatch), "search the schedule that finds it again"
