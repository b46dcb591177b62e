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
from tests.simulation.worlds import WORLDS


@pytest.fixture(autouse=True)
def _small_requests(monkeypatch):
    small_requests(monkeypatch)


@pytest.mark.parametrize(("mutation", "likely"), BY_SWITCHES.items(), ids=[each.__name__ for each in BY_SWITCHES])
def test_a_broken_rule_is_found_by_few_switches(mutation, likely, monkeypatch):
    one_look(monkeypatch)
    follow_all(monkeypatch)
    switched(*likely).run()
    assert finding(mutation, [(likely, switched(*likely))], monkeypatch), "search the schedule that finds it again"


@pytest.mark.parametrize("seed", [1576, 4532, 5138, 9578])
def test_what_an_ended_membership_had_shown_is_its_task_alone(seed):
    """In these histories items of a large group end while the task of an ended membership waits."""
    world = WORLDS["verifications of feeds, looked at twice"]
    with world.prepared():
        world.make(seed).run()


@pytest.mark.parametrize("seed", [105, 1981])
def test_a_row_of_a_group_that_waits_is_mended_behind_its_task(seed):
    """In these histories a row of an index over groups is taken away, and the last repair meets a task of its group."""
    world = WORLDS["repairs of totals"]
    with world.prepared():
        world.make(seed).run()
